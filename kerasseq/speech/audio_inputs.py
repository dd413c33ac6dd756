"""Sounds as rows of a model: arrays and WAV files of any length, with transcripts."""

import dataclasses
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kerasseq.core import checks
from kerasseq.core.padding import bucket, padded
from kerasseq.core.types import Config
from kerasseq.datasets.resampling import resample
from kerasseq.datasets.wave_files import check_rate, read_wave
from kerasseq.tasks.labeled_data import Data
from kerasseq.tasks.labels import plain_list
from kerasseq.tasks.preprocessor import Preprocessor, check_tokenizer
from kerasseq.text.tokenizers.conversion import is_path
from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.training.batches import GroupedBatches
from kerasseq.training.label_batches import LabelArrays, Rows

AFTER_END = -1  # of the ids of a transcript


@dataclasses.dataclass
class AudioRows(Rows):
    """Sounds with the ids of their transcripts, which are shorter.

    Attributes:
        arrays: A float32 array `(samples,)` for each sound, or a file.
        y: The ids of each transcript, a list of arrays.
        weights: The weight of each row, or None.
        lengths: `(rows,)`, the samples of each sound.
        read: Function from a file and its name in messages to an array.
    """

    read: Callable[[Any, str], np.ndarray] | None = None

    def sound(self, row: int) -> np.ndarray:
        """Returns a sound; a file is read each time."""
        given = self.arrays[row]
        if self.read is None or not is_path(given):
            return given
        return self.read(given, f"x[{row}]")

    def take(
        self, rows: np.ndarray, length: int | None = None, ids: int | None = None
    ) -> LabelArrays:
        """Returns some rows as arrays: inputs, transcripts and sample weights.

        Args:
            rows: Their indices.
            length: Samples of each row; those of the longest if None.
            ids: Ids of each transcript; those of the longest of all if None.
        """
        sounds = [self.sound(n) for n in rows.tolist()]
        lengths = np.array([len(sound) for sound in sounds], "int32")
        x = {"audio": padded(sounds, length, "float32"), "lengths": lengths}
        parts: list[Any] = [x]
        if self.y is not None:
            ids = bucket(max(map(len, self.y))) if ids is None else ids
            chosen = [self.y[n] for n in rows.tolist()]
            parts.append(padded(chosen, ids, "int32", AFTER_END))
        if self.weights is not None:
            parts.append(self.weights[rows])
        return tuple(parts)

    def batches(self, batch_size: int = 32, seed: int = 0) -> Any:
        ids = np.array([len(each) for each in self.y])
        lengths = np.stack([self.lengths, ids], axis=1)
        return GroupedBatches(lengths, batch_size, seed, arrays_of=self.take)


