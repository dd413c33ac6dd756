"""Computes the values of a step, in `keras.ops`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from keras import ops

from kerasseq.core.types import Tensor
from kerasseq.kernels.derived.graph import (
    GRADIENT,
    INPUT,
    MASK,
    NOISE,
    NUMBER,
    PARAMETER,
    STATE,
    Value,
    between,
    walk,
)
from kerasseq.kernels.operations import matmul, tanh

_SPECIAL: dict[str, Callable[..., Tensor]] = {
    "tanh": tanh,
    "matmul": matmul,
    "matmul_transposed": lambda d, w: matmul(d, ops.transpose(w)),
    "tanh_gradient": lambda y, d: (1 - y * y) * d,
    "sigmoid_gradient": lambda y, d: y * (1 - y) * d,
    "sum": lambda x: ops.sum(x, axis=-1, keepdims=True),
    "max": lambda x: ops.max(x, axis=-1, keepdims=True),
}


def evaluate(
    values: Sequence[Value],
    known: Mapping[Value, Tensor],
    like: Tensor,
    run: Callable[[Value, list[Any], Tensor], Tensor] | None = None,
) -> list[Tensor]:
    """Computes values from those that are known, each once.

    Args:
        values: What to compute.
        known: Tensors of the leaves, and of any other values, which are then not
            computed: rows `(..., B, width)`, parameters `(width,)` or `(n, width)`.
        like: A tensor `(..., B, n)` with the dtype and the batch of the results.
        run: Function `(value, arguments, like)` that computes one; `compute` if None.

    Returns:
        A tensor for each value.
    """
    run = run or compute
    computed = dict(known)
    for value in between(values, computed):
        if value not in computed:
            computed[value] = run(value, [computed[a] for a in value.args], like)
    return [computed[value] for value in values]


def leaves(
    values: Sequence[Value],
    x: Tensor,
    states: Sequence[Tensor],
    parameters: Sequence[Tensor],
    noise: Sequence[Tensor] = (),
    mask: Tensor | None = None,
    gradients: Sequence[Tensor] = (),
) -> dict[Value, Tensor]:
    """Returns the tensors of the leaves of values, for `evaluate`.

    Args:
        values: What will be computed.
        x: Input of the step, `(B, N)`.
        states: The states before it, each `(B, n)`.
        parameters: As `Derived.parameters` returns them.
        noise: The masks of recurrent dropout.
        mask: True where the step is real, `(B, 1)`.
        gradients: Those of the new states.
    """
    given = {INPUT: [x], STATE: states, PARAMETER: parameters, NOISE: noise}
    return pick(walk(values), {**given, MASK: [mask], GRADIENT: gradients})


def pick(
    values: Iterable[Value], given: Mapping[str, Sequence[Tensor]]
) -> dict[Value, Tensor]:
    """Returns the tensors of the leaves among values, from lists by kind of leaf."""
    return {v: given[v.op][v.detail or 0] for v in values if v.op in given}


def compute(value: Value, args: list[Any], like: Tensor) -> Tensor:
    """Computes one value from its arguments."""
    op, detail = value.op, value.detail
    if op == NUMBER:
        return ops.cast(detail, like.dtype)
    if op == "slice":
        return args[0][..., detail : detail + value.width]
    if op == "broadcast":
        return _rows(args[0], value.width, like)
    if op == "concatenate":
        parts = zip(args, value.args, strict=True)
        return ops.concatenate([_rows(x, a.width, like) for x, a in parts], axis=-1)
    if op == "power":
        return ops.power(args[0], detail)
    if op in _SPECIAL:
        return _SPECIAL[op](*args)
    return getattr(ops, op)(*args)


def _rows(x: Tensor, width: int, like: Tensor) -> Tensor:
    """Repeats what is the same for all sequences, or for all units."""
    if len(x.shape) == len(like.shape) and x.shape[-1] == width:
        return x
    return ops.broadcast_to(x, (*ops.shape(like)[:-1], width))
