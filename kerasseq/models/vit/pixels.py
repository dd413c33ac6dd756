"""Scales pixels of any type and range to -1 to 1."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq.core.types import Tensor
from kerasseq.models.vit import sizes
from kerasseq.tasks.input_rows import check_finite

BYTES, FRACTIONS = (0, 255), (0, 1)  # black and white of integers, and of floats


def check_range(value_range: Sequence[float] | None) -> tuple[float, float] | None:
    """Returns the range as a pair of floats, or None.

    Examples:
        >>> check_range((0, 16))
        (0.0, 16.0)
        >>> check_range(255)
        Traceback (most recent call last):
        ...
        TypeError: value_range must be a pair of numbers, received 255. Pass (0, 255), \
for example
    """
    if value_range is None:
        return None
    try:
        low, high = map(float, value_range)
    except (TypeError, ValueError):
        raise TypeError(
            f"value_range must be a pair of numbers, received {value_range!r}. Pass "
            "(0, 255), for example"
        ) from None
    if not low < high:
        raise ValueError(
            f"value_range must be increasing, received {value_range}. Pass (0, 255), "
            "for example"
        )
    return low, high


def rescaling(value_range: tuple[float, float] | None) -> keras.layers.Rescaling:
    """Creates the layer that scales black to -1 and white to 1.

    Examples:
        >>> layer = rescaling((0, 16))
        >>> keras.ops.convert_to_numpy(layer(np.array([[0.0, 12.0]]))).tolist()
        [[-1.0, 0.5]]
    """
    low, high = value_range or FRACTIONS
    scale = 2 / (high - low)
    return keras.layers.Rescaling(scale, offset=-1 - low * scale, name="pixels")


def as_fractions(x: Tensor, value_range: tuple[float, float] | None) -> Tensor:
    """Returns integers as floats from 0 to 1; unchanged if a range is given."""
    is_integer = "int" in keras.backend.standardize_dtype(x.dtype)
    if value_range is not None or not is_integer:
        return x
    return ops.cast(x, keras.config.floatx()) / BYTES[1]


def check(
    images: Any,
    *,
    value_range: tuple[float, float] | None,
    patch_size: tuple[int, int],
    channels: int,
    channels_last: bool,
) -> np.ndarray:
    """Returns images as the model takes them, with sizes and values checked.

    Args:
        images: Array of `(B, H, W, C)`, or `(B, H, W)` of one channel.
        value_range: The model's, or None.
        patch_size: The model's height and width of a patch.
        channels: The model's number of channels.
        channels_last: Whether the last axis is that of the channels.

    Raises:
        ValueError: If the shape or the channels are wrong, the patches do not divide
            the images, or values are out of range.

    Examples:
        >>> options = {"patch_size": (2, 2), "channels": 1, "channels_last": True}
        >>> check(np.ones((3, 8, 8)), value_range=None, **options).shape
        (3, 8, 8, 1)
        >>> check(np.full((3, 8, 8), 16.0), value_range=None, **options)
        Traceback (most recent call last):
        ...
        ValueError: floats in images must be from 0 to 1, received values from 16.0 \
to 16.0. Scale them, or create the model with value_range, the values of black and white
    """
    images = np.asarray(images)
    axis = 3 if channels_last else 1
    if images.ndim == 3 and channels == 1:
        images = np.expand_dims(images, axis)
    if images.ndim != 4 or images.shape[axis] != channels:
        wanted = (
            "height, width, channels" if channels_last else "channels, height, width"
        )
        raise ValueError(
            f"images must have shape (batch, {wanted}) with channels={channels}, "
            f"received shape {images.shape}. "
            f"{_remedy(images.shape, channels, axis - 4)}"
        )
    if images.dtype.kind not in "biuf" and "float" not in images.dtype.name:
        raise TypeError(f"images must be numbers, received an array {images.dtype}")
    size = images.shape[1:3] if channels_last else images.shape[2:]
    sizes.grid(size, patch_size)
    check_finite("images", images)
    if value_range is None and images.size:
        _check_values(images)
    return images


def _remedy(shape, channels, axis):
    """Returns what to do about images of a wrong shape; axis: -1 or -3."""
    other = -4 - axis
    if len(shape) in (3, 4) and shape[other] == channels != shape[axis]:
        return f"Move the channels: np.moveaxis(images, {other}, {axis})"
    if len(shape) == 3 and shape[axis] == channels:
        return "One image is images[None]"
    if len(shape) == 4 and (shape[axis], channels) == (4, 3):
        return "Leave out the fourth channel, the transparency"
    return "Reshape them"


def _check_values(images):
    integers = np.issubdtype(images.dtype, np.integer)
    low, high = BYTES if integers else FRACTIONS
    least, most = images.min(), images.max()
    if least < low or most > high:
        raise ValueError(
            f"{'integers' if integers else 'floats'} in images must be from {low} to "
            f"{high}, received values from {least} to {most}. Scale them, or create "
            "the model with value_range, the values of black and white"
        )
