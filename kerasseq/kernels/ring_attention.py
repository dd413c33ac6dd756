r"""Blockwise attention over a ring of devices, each with a part of the sequence.

The equation is that of `blockwise_attention.py`: m, l and O of a device's queries are
updated by the keys and values of one part after the other. Device r holds part r of all
of them. In P steps the keys and values travel around the ring, so that it reads

$$
\mathrm{part}(r, i) = (r - i) \bmod P, \qquad i = 0, \dots, P - 1
$$

In the backward pass they travel again, together with the sums of their gradients, which
end at the device that holds the part. Liu, Zaharia and Abbeel 2023.

JAX runs over devices (`jax/ring.py`). Elsewhere one device computes the same numbers.
"""

from typing import Any

import keras

from kerasseq.core import keras_private
from kerasseq.core.types import Tensor
from kerasseq.kernels.blockwise_attention import blockwise_attention
from kerasseq.kernels.operations import backend_module


def part_read(device: int | Tensor, step: int | Tensor, devices: int) -> int | Tensor:
    """Returns which part of the keys a device reads at a step.

    Args:
        device: r.
        step: i.
        devices: P.

    Examples:
        >>> [part_read(1, step, devices=4) for step in range(4)]
        [1, 0, 3, 2]
    """
    return (device - step) % devices


def block_length(length: int, devices: int, block_size: int) -> tuple[int, int]:
    """Cuts a sequence into equal parts, and each part into equal blocks.

    Args:
        length: T.
        devices: P.
        block_size: The largest length of a block.

    Returns:
        The number of blocks on each device, and their length, the smallest that has
        room for all tokens. Masked positions fill the last part.

    Examples:
        >>> block_length(1000, devices=4, block_size=128)
        (2, 125)
        >>> block_length(13, devices=4, block_size=128)
        (1, 4)
    """
    part = -(-length // devices)
    C = -(-part // block_size)
    return C, -(-part // C)


def ring_attention(
    q: Tensor, k: Tensor, v: Tensor, *, devices: int, **options: Any
) -> Tensor:
    r"""Computes `blockwise_attention` over a ring of devices.

    One device computes sequences that are shorter than the ring, calls whose sizes are
    not all known, as in a program for export, and those by which Keras infers shapes.

    Args:
        q: `(B, T, N, K)`.
        k: `(B, S, M, K)`.
        v: `(B, S, M, V)`.
        devices: P.
        **options: As for `blockwise_attention`, without `start`.

    Returns:
        `(B, T, N, V)`; zeros for a fully masked query.

    Raises:
        ValueError: If there are fewer devices on JAX.

    Examples:
        >>> x = keras.ops.ones((2, 5, 3, 7))
        >>> y = ring_attention(x, x, x, devices=1, scale=1.0, block_size=2)
        >>> keras.ops.shape(y), float(y[0, 0, 0, 0])
        ((2, 5, 3, 7), 1.0)
    """
    if keras.backend.backend() == "jax" and _fills_a_ring(q, k, devices):
        return backend_module("ring").run(q, k, v, devices=devices, **options)
    return blockwise_attention(q, k, v, **options)


def _fills_a_ring(q, k, devices):
    sizes = q.shape[0], q.shape[1], k.shape[1]
    known = all(isinstance(n, int) for n in sizes)
    long = known and min(sizes[1:]) >= devices
    return devices > 1 and long and not keras_private.infers_shapes()
