r"""Mamba with a plain loop over time on JAX, a peer of `kernels.selective_scan`.

$$
h_t = e^{\Delta_t A} \odot h_{t-1} + (\Delta_t u_t)\, B_t^T, \qquad y_t = h_t C_t
$$

Nothing is prepared for all steps before the loop, and the loop of the gradient is
written by hand: with $g_t = \partial L / \partial h_t$ it goes back from

$$
g_t = \frac{\partial L}{\partial y_t}\, C_t^T + e^{\Delta_{t+1} A} \odot g_{t+1}
$$
"""

import jax
import jax.numpy as jnp

import kerasseq


class LoopMamba(kerasseq.layers.Mamba):
    """`Mamba` whose scan is a loop of XLA, for whole sequences without a mask."""

    def scan(self, u, h=None, mask=None):
        """See `Mamba`; the last state is not computed."""
        step, B, C = self.selection(u)
        A = -jnp.exp(self.log_rate.value)
        return selective_scan(step, A, B, C, u) + self.skip.value * u, None


@jax.custom_vjp
def selective_scan(step, A, B, C, u):
    """Returns the outputs of all steps.

    Args:
        step: Δ, `(batch, T, E)`.
        A: `(E, N)`.
        B: `(batch, T, N)`.
        C: `(batch, T, N)`.
        u: `(batch, T, E)`.
    """
    return _forward(step, A, B, C, u)[0]


def _forward(step, A, B, C, u):
    def advance(h, inputs):
        d, b, c, x = inputs
        h = jnp.exp(d[..., None] * A) * h + (d * x)[..., None] * b[:, None]
        return h, (h, h @ c[..., None])

    start = jnp.zeros((step.shape[0], *A.shape), step.dtype)
    _, (h, y) = jax.lax.scan(advance, start, _by_time(step, B, C, u))
    return jnp.swapaxes(y[..., 0], 0, 1), (step, A, B, C, u, h)


def _backward(saved, dy):
    step, A, B, C, u, h = saved
    before = jnp.concatenate([jnp.zeros_like(h[:1]), h[:-1]])  # h of the step before

    def back(carry, inputs):
        g, dA = carry
        d, b, c, x, dy, h, before = inputs
        g = g + dy[..., None] * c[:, None]
        decay = jnp.exp(d[..., None] * A)
        changed = g * before * decay  # with respect to ΔA
        written = jnp.einsum("ben,bn->be", g, b)  # with respect to Δu
        grads = (
            jnp.sum(changed * A, axis=-1) + written * x,
            jnp.einsum("ben,be->bn", g, d * x),
            jnp.einsum("ben,be->bn", h, dy),
            written * d,
        )
        dA = dA + jnp.sum(changed * d[..., None], axis=0)
        return (g * decay, dA), grads

    inputs = (*_by_time(step, B, C, u, dy), h, before)
    start = jnp.zeros_like(h[0]), jnp.zeros_like(A)
    (_, dA), grads = jax.lax.scan(back, start, inputs, reverse=True)
    dstep, dB, dC, du = (jnp.swapaxes(x, 0, 1) for x in grads)
    return dstep, dA, dB, dC, du


def _by_time(*arrays):
    """The arrays with time as the first axis."""
    return tuple(jnp.swapaxes(x, 0, 1) for x in arrays)


selective_scan.defvjp(_forward, _backward)
