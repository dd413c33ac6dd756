"""Sources that are features, such as pictures, and attention maps over pictures."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kerasseq.core.types import Shape
from kerasseq.datasets.image_reading import convert, read_image
from kerasseq.models.vit import inputs
from kerasseq.tasks.input_rows import check_finite

PICTURE = 4  # axes of a batch of pictures


def read_features(sources: Any, shape: Shape) -> np.ndarray:
    """Returns features as one float32 array; files of pictures are read.

    Args:
        sources: An array or a list of arrays; for pictures also files, or images of
            pillow, which are resized and cut off beyond the size.
        shape: Of the input of the encoder, with the batch first; None for any size.

    Raises:
        TypeError: If a row is not an array.
        ValueError: If a row has the wrong shape, or values that are not finite.

    Examples:
        >>> read_features([[[0], [3]]], (None, 2, 1)).shape
        (1, 2, 1)
        >>> read_features(np.zeros((2, 5, 4, 4), "uint8"), (None, 5, 4, 3))
        Traceback (most recent call last):
        ...
        ValueError: sources[0] must be a picture (height, width, channels) of shape \
(5, 4, 3), received shape (5, 4, 4). Convert its colors, or build the encoder for 4 \
channels
    """
    if len(shape) == PICTURE and not hasattr(sources, "ndim"):
        sources = [
            _read(row, source, shape[1:]) if inputs.is_readable(source) else source
            for row, source in enumerate(sources)
        ]
    rows = sources if isinstance(sources, list | tuple) else sources[:1]
    for row, source in enumerate(rows):
        check_row(row, source, shape[1:])
        if np.ndim(source) != len(shape) - 1:
            raise ValueError(
                f"sources must be one array of numbers of shape {shape}, received "
                f"shape {(len(sources), *np.shape(source))}"
            )
    features = np.asarray(sources)
    if not len(features):
        sizes = [size or 1 for size in shape[1:]]
        return np.zeros((0, *sizes), "float32")
    if features.dtype.kind not in "biuf":
        raise TypeError(f"sources must be numbers, received {features.dtype}")
    return check_finite("sources", features.astype("float32"))


def check_row(row: int, source: Any, shape: Shape) -> None:
    """Raises if a source is text, or has other sizes than the input of the encoder."""
    if isinstance(source, str):
        raise TypeError(
            f"sources[{row}] must be an array of shape {shape}, received {source!r}"
        )
    sizes = np.shape(source)
    if len(sizes) != len(shape) or fits(sizes, shape):
        return
    what, advice = f"an array of shape {shape}", ""
    if len(shape) == PICTURE - 1:
        what = f"a picture (height, width, channels) of shape {shape}"
        advice = ". Resize it, or pass its file, which is resized"
        if sizes[-1] != shape[-1]:
            advice = (
                f". Convert its colors, or build the encoder for {sizes[-1]} channels"
            )
    raise ValueError(f"sources[{row}] must be {what}, received shape {sizes}{advice}")


def is_one(source: Any, shape: Shape) -> bool:
    """Returns whether this is one source; shape as for `read_features`."""
    if len(shape) == PICTURE and inputs.is_readable(source):
        return True
    return fits(getattr(source, "shape", ()), shape[1:])


def fits(given: Shape, shape: Shape) -> bool:
    """Returns whether a source has the shape of the input of the encoder.

    Examples:
        >>> fits((5, 4, 3), (None, None, 3)), fits((5, 4), (5, 4, 3))
        (True, False)
    """
    sizes = zip(given, shape, strict=False)
    return len(given) == len(shape) and all(b in (None, a) for a, b in sizes)


def _read(row, file, shape):
    """Reads one picture in the size of the encoder, `(H, W, C)`."""
    height, width, channels = shape
    if None in shape or channels not in (1, 3):
        raise ValueError(
            f"sources[{row}] is a file, which is read for an encoder with an input of "
            f"known size and 1 or 3 channels, received one of shape {shape}. Pass an "
            "array"
        )
    read = convert if inputs.is_picture(file) else read_image
    return read(file, (height, width), channels=channels, resize="crop")


def as_maps(
    alignment: np.ndarray | None, shape: Sequence[int] | None
) -> np.ndarray | None:
    """Returns attention weights `(T, S)` as maps; None without them or a feature map.

    Args:
        alignment: Attention weights, `(T, S)`, or None.
        shape: Rows and columns of the feature map, or None.

    Examples:
        >>> as_maps(np.eye(6), (2, 3)).shape
        (6, 2, 3)
    """
    if alignment is None or shape is None:
        return None
    return alignment.reshape(len(alignment), *shape)
