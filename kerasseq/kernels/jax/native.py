"""The LSTM that JAX hands to cuDNN."""

from collections.abc import Sequence

import jax

from kerasseq.core.types import Tensor
from kerasseq.kernels.cudnn import flat_weights, is_best, why_no_cudnn
from kerasseq.kernels.recurrence import Native

__all__ = ["is_best", "run", "why_no_cudnn"]


def run(
    name: str, native: Native, states: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """Returns the path of the hidden state and the last states."""
    from jax.experimental import rnn  # slow to import

    x = native.inputs.swapaxes(0, 1)  # (B, T, D)
    batch, steps, features = x.shape
    h, c = (state[None] for state in states)
    lengths = jax.numpy.full(batch, steps, "int32")
    path, h, c = rnn.lstm(
        x,
        h,
        c,
        flat_weights(name, native),
        lengths,
        input_size=features,
        hidden_size=h.shape[-1],
        num_layers=1,
        dropout=0.0,
        bidirectional=False,
    )
    return path.swapaxes(0, 1), [h[0], c[0]]
