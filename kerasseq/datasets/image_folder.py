"""Folders of images: the files are listed here, and read when they are needed."""

import os
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

from kerasseq.core.checks import fraction, one_of, whole_number
from kerasseq.datasets.files import existing_folder
from kerasseq.datasets.image_reading import readable_rows
from kerasseq.datasets.splitting import split_by_class

SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".jfif", ".webp", ".gif", ".bmp", ".tif", ".tiff"),
    *(".avif", ".jp2", ".ppm", ".pgm", ".pbm", ".pnm", ".tga", ".ico"),
)
PARTS = {"train", "training", "test", "testing", "val", "valid", "validation", "dev"}


class LabeledImages(NamedTuple):
    """Files of images and their classes.

    Attributes:
        files: Paths.
        labels: The class of each file, by name.
    """

    files: list[str]
    labels: list[str]

    @property
    def names(self) -> list[str]:
        """The different classes, sorted."""
        return sorted(set(self.labels))

    def split(
        self, test: float = 0.2, seed: int = 0
    ) -> tuple["LabeledImages", "LabeledImages"]:
        """Splits the images into training set and test set, class by class.

        Args:
            test: Share of each class in the test set; a class with a single image is
                in the training set.
            seed: Random seed.

        Returns:
            Training set and test set.

        Raises:
            ValueError: If no class has two images.
        """
        fraction("test", test)
        seed = whole_number("seed", seed, 0)
        parts = split_by_class(self.labels, test, seed)
        if not len(parts[1]):
            raise ValueError(
                "a split needs a class with two images, received one of each class"
            )
        training, held_out = (
            LabeledImages([self.files[n] for n in part], [self.labels[n] for n in part])
            for part in parts
        )
        return training, held_out


def image_folder(
    path: str | os.PathLike[str], *, missing: str = "error"
) -> LabeledImages:
    """Lists the images in a folder with one subfolder for each class.

    The name of a subfolder is the class of all images in it, at any depth. Files that
    are not named as images, and hidden ones, are ignored.

    Args:
        path: The folder, such as one with `cat/1.png` and `dog/2.jpg`.
        missing: What is done with damaged files: "error", the default, opens no image,
            and a damaged one is an error when it is read; "skip" opens them all, leaves
            out the damaged ones and warns with their number.

    Returns:
        The files in the order of their names, class by class.

    Raises:
        FileNotFoundError: If there is no such folder.
        NotADirectoryError: If it is a file.
        ValueError: If there are images outside the subfolders, no subfolders, or one
            without images; if the subfolders are parts of a data set; or if all files
            are damaged.

    Examples:
        >>> import tempfile
        >>> from kerasseq.datasets import digits_folder
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     images = image_folder(digits_folder(f"{folder}/digits", count=30))
        >>> len(images.files), images.names[:3], images.labels[:3]
        (30, ['0', '1', '2'], ['0', '0', '0'])
        >>> training, test = images.split(0.2)
        >>> len(training.files), len(test.files)
        (20, 10)
    """
    one_of("missing", missing, ("error", "skip"))
    folder = existing_folder(path, "images")
    entries = sorted(
        entry for entry in folder.iterdir() if not entry.name.startswith(".")
    )
    classes = [entry for entry in entries if entry.is_dir()]
    loose = [
        entry for entry in entries if is_image_name(entry.name) and entry.is_file()
    ]
    if loose:
        raise ValueError(
            f"{folder} must have a subfolder for each class, with all images, received "
            f"the image {loose[0].name} beside them. Move it to the subfolder of its "
            "class"
        )
    if not classes:
        raise ValueError(
            f"{folder} must have a subfolder for each class, with the images of the "
            "class, received a folder without subfolders"
        )
    if {entry.name.lower() for entry in classes} <= PARTS:
        raise ValueError(
            f"{folder} must have a subfolder for each class, received the parts of a "
            f"data set: {', '.join(entry.name for entry in classes)}. Choose one of "
            f"them, such as {classes[0]}"
        )
    files, labels = [], []
    for entry in classes:
        of_class = list(_walk(entry))
        if not of_class:
            raise ValueError(
                f"{entry} has no images: a subfolder must have those of its class. Put "
                "them there, or delete the subfolder"
            )
        files += of_class
        labels += [entry.name] * len(of_class)
    if missing == "skip":
        rows = readable_rows(files)
        files, labels = ([part[row] for row in rows] for part in (files, labels))
    return LabeledImages(files, labels)


def image_files(path: str | os.PathLike[str]) -> list[str]:
    """Lists the images in a folder and its subfolders, in the order of their names.

    Args:
        path: The folder. Files that are not named as images, and hidden ones, are
            ignored.

    Raises:
        FileNotFoundError: If there is no such folder.
        NotADirectoryError: If it is a file.
        ValueError: If there is no image in it.
    """
    folder = existing_folder(path, "images")
    files = list(_walk(folder))
    if not files:
        raise ValueError(
            f"{folder} has no images, that is, files such as a.png or b.jpg"
        )
    return files


def is_image_name(name: str) -> bool:
    """Returns whether a file has the name of an image.

    Examples:
        >>> [is_image_name(name) for name in ("Cat.JPG", "Thumbs.db", ".a.png")]
        [True, False, False]
    """
    return not name.startswith(".") and name.lower().endswith(SUFFIXES)


def _walk(folder: pathlib.Path) -> Iterator[str]:
    """Yields the images in a folder and its subfolders in the order of their names."""
    for place, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if is_image_name(name):
                yield os.path.join(place, name)


def _raise(error: OSError) -> None:
    raise error
