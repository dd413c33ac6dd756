r"""Connectionist temporal classification: the probability of a label without times.

At each frame $t$ a network gives a distribution $y_t$ over symbols, one of which is the
blank $\varnothing$. A path has one symbol at each frame. It reads as a label if equal
neighbors are merged and blanks are then left out, so that a label with equal neighbors
needs a blank between them:

$$
p(l \mid x) = \sum_{\pi:\, \mathcal B(\pi) = l}\ \prod_{t=1}^T y_t(\pi_t)
$$

The states of the paths of $l$ are the symbols of
$l' = (\varnothing, l_1, \varnothing, l_2, \dots, l_U, \varnothing)$. A path begins in
one of the first two of them and ends in one of the last two. From a frame to the next
it stays, advances by one state, or by two, from $l_{u-1}$ to $l_u \neq l_{u-1}$. The
forward algorithm sums over all paths:

$$
\alpha_t(s) = \log y_t(l'_s) + \log \left(e^{\alpha_{t-1}(s)} +
e^{\alpha_{t-1}(s-1)} + [l'_s \neq l'_{s-2}]\, e^{\alpha_{t-1}(s-2)}\right)
\qquad
p(l \mid x) = e^{\alpha_T(|l'|)} + e^{\alpha_T(|l'|-1)}
$$

Here its scores are made; the loop over frames is `kernels/reference/path_sums.py`, and
on PyTorch that of `kernels/torch/path_sums.py`.

Read from the end, the paths of $l$ are those of the reversed label over the reversed
frames. So the same recurrence gives $\beta$, which includes $\log y_t$ as $\alpha$
does, and both run as one batch. They give the gradient with respect to the logits $z$:

$$
\gamma_t(s) = \frac{1}{p(l \mid x)}\, e^{\alpha_t(s) + \beta_t(s) - \log y_t(l'_s)}
\qquad
\frac{\partial \left(-\log p(l \mid x)\right)}{\partial z_t(k)} =
y_t(k) - \sum_{s:\, l'_s = k} \gamma_t(s)
$$

From: Graves, Fernández, Gomez and Schmidhuber, "Connectionist Temporal Classification",
ICML 2006.
"""

from typing import NamedTuple

from keras import ops

from kerasseq import kernels
from kerasseq.core.masks import largest, zero_masked
from kerasseq.core.types import Tensor
from kerasseq.kernels.path_sums import NEVER, path_sums

Tensors = dict[str, Tensor]


class Paths(NamedTuple):
    r"""The states of a batch of labels, and their scores at all frames.

    One state more stands before those of $l'$, in which every path is before the first
    frame: $S = 2 L + 2$ states.

    Attributes:
        log_y: $\log y_t$ of all symbols, `(B, T, V)`.
        e: $\log y_t(l'_s)$, `(B, T, S)`; `NEVER` where no path is.
        symbols: $l'$, int32 `(B, S)`.
        count: Length of each label, int32 `(B,)`.
        alpha: α, and β with states and frames reversed, `(T, 2B, S)`.
    """

    log_y: Tensor
    e: Tensor
    symbols: Tensor
    count: Tensor
    alpha: Tensor


def ctc_loss(
    logits: Tensor, labels: Tensor, mask: Tensor | None = None, blank: int = -1
) -> Tensor:
    r"""Computes $-\log p(l \mid x)$ of each row, in float32 or float64.

    Args:
        logits: `(B, T, V)`.
        labels: Integers `(B, L)`; negative after the end of a label.
        mask: Boolean `(B, T)`, True at real frames; None if all are.
        blank: The id of the blank, from the end if negative.

    Returns:
        `(B,)`. Infinity, with a gradient of zero, where no path reads as the label: too
        few frames, or an id that is the blank or has no logits.

    Examples:
        >>> logits = keras.ops.zeros((1, 2, 3))  # AA, A_ and _A, of 9 paths
        >>> loss = ctc_loss(logits, np.array([[0]]))
        >>> print(keras.ops.convert_to_numpy(keras.ops.exp(-loss)).round(4))
        [0.3333]
    """
    logits, labels = ops.convert_to_tensor(logits), ops.cast(labels, "int32")
    logits = ops.cast(logits, kernels.state_dtype(logits.dtype))
    blank = blank % logits.shape[-1]
    if mask is None:
        mask = ops.ones(ops.shape(logits)[:2], "bool")
    if labels.shape[1] == 0:
        labels = ops.pad(labels, [[0, 0], [0, 1]], constant_values=-1)

    def forward(tensors: Tensors, fixed: Tensors) -> tuple[Tensor, Paths]:
        paths = find_paths(**tensors, **fixed, blank=blank)
        log_p = log_probability(paths)
        infinity = ops.cast(float("inf"), log_p.dtype)
        return ops.where(log_p < NEVER / 2, infinity, -log_p), paths

    def backward(
        tensors: Tensors, fixed: Tensors, paths: Paths, G: Tensor
    ) -> dict[str, Tensor]:
        possible = log_probability(paths) >= NEVER / 2
        counted = ops.logical_and(fixed["mask"], possible[:, None])
        scale = ops.where(counted, G[:, None], 0)[..., None]
        return {"logits": (ops.exp(paths.log_y) - posteriors(paths)) * scale}

    mask = ops.cast(mask, "bool")
    fixed = {"labels": labels, "mask": mask}
    loss = kernels.with_gradient(forward, backward)
    return loss({"logits": zero_masked(logits, mask)}, fixed)


