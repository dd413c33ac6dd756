r"""The equations of a codebook that is learned by moving averages.

The nearest of K codes replaces a vector $z_i$: $k_i = \arg\min_k \|z_i - e_k\|^2$. With
$n_k$ vectors of a batch that chose code k, whose sum is $s_k$,

$$
N_k \leftarrow \gamma N_k + (1 - \gamma)\, n_k, \qquad
M_k \leftarrow \gamma M_k + (1 - \gamma)\, s_k, \qquad
e_k = M_k \Big/ \Big(\frac{N_k + \epsilon}{N + K \epsilon}\, N\Big), \qquad
N = \sum_k N_k
$$

so that each code is the mean of the vectors that chose it of late. A code is dead if
few choose it, $N_k < \theta N / K$. It becomes one of the vectors of the batch, drawn
in proportion to $\|z_i - e_{k_i}\|^2$: a uniform draw would take nearly all from what
most pictures show, such as the background, which has its code already.

Source: van den Oord et al. 2017, appendix A.1; Razavi et al. 2019 for $\epsilon$. That
dead codes are replaced is from Dhariwal et al. 2020, whose draw is uniform.
"""

from typing import NamedTuple

from keras import ops

from kerasseq.core.types import Tensor
from kerasseq.kernels import matmul

BELOW_ONE = 1 - 2**-22  # of float32: a draw is never beyond the last vector


class Averages(NamedTuple):
    """The moving averages of a codebook.

    Attributes:
        N: `(K,)`, how many vectors of a batch choose each code.
        M: `(K, D)`, their sums.
    """

    N: Tensor
    M: Tensor


def nearest(z: Tensor, e: Tensor) -> Tensor:
    """Returns the index of the nearest code of each vector, int32 `(n,)`.

    Args:
        z: Vectors `(n, D)`.
        e: Codes `(K, D)`.

    Examples:
        >>> ids = nearest(np.array([[0.4], [0.6]]), np.array([[0.0], [1.0]]))
        >>> keras.ops.convert_to_numpy(ids).tolist()
        [0, 1]
    """
    z, e = ops.convert_to_tensor(z), ops.convert_to_tensor(e)
    # The square of z is the same for all codes.
    distance = ops.sum(ops.square(e), axis=-1) - 2 * matmul(z, ops.transpose(e))
    return ops.cast(ops.argmin(distance, axis=-1), "int32")


def moved(
    averages: Averages, z: Tensor, ids: Tensor, real: Tensor, decay: float
) -> Averages:
    """Returns the averages after a batch; the same ones if it has no real vector.

    Args:
        averages: Those before.
        z: Vectors `(n, D)`.
        ids: The code of each, `(n,)`.
        real: 1 for vectors that count, `(n,)`, else 0.
        decay: The share of the old average.
    """
    N, M = averages
    K = N.shape[0]
    n = ops.segment_sum(real, ids, num_segments=K)
    s = ops.segment_sum(z * real[:, None], ids, num_segments=K)
    any_real = ops.sum(real) > 0
    return Averages(
        ops.where(any_real, decay * N + (1 - decay) * n, N),
        ops.where(any_real, decay * M + (1 - decay) * s, M),
    )


def codes_of(averages: Averages, epsilon: float) -> Tensor:
    """Returns the codes `(K, D)`: means of the vectors that chose them."""
    N, M = averages
    total, K = ops.sum(N), N.shape[0]
    return M / ((N + epsilon) / (total + K * epsilon) * total)[:, None]


def replaced(
    averages: Averages, z: Tensor, error: Tensor, threshold: float, u: Tensor
) -> Averages:
    r"""Returns the averages with vectors of the batch in place of dead codes.

    With m dead codes the draws are at $(r + u) W / m$, r = 0 … m − 1, of the running
    sum of the errors, whose last value is W. So vector i is drawn $m\, w_i / W$ times
    on average, and none twice whose error is below W / m.

    Args:
        averages: Those after the batch.
        z: Vectors `(n, D)`.
        error: w, their squared errors `(n,)`; 0 for vectors that do not count.
        threshold: A code is dead if it is chosen less often than this share of the
            average code.
        u: One number from 0 to 1.
    """
    N, M = averages
    usual = ops.mean(N)
    running = ops.cumsum(error)
    W = running[-1]
    dead = ops.logical_and(threshold * usual > N, W > 0)  # (K,)
    number = ops.cast(dead, N.dtype)
    r = ops.cumsum(number) - number  # dead codes before this one
    at = ops.minimum((r + u) / ops.maximum(ops.sum(number), 1), BELOW_ONE) * W
    drawn = ops.searchsorted(running, at, side="right")
    drawn = ops.minimum(drawn, ops.shape(z)[0] - 1)  # those that are not used
    new = usual * ops.take(z, drawn, axis=0)  # (K, D)
    return Averages(ops.where(dead, usual, N), ops.where(dead[:, None], new, M))
