"""The images of `kerasseq train images`: listed and checked, but not held in memory."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kerasseq.cli import options, text_tables
from kerasseq.cli.console import note, status
from kerasseq.cli.errors import UsageError
from kerasseq.core.files import sha256, sha256_of
from kerasseq.datasets import digits, image_files, image_folder, image_reading
from kerasseq.datasets.image_folder import LabeledImages

DATA = ("digits",)
LARGEST_SIZE = 64  # of the images, if --image-size is not given
PATCHES = 8  # in a row, about, if --patch-size is not given
SHOWN_ERRORS = 3  # damaged files that a message names
PART = 1024  # images that are processed between two messages
KEY_BYTES = 2**16  # of the begin and of the end of a file, by which it is known


class Pictures(NamedTuple):
    """Images with labels, and where they come from.

    Attributes:
        images: Paths of files; or an array `(images, height, width)`.
        labels: The label of each.
        names: The name of each, for messages.
        data: Source and checksum.
    """

    images: Any
    labels: list[str]
    names: list[str]
    data: dict[str, Any]

    def take(self, rows: Sequence[int]) -> tuple[Any, list[str]]:
        """Returns some of the images, and their labels."""
        files = isinstance(self.images, list)
        images = [self.images[n] for n in rows] if files else self.images[rows]
        return images, [self.labels[n] for n in rows]


def read(settings: options.Settings) -> Pictures:
    """Lists the images, and completes the settings that depend on them."""
    if settings.file is None:
        settings.data = settings.data or DATA[0]
        complete(settings, [(8, 8)], is_gray=True)
        return _digits(settings)
    settings.file = os.path.abspath(settings.file)  # to resume from any folder
    images, headers = listed(settings.file, settings.missing)
    if len(images.names) < 2:
        raise ValueError(
            f"{settings.file} must have at least two subfolders with images, to tell "
            f"them apart, received {images.names[0]!r} alone"
        )
    complete(settings, [size for size, _ in headers], all(gray for _, gray in headers))
    return _with_checksum(images, settings.file)


def _digits(settings):
    arrays, labels = digits.digit_arrays()
    pillow, size = image_reading.load_pillow(), (settings.image_size,) * 2
    images = np.stack(
        [
            image_reading.convert(
                pillow.Image.fromarray(array), size, settings.channels, settings.resize
            )
            for array in arrays
        ]
    )
    names = [f"digit {n}" for n in range(len(images))]
    data = {"source": DATA[0], "rows": len(images)}
    data["sha256"] = sha256(images.tobytes() + bytes(labels.tolist()))
    return Pictures(images, [str(label) for label in labels], names, data)


def _with_checksum(images, folder):
    """Adds a checksum of names and sizes of the files, not of their content."""
    names = [os.path.relpath(file, folder) for file in images.files]
    lines = [
        f"{name}\t{os.path.getsize(file)}"
        for name, file in zip(names, images.files, strict=True)
    ]
    source = os.path.basename(folder) or folder
    data = {"source": source, "rows": len(lines), "sha256": sha256_of(lines)}
    return Pictures(images.files, images.labels, names, data)


def check_unchanged(pictures: Pictures, settings: options.Settings) -> None:
    """Raises if files have vanished or changed, or new ones have appeared."""
    if settings.file is None:
        return
    now = image_folder(settings.file)
    if settings.missing == text_tables.SKIP:  # damaged files are not part of the data
        now, _ = listed(settings.file, settings.missing)
    now = _with_checksum(now, settings.file)
    if now.data["sha256"] != pictures.data["sha256"]:
        others = sorted(set(now.names) ^ set(pictures.names))
        which = f": {others[0]}" if others else ""
        raise ValueError(
            f"{settings.file} has changed during the training{which}, so that results "
            "could not be repeated. Restore the old data and resume the run, or start "
            "another one"
        )


def parts(files: Sequence[str]) -> Iterator[tuple[Sequence[str], str]]:
    """Yields some files at a time, with words about how many are done."""
    for start in range(0, len(files), PART):
        part = files[start : start + PART]
        yield part, f"{start + 1:,} to {start + len(part):,} of {len(files):,}"


def keys(images: Any) -> list[bytes]:
    """Returns what tells equal images: checksums of pixels, or of parts of a file.

    Args:
        images: Files or arrays, of pictures or sounds.
    """
    if not isinstance(images, list) or not isinstance(images[0], str):
        return [hashlib.sha256(each.tobytes()).digest() for each in images]
    with status("comparing the files", len(images)):
        return [_key(file) for file in images]


def _key(file):
    """Returns the checksum of a file: of its size, its first and its last bytes."""
    size = os.path.getsize(file)
    digest = hashlib.sha256(str(size).encode())
    with open(file, "rb") as stream:
        digest.update(stream.read(KEY_BYTES))
        stream.seek(max(stream.tell(), size - KEY_BYTES))
        digest.update(stream.read(KEY_BYTES))
    return digest.digest()


def listed(
    folder: str, missing: str | None
) -> tuple[LabeledImages, list[tuple[tuple[int, int], bool]]]:
    """Lists the images in a folder of classes, and opens each.

    Args:
        folder: The folder.
        missing: "skip" leaves out damaged files, and notes how many they are.

    Returns:
        The images that can be read, and size and kind of each.

    Raises:
        ValueError: If files are damaged, unless they are skipped.
    """
    with status(f"listing the images in {folder}"):
        every = image_folder(folder)
    read_headers = headers(every.files, missing)
    rows = [n for n, header in enumerate(read_headers) if header is not None]
    images = LabeledImages(*([part[n] for n in rows] for part in every))
    return images, [read_headers[n] for n in rows]


def headers(
    images: Sequence[str], missing: str | None
) -> list[tuple[tuple[int, int], bool] | None]:
    """Opens images, and returns size and kind of each.

    Args:
        images: The files.
        missing: "skip" leaves out damaged files, and notes how many they are.

    Returns:
        As `check_image`; None for a damaged image that is left out.

    Raises:
        ValueError: If files are damaged, unless they are skipped.
    """
    read_headers: list[tuple[tuple[int, int], bool] | None] = []
    errors: list[str] = []
    for files, which in parts(images):
        with status(f"opening images {which}"):
            for file in files:
                try:
                    header = image_reading.check_image(file)
                except ValueError as error:
                    header = None
                    errors.append(str(error))
                read_headers.append(header)
    if errors:
        _report(errors, len(images), missing)
    return read_headers


def _report(errors, count, missing):
    """Raises an error for damaged images, or notes that they are left out."""
    shown = "; ".join(errors[:SHOWN_ERRORS])
    if missing != text_tables.SKIP or len(errors) == count:
        if len(errors) == 1:
            advice = "" if count == 1 else ", or leave it out by --missing skip"
            raise ValueError(f"{shown}{advice}")
        raise ValueError(
            f"{len(errors):,} of {count:,} images cannot be read: {shown}. Replace or "
            "delete them, or leave them out by --missing skip"
        )
    note(f"{len(errors):,} of {count:,} images cannot be read: left out: {shown}")


def example(record: dict[str, Any] | None, file: str | None) -> Any:
    """Returns an image to inspect: a file, or the first image of the training.

    Args:
        record: The record of the run, or None.
        file: The file that the user named, or None.

    Raises:
        UsageError: If there is no file, and nothing is known of the training.
    """
    if file is not None:
        image_reading.image_header(file)
        return file
    if record is None or record["task"] != "images":
        raise UsageError("expected an image: name one with --file")
    settings = options.Settings(**record["arguments"])
    folder = settings.file
    return _digits(settings).images[0] if folder is None else files(folder)[0]


def complete(
    settings: options.Settings, sizes: Sequence[tuple[int, int]], is_gray: bool
) -> None:
    """Chooses sizes and channels that are not given.

    Args:
        settings: The settings, which are changed.
        sizes: Height and width of each image.
        is_gray: Whether all images are gray.

    Raises:
        UsageError: If the patch size does not divide the image size, or images cannot
            have so many channels.
    """
    if settings.image_size is None:
        side = float(np.median(np.min(sizes, axis=1)))
        settings.image_size = int(np.clip(side // PATCHES * PATCHES, 8, LARGEST_SIZE))
    if settings.patch_size is None:
        settings.patch_size = patch_size(settings.image_size)
    if settings.channels is None:
        settings.channels = 1 if is_gray else 3
    if settings.image_size % settings.patch_size:
        raise UsageError(
            f"--patch-size must divide --image-size {settings.image_size}, received "
            f"{settings.patch_size}. Try {patch_size(settings.image_size)}"
        )
    if settings.channels not in image_reading.MODES:
        raise UsageError(f"--channels must be 1, 3 or 4, received {settings.channels}")


def patch_size(size: int) -> int:
    """Chooses the divisor of the image size that gives about 8 × 8 patches.

    Examples:
        >>> patch_size(8), patch_size(28), patch_size(64)
        (2, 4, 8)
    """
    divisors = [n for n in range(2, size + 1) if size % n == 0] or [1]
    return min(divisors, key=lambda n: (abs(n - size / PATCHES), -n))


def files(path: str, missing: str | None = None) -> list[str]:
    """Returns the images in a folder; a single file as a list.

    Args:
        path: The folder or file.
        missing: "skip" leaves out damaged files of a folder, and notes how many.

    Raises:
        FileNotFoundError: If there is no such file or folder.
        ValueError: If there is no image in the folder, or one is damaged.
    """
    if not os.path.isdir(path):
        image_reading.image_header(path)  # before the model is loaded
        return [path]
    with status(f"listing the images in {path}"):
        paths = image_files(path)
    read_headers = headers(paths, missing)
    return [file for file, each in zip(paths, read_headers, strict=True) if each]


def printable(name: str) -> str:
    r"""Returns the name of a file as text that can be written to any file.

    Examples:
        >>> printable("a\udce9.png")
        'a\\udce9.png'
    """
    return name.encode("utf-8", "backslashreplace").decode()