def find_paths(logits: Tensor, labels: Tensor, mask: Tensor, blank: int) -> Paths:
    r"""Computes the states of labels, $\alpha$ and β.

    Args:
        logits: `(B, T, V)`.
        labels: int32 `(B, L)`, negative after the end.
        mask: Boolean `(B, T)`.
        blank: The id of the blank.
    """
    log_y = ops.log_softmax(logits, axis=-1)
    log_y = ops.where(log_y < NEVER, ops.cast(NEVER, log_y.dtype), log_y)
    known = ops.logical_and(labels >= 0, labels < logits.shape[-1])
    known = ops.logical_and(known, labels != blank)
    symbols = _states(ops.where(known, labels, blank), blank)
    S = ops.shape(symbols)[1]
    index = ops.broadcast_to(symbols[:, None], (*ops.shape(logits)[:2], S))
    e = ops.take_along_axis(log_y, index, axis=2)  # (B, T, S)
    real = ops.logical_and(_states(known, True), ops.arange(S) > 0)
    e = e + _log(real, e.dtype)[:, None]
    # An id below 0 before the end is a state that no path has.
    ends = ops.where(labels >= 0, 1 + ops.arange(ops.shape(labels)[1]), 0)
    count = largest(ops.cast(ends, "int32"), axis=1)
    return Paths(log_y, e, symbols, count, _alpha(e, labels, mask, count))


def _alpha(e, labels, mask, count):
    """Runs the recurrence over the labels, and over the labels reversed."""
    both = ops.concatenate([labels, ops.flip(labels, 1)], axis=0)
    back = ops.concatenate([e[..., :1], ops.flip(e[..., 1:], 2)], axis=2)
    e = ops.concatenate([e, ops.flip(back, 1)], axis=0)
    mask = ops.concatenate([mask, ops.flip(mask, 1)], axis=0)
    S = ops.shape(e)[2]
    # A reversed label begins where its padding ends.
    begin = ops.concatenate([ops.zeros_like(count), S - 2 - 2 * count], axis=0)
    is_begin = ops.arange(S, dtype="int32") == begin[:, None]
    return path_sums(
        ops.swapaxes(e, 0, 1),
        _log(is_begin, e.dtype),
        _log(_skipped(both), e.dtype),
        ops.swapaxes(mask, 0, 1),
    )


def _log(condition, dtype):
    """Returns the logarithm of 1 where a condition holds, else of 0."""
    zero, never = (ops.cast(x, dtype) for x in (0, NEVER))
    return ops.where(condition, zero, never)


def log_probability(paths: Paths) -> Tensor:
    r"""Computes $\log p(l \mid x)$, `(B,)`; at most `NEVER` where there is no path."""
    last = paths.alpha[-1, : ops.shape(paths.e)[0]]  # (B, S)
    ends = ops.stack([2 * paths.count, 2 * paths.count + 1], axis=1)
    return ops.logsumexp(ops.take_along_axis(last, ends, axis=1), axis=1)


def posteriors(paths: Paths) -> Tensor:
    r"""Computes $\sum_{s: l'_s = k} \gamma_t(s)$, `(B, T, V)`."""
    B = ops.shape(paths.e)[0]
    alpha, beta = paths.alpha[:, :B, 1:], paths.alpha[:, B:, 1:]
    beta = ops.flip(beta, axis=(0, 2))
    log_p = ops.swapaxes(alpha + beta, 0, 1) - paths.e[..., 1:]
    # The sum over all states is p(l), with fewer rounding errors than at the end.
    gamma = ops.softmax(log_p, axis=-1)
    V, dtype = paths.log_y.shape[-1], paths.log_y.dtype
    return kernels.matmul(gamma, ops.one_hot(paths.symbols[:, 1:], V, dtype=dtype))


def _states(labels, blank):
    """Puts blanks around the labels, and one more state before: `(B, 2L + 2)`."""
    blanks = ops.full_like(labels, blank)
    pairs = ops.stack([blanks, labels], axis=2)
    B, L = ops.shape(labels)
    edge = blanks[:, :1]
    return ops.concatenate([edge, ops.reshape(pairs, (B, 2 * L)), edge], axis=1)


def _skipped(labels):
    """Returns whether a path advances to a state from two before it, `(B, 2L + 2)`."""
    new = labels[:, 1:] != labels[:, :-1]
    first = ops.full_like(labels[:, :1], True, dtype="bool")
    return _states(ops.concatenate([first, new], axis=1), False)
