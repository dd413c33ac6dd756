"""What each operation of Keras is made of, in the operations of a graph."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras

from kerasseq.kernels.derived.graph import (
    ELEMENTWISE,
    NotDerivable,
    Value,
    make,
    where,
)

if TYPE_CHECKING:  # it imports this module
    from kerasseq.kernels.derived.trace import Rows

_LOWERED: dict[str, Callable] = {}  # by the class of the operation


def has_rows(tensor: Any) -> bool:
    """Returns whether a tensor has a row for each sequence, which weights have not."""
    symbolic = isinstance(tensor, keras.KerasTensor)
    return symbolic and len(tensor.shape) > 0 and tensor.shape[0] is None


def lower(operation: Any, arguments: Any, rows: "Rows") -> list[Value]:
    """Returns the values of the results of a call.

    Args:
        operation: Keras' operation, whose attributes are its options.
        arguments: What it was called with, with `args` and `kwargs`.
        rows: Gives the values of tensors.

    Raises:
        NotDerivable: If the operation is not known, or works across sequences.
    """
    name = type(operation).__name__
    if name not in _LOWERED:
        raise NotDerivable(
            f"the operation {name} is not one of those that loops are derived from: "
            "use operations by element, products with weights, sums over the units"
        )
    values = _LOWERED[name](rows, operation, *arguments.args, **arguments.kwargs)
    return values if isinstance(values, list) else [values]


def _for(*names: str) -> Callable:
    """Registers how operations are lowered.

    The function takes `rows`, the operation, and the arguments of its call.
    """

    def register(function: Callable) -> Callable:
        _LOWERED.update(dict.fromkeys(names, function))
        return function

    return register


def _positive(x: Value) -> Value:
    """Returns the positive part of x, with the derivative 0 at 0. NaN stays NaN."""
    return where(make("less_equal", x, x.graph.number(0)), 0, x)


# Operations of a graph, by Keras' names of them: GreaterEqual is greater_equal.

_SAME = {"".join(map(str.capitalize, op.split("_"))): op for op in ELEMENTWISE}
_SAME |= {"TrueDivide": "divide"}


@_for(*_SAME)
def _same(rows, operation, *args):
    values = [rows.value(a) for a in args]
    width = max(v.width for v in values)
    if any(v.width not in (1, width) for v in values):
        raise NotDerivable(
            f"rows of {[v.width for v in values]} units in one operation: they must be "
            "as wide as each other, or of one unit"
        )
    return rows.graph.make(_SAME[type(operation).__name__], *values)


# Activations, as formulas of x.

_FORMULAS: dict[str, Callable[[Any, Value], Value]] = {
    "Relu": lambda _, x: _positive(x),
    "Relu6": lambda _, x: where(x > 6, 6, _positive(x)),
    "LeakyRelu": lambda f, x: where(x > 0, x, f.negative_slope * x),
    "Elu": lambda f, x: where(x > 0, x, f.alpha * make("expm1", _negative(x))),
    "Celu": lambda f, x: where(
        x > 0, x, f.alpha * make("expm1", _negative(x) / f.alpha)
    ),
    "Selu": lambda _, x: (
        1.0507009873554805
        * where(x > 0, x, 1.6732632423543772 * make("expm1", _negative(x)))
    ),
    "Silu": lambda _, x: x * make("sigmoid", x),
    "Softplus": lambda _, x: _softplus(x),
    "LogSigmoid": lambda _, x: -_softplus(-x),
    "Softsign": lambda _, x: x / (1 + make("absolute", x)),
    "Squareplus": lambda f, x: 0.5 * (x + make("sqrt", x * x + f.b)),
    "HardSigmoid": lambda _, x: _unit_interval(x),
    "HardSilu": lambda _, x: x * _unit_interval(x),
    "HardTanh": lambda _, x: where(x > 1, 1, where(x < -1, -1, x)),
    "SparseSigmoid": lambda _, x: where(x > 1, 1, where(x < -1, 0, (x + 1) / 2)),
    "SoftShrink": lambda f, x: where(
        x > f.threshold,
        x - f.threshold,
        where(x < -f.threshold, x + f.threshold, 0),
    ),
    "HardShrink": lambda f, x: where(make("absolute", x) > f.threshold, x, 0),
    "Threshold": lambda f, x: where(x > f.threshold, x, f.default_value),
    "TanhShrink": lambda _, x: x - make("tanh", x),
    "Square": lambda _, x: x * x,
    "Reciprocal": lambda _, x: 1 / x,
    "Exp2": lambda _, x: make("exp", x * math.log(2)),
}


@_for(*_FORMULAS)
def _formula(rows, operation, x):
    return _FORMULAS[type(operation).__name__](operation, rows.value(x))


def _negative(x: Value) -> Value:
    """Returns x where x < 0, else 0: exp of a large x would overflow. NaN stays."""
    return where(make("greater_equal", x, x.graph.number(0)), 0, x)


def _softplus(x: Value) -> Value:
    return _positive(x) + make("log1p", make("exp", -make("absolute", x)))


def _unit_interval(x: Value) -> Value:
    """Limits x / 6 + 1/2 to 0 and 1, which are its values at -3 and 3."""
    return where(x > 3, 1, where(x < -3, 0, (x + 3) / 6))


@_for("ReLU")  # that of `keras.activations.relu`
def _relu(rows, operation, x):
    x, top = rows.value(x), operation.max_value
    slope, low = operation.negative_slope, operation.threshold
    below = make("less_equal", x, x.graph.number(low))  # NaN is not, and stays NaN
    y = where(below, slope * (x - low) if slope else 0, x)
    return y if top is None else where(y > top, top, y)


@_for("Gelu")
def _gelu(rows, operation, x):
    x = rows.value(x)
    if not operation.approximate:
        return 0.5 * x * (1 + make("erf", x * math.sqrt(0.5)))
    inside = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
    return 0.5 * x * (1 + make("tanh", inside))


@_for("Clip")
def _clip(rows, operation, x):
    x = rows.value(x)
    for op, bound in (("maximum", operation.x_min), ("minimum", operation.x_max)):
        x = x if bound is None else make(op, x, rows.value(bound))
    return x


@_for("Power")
def _power(rows, operation, x, exponent):
    if not isinstance(exponent, int | float):
        raise NotDerivable("an exponent that is not a number: use exp and log")
    x = rows.value(x)
    return x * x if exponent == 2 else make("power", x, detail=exponent)


# Over the units.


def _units(axis: Any, rank: int = 2) -> None:
    """Raises unless an operation works along the units of each sequence alone."""
    axes = axis if isinstance(axis, list | tuple) else [axis]
    if axis is None or [a % rank for a in axes] != [rank - 1]:
        raise NotDerivable(f"axis={axis}: only the last axis is inside a sequence")


def _kept(operation: Any) -> None:
    if not operation.keepdims:
        raise NotDerivable("a row without units: pass `keepdims=True`")


def _mean(x: Value) -> Value:
    return make("sum", x, width=1) * (1 / x.width)


@_for("Sum", "Mean", "Max", "Amax", "Var", "Std")
def _reduced(rows, operation, x):
    _units(operation.axis)
    _kept(operation)
    x, name = rows.value(x), type(operation).__name__
    if name in ("Max", "Amax"):
        return make("max", x, width=1)
    if name == "Sum":
        return make("sum", x, width=1)
    if name == "Mean":
        return _mean(x)
    centered = x - _mean(x)
    variance = _mean(centered * centered)
    return make("sqrt", variance) if name == "Std" else variance


@_for("Softmax", "LogSoftmax")
def _softmax(rows, operation, x):
    _units(operation.axis)
    x = rows.value(x)
    x = x - make("stop_gradient", make("max", x, width=1))
    powers = make("exp", x)
    total = make("sum", powers, width=1)
    if type(operation).__name__ == "LogSoftmax":
        return x - make("log", total)
    return powers / total


@_for("LayerNorm", "RMSNorm")
def _norm(rows, operation, x, gamma=None, beta=None, *, scale=None):
    _units(operation.axis)
    if rows.dtype not in ("float32", "float64"):
        raise NotDerivable(
            f"a normalization in {rows.dtype}, which Keras computes in float32: pass "
            '`dtype="float32"` to the layer'
        )
    x, epsilon = rows.value(x), operation.epsilon
    epsilon = keras.config.epsilon() if epsilon is None else epsilon
    if type(operation).__name__ == "RMSNorm":
        y = x * make("rsqrt", _mean(x * x) + epsilon)
    else:
        centered = x - _mean(x)
        inverse = make("rsqrt", _mean(centered * centered) + epsilon)
        y = (x if operation.rms_scaling else centered) * inverse
    gamma = scale if gamma is None else gamma  # its name in RMSNorm
    y = y if gamma is None else y * rows.value(gamma)
    return y if beta is None else y + rows.value(beta)


# Parts of rows.


@_for("Split")
def _split(rows, operation, x):
    _units(operation.axis)
    x, cuts = rows.value(x), operation.indices_or_sections
    if isinstance(cuts, int):
        cuts = [n * (x.width // cuts) for n in range(1, cuts)]
    edges = [0, *cuts, x.width]
    pairs = zip(edges, edges[1:], strict=False)
    return [x.graph.slice(x, low, high - low) for low, high in pairs]


@_for("GetItem")
def _item(rows, operation, x, key):
    if not isinstance(key, tuple):
        key = (key,)
    if key and key[0] is Ellipsis:
        key = (slice(None), *key[1:])
    whole = key and key[0] == slice(None)
    if not whole or len(key) > 2 or not all(isinstance(k, slice) for k in key):
        raise NotDerivable(f"the index {key}: only units can be taken, as h[:, :n]")
    x = rows.value(x)
    low, high, stride = (key[1] if len(key) == 2 else slice(None)).indices(x.width)
    if stride != 1 or high <= low:
        raise NotDerivable(f"the index {key}: units must be neighbors")
    return x.graph.slice(x, low, high - low)


@_for("Concatenate")
def _concatenate(rows, operation, parts):
    _units(operation.axis)
    return rows.graph.concatenate([rows.value(part) for part in parts])


@_for("ZerosLike", "OnesLike")
def _constant(rows, operation, x, **_):
    x = rows.value(x)
    number = rows.graph.number(type(operation).__name__ == "OnesLike")
    return rows.graph.make("broadcast", number, width=x.width)


@_for("Cast", "ConvertToTensor", "Copy")
def _cast(rows, operation, x, **_):
    value = rows.value(x)
    wanted = getattr(operation, "dtype", None)
    if x.dtype == "bool" and wanted == rows.dtype:
        return where(value, 1, 0)
    return value  # another dtype is refused where the result is noted


@_for("Matmul", "Dot")
def _product(rows, operation, x, w):
    if has_rows(w) or not has_rows(x):
        raise NotDerivable("a product that is not of rows with weights")
    w = rows.parameter(rows.symbol(w), matrix=True)
    return make("matmul", rows.value(x), w, width=w.width)