class AudioPreprocessor(Preprocessor):
    """Reads sounds, and checks them.

    Args:
        arguments: The arguments of the model: `tokenizer`, `sampling_rate`, `stride`
            and `factor`.

    Raises:
        TypeError: If the tokenizer is none.
        ValueError: If its name is unknown.
    """

    has_texts: bool = False
    needs_tokenizer: bool = True

    def __init__(self, arguments: Config) -> None:
        given = check_tokenizer(arguments["tokenizer"])
        if given is None and self.needs_tokenizer:
            raise TypeError(
                "tokenizer must be a fitted tokenizer or the name of one, such as "
                '"character", received None'
            )
        arguments["tokenizer"] = given
        if not isinstance(given, str):
            self.tokenizer: Tokenizer | None = given
        self.sampling_rate: int = checks.size(
            "sampling_rate", arguments["sampling_rate"]
        )
        self.stride: int = arguments["stride"]
        self.factor: int = arguments["factor"]

    @property
    def is_waiting(self) -> bool:
        return self.tokenizer is None

    def data(
        self, x: Any, y: Any = None, sample_weight: Any = None, labels: Any = None
    ) -> Data:
        """Returns sounds, transcripts and sample weights, taken apart if `x` has them.

        Args:
            x: As for `fit`; a pair of sounds and texts, as `datasets.morse` returns.
            y: The transcripts, or None.
            sample_weight: Weight of each row, or None.
            labels: Nothing.
        """
        if y is None and hasattr(x, "audio") and hasattr(x, "texts"):
            x, y = x.audio, x.texts
        if y is not None:
            y = self.transcripts(plain_list(y, kind="transcript"))
        return x, y, sample_weight

    def transcripts(self, y: list[Any]) -> list[Any]:
        """Returns transcripts, checked."""
        return [_text(text, n) for n, text in enumerate(y)]

    def is_one(self, x: Any) -> bool:
        """Returns whether this is one sound: `(samples,)`, a file or a recording."""
        if isinstance(x, Mapping) or is_path(x):
            return True
        return np.ndim(x) == 1 if hasattr(x, "shape") else _is_number(x)

    def several(self, x: Any) -> Any:
        return [x] if self.is_one(x) else x

    def rows(self, x: Any) -> AudioRows:
        """Sounds as rows; each has enough samples for a frame, and no NaN."""
        if self.is_one(x) or isinstance(x, str) or not hasattr(x, "__len__"):
            raise TypeError(
                "expected a list of sounds: arrays (samples,) or WAV files; received "
                f"{checks.short(x)}"
            )
        given, lengths = [], []
        for n, each in enumerate(getattr(x, "files", x)):
            sound = self.read(each, f"x[{n}]")
            given.append(each if is_path(each) else sound)
            lengths.append(len(sound))
            if len(sound) < self.stride:
                raise ValueError(
                    f"x[{n}] must have at least {self.stride} samples, for one frame, "
                    f"received {len(sound)}. {_too_short(x)}"
                )
        return AudioRows(given, lengths=np.array(lengths, "int32"), read=self.read)

    def read(self, sound: Any, name: str = "x") -> np.ndarray:
        """Returns one sound as float32 `(samples,)`, at the rate of the model.

        Args:
            sound: An array at this rate, a WAV file, or a dictionary with "array" and
                "sampling_rate", as in a column of the package datasets.
            name: For messages.
        """
        if is_path(sound):
            return read_wave(sound, self.sampling_rate)
        if isinstance(sound, Mapping):
            if not {"array", "sampling_rate"} <= sound.keys():
                raise ValueError(
                    f'{name} must have "array" and "sampling_rate", received the keys '
                    f"{checks.short(list(sound))}"
                )
            rate = check_rate(f'{name}["sampling_rate"]', sound["sampling_rate"])
            return resample(_wave(sound["array"], name), rate, self.sampling_rate)
        return _wave(sound, name)

    def frames(self, lengths: np.ndarray) -> np.ndarray:
        """Returns the number of frames of the outputs for sounds of some lengths."""
        return -(-(np.asarray(lengths) // self.stride) // self.factor)


def _wave(sound, name):
    """Returns a sound as float32, checked."""
    wave = np.asarray(sound)
    if wave.ndim != 1 or wave.dtype.kind not in "fiu":
        raise TypeError(
            f"{name} must be an array of numbers (samples,), a WAV file, or a "
            f"dictionary of array and sampling_rate, received {checks.short(sound)}"
            + (". Take the mean of its channels" if wave.ndim == 2 else "")
        )
    if wave.dtype.kind in "iu":
        raise TypeError(
            f"{name} must have floats from -1 to 1, received {wave.dtype}. Divide by "
            f"{np.iinfo(wave.dtype).max + 1}, or read the file with datasets.read_wave"
        )
    if not np.isfinite(wave).all():
        place = int(np.flatnonzero(~np.isfinite(wave))[0])
        raise ValueError(
            f"{name} must have finite samples, received {wave[place]} at {place}"
        )
    return wave.astype("float32", copy=False)


def _too_short(x):
    """Returns what to do about a sound of less than a frame."""
    shape = np.shape(x) if hasattr(x, "shape") else ()
    if len(shape) == 2 and shape[1] < shape[0]:
        return (
            f"x of shape {shape} is read as {shape[0]} sounds; if it is one sound of "
            f"{shape[1]} channels, take their mean: x.mean(axis=1)"
        )
    return "Leave it out, or pad it with zeros"


def _text(text, n):
    if not isinstance(text, str):
        raise TypeError(f"y[{n}] must be a transcript, received {checks.short(text)}")
    return text


def _is_number(x):
    """Returns whether this is a list of numbers."""
    is_list: bool = isinstance(x, Sequence) and not isinstance(x, str) and len(x) > 0
    return is_list and isinstance(x[0], numbers.Real)
