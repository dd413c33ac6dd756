"""Sounds and transcripts as rows of a `Whisper`: one window each, and ids."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from kerasseq.core import checks
from kerasseq.core.padding import padded
from kerasseq.core.types import Config
from kerasseq.models.whisper.settings import WhisperGeneration
from kerasseq.speech.audio_inputs import AudioPreprocessor, AudioRows
from kerasseq.tasks.data_checks import as_array
from kerasseq.tasks.labeled_data import Data
from kerasseq.training.batches import GroupedBatches
from kerasseq.training.label_batches import LabelArrays

IGNORED = -1  # the label of a step that does not count: each id is a token
INPUTS = {"audio", "lengths", "target"}  # of the graph
FACTOR = 2  # frames of the spectrogram that become one


@dataclasses.dataclass
class WhisperRows(AudioRows):
    """Sounds with the ids of their transcripts.

    Attributes:
        lengths: `(rows,)`, the ids that the decoder reads for each.
        samples: The samples of the window.
        prompt: The ids that a transcript begins with.
        end: The id of its end.
        longest: The most ids that the decoder reads.
    """

    samples: int = 0
    prompt: tuple[int, ...] = ()
    end: int = 0
    longest: int = 0

    def take(
        self, rows: np.ndarray, length: int | None = None, ids: int | None = None
    ) -> LabelArrays:
        """Returns some rows as arrays: inputs, labels and sample weights.

        The decoder reads prompt and transcript; the labels are the next id of each step
        from the last of the prompt on, and the end.

        Args:
            rows: Their indices.
            length: Steps of the decoder; those of the longest if None.
            ids: Not used.
        """
        sounds = [self.sound(n) for n in rows.tolist()]
        lengths = np.array([len(sound) for sound in sounds], "int32")
        texts = [np.zeros(0, "int32")] * len(rows)
        if self.y is not None:
            texts = [self.y[n] for n in rows.tolist()]
        length = min(length or int(self.lengths[rows].max()), self.longest)
        targets = [np.append(self.prompt, text) for text in texts]
        x = {
            "audio": padded(sounds, self.samples, "float32"),
            "lengths": lengths,
            "target": padded(targets, length, "int32", self.end),
        }
        parts: list[Any] = [x]
        if self.y is not None:
            skipped = [IGNORED] * (len(self.prompt) - 1)
            labels = [np.r_[skipped, text, self.end] for text in texts]
            parts.append(padded(labels, length, "int32", IGNORED))
        if self.weights is not None:  # Keras multiplies those of steps alone
            parts.append(np.repeat(self.weights[rows, None], length, axis=1))
        return tuple(parts)

    def batches(self, batch_size: int = 32, seed: int = 0) -> Any:
        options = {"longest": self.longest, "arrays_of": self.take}
        return GroupedBatches(self.lengths[:, None], batch_size, seed, **options)


class WhisperPreprocessor(AudioPreprocessor):
    """Reads sounds of at most a window, and transcripts as ids.

    Args:
        arguments: The arguments of the model.

    Attributes:
        generation: The `WhisperGeneration`; None before the tokenizer is trained.
        vocabulary_size: Number of ids of the model; None before that.
        samples: Samples of the window.

    Raises:
        TypeError: If the tokenizer is none, or the settings are no settings.
        ValueError: If both tokenizer and `vocabulary_size` are given, or neither; or if
            the window is shorter than a frame.
    """

    needs_tokenizer: bool = False

    def __init__(self, arguments: Config) -> None:
        given, size = arguments["tokenizer"], arguments["vocabulary_size"]
        if (given is None) == (size is None):
            raise ValueError(
                'expected either tokenizer, such as "character", for texts, or '
                f"vocabulary_size, for ids; received tokenizer={checks.short(given)} "
                f"and vocabulary_size={size}"
            )
        super().__init__({**arguments, "factor": FACTOR})
        self.needs_texts: bool = given is not None
        self.window: float = arguments["window"]
        checks.fits_memory("sampling_rate", self.sampling_rate)
        checks.fits_memory("window", self.window, self.sampling_rate)
        self.samples: int = round(self.window * self.sampling_rate)
        if self.samples < self.stride:
            raise ValueError(
                f"window must hold a frame, stride={self.stride} samples, received "
                f"window={self.window} with sampling_rate={self.sampling_rate}"
            )
        self.max_length: int = arguments["max_length"]
        self.vocabulary_size: int | None = size
        self.generation: WhisperGeneration | None = arguments["generation"]
        if self.generation is not None and not isinstance(
            self.generation, WhisperGeneration
        ):
            raise TypeError(
                "generation must be a WhisperGeneration, or None, received "
                f"{checks.short(self.generation)}"
            )
        if not self.is_waiting:
            self._find_ids()
        self.language: str | None = arguments["language"]
        self.task: str = arguments["task"]
        if self.generation is not None:
            self.prompt  # noqa: B018  # checks language and task

    def _find_ids(self):
        """Sets number of ids and settings; start and end are the last two by default.

        They are among `vocabulary_size`, and come after the ids of a tokenizer.
        """
        given, size = self.generation, self.vocabulary_size
        if self.tokenizer is not None:
            size = self.tokenizer.vocabulary_size
            size = (
                size + 2 if given is None else max(size, given.start + 1, given.end + 1)
            )
        if given is None:
            end = checks.whole_number("vocabulary_size", size, 3) - 1
            self.generation = WhisperGeneration(end - 1, end)
        self.vocabulary_size = size

    @property
    def is_waiting(self) -> bool:
        return self.needs_texts and self.tokenizer is None

    @property
    def frames_of_window(self) -> int:
        """Frames of the spectrogram of a window."""
        return self.samples // self.stride

    @property
    def prompt(self) -> list[int]:
        """The ids that transcripts to train on begin with."""
        return self.generation.prompt(self.language, self.task)

    def data(
        self, x: Any, y: Any = None, sample_weight: Any = None, labels: Any = None
    ) -> Data:
        if are_inputs(x):
            return x, y, sample_weight
        return super().data(x, y, sample_weight, labels)

    def transcripts(self, y: list[Any]) -> list[Any]:
        return super().transcripts(y) if self.needs_texts else y

    def is_one(self, x: Any) -> bool:
        return not are_inputs(x) and super().is_one(x)

    def sounds(self, x: Any) -> AudioRows:
        """Sounds of any length as rows."""
        return super().rows(x)

    def rows(self, x: Any) -> WhisperRows | None:
        """Sounds as rows, none longer than the window; None for arrays by name."""
        if are_inputs(x):
            return None
        rows = self.sounds(x)
        for n, length in enumerate(rows.lengths.tolist()):
            if length > self.samples:
                raise ValueError(
                    f"x[{n}] must not be longer than window={self.window:g} seconds, "
                    f"{self.samples} samples, received {length} samples. Cut it, or "
                    "build the model with a longer window; transcribe reads sounds of "
                    "any length"
                )
        prompt = tuple(self.prompt)
        return WhisperRows(
            rows.arrays,
            lengths=np.full(len(rows), len(prompt)),
            read=rows.read,
            samples=self.samples,
            prompt=prompt,
            end=self.generation.end,
            longest=self.max_length,
        )

    def ids(self, y: list[Any], sounds: int) -> list[np.ndarray]:
        """Returns transcripts of ids, for a model without a tokenizer, checked."""
        rows = []
        for n, row in enumerate(y):
            ids = as_array(row)
            if isinstance(row, str) or ids is None or ids.ndim != 1:
                raise TypeError(
                    f"y[{n}] must be ids, as the model has no tokenizer, received "
                    f"{checks.short(row)}"
                )
            if ids.size and ids.dtype.kind not in "iu":
                raise TypeError(f"y[{n}] must be whole numbers, received {ids.dtype}")
            wrong = ids[(ids < 0) | (ids >= self.vocabulary_size)]
            if len(wrong):
                raise ValueError(
                    f"ids of y[{n}] must be from 0 to {self.vocabulary_size - 1}, as "
                    f"vocabulary_size={self.vocabulary_size}, received {wrong[0]}"
                )
            rows.append(ids.astype("int32"))
        return rows


def are_inputs(x: Any) -> bool:
    """Returns whether these are inputs of the graph by name, as `encode` returns."""
    return isinstance(x, Mapping) and x.keys() >= INPUTS
