r"""The selective scan on JAX: a loop that writes in place, forward and backward.

The state is `(batch, N, E)` here, with the channels last: E is large, so that the
operations of a step are vectorized. With $g_t = \partial L / \partial h_t$ through the
later steps, the gradient goes back in time:

$$
g_t = \frac{\partial L}{\partial y_t}\, C_t^T + e^{\Delta_{t+1} A} \odot g_{t+1}, \qquad
\frac{\partial L}{\partial (\Delta_t A)} = g_t \odot h_{t-1} \odot e^{\Delta_t A}
$$
"""

from collections.abc import Callable

import jax
from jax import lax
from jax import numpy as jnp

from kerasseq.core.types import Tensor


@jax.custom_vjp
def _run(
    step: Tensor, A: Tensor, B: Tensor, C: Tensor, u: Tensor, h: Tensor
) -> tuple[Tensor, Tensor]:
    y, h, _ = _loop(step, A, B, C, u, h, [])
    return y, h


def _loop(step, A, B, C, u, h, paths):
    """Returns the outputs, the last state, and the states written into `paths`."""
    A = A.T

    def advance(t, carry):
        h, y, paths = carry
        d, b, c, x = (_at(v, t) for v in (step, B, C, u))
        h = jnp.exp(d[:, None] * A) * h + b[..., None] * (d * x)[:, None]
        y = _put(y, jnp.einsum("bn,bne->be", c, h), t)
        return h, y, [_put(path, h, t + 1) for path in paths]

    start = jnp.swapaxes(h, 1, 2), jnp.zeros_like(u), paths
    h, y, paths = lax.fori_loop(0, step.shape[1], advance, start)
    return y, jnp.swapaxes(h, 1, 2), paths


def _forward(step, A, B, C, u, h):
    first = jnp.swapaxes(h, 1, 2)
    batch, N, E = first.shape
    path = jnp.zeros((batch, step.shape[1] + 1, N, E), h.dtype)
    y, h, (path,) = _loop(step, A, B, C, u, h, [_put(path, first, 0)])
    return (y, h), (step, A, B, C, u, path)


def _backward(saved, gradients):
    step, A, B, C, u, path = saved
    dy, d_last = gradients
    steps, A = step.shape[1], A.T

    def back(n, carry):
        g, dA, d_step, dB, dC, du = carry
        t = steps - 1 - n
        d, b, c, x, dy_t = (_at(v, t) for v in (step, B, C, u, dy))
        g = g + c[..., None] * dy_t[:, None]
        decay = jnp.exp(d[:, None] * A)
        rate = g * _at(path, t) * decay  # with respect to the step times A
        written = jnp.einsum("bne,bn->be", g, b)  # with respect to the step times u
        d_step = _put(d_step, jnp.einsum("bne,ne->be", rate, A) + written * x, t)
        dB = _put(dB, jnp.einsum("bne,be->bn", g, d * x), t)
        dC = _put(dC, jnp.einsum("bne,be->bn", _at(path, t + 1), dy_t), t)
        du = _put(du, written * d, t)
        dA = dA + jnp.sum(rate * d[:, None], axis=0)
        return g * decay, dA, d_step, dB, dC, du

    empty = map(jnp.zeros_like, (A, step, B, C, u))
    start = jnp.swapaxes(d_last, 1, 2), *empty
    d_first, dA, *others = lax.fori_loop(0, steps, back, start)
    d_step, dB, dC, du = others
    return d_step, dA.T, dB, dC, du, jnp.swapaxes(d_first, 1, 2)


_run.defvjp(_forward, _backward)


def _at(x, t):
    return lax.dynamic_index_in_dim(x, t, axis=1, keepdims=False)


def _put(x, value, t):
    return lax.dynamic_update_index_in_dim(x, value, t, 1)


# Compiled here, so that eager calls do not trace it again.
run: Callable[..., tuple[Tensor, Tensor]] = jax.jit(_run)
