"""Attention over a ring of devices, see `kernels/ring_attention.py`."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from kerasseq.core.types import Nested, Tensor
from kerasseq.kernels.blockwise_attention import attend_to_blocks
from kerasseq.kernels.ring_attention import block_length, part_read

AXIS = "ring"
STAYING = "first", "mask", "bias"  # for keys of all devices, on each device


def run(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    devices: int,
    block_size: int,
    key_mask: Tensor | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    positions: tuple[Tensor, Tensor] | None = None,
    **options: Any,
) -> Tensor:
    """Attends with q `(B, T, N, K)` to k `(B, S, M, K)` over a ring of devices."""
    T, S, P = q.shape[1], k.shape[1], devices
    C, L = block_length(S, P, block_size)
    C_q, L_q = block_length(T, P, block_size)
    queries, keys = {1: P * C_q * L_q}, {1: P * C * L}  # lengths of axes, filled up
    pairs = {2: queries[1], 3: keys[1]}
    given = {
        "q": _fill(q, queries),
        "k": _fill(k, keys),
        "v": _fill(v, keys),
        "key_mask": None if key_mask is None else _fill(key_mask, keys),
        "mask": None if mask is None else _fill(_whole(mask, T, S), pairs),
        "bias": None if bias is None else _fill(_whole(bias, T, S), pairs),
        "positions": None,
    }
    if positions is not None:
        given["positions"] = _fill(positions[0], queries), _fill(positions[1], keys)

    def on_device(here):
        r = jax.lax.axis_index(AXIS)
        return attend_to_blocks(
            **here,
            **{"block_size": L, "start": r * C_q * L_q, "length": S, "devices": P},
            loop=functools.partial(around_the_ring, P),
            **{"causal": False, "window": None, "bias_of": None, **options},
        )

    by_time, by_query = PartitionSpec(None, AXIS), PartitionSpec(None, None, AXIS)
    specs = {name: by_query if name in STAYING else by_time for name in given}
    mesh = Mesh(np.array(_first(P)), (AXIS,))
    mapped = jax.shard_map(
        on_device, mesh=mesh, in_specs=(specs,), out_specs=by_time, check_vma=False
    )
    return jax.jit(mapped)(given)[:, :T]


def around_the_ring(
    P: int, step: Callable, carry: Nested, blocks: dict[str, Tensor]
) -> tuple[Nested, Nested]:
    """Scans as `scan`, over the blocks of all devices; inside `jax.shard_map`.

    Args:
        P: The number of devices.
        step: As for `scan`. It returns a dictionary of outputs, or nothing.
        carry: As for `scan`.
        blocks: The blocks of this device, which travel around the ring, and under the
            names in `STAYING` those of the keys of all devices.

    Returns:
        The carry, and the outputs by name. Those of the names in `STAYING` are of the
        keys of all devices, the others sums of what all devices found for these keys.
    """
    staying = {
        name: blocks[name].reshape(P, -1, *blocks[name].shape[1:])
        for name in STAYING
        if name in blocks
    }
    moving = {name: x for name, x in blocks.items() if name not in STAYING}
    neighbors = [(p, (p + 1) % P) for p in range(P)]
    send = functools.partial(jax.lax.ppermute, axis_name=AXIS, perm=neighbors)

    def read(carry, moving, sums, part):
        here = {name: jnp.take(x, part, axis=0) for name, x in staying.items()}
        carry, outputs = jax.lax.scan(step, carry, {**moving, **here})
        sums = {name: x + outputs.pop(name) for name, x in sums.items()}
        return carry, sums, outputs

    def read_and_send(state, part):
        carry, moving, sums = state
        arriving = send(moving)  # while this device computes
        carry, sums, outputs = read(carry, moving, sums, part)
        return (carry, arriving, send(sums)), outputs

    r = jax.lax.axis_index(AXIS)
    held = part_read(r, jnp.arange(P), P)
    state = carry, moving, _zero_sums(step, carry, blocks)
    state, outputs = jax.lax.scan(read_and_send, state, held[:-1])
    carry, sums, last = read(*state, held[-1])
    # Stacked by step; `held` is its own inverse.
    outputs = {
        name: jnp.concatenate([x, last[name][None]])[held].reshape(-1, *x.shape[2:])
        for name, x in outputs.items()
    }
    return carry, {**send(sums), **outputs}


def _zero_sums(step, carry, blocks):
    """Zeros for the outputs of a step that are sums of all devices."""
    one = jax.tree.map(lambda x: x[0], blocks)
    _, outputs = jax.eval_shape(step, carry, one)
    C = blocks["key"].shape[0]
    return {
        name: jnp.zeros((C, *x.shape), x.dtype)
        for name, x in outputs.items()
        if name not in STAYING
    }


def _whole(x, T, S):
    """Broadcasts a tensor whose last axes may be 1 to `(B or 1, N or 1, T, S)`."""
    return jnp.broadcast_to(x, (*x.shape[:2], T, S))


def _fill(x, lengths):
    """Fills axes up to these lengths with zeros."""
    x = jnp.asarray(x)
    missing = [(0, lengths.get(axis, n) - n) for axis, n in enumerate(x.shape)]
    return jnp.pad(x, missing)


def _first(P):
    """Returns the first P devices."""
    devices = jax.devices()
    if len(devices) < P:
        raise ValueError(
            f"devices must be at most {len(devices)}, the number of devices that JAX "
            f"finds, received devices={P}. Set `layer.devices = {len(devices)}`, or "
            "give a CPU virtual ones: start Python with the environment variable "
            f"XLA_FLAGS=--xla_force_host_platform_device_count={P}"
        )
    return devices[:P]
