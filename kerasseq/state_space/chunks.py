r"""A diagonal state space model in chunks: products inside, a state handed on.

$$
y_t = \sum_{s \le t} K_{t-s}\, u_s + 2\, \mathrm{Re}\, \bar A^{t+1} h, \qquad
h' = \bar A^L h + \sum_s \bar A^{L-1-s}\, C \bar B\, u_s
$$

for the steps t from 0 to L - 1 of a chunk that starts with the state h, which are sums
over its N / 2 complex numbers. A step is multiplied by exact zeros in the outputs of
those before it. A convolution by Fourier transforms would add rounding errors of the
largest step to all of them.
"""

from collections.abc import Callable

from keras import ops

from kerasseq import kernels
from kerasseq.core.types import Tensor
from kerasseq.kernels.finite import since_first, spoil, zero_non_finite

CHUNK = 64  # steps that are computed at once, between states that are handed on

Complex = tuple[Tensor, Tensor]  # real and imaginary part


def product(x: Complex, y: Complex) -> Complex:
    """Multiplies complex numbers, given by real and imaginary parts.

    Examples:
        >>> product((1.0, 2.0), (3.0, 4.0))
        (-5.0, 10.0)
    """
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def convolve(u: Tensor, powers: Callable[[int], Complex], written: Complex) -> Tensor:
    r"""Computes the outputs of all steps from a state of zeros.

    Args:
        u: `(B, T, D)`.
        powers: Function of a count P that returns $\bar A^l$ for l below P,
            `(D, N / 2, P)`.
        written: $C \bar B$, `(D, N / 2)`.

    Returns:
        `(B, T, D)`.

    Examples:
        >>> one, zero = np.ones((1, 1), "float32"), np.zeros((1, 1), "float32")
        >>> def halves(count):
        ...     return 0.5 ** np.arange(count, dtype="float32")[None, None], 0.0
        >>> y = convolve(np.ones((1, 3, 1), "float32"), halves, (one, zero))
        >>> keras.ops.convert_to_numpy(y).ravel().tolist()
        [2.0, 3.0, 3.5]
    """
    u, hidden = zero_non_finite(ops.convert_to_tensor(u))
    T = ops.shape(u)[1]
    L = min(T, CHUNK) if isinstance(T, int) else CHUNK
    decays = powers(L + 1)
    terms = product(decays, tuple(x[..., None] for x in written))  # (D, N / 2, L + 1)
    K = 2 * ops.sum(terms[0], axis=1)[:, :L]
    x = _split(u, L)  # (D, B, C, L)
    y = kernels.matmul(x, _toeplitz(K)[:, None])
    if not (isinstance(T, int) and T <= L):
        y = y + _of_states(x, decays, terms)
    D, B, C, L = ops.shape(y)
    y = ops.reshape(ops.transpose(y, (1, 2, 3, 0)), (B, C * L, D))[:, :T]
    return spoil(y, since_first(hidden))


def _of_states(x, decays, terms):
    """Returns the part of the outputs that comes from the states before the chunks."""
    re, im = (ops.swapaxes(ops.flip(z[..., :-1], -1), 1, 2) for z in terms)
    added = [kernels.matmul(x, z[:, None]) for z in (re, im)]  # (D, B, C, N / 2)
    added = [ops.transpose(z, (2, 0, 1, 3)) for z in added]
    whole = tuple(z[:, None, :, -1] for z in decays)  # (D, 1, N / 2)

    def step(h, now):
        after = product(whole, h)
        return (after[0] + now[0], after[1] + now[1]), h

    zero = ops.zeros_like(added[0][0])
    _, before = kernels.scan(step, (zero, zero), tuple(added))
    re, im = (ops.transpose(z, (1, 2, 0, 3)) for z in before)  # (D, B, C, N / 2)
    read = [z[:, None, :, 1:] for z in decays]
    return 2 * (kernels.matmul(re, read[0]) - kernels.matmul(im, read[1]))


def _split(u, L):
    """Splits `(B, T, D)` into chunks `(D, B, C, L)`, padded with zeros."""
    B, T, D = ops.shape(u)
    C = (T + L - 1) // L
    if not (isinstance(T, int) and T == C * L):
        u = ops.concatenate([u, ops.zeros((B, C * L - T, D), u.dtype)], axis=1)
    return ops.transpose(ops.reshape(u, (B, C, L, D)), (3, 0, 1, 2))


def _toeplitz(K):
    """Returns $K_{t-s}$ at row s and column t of `(D, L, L)`, zeros for later s."""
    D, L = K.shape
    # Row s is K moved to the right by s: rows of length 2 L - 1 cut out of copies of
    # K and L zeros.
    padded = ops.concatenate([K, ops.zeros_like(K)], axis=-1)
    copies = ops.tile(padded, (1, L))[:, : L * (2 * L - 1)]
    return ops.reshape(copies, (D, L, 2 * L - 1))[..., :L]
