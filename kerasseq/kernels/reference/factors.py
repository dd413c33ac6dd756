r"""The local derivatives of the recurrences, without any loop.

They need no gradient from later steps, so they are computed for many steps at once, and
what is left for the loop is linear in the gradients `dh`, `dc` of the states:

$$
\begin{aligned}
dc &\leftarrow dc + K \odot dh, & dz &= A \odot dh \text{ or } A \odot dc, \\
dh &\leftarrow dz\, U^T + F \odot dh, & dc &\leftarrow F \odot dc
\end{aligned}
$$

with z the sums inside the gates. A masked step has A = K = 0 and F = 1: it changes
nothing. All arrays are `(..., B, H)`, those of several gates `(..., B, gates, H)`;
`m` is the mask as numbers, `(..., B, 1)`, or None.
"""

from keras import ops

from kerasseq.kernels.reference.activations import slope


def elman(equation, h, m):
    r"""A and F of $h = \phi(z)$."""
    A = _unless_masked(slope(equation.phi, h), m)
    return ops.expand_dims(A, -2), None if m is None else 1 - m


def gated(equation, y, h_before, m):
    """A and F, from y, the values of gate and candidate."""
    z, h_bar = y[..., 0, :], y[..., 1, :]
    A_z = (h_before - h_bar) * slope(equation.sigma, z)
    A_h = (1 - z) * slope(equation.phi, h_bar)
    return _stack(m, A_z, A_h), _or_carried(z, m)


def gru(equation, y, h_hat, h_before, m):
    """A of update gate and candidate, and F, from y, the values of the gates."""
    z = y[..., 0, :]
    A_z = (h_before - h_hat) * slope(equation.sigma, z)
    keep = z
    if equation.update == "replace":
        A_z, keep = -A_z, 1 - z
    A_n = (1 - keep) * slope(equation.phi, h_hat)
    return _unless_masked(A_z, m), _unless_masked(A_n, m), _or_carried(keep, m)


def gru_reset_after(equation, y, h_hat, u_h, h_before, m):
    """A of all gates, A of the candidate before the reset gate, and F."""
    A_z, A_n, F = gru(equation, y, h_hat, h_before, m)
    r = y[..., 1, :]
    A_r = A_n * u_h * slope(equation.sigma, r)
    return _stack(None, A_z, A_r, A_n * r), A_n, F


def lstm(equation, y, o, phi_c, c_before, p, m):
    r"""A of the gates that act on c, A of the output gate, F and K.

    Args:
        equation: An `Equation`.
        y: Values of the gates that act on c, the candidate last.
        o: Values of the output gate.
        phi_c: $\phi(c_t)$.
        c_before: $c_{t-1}$.
        p: Diagonal peepholes, `(gates - 1, H)`, or None.
        m: The mask.
    """
    f, g = y[..., -2, :], y[..., -1, :]
    A_o = phi_c * slope(equation.sigma, o)
    K = o * slope(equation.phi, phi_c)
    if equation.coupled:
        A_c = [(c_before - g) * slope(equation.sigma, f)]
    else:
        i = y[..., 0, :]
        A_c = [g * slope(equation.sigma, i), c_before * slope(equation.sigma, f)]
    F = f
    if p is not None:
        K = K + p[-1] * A_o
        for k, A_k in enumerate(A_c):
            F = F + p[k] * A_k
    A_g = (1 - f if equation.coupled else i) * slope(equation.phi, g)
    A_c = _stack(m, *A_c, A_g)
    return A_c, _unless_masked(A_o, m), _or_carried(F, m), _unless_masked(K, m)


def _unless_masked(A, m):
    return A if m is None else A * m


def _or_carried(F, m):
    return F if m is None else m * F + (1 - m)


def _stack(m, *blocks):
    return ops.stack([_unless_masked(A, m) for A in blocks], -2)
