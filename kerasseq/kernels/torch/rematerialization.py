"""Recomputation in the backward pass on PyTorch, by `torch.utils.checkpoint`."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import checkpoint

from kerasseq.core.types import Tensor

PRODUCTS = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default]


def rematerialized(function: Callable, mode: str) -> Callable:
    """Returns a function of two lists of tensors whose backward pass keeps less.

    `mode` is "full" to keep its arguments alone, "activations" for products as well.
    """
    options: dict[str, Any] = {}
    if mode == "activations":
        options["context_fn"] = functools.partial(
            checkpoint.create_selective_checkpoint_contexts, PRODUCTS
        )

    def call(inputs: list[Tensor], weights: list[Tensor]) -> Any:
        # To stop early is an exception, of which Keras would describe each argument.
        with checkpoint.set_checkpoint_early_stop(False):
            return checkpoint.checkpoint(
                function,
                inputs,
                weights,
                use_reentrant=False,
                preserve_rng_state=True,  # of dropout without a seed
                **options,
            )

    return call
