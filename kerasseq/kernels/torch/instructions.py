"""Each operation of `derived/graph.py` as instructions of LLVM."""

from collections.abc import Callable, Sequence

from kerasseq.kernels.derived.graph import BOOLEAN, Value
from kerasseq.kernels.torch.elementary import number

Emit = Callable[[str], str]  # adds an instruction; returns the name of its result

# Gradients below this are set to 0 before they become denormal numbers, with which a
# CPU computes several times as slowly. TensorFlow and XLA set denormals to 0 as well.
VANISHED = 1e-32

ARITHMETIC = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
CALLS = {
    **{name: name for name in ("tanh", "erf", "exp", "log", "sigmoid")},
    **{"expm1": "expm1", "log1p": "log1p", "absolute": "llvm.fabs.f32"},
    **{name: f"llvm.{name}.f32" for name in ("sqrt", "sin", "cos")},
    **{"maximum": "llvm.maximum.f32", "minimum": "llvm.minimum.f32"},
}
COMPARISONS = {
    **{"greater": "ogt", "greater_equal": "oge", "less": "olt", "less_equal": "ole"},
    **{"equal": "oeq", "not_equal": "une"},
}

ZERO, ONE = number(0), number(1)


def is_boolean(value: Value) -> bool:
    """Whether a value is true or false."""
    if value.op in ("where", "slice", "concatenate", "stop_gradient", "broadcast"):
        return is_boolean(value.args[-1])
    return value.op in BOOLEAN


def operation(emit: Emit, value: Value, args: Sequence[str]) -> str:
    """Computes a value.

    Args:
        emit: Adds instructions.
        value: The value.
        args: The names of its arguments.
    """
    op, typed = value.op, list(zip(args, map(is_boolean, value.args), strict=True))
    if op in ("broadcast", "stop_gradient"):
        return args[0]
    if op.startswith("logical_"):
        a, *b = (_flag(emit, *pair) for pair in typed)
        word = {"logical_and": "and", "logical_or": "or"}.get(op, "xor")
        return emit(f"{word} i1 {a}, {b[0] if b else 'true'}")
    if op == "where":
        condition, *chosen = typed
        condition = _flag(emit, *condition)
        if is_boolean(value):
            (a, _), (b, _) = chosen
            return emit(f"select i1 {condition}, i1 {a}, i1 {b}")
        a, b = (_float(emit, *pair) for pair in chosen)
        return emit(f"select i1 {condition}, float {a}, float {b}")
    return _arithmetic(emit, value, [_float(emit, *pair) for pair in typed])


def _flag(emit: Emit, x: str, boolean: bool) -> str:
    return x if boolean else emit(f"fcmp une float {x}, {ZERO}")


def _float(emit: Emit, x: str, boolean: bool) -> str:
    return emit(f"select i1 {x}, float {ONE}, float {ZERO}") if boolean else x


def _arithmetic(emit: Emit, value: Value, args: Sequence[str]) -> str:
    op = value.op
    if op in ARITHMETIC:
        return emit(f"{ARITHMETIC[op]} contract float {args[0]}, {args[1]}")
    if op in COMPARISONS:
        return emit(f"fcmp {COMPARISONS[op]} float {args[0]}, {args[1]}")
    if op in CALLS:
        listed = ", ".join(f"float {a}" for a in args)
        return emit(f"call contract float @{CALLS[op]}({listed})")
    if op == "power":
        exponent = number(value.detail)
        return emit(f"call float @llvm.pow.f32(float {args[0]}, float {exponent})")
    return _OTHERS[op](emit, *args)


def _sign(emit: Emit, x: str) -> str:
    one = emit(f"call float @llvm.copysign.f32(float {ONE}, float {x})")
    other = emit(f"fcmp ueq float {x}, {ZERO}")  # NaN as well
    return emit(f"select i1 {other}, float {x}, float {one}")


def _rsqrt(emit: Emit, x: str) -> str:
    root = emit(f"call float @llvm.sqrt.f32(float {x})")
    return emit(f"fdiv float {ONE}, {root}")


def _tanh_gradient(emit: Emit, y: str, d: str) -> str:  # (1 - y²) d
    square = emit(f"fmul contract float {y}, {y}")
    slope = emit(f"fsub contract float {ONE}, {square}")
    return emit(f"fmul contract float {slope}, {d}")


def _sigmoid_gradient(emit: Emit, y: str, d: str) -> str:  # y (1 - y) d
    rest = emit(f"fsub contract float {ONE}, {y}")
    slope = emit(f"fmul contract float {y}, {rest}")
    return emit(f"fmul contract float {slope}, {d}")


_OTHERS: dict[str, Callable[..., str]] = {
    "negative": lambda emit, x: emit(f"fneg float {x}"),
    "sign": _sign,
    "rsqrt": _rsqrt,
    "tanh_gradient": _tanh_gradient,
    "sigmoid_gradient": _sigmoid_gradient,
}


def reduction(emit: Emit, op: str, total: str, x: str) -> str:
    """Adds to a sum, in any order and so in vectors, or finds the larger number."""
    if op == "sum":
        return emit(f"fadd reassoc nsz contract float {total}, {x}")
    return emit(f"call float @llvm.maximum.f32(float {total}, float {x})")


def without_denormals(emit: Emit, x: str) -> str:
    """A number, or 0 if it has vanished. NaN stays NaN."""
    size = emit(f"call float @llvm.fabs.f32(float {x})")
    gone = emit(f"fcmp olt float {size}, {number(VANISHED)}")
    return emit(f"select i1 {gone}, float {ZERO}, float {x}")
