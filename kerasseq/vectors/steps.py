r"""The losses of word vectors, with the gradients of the rows that occur in a batch.

Letters: $v$ vectors, $u$ vectors of the outputs, $k$ a negative word, $\sigma$ the
logistic function. N blocks of L centers have C words as possible contexts each, and K
negative words for each center, which all contexts of the center share; D dimensions.

From: Mikolov et al., "Distributed Representations of Words and Phrases and their
Compositionality", 2013 (negative sampling); Mikolov et al., "Efficient Estimation of
Word Representations in Vector Space", 2013 (CBOW, skip-gram); Pennington et al.,
"GloVe: Global Vectors for Word Representation", 2014. Left out: hierarchical softmax.
"""

from typing import NamedTuple

import numpy as np
from keras import ops

from kerasseq.core.types import Tensor


class SampledGradients(NamedTuple):
    """The loss of a batch with negative words, and its gradients.

    Attributes:
        loss: The sum over the batch.
        centers: Gradient of the vectors of the centers, `(N, L, D)`.
        contexts: Gradient of the vectors of the contexts, `(N, C, D)`.
        negatives: Gradient of the vectors of the negative words, `(N, L, K, D)`.
    """

    loss: Tensor
    centers: Tensor
    contexts: Tensor
    negatives: Tensor


def skip_gram(
    v: Tensor, u: Tensor, u_k: Tensor, m: Tensor, a: Tensor
) -> SampledGradients:
    r"""Predicts contexts from a word: skip-gram with negative sampling.

    $$
    J = -\sum_{i,j} m_{ij} \log \sigma(u_j \cdot v_i)
        - \sum_{i,k} a_{ik} \log \sigma(-u_k \cdot v_i)
    $$

    Args:
        v: Vectors of the centers $i$, `(N, L, D)`.
        u: Output vectors of the words $j$ around them, `(N, C, D)`.
        u_k: Output vectors of the negative words, `(N, L, K, D)`.
        m: 1 where $j$ is a context of $i$, else 0, `(N, L, C)`.
        a: For each negative word of $i$ the number of contexts of $i$ that are other
            words, `(N, L, K)`.

    Returns:
        `SampledGradients`.
    """
    s = ops.matmul(v, ops.swapaxes(u, 1, 2))  # (N, L, C)
    t = ops.matmul(u_k, v[..., None])[..., 0]  # (N, L, K)
    J = ops.sum(m * ops.softplus(-s)) + ops.sum(a * ops.softplus(t))
    ds = -m * ops.sigmoid(-s)
    dt = a * ops.sigmoid(t)
    dv = ops.matmul(ds, u) + ops.matmul(dt[:, :, None], u_k)[:, :, 0]
    du = ops.matmul(ops.swapaxes(ds, 1, 2), v)
    return SampledGradients(J, dv, du, dt[..., None] * v[:, :, None])


def cbow(u: Tensor, v: Tensor, u_k: Tensor, m: Tensor, a: Tensor) -> SampledGradients:
    r"""Predicts a word from the mean of its contexts: CBOW with negative sampling.

    $$
    h_i = \frac{\sum_j m_{ij} v_j}{\sum_j m_{ij}}, \qquad
    J = -\sum_i b_i \log \sigma(u_i \cdot h_i)
        - \sum_{i,k} a_{ik} \log \sigma(-u_k \cdot h_i)
    $$

    where $b_i$ is 1 if $i$ has a context, else 0.

    Args:
        u: Output vectors of the centers $i$, `(N, L, D)`.
        v: Vectors of the words $j$ around them, `(N, C, D)`.
        u_k: Output vectors of the negative words, `(N, L, K, D)`.
        m: 1 where $j$ is a context of $i$, else 0, `(N, L, C)`.
        a: 1 for each negative word of $i$ that is another word than $i$, if $i$ has a
            context; else 0; `(N, L, K)`.

    Returns:
        `SampledGradients`.
    """
    count = ops.sum(m, axis=-1, keepdims=True)  # (N, L, 1)
    p = m / ops.maximum(count, 1)
    b = ops.cast(count[..., 0] > 0, v.dtype)
    h = ops.matmul(p, v)  # (N, L, D)
    s = ops.sum(u * h, axis=-1)  # (N, L)
    t = ops.matmul(u_k, h[..., None])[..., 0]  # (N, L, K)
    J = ops.sum(b * ops.softplus(-s)) + ops.sum(a * ops.softplus(t))
    ds = -b * ops.sigmoid(-s)
    dt = a * ops.sigmoid(t)
    dh = ds[..., None] * u + ops.matmul(dt[:, :, None], u_k)[:, :, 0]
    dv = ops.matmul(ops.swapaxes(p, 1, 2), dh)
    du = ds[..., None] * h
    return SampledGradients(J, du, dv, dt[..., None] * h[:, :, None])


class GloVeGradients(NamedTuple):
    """The loss of n co-occurrences, and its gradients.

    Attributes:
        loss: The sum over the batch.
        w: Gradient of the vectors of the words, and of those of the contexts, `(n, D)`
            each.
        b: Gradient of their biases, which is the same for both, `(n,)`.
    """

    loss: Tensor
    w: tuple[Tensor, Tensor]
    b: Tensor


def glove(
    w: Tensor, w_: Tensor, b: Tensor, b_: Tensor, f: Tensor, log_x: Tensor
) -> GloVeGradients:
    r"""Approximates logarithms of counts by products of vectors: GloVe.

    $$
    J = \sum_{i,j} f(X_{ij})
        (w_i \cdot \tilde w_j + b_i + \tilde b_j - \log X_{ij})^2
    $$

    Args:
        w: Vectors of the words $i$, `(n, D)`.
        w_: Vectors of the contexts $j$, `(n, D)`.
        b: Biases of the words, `(n,)`.
        b_: Biases of the contexts, `(n,)`.
        f: Weights $f(X_{ij})$, as `glove_weight`, `(n,)`.
        log_x: Logarithms of the counts, `(n,)`.

    Returns:
        `GloVeGradients`.
    """
    d = ops.sum(w * w_, axis=-1) + b + b_ - log_x
    g = 2 * f * d
    return GloVeGradients(ops.sum(f * d * d), (g[:, None] * w_, g[:, None] * w), g)


def glove_weight(x: np.ndarray, x_max: float, alpha: float) -> np.ndarray:
    r"""Computes GloVe's weight of a count: $f(x) = \min(1, (x / x_{max})^\alpha)$.

    Examples:
        >>> glove_weight(np.array([1.0, 100.0, 1e4]), x_max=100, alpha=0.5).tolist()
        [0.1, 1.0, 1.0]
    """
    return (x / x_max).clip(max=1) ** alpha
