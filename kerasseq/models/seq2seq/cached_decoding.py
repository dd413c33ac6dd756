"""Decoding with caches: what runs once, before the first token."""

import functools
from collections.abc import Callable
from typing import Any

import keras

from kerasseq import kernels
from kerasseq.core.method_layer import MethodLayer


def compiled_method(
    model: keras.Model, method: str, *, casts: bool = True, **options: Any
) -> Callable[..., Any]:
    """Returns a method of a model that computes with its layers, compiled.

    Args:
        model: The model, which keeps the program.
        method: The name of the method.
        casts: Whether floating arguments are cast to the compute dtype.
        **options: Arguments by name, of which each value has a program of its own.
    """
    programs = kernels.programs(model)

    def make():
        function = MethodLayer(model, method, casts=casts)
        function = functools.partial(function, **options)
        return kernels.compiled(function, pure=programs.pure)

    return programs.get(method, tuple(options.items()), make)


def check_positions(length: int, limit: int | None, argument: str) -> None:
    """Raises if a target has more tokens than a decoder has positions.

    Args:
        length: The most tokens.
        limit: The number of positions, or None.
        argument: The argument of the model that sets it.

    Raises:
        ValueError: If the model has fewer positions.
    """
    if limit is not None and length > limit:
        raise ValueError(
            f"max_length must be at most {limit}, the positions of the model, received "
            f"{length}. Build it with a larger {argument}"
        )
