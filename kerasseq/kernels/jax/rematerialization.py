"""Recomputation in the backward pass on JAX, by `jax.checkpoint`.

XLA drops the barriers of `jax.checkpoint` on a CPU, finds that the same is computed
twice, and keeps the first result. Here what is computed again depends on the gradient
of the outputs, which is not known before.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
from jax import numpy as jnp

from kerasseq.core.types import Tensor

POLICIES = {
    "full": None,
    "activations": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
}


def rematerialized(function: Callable, mode: str) -> Callable:
    """Returns a function of two lists of tensors whose backward pass keeps less.

    `mode` is "full" to keep its arguments alone, "activations" for products as well.
    """
    once = jax.checkpoint(function, policy=POLICIES[mode])

    @jax.custom_vjp
    def call(inputs: list[Tensor], weights: list[Tensor]) -> Any:
        return function(inputs, weights)

    def forward(inputs: list[Tensor], weights: list[Tensor]) -> Any:
        outputs, pull_back, others = jax.vjp(once, inputs, weights, has_aux=True)
        kept, structure = jax.tree.flatten(pull_back)
        known = {id(w) for w in weights}  # which depend on nothing, and are large
        waits = [
            id(x) not in known and jnp.issubdtype(x.dtype, jnp.floating) for x in kept
        ]
        return (outputs, others), (kept, _Static(structure, tuple(waits)))

    def backward(saved: Any, upstream: Any) -> Any:
        kept, static = saved
        upstream, _ = upstream
        zero = jnp.minimum(jnp.abs(upstream[0].ravel()[:1]), 0).sum()
        kept = [
            x + zero.astype(x.dtype) if waits else x
            for x, waits in zip(kept, static.waits, strict=True)
        ]
        return jax.tree.unflatten(static.structure, kept)(upstream)

    call.defvjp(forward, backward)

    def run(inputs: list[Tensor], weights: list[Tensor]) -> Any:
        outputs, others = call(inputs, weights)
        return outputs, [jax.lax.stop_gradient(x) for x in others]

    return run


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class _Static:
    structure: Any
    waits: tuple[bool, ...]  # for the gradient of the outputs
