"""Batches of images, which are read from their files when they are needed.

A batch depends on the seed and its number alone, also where images are shifted or
flipped at random, so that a resumed run continues exactly.
"""

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from kerasseq.core import checks
from kerasseq.training.batches import NumberedBatches, OrderedBatches, check_rows, cut

Images: TypeAlias = np.ndarray | Sequence[str]  # pixels, or files
Read: TypeAlias = Callable[[str], np.ndarray]


class ImageReader:
    """Reads the images of a batch, and keeps the error of a file.

    TensorFlow replaces an error in the data by one of its own.
    """

    def __init__(self, images: Images, read: Read | None) -> None:
        self.images = images
        self.read = read
        self.error: Exception | None = None

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        if self.read is None:
            return self.images[rows]
        try:
            return np.stack([self.read(self.images[row]) for row in rows])
        except Exception as error:
            self.error = error
            raise

    @contextlib.contextmanager
    def original_errors(self) -> Iterator[None]:
        """Raises the error of reading a file as it was, on every backend."""
        try:
            yield
        except Exception as error:
            if self.error is None or self.error is error:
                raise
            raise self.error from None


class ImageBatches(NumberedBatches):
    """Batches of images with labels, for training.

    Args:
        images: An array `(rows, height, width, channels)`; or paths of files.
        y: Array of labels, `(rows, ...)`.
        weights: Sample weights `(rows,)`; or None.
        batch_size: Rows in a batch.
        seed: Seed of the order, the shifts and the flips.
        read: For files, the function from a path to an array `(height, width,
            channels)`.
        shift: Images are shifted at random by at most this share of their height and
            width. The pixels at the edge are repeated.
        flip: Whether half of the images, at random, are mirrored from left to right.
        channels_first: Whether the axis of the channels comes before the height.

    Raises:
        ValueError: If there are no rows, or the numbers of rows and labels differ.

    Examples:
        >>> images = np.arange(12).reshape(3, 2, 2, 1)
        >>> batches = ImageBatches(images, np.array([0, 1, 2]), batch_size=2)
        >>> x, y = batches.batch(0)
        >>> bool((x[:, 0, 0, 0] == 4 * y).all())
        True
    """

    def __init__(
        self,
        images: Images,
        y: np.ndarray,
        weights: np.ndarray | None = None,
        batch_size: int = 32,
        seed: int = 0,
        *,
        read: Read | None = None,
        shift: float = 0.0,
        flip: bool = False,
        channels_first: bool = False,
    ) -> None:
        check_rows(images, y)
        reader = ImageReader(images, read)
        super().__init__(len(images), batch_size, seed, reader=reader)
        self.y = y
        self.weights = weights
        self.shift: float = checks.number("shift", shift)
        if not 0 <= shift < 1:
            raise ValueError(
                f"shift must be a share of the size, at least 0 and below 1, received "
                f"{shift}"
            )
        self.flip: bool = checks.flag("flip", flip)
        self.channels_first = channels_first

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        batch = self.reader(rows), self.y[rows]
        return batch if self.weights is None else (*batch, self.weights[rows])

    def change(self, batch: Any, number: int) -> tuple[np.ndarray, ...]:
        """Shifts and flips images at random, as `augmented`."""
        x, *others = batch
        if self.shift or self.flip:
            rng = np.random.default_rng([self.seed, number, 1])  # not that of the order
            if self.channels_first:
                x = x.transpose(0, 2, 3, 1)
            x = augmented(x, rng, self.shift, self.flip)
            if self.channels_first:
                x = x.transpose(0, 3, 1, 2)
        return (x, *others)

    def stream(self, start: int = 0) -> Iterator[tuple[np.ndarray, ...]]:
        """Yields the batches from number `start` on; the next one is read meanwhile."""
        if self.reader.read is None:
            yield from super().stream(start)
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            following = thread.submit(self.batch, start)
            while True:
                start += 1
                batch = following.result()
                following = thread.submit(self.batch, start)
                yield batch


def images_in_order(
    images: Images,
    y: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    batch_size: int = 32,
    read: Read | None = None,
) -> OrderedBatches:
    """Returns all images once, in their order, for evaluation and prediction.

    Args:
        images: As for `ImageBatches`.
        y: Labels; or None for images alone.
        weights: As for `ImageBatches`.
        batch_size: Rows in a batch.
        read: As for `ImageBatches`.
    """
    if y is not None:
        check_rows(images, y)
    reader = ImageReader(images, read)

    def take(rows):
        return reader(rows), *(v[rows] for v in (y, weights) if v is not None)

    return OrderedBatches(cut(np.arange(len(images)), batch_size), take, reader)


def augmented(
    images: np.ndarray, rng: np.random.Generator, shift: float, flip: bool
) -> np.ndarray:
    """Shifts and mirrors images at random.

    Args:
        images: `(batch, height, width, channels)`.
        rng: Random generator.
        shift: Largest shift, as a share of height and width; each is rounded to whole
            pixels.
        flip: Whether half of the images are mirrored from left to right.

    Returns:
        Images of the same shape.

    Examples:
        >>> row = np.array([1, 2, 3]).reshape(1, 1, 3, 1)
        >>> images = augmented(np.repeat(row, 99, 0), np.random.default_rng(0), 0, True)
        >>> np.unique(images[:, 0, :, 0], axis=0).tolist()
        [[1, 2, 3], [3, 2, 1]]
    """
    B, H, W, _ = images.shape
    index = []
    for size in (H, W):
        by = np.rint(rng.uniform(-shift * size, shift * size, (B, 1))).astype(int)
        index.append(np.clip(np.arange(size) - by, 0, size - 1))  # (B, size)
    rows, columns = index
    if flip:
        mirrored = rng.random((B, 1)) < 0.5
        columns = np.where(mirrored, columns[:, ::-1], columns)
    return images[np.arange(B)[:, None, None], rows[:, :, None], columns[:, None]]
