"""Handwritten digits as a folder of images, one folder per class.

The digits are 1,797 gray images of 8 x 8 pixels, by Alpaydin and Kaynak (1998). They
are included in scikit-learn, and written by pillow.
"""

import os
import pathlib
import shutil

import numpy as np

from kerasseq.core import packages
from kerasseq.core.checks import optional, whole_number
from kerasseq.core.files import as_path, temporary_path
from kerasseq.datasets.image_reading import load_pillow

HIGHEST = 16  # gray values of the data set are 0 to 16


def digits_folder(
    path: str | os.PathLike[str], *, count: int | None = None
) -> pathlib.Path:
    """Writes handwritten digits as PNG files: the digit 7 into the folder `7`.

    Nothing is overwritten. The images are written to a temporary folder, which is
    renamed at the end, so that an interrupted call leaves no partial data set.

    Args:
        path: The folder to create.
        count: Number of images, from the first. Defaults to all 1,797.

    Returns:
        The folder. Files have names such as `7/0007.png`, with the index of the image
        in `sklearn.datasets.load_digits`.

    Raises:
        FileExistsError: If there is a file or folder at `path`.
        ImportError: If scikit-learn or pillow is not installed.
        TypeError: If `path` is not a path, or `count` not a whole number.
        ValueError: If there are fewer images than `count`.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = digits_folder(pathlib.Path(folder, "digits"), count=12)
        ...     sorted(file.name for file in written.glob("1/*.png"))
        ['0001.png', '0011.png']
    """
    path = as_path("path", path)
    count = optional(whole_number, "count", count)
    images, labels = digit_arrays()
    if count is not None and count > len(images):
        raise ValueError(
            f"`count` must be at most {len(images):,}, received {count:,}."
        )
    if os.path.lexists(path):
        raise FileExistsError(
            f"{path} exists, and nothing is overwritten. Name a new folder."
        )
    temporary = temporary_path(path)
    try:
        _write(temporary, images[:count], labels[:count])
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return path


def _write(folder: pathlib.Path, gray: np.ndarray, labels: np.ndarray) -> None:
    image_module = load_pillow().Image
    for label in range(10):
        (folder / str(label)).mkdir(parents=True)
    for i, (pixels, label) in enumerate(zip(gray, labels.tolist(), strict=True)):
        file = folder / str(label) / f"{i:04}.png"
        image_module.fromarray(pixels).save(file)


def digit_arrays() -> tuple[np.ndarray, np.ndarray]:
    """Returns the digits as arrays.

    Returns:
        Gray values, uint8 of shape `(1797, 8, 8)`, and the digits, `(1797,)`.

    Raises:
        ImportError: If scikit-learn is not installed.
    """
    sets = packages.load("sklearn.datasets", "scikit-learn", "the digits come with")
    data = sets.load_digits()
    return np.rint(data.images * (255 / HIGHEST)).astype("uint8"), data.target
