"""Pictures, sounds and texts as rows of a `Multimodal`, and batches of them."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np

from kerasseq.core.padding import bucket, padded
from kerasseq.models.multimodal.kinds import AUDIO, CODES, IMAGES, PADDING
from kerasseq.speech.audio_inputs import AudioRows
from kerasseq.training.batches import NumberedBatches, OrderedBatches
from kerasseq.training.image_batches import ImageReader
from kerasseq.training.label_batches import LabelArrays, Rows

IGNORED = -1  # the label of padding


@dataclasses.dataclass
class MultimodalRows(Rows):
    """Rows of several kinds; files are read batch by batch.

    Attributes:
        arrays: By kind: for "images" an `ImageReader`, for "audio" `AudioRows`; for
            pictures that are drawn "codes", int32 `(rows, 1 + N)`: start and ids.
        y: The ids of each text, without start and end; None if there are none.
        weights: The weight of each row, or None.
        count: The number of rows.
        start: The id before a text.
        end: The id after it.
        most_samples: The longest sound that the model reads.
        writes: Whether the labels are the next ids, of words or of a picture, or a
            number of each text.
    """

    count: int = 0
    start: int = 0
    end: int = 0
    most_samples: int = 0
    writes: bool = False
    batched_by_length: ClassVar[bool] = False

    def __len__(self) -> int:
        return self.count

    @property
    def reader(self) -> ImageReader | None:
        """What reads the pictures."""
        return self.arrays.get(IMAGES)

    def part(self, rows: slice | np.ndarray) -> Self:
        indices = np.arange(len(self))[rows]
        arrays = {}
        if (pictures := self.reader) is not None:
            images = pictures.images
            if isinstance(images, list):
                images = [images[row] for row in indices]
            else:
                images = images[indices]
            arrays[IMAGES] = ImageReader(images, pictures.read)
        if AUDIO in self.arrays:
            arrays[AUDIO] = self.arrays[AUDIO].part(indices)
        if CODES in self.arrays:
            arrays[CODES] = self.arrays[CODES][indices]
        y = None if self.y is None else [self.y[row] for row in indices]
        weights = None if self.weights is None else self.weights[indices]
        return dataclasses.replace(
            self, arrays=arrays, y=y, weights=weights, count=len(indices)
        )

    def inputs(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Returns pictures and sounds of some rows as arrays by name."""
        x = {}
        if (pictures := self.reader) is not None:
            x[IMAGES] = as_fractions(pictures(rows))
        sounds: AudioRows | None = self.arrays.get(AUDIO)
        if sounds is not None:
            each = [sounds.sound(row) for row in rows.tolist()]
            lengths = np.array([len(sound) for sound in each], "int32")
            samples = min(bucket(int(sounds.lengths.max())), self.most_samples)
            x[AUDIO] = padded(each, samples, "float32")
            x["lengths"] = lengths
        return x

    def take(self, rows: np.ndarray, length: int | None = None) -> LabelArrays:
        """Returns some rows as arrays: inputs, labels and sample weights.

        Args:
            rows: Their indices.
            length: Not used: all batches have the length of the longest text.
        """
        x = self.inputs(rows)
        texts = [np.zeros(0, "int32")] * len(rows)
        if self.y is not None:
            texts = [self.y[row] for row in rows.tolist()]
        longest = max(map(len, texts if self.y is None else self.y))
        ids = [np.r_[self.start, text, self.end] for text in texts]
        length = longest + 2
        if (codes := self.arrays.get(CODES)) is not None:
            x[CODES], y = codes[rows, :-1], codes[rows, 1:]
        elif self.writes:
            length -= 1
            y = padded([each[1:] for each in ids], length, "int32", IGNORED)
            ids = [each[:-1] for each in ids]
        else:
            y = numbers(texts)
        x["ids"] = padded(ids, length, "int32", PADDING)
        parts: list[Any] = [x] if self.y is None else [x, y]
        if self.weights is not None:
            weights = self.weights[rows]
            if self.writes:  # Keras multiplies those of steps alone
                weights = np.repeat(weights[:, None], y.shape[1], axis=1)
            parts.append(weights)
        return tuple(parts)

    def batches(
        self, batch_size: int = 32, seed: int = 0, **options: Any
    ) -> NumberedBatches:
        """Returns batches to train on, each of the same size.

        Args:
            batch_size: Rows in a batch.
            seed: Seed of the order.
            **options: Not used.

        Raises:
            ValueError: If a contrastive model has nothing to compare.
        """
        if not self.writes and min(batch_size, len(self)) < 2:
            raise ValueError(
                "a contrastive model compares at least 2 rows of a batch, received "
                f"batch_size={batch_size} and {len(self)} rows. Choose a larger batch"
            )
        functions = {"take": self.take, "reader": self.reader}
        return NumberedBatches(len(self), batch_size, seed, **functions)

    def in_order(self, batch_size: int = 32) -> Any:
        """Returns all rows once, in batches whose sizes differ by at most one.

        A contrastive loss depends on the number of rows: a last batch of few would
        lower the mean.
        """
        count = max(1, -(-len(self) // batch_size))
        parts = np.array_split(np.arange(len(self)), count)
        return OrderedBatches(parts, self.take, self.reader)

    def batch(self) -> Any:
        return self.take(np.arange(len(self)))[0]


def numbers(texts: list[np.ndarray]) -> np.ndarray:
    """Numbers texts, the same ones with the same number.

    Examples:
        >>> numbers([np.array([3, 4]), np.array([5]), np.array([3, 4])]).tolist()
        [0, 1, 0]
    """
    known: dict[tuple[int, ...], int] = {}
    numbered = [known.setdefault(tuple(text.tolist()), len(known)) for text in texts]
    return np.array(numbered, "int32")


def as_fractions(images: np.ndarray) -> np.ndarray:
    """Returns pixels as float32 from 0 to 1; integers are from 0 to 255.

    Examples:
        >>> as_fractions(np.array([0, 255], "uint8")).tolist()
        [0.0, 1.0]
    """
    fractions = images.astype("float32")
    return fractions / np.float32(255) if images.dtype.kind in "iu" else fractions


@contextlib.contextmanager
def original_errors(reader: ImageReader | None) -> Iterator[None]:
    """Raises the error of reading a picture as it was, on every backend."""
    if reader is None:
        yield
        return
    with reader.original_errors():
        yield
