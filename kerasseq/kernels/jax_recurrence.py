"""The fast recurrence on JAX: `lax.scan` forward and, by hand, backward."""

import functools

import jax

from kerasseq.kernels import cudnn
from kerasseq.kernels.derivatives import backward
from kerasseq.kernels.equations import forward


def run(cell, states, mask):
    """See `kerasseq.kernels.recurrence`."""
    if cudnn.asked_for(cell, mask, "jax"):
        from kerasseq.kernels import jax_cudnn

        return jax_cudnn.run(cell, states)
    x = cell.project(cell.inputs)
    return _compiled(cell.equation, x, list(states), cell.weights, mask)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _run(equation, x, states, weights, mask):
    paths, last, _ = forward(equation, x, states, weights, mask)
    return paths[0], last


def _forward(equation, x, states, weights, mask):
    paths, last, gates = forward(equation, x, states, weights, mask)
    return (paths[0], last), (paths, gates, states, weights, mask)


def _backward(equation, kept, gradients):
    paths, gates, states, weights, mask = kept
    dx, d_states, d_weights = backward(
        equation, (paths, gates), states, weights, mask, *gradients
    )
    # None: there is nothing to learn in dropout and masks.
    return dx, d_states, {name: d_weights.get(name) for name in weights}, None


_run.defvjp(_forward, _backward)

# Compiled here, so that calls outside a compiled function do not trace it anew.
_compiled = jax.jit(_run, static_argnums=0)
