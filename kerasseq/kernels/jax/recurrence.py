"""The recurrence on JAX: `lax.scan` forward and, by hand, backward."""

import functools
from collections.abc import Sequence

import jax

from kerasseq.core.types import Tensor
from kerasseq.kernels import cudnn
from kerasseq.kernels.recurrence import Recurrence
from kerasseq.kernels.reference.derivatives import backward
from kerasseq.kernels.reference.equations import forward


def run(
    cell: Recurrence, states: Sequence[Tensor], mask: Tensor | None
) -> tuple[Tensor, list[Tensor]]:
    """See `kerasseq.kernels.recurrence`."""
    if cell.cudnn is True:
        cudnn.check(cell, mask, "jax")
        return _cudnn(cell, states)
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
    # None: dropout and masks have no gradient.
    return dx, d_states, {name: d_weights.get(name) for name in weights}, None


_run.defvjp(_forward, _backward)

# Compiled here, so that eager calls do not trace it again.
_compiled = jax.jit(_run, static_argnums=0)


def _cudnn(cell: Recurrence, states: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Runs the LSTM that JAX hands to cuDNN."""
    from jax.experimental import rnn  # slow to import

    x = cell.inputs.swapaxes(0, 1)  # (B, T, D)
    batch, steps, features = x.shape
    h, c = (state[None] for state in states)
    lengths = jax.numpy.full(batch, steps, "int32")
    path, h, c = rnn.lstm(
        x,
        h,
        c,
        cudnn.flat_weights(cell),
        lengths,
        input_size=features,
        hidden_size=h.shape[-1],
        num_layers=1,
        dropout=0.0,
        bidirectional=False,
    )
    return path.swapaxes(0, 1), [h[0], c[0]]
