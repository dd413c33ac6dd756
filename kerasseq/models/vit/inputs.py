"""What users pass as images: arrays, files, or a folder with a subfolder per class."""

import os
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from kerasseq.core import checks
from kerasseq.datasets.image_folder import LabeledImages, image_files, image_folder


def is_path(x: object) -> bool:
    """Returns whether this is the path of a file or a folder.

    Examples:
        >>> is_path("cat.png"), is_path(np.zeros((2, 2)))
        (True, False)
    """
    return isinstance(x, str | os.PathLike)


def is_picture(x: Any) -> bool:
    """Returns whether this is an image of pillow, as Hugging Face data sets have them.

    Examples:
        >>> from PIL import Image
        >>> is_picture(Image.new("L", (2, 3))), is_picture("cat.png")
        (True, False)
    """
    return hasattr(x, "getexif") and hasattr(x, "convert")


def is_readable(x: Any) -> bool:
    """Returns whether this is a file or an image of pillow."""
    return is_path(x) or is_picture(x)


def files_of(x: Any) -> list[str] | None:
    """Returns paths as strings; None if the values are something else.

    Args:
        x: A list, an array or a column of a table.

    Examples:
        >>> files_of(["a.png", "b.png"]), files_of([[0, 1]])
        (['a.png', 'b.png'], None)
    """
    is_column = hasattr(x, "dtype") and getattr(x, "ndim", 0) == 1
    if not (isinstance(x, list | tuple) or is_column) or not len(x):
        return None
    values = x.tolist() if hasattr(x, "tolist") else list(x)
    if not is_path(values[0]):
        return None
    for row, value in enumerate(values):
        if not is_path(value):
            raise TypeError(
                f"images must be paths of files, as the first one is, received "
                f"images[{row}]={checks.short(value)}"
            )
    return [os.fspath(value) for value in values]


def labeled(x: Any, y: Any) -> tuple[Any, Any]:
    """Returns images and labels; of a folder, files and the names of the subfolders.

    Args:
        x: Images, the path of a folder, or `LabeledImages`.
        y: Labels; None for a folder and for `LabeledImages`.

    Raises:
        ValueError: If there are labels twice.
    """
    if not is_labeled(x):
        return x, y
    if y is not None:
        what = f"the folder {os.fspath(x)}" if is_path(x) else "a folder"
        raise ValueError(
            f"labels must be None for {what}, whose subfolders are the labels, "
            f"received {checks.short(y)}. For labels of your own pass a list of files"
        )
    return image_folder(x) if is_path(x) else x


def is_labeled(x: object) -> bool:
    """Returns whether these are labeled images: a folder's path, or its files."""
    return is_path(x) or isinstance(x, LabeledImages)


def unlabeled(x: Any) -> Any:
    """Returns the files of a folder; a single file as a list; others as they are."""
    if isinstance(x, LabeledImages):
        return x.files
    if not is_path(x):
        return x
    return image_files(x) if os.path.isdir(x) else [os.fspath(x)]


def is_one_image(x: Any, channels: int, channels_last: bool) -> bool:
    """Returns whether this is a single image, a file or an array without batch axis.

    Gray images `(B, H, W)` need no axis of channels, so that `(1, H, W)` is a batch.

    Examples:
        >>> is_one_image("cat.png", 3, True), is_one_image(np.zeros((5, 4, 3)), 3, True)
        (True, True)
        >>> is_one_image(np.zeros((5, 4, 4)), 1, True)
        False
    """
    if is_readable(x):
        return is_picture(x) or not os.path.isdir(x)
    shape = np.shape(x) if hasattr(x, "dtype") else ()  # not that of a table
    if len(shape) == 2:
        return channels == 1
    if len(shape) != 3:
        return False
    return shape[-1] == channels if channels_last else shape[0] == channels > 1


def as_array(x: Any) -> Any:
    """Returns tensors as NumPy arrays, and others as they are."""
    return keras.ops.convert_to_numpy(x) if keras.ops.is_tensor(x) else x


def check_rows(name: str, values: Sequence[Any], rows: int) -> None:
    """Raises unless there is a value for each row."""
    if len(values) != rows:
        raise ValueError(
            f"{name} must have one entry for each of {rows} images, received "
            f"{len(values)}"
        )
