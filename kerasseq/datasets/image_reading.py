"""Reads image files of any format, mode and size as arrays. Needs pillow."""

import os
import pathlib
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from kerasseq.core import packages
from kerasseq.core.checks import one_of, short, whole_number
from kerasseq.core.files import as_path, regular

MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # of pillow, by the number of channels
RESIZE = ("crop", "pad", "stretch")
DEEP = ("I", "I;16", "I;16L", "I;16B", "I;16N", "F")  # modes of more than 8 bits
WHITE_OF_16_BITS = 65535  # 2 ** 16 - 1
FIRST = 3  # damaged files that a message names


def read_image(
    file: str | os.PathLike[str],
    size: tuple[int, int] | None = None,
    *,
    channels: int = 3,
    resize: str = "crop",
) -> np.ndarray:
    """Reads an image file.

    The image is rotated as its EXIF data say. Transparent pixels are drawn on white,
    unless there are 4 channels. Gray images of 16 bits are scaled to 8 bits, with
    65,535 as white, and gray values of floating point from 0 to 1. Of an animation the
    first image is read.

    Args:
        file: The file, of any format that pillow reads.
        size: Height and width of the result; those of the image if None.
        channels: 1 for gray, 3 for color, 4 for color and transparency. The image is
            converted if necessary.
        resize: How an image of another aspect ratio gets the size: "crop" scales it
            until it covers the size and cuts off what is beyond, evenly on both sides;
            "pad" scales it until it fits, with black beside it; "stretch" changes the
            aspect ratio. All interpolate linearly, with antialiasing.

    Returns:
        uint8 of shape `(height, width, channels)`.

    Raises:
        FileNotFoundError: If there is no such file.
        ImportError: If pillow is not installed.
        TypeError: If `file` is not a path.
        ValueError: If the file is not an image, or is damaged; or if an argument has a
            wrong value.

    Examples:
        >>> import tempfile
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "wide.png")
        ...     Image.new("RGB", (40, 20), "white").save(file)
        ...     read_image(file).shape
        ...     padded = read_image(file, (4, 4), channels=1, resize="pad")
        (20, 40, 3)
        >>> padded[..., 0].tolist()
        [[0, 0, 0, 0], [255, 255, 255, 255], [255, 255, 255, 255], [0, 0, 0, 0]]
    """
    pillow = load_pillow()
    path = as_path("file", file)
    one_of("channels", channels, MODES)
    one_of("resize", resize, RESIZE)
    if size is not None:
        is_list = isinstance(size, list | tuple) or np.ndim(size) == 1
        if not is_list or len(size) != 2:
            raise TypeError(
                f"size must be a pair (height, width), received {short(size)}."
            )
        size = tuple(whole_number("size", side) for side in size)
    path = regular(path)
    try:
        with pillow.Image.open(path) as image:
            if size is not None:  # of a large JPEG a smaller one is decoded
                image.draft(None, (2 * max(size), 2 * max(size)))
            image = pillow.ImageOps.exif_transpose(image)
            return convert(image, size, channels, resize)
    except MemoryError:
        raise
    except Exception as error:  # the decoders of pillow raise errors of many kinds
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the file system, with the name of the file
        raise not_an_image(path, error) from error


def convert(
    image: Any, size: tuple[int, int] | None, channels: int, resize: str
) -> np.ndarray:
    """Converts an image as `read_image` does.

    Args:
        image: An image of pillow.
        size: As for `read_image`.
        channels: As for `read_image`.
        resize: As for `read_image`.
    """
    pillow = load_pillow()
    image = _converted(pillow, image, MODES[channels])
    if size is not None and image.size != size[::-1]:
        image = _resized(pillow, image, size[::-1], resize)  # width first
    array = np.asarray(image)
    return array[..., None] if channels == 1 else array


def image_header(file: str | os.PathLike[str]) -> tuple[tuple[int, int], bool]:
    """Reads size and kind of an image without decoding its pixels.

    Args:
        file: The file.

    Returns:
        Height and width as they are in the file, and whether the image is gray.

    Raises:
        ValueError: If the file is not an image.
    """
    pillow, path = load_pillow(), regular(pathlib.Path(file))
    try:
        with pillow.Image.open(path) as image:
            width, height = image.size
            return (height, width), image.mode in ("1", "L", "LA", "La", *DEEP)
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise not_an_image(path, error) from error


def check_image(file: str | os.PathLike[str]) -> tuple[tuple[int, int], bool]:
    """Reads size and kind of an image, and decodes it, so that damage is found.

    Args:
        file: The file.

    Returns:
        As `image_header`.

    Raises:
        ValueError: If the file is not an image, or is damaged.
    """
    header = image_header(file)
    read_image(file, (1, 1), channels=1)  # of a large JPEG a smaller one is decoded
    return header


def readable_rows(files: Sequence[str]) -> list[int]:
    """Returns the indices of the files that are images, and warns of the others.

    Args:
        files: The files; each is opened and decoded.

    Raises:
        ValueError: If none is an image.
    """
    rows, errors = [], []
    for row, file in enumerate(files):
        try:
            check_image(file)
            rows.append(row)
        except ValueError as error:
            errors.append(str(error))
    shown = "; ".join(errors[:FIRST]) + "; …" * (len(errors) > FIRST)
    what = f"{len(errors):,} of {len(files):,} images cannot be read"
    if errors and not rows:
        raise ValueError(f"{what}, and none is left: {shown}")
    if errors:
        warnings.warn(f"{what} and are left out: {shown}", stacklevel=4)
    return rows


def not_an_image(path: pathlib.Path, error: Exception) -> ValueError:
    """Returns the error for a file that pillow cannot read."""
    if type(error).__name__ == "UnidentifiedImageError":
        reason = "it is not an image of a format that pillow reads"
    else:
        reason = str(error) or type(error).__name__
    return ValueError(
        f"{path} cannot be read as an image: {reason}. Replace or delete the file"
    )


def load_pillow() -> Any:
    """Returns the package of pillow.

    Raises:
        ImportError: If it is not installed.
    """
    need = "images are read and written by"
    packages.load("PIL.ImageOps", "pillow", need)  # also imports PIL.Image
    return packages.load("PIL", "pillow", need)


def _converted(pillow: Any, image: Any, mode: str) -> Any:
    """Returns an image of 8 bits in a mode, without transparency unless it has any."""
    if image.mode in DEEP:
        image = _with_8_bits(pillow, image)
    if mode != "RGBA" and image.has_transparency_data:
        image = image.convert("RGBA")
        white = pillow.Image.new("RGBA", image.size, "white")
        image = pillow.Image.alpha_composite(white, image)
    return image.convert(mode)


def _with_8_bits(pillow: Any, image: Any) -> Any:
    """Scales gray values of 16 bits, or of floating point, to 0 to 255."""
    white = 1 if image.mode == "F" else WHITE_OF_16_BITS
    values = np.asarray(image).astype("float64")
    if not (values.min() >= 0 and values.max() <= white):  # also for NaN
        raise ValueError(
            f"expected gray values from 0 to {white:,}, received {values.min():g} to "
            f"{values.max():g}"
        )
    return pillow.Image.fromarray(np.rint(values * (255 / white)).astype("uint8"))


def _resized(pillow: Any, image: Any, size: tuple[int, int], resize: str) -> Any:
    linear = pillow.Image.Resampling.BILINEAR
    if resize == "crop":
        return pillow.ImageOps.fit(image, size, linear)
    if resize == "pad":
        return pillow.ImageOps.pad(image, size, linear)
    return image.resize(size, linear)
