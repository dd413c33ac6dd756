"""The LSTM that JAX hands to cuDNN."""

from collections.abc import Sequence

import jax

from kerasseq.core.types import Tensor
from kerasseq.kernels import cudnn
from kerasseq.kernels.recurrence import Native


def why_no_cudnn(name: str, x: Tensor) -> str | None:
    """Returns why cuDNN cannot run it; None if it can."""
    return cudnn.why_not(name, x, "jax")


def is_best(name: str, x: Tensor, use_cudnn: bool | str) -> bool:
    """False: XLA compiles the derived loop into one kernel."""
    return False


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
        cudnn.flat_weights(name, native),
        lengths,
        input_size=features,
        hidden_size=h.shape[-1],
        num_layers=1,
        dropout=0.0,
        bidirectional=False,
    )
    return path.swapaxes(0, 1), [h[0], c[0]]
