"""Errors of recurrent layers whose cell has another dtype policy."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras


@contextlib.contextmanager
def errors_of_dtypes(layer: keras.layers.RNN) -> Iterator[None]:
    """Names the dtype policies in errors of a layer whose cell has another one.

    Some of these pairs work on some backends, as casts of Keras make up for it.

    Args:
        layer: A recurrent layer.

    Raises:
        TypeError: In place of an error of the backend, if the policies differ.

    Examples:
        >>> layer = keras.layers.RNN(keras.layers.GRUCell(3), dtype="float64")
        >>> with errors_of_dtypes(layer):
        ...     raise RuntimeError("types differ")
        Traceback (most recent call last):
        ...
        TypeError: the cell must have the dtype policy of its layer, 'float64', \
received 'float32'. Pass dtype='float64' to the cell, too, or set both by \
keras.config.set_dtype_policy
    """
    try:
        yield
    except Exception as error:
        own, other = layer.dtype_policy.name, _other_policy(layer)
        if other is None:
            raise
        raise TypeError(
            f"the cell must have the dtype policy of its layer, {own!r}, received "
            f"{other!r}. Pass dtype={own!r} to the cell, too, or set both by "
            "keras.config.set_dtype_policy"
        ) from error


def _other_policy(layer: Any) -> str | None:
    """Returns the policy of the first cell that has not that of the layer, or None."""
    cells = getattr(layer.cell, "cells", [layer.cell])
    policies = [getattr(cell, "dtype_policy", None) for cell in cells]
    own = layer.dtype_policy.name
    names = [policy.name for policy in policies if policy is not None]
    return next((name for name in names if name != own), None)
