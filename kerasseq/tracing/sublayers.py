r"""What the sublayers of a block add, term by term.

With the norms before the sublayers a block only adds to its input,

$$
Y = X + \sum_{n=1}^N H^n W_O^n + b_O + \mathrm{FFN}(\cdot)
$$

where $H^n$ are the outputs of head $n$ before the output projection. With the norms
after them, each sum is normalized: $\mathrm{Norm}(X + \sum_n H^n W_O^n + b_O)$ goes
into the next sum. A layer without such heads is one term.

Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits".
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from keras import ops

from kerasseq.tracing.listeners import located
from kerasseq.tracing.recording import Trace

# Relative, of the sum of the heads beside the output; with 16 bits the second.
TOLERANCE, HALF_TOLERANCE = 1e-4, 3e-2


class Term(NamedTuple):
    """A term of a sum in a block.

    Attributes:
        block: The path of the block.
        name: "input", "head 0", "bias", or the name of a sublayer.
        sum: The name of the sum that it is a part of, as in a trace: "output" if the
            block does not normalize it. None for a sum itself.
        value: `(B, T, D)`.
    """

    block: str
    name: str
    sum: str | None
    value: np.ndarray


def block_paths(inside: Trace) -> list[str]:
    """Returns the paths of the blocks, which have an input and an output."""
    paths = [key.removesuffix("/input") for key in inside if key.endswith("/input")]
    return [path for path in paths if f"{path}/output" in inside]


def block_terms(inside: Trace, block: str) -> list[Term]:
    """Returns the terms of the sums of a block, each sum after its terms.

    Args:
        inside: A trace of the model.
        block: The path of the block.
    """
    layer = located(inside.model)[block]
    x, y = inside[f"{block}/input"], inside[f"{block}/output"]
    names = _sublayers(inside, block)
    if not names:  # a block of another kind is one term
        whole = [("input", x), ("block", y - x)]
        return _of_sum(block, "output", whole, y)
    alpha, parallel = getattr(layer, "alpha", 1.0), getattr(layer, "parallel", False)
    is_sum = np.array_equal(inside[f"{block}/{names[-1]}_residual"], y)
    terms, parts, name = [], [], "input"
    for n, sublayer in enumerate(names):
        after = inside[f"{block}/{sublayer}_residual"]
        if name is not None:
            parts.append((name, alpha * x))
        f_x = after - alpha * x
        tolerance = _tolerance(layer) * (1 + np.abs(after).max(initial=0))
        parts += _parts(inside, f"{block}/{sublayer}", f_x, parallel, tolerance)
        x, name = after, None
        if not is_sum:  # the next sum begins with the norm of this one
            terms += _of_sum(block, f"{sublayer}_residual", parts, after)
            x = inside[f"{block}/{names[n + 1]}_input"] if n + 1 < len(names) else y
            parts, name = [], f"normalized {sublayer}"
    return terms + _of_sum(block, "output", parts, y)


def _sublayers(inside, block):
    """Returns the names of the sublayers with a residual connection, in order."""
    start, end = f"{block}/", "_residual"
    names = [key[len(start) : -len(end)] for key in inside if key.endswith(end)
             and key.startswith(start)]  # fmt: skip
    return [name for name in names if "/" not in name]


def _of_sum(block, total, parts, value):
    terms = [Term(block, name, total, part) for name, part in parts]
    return [*terms, Term(block, total, None, value)]


def _parts(inside, path, f_x, parallel, tolerance) -> Iterator[tuple[str, np.ndarray]]:
    """Yields what a sublayer adds: heads and bias, or one term."""
    block, _, name = path.rpartition("/")
    for attention in _attentions(inside, block):
        heads = _heads(inside, attention)
        if heads is None:
            continue
        total, context = sum(heads.values()), _float32(inside[f"{attention}/context"])
        # They do not add up with a gate, and there may be several attentions.
        differences = [total - context, 0 if parallel else total - f_x]
        if max(np.abs(each).max(initial=0) for each in differences) > tolerance:
            continue
        yield from heads.items()
        if parallel:  # the feed-forward network is added in the same sum
            yield "feed_forward", f_x - total
        return
    yield name, f_x


def _attentions(inside, block):
    """Returns the paths of the layers with heads in a block."""
    paths = [key.removesuffix("/heads") for key in inside if key.endswith("/heads")]
    return [path for path in paths if path.rpartition("/")[0] == block]


def _heads(inside, path):
    """Returns the terms of the heads of an attention; None if they are no terms."""
    projection = getattr(located(inside.model)[path], "output_dense", None)
    if projection is None or f"{path}/context" not in inside:
        return None
    H, W = _float32(inside[f"{path}/heads"]), _array(projection.kernel)
    if H.ndim != 4 or W.ndim != 3 or W.shape[:2] != (H.shape[1], H.shape[3]):
        return None
    terms = {f"head {n}": H[:, n] @ W[n] for n in range(len(W))}
    if projection.bias is not None:
        b = _array(projection.bias)
        terms["bias"] = np.broadcast_to(b, terms["head 0"].shape)
    return terms


def _tolerance(layer):
    is_half = layer.compute_dtype in ("float16", "bfloat16")
    return HALF_TOLERANCE if is_half else TOLERANCE


def _float32(value):
    return np.asarray(value, "float32")


def _array(weight):
    return ops.convert_to_numpy(ops.cast(weight, "float32"))
