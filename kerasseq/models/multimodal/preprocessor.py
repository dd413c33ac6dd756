"""What users pass to a `Multimodal`: pictures, films, sounds and texts, by kind."""

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from kerasseq.core import checks
from kerasseq.core.padding import bucket, padded
from kerasseq.core.types import Config
from kerasseq.datasets.image_reading import readable_rows
from kerasseq.models.multimodal.kinds import (
    AUDIO,
    CODES,
    IMAGES,
    KINDS,
    PADDING,
    TEXTS,
)
from kerasseq.models.multimodal.pictures import PictureReader
from kerasseq.models.multimodal.rows import MultimodalRows
from kerasseq.models.picture_tokenizer.picture_tokenizer import PictureTokenizer
from kerasseq.models.vit import inputs, sizes
from kerasseq.speech.audio_inputs import AudioPreprocessor
from kerasseq.speech.transcripts import unknown_finder
from kerasseq.tasks.input_rows import are_batches, check_not_empty
from kerasseq.tasks.labeled_data import MISSING, SKIP, Data
from kerasseq.tasks.labels import plain_list
from kerasseq.tasks.preprocessor import Preprocessor, check_tokenizer
from kerasseq.text.tokenizers.tokenizer import Tokenizer


class SoundReader(AudioPreprocessor):
    """Reads sounds for a model whose tokenizer is not of transcripts.

    Args:
        arguments: The arguments of the model, without tokenizer.
    """

    needs_tokenizer: bool = False


class MultimodalPreprocessor(Preprocessor):
    """Reads rows of several kinds, and checks them.

    Args:
        arguments: The arguments of the model.
        codebook: The tokenizer of pictures that are drawn, or None.

    Attributes:
        kinds: The kinds of the model, in the order of their tokens; texts last.
        samples: Samples of the longest sound.
        grid: Rows and columns of the tokens of a picture that is drawn.

    Raises:
        TypeError: If the tokenizer is none.
        ValueError: If its name is unknown.
    """

    has_texts: bool = False

    def __init__(
        self, arguments: Config, codebook: PictureTokenizer | None = None
    ) -> None:
        given = check_tokenizer(arguments["tokenizer"])
        if given is None:
            raise TypeError(
                "tokenizer must be a fitted tokenizer or the name of one, such as "
                '"word", received None'
            )
        arguments["tokenizer"] = given
        self.tokenizer: Tokenizer | None = None if isinstance(given, str) else given
        self.longest: int = arguments["max_sequence_length"]
        self.writes: bool = arguments["head"] != "contrastive"
        self.codebook: PictureTokenizer | None = codebook
        self.grid: tuple[int, ...] = ()
        self.pictures: PictureReader | None = None
        self.sound_reader: SoundReader | None = None
        self.samples: int = 0
        if self.codebook is not None:
            own = {**arguments, **self.codebook.picture_arguments}
            self.pictures = PictureReader(own)
            self.grid = sizes.grid(own["image_size"], own["patch_size"])
        elif arguments["image_size"] is not None:
            self.pictures = PictureReader(arguments)
        if arguments["num_mels"] is not None:
            self.sound_reader = SoundReader({**arguments, "tokenizer": None})
            self.samples = round(arguments["window"] * arguments["sampling_rate"])
        given_kinds = {IMAGES: self.pictures, AUDIO: self.sound_reader, TEXTS: True}
        self.kinds: tuple[str, ...] = tuple(
            kind for kind in KINDS if given_kinds[kind] is not None
        )

    @property
    def is_waiting(self) -> bool:
        return self.tokenizer is None

    @property
    def start(self) -> int:
        """The id before a text, after those of the tokenizer."""
        return self.tokenizer.vocabulary_size

    @property
    def end(self) -> int:
        """The id after a text."""
        return self.start + 1

    @property
    def num_codes(self) -> int:
        """The number of tokens of a picture that is drawn."""
        return math.prod(self.grid)

    @property
    def first_written(self) -> int:
        """The id before the first that is written."""
        return self.start if self.codebook is None else self.codebook.num_codes

    @property
    def never_written(self) -> tuple[int, ...]:
        """The ids that are not written: before a row, special and unknown tokens."""
        if self.codebook is not None:
            return (self.first_written,)
        own = self.tokenizer
        tokens = [*own.special_tokens, getattr(own, "unknown", None)]
        ids = {own.id_of(token) for token in tokens if token is not None}
        return (*sorted(ids), self.start)

    @property
    def others(self) -> tuple[str, ...]:
        """The kinds beside texts."""
        return self.kinds[:-1]

    def data(
        self, x: Any, y: Any = None, sample_weight: Any = None, labels: Any = None
    ) -> Data:
        """Returns a dictionary of the kinds beside texts, the texts, and weights.

        Args:
            x: Pictures, or sounds for a model without pictures; a dictionary of kinds;
                or an object with `images`, `audio` and `texts`, as `datasets` have.
            y: The texts, or None.
            sample_weight: Weight of each row, or None.
            labels: Nothing.
        """
        if are_batches(x) or are_inputs(x):
            return x, y, sample_weight
        if not isinstance(x, Mapping) and hasattr(x, "texts"):
            parts = {kind: getattr(x, kind, None) for kind in self.kinds}
            x = {kind: part for kind, part in parts.items() if part is not None}
        if not isinstance(x, Mapping):
            if len(self.others) > 1:
                raise TypeError(
                    f"expected a dictionary of {_listed(self.others)}, the kinds of "
                    f"the model, received {checks.short(x)}"
                )
            x = {self.others[0]: inputs.as_array(x)}
        self.check_kinds(x)
        x = {kind: inputs.as_array(part) for kind, part in x.items()}
        if (texts := x.pop(TEXTS, None)) is not None:
            if y is not None:
                raise ValueError(
                    'texts must be given once, received them in "texts" and as y. '
                    "Leave one of them out"
                )
            y = texts
        if y is not None:
            y = plain_list(y, kind="text")
        return x, y, sample_weight

    def check_kinds(self, x: Mapping[str, Any]) -> None:
        """Raises if there is a kind that the model does not have."""
        for kind in x:
            if kind not in self.kinds:
                advice = checks.nearest(kind, self.kinds)
                if kind == AUDIO:
                    advice = " Build it with num_mels to read sounds"
                if kind == IMAGES:
                    advice = " Build it with image_size to read pictures"
                raise ValueError(
                    f"the model reads {_listed(self.kinds)}, received the kind "
                    f'"{kind}".{advice}'
                )

    def is_one(self, x: Any) -> bool:
        """Returns whether this is one picture, film or sound."""
        if isinstance(x, Mapping) and not {"array", "sampling_rate"} <= x.keys():
            return bool(x) and all(self.is_one_of(kind, x[kind]) for kind in x)
        return len(self.others) == 1 and self.is_one_of(self.others[0], x)

    def is_one_of(self, kind: str, x: Any) -> bool:
        """Returns whether this is one row of a kind."""
        if kind == TEXTS:
            return isinstance(x, str)
        if kind == AUDIO and self.sound_reader is not None:
            return self.sound_reader.is_one(x)
        return self.pictures is not None and self.pictures.is_one(x)

    def several(self, x: Any) -> Any:
        if not self.is_one(x):
            return x
        if isinstance(x, Mapping) and set(x) <= set(self.kinds):
            return {kind: [part] for kind, part in x.items()}
        return [x]

    def none(self) -> Any:
        return None

    def complete(self, missing: str, *data: Any, **options: Any) -> Data:
        """Returns the rows whose text is not empty and whose picture can be read.

        Args:
            missing: "error" leaves all rows; what is wrong is found later.
            *data: As `data` returns them.
            **options: `method`, which needs the rows.
        """
        checks.one_of("missing", missing, MISSING)
        x, y, weights = data
        if isinstance(x, Mapping) and x:
            check_not_empty(x, options.get("method", "fit"))
        if missing != SKIP or not isinstance(y, list):
            return data
        kept = [row for row, text in enumerate(y) if _is_text(text)]
        if len(kept) < len(y):
            warnings.warn(
                f"{len(y) - len(kept)} of {len(y)} rows without text are left out",
                stacklevel=4,
            )
        files = inputs.files_of(x.get(IMAGES))
        if files is not None:
            kept = [kept[n] for n in readable_rows([files[row] for row in kept])]

        def chosen(part):
            if part is None:
                return None
            return part[kept] if hasattr(part, "shape") else [part[n] for n in kept]

        return {k: chosen(part) for k, part in x.items()}, chosen(y), chosen(weights)

    def rows(self, x: Any) -> MultimodalRows | None:
        """Returns the rows of the kinds beside texts, each of which must be given.

        None for batches, and for the inputs of the graph by name.
        """
        if are_batches(x) or are_inputs(x):
            return None
        if not isinstance(x, Mapping) or not set(x) <= set(self.kinds):
            x, _, _ = self.data(x)
        for kind in self.others:
            if kind not in x:
                raise ValueError(
                    f"expected {_listed(self.others)} for each row, received "
                    f"{_listed(x) or 'nothing'}. Add what is missing"
                )
        arrays, count = {}, {}
        if self.pictures is not None:
            reader = self.pictures.reader(x[IMAGES])
            count[IMAGES] = len(reader.images)
            if self.codebook is None:
                arrays[IMAGES] = reader
            else:
                arrays[CODES] = self.codes(reader.images)
        if self.sound_reader is not None:
            arrays[AUDIO] = self.sounds(x[AUDIO])
            count[AUDIO] = len(arrays[AUDIO])
        check_counts(count)
        return MultimodalRows(
            arrays,
            count=next(iter(count.values())),
            start=self.start,
            end=self.end,
            most_samples=self.samples,
            writes=self.writes,
        )

    def codes(self, images: Any) -> np.ndarray:
        """Returns the ids of pictures after that of the start, int32 `(rows, 1 + N)`.

        Args:
            images: Files or arrays.
        """
        ids = self.codebook.encode(images).reshape(-1, self.num_codes)
        return np.pad(ids, ((0, 0), (1, 0)), constant_values=self.first_written)

    def sounds(self, x: Any) -> Any:
        """Sounds as `AudioRows`, none longer than the window."""
        rows = self.sound_reader.rows(x)
        for n, length in enumerate(rows.lengths.tolist()):
            if length > self.samples:
                raise ValueError(
                    f"audio[{n}] must have at most {self.samples} samples, the window "
                    f"of the model, received {length}. Cut it, or build the model with "
                    "a longer window"
                )
        return rows

    def ids(self, texts: Any) -> list[np.ndarray]:
        """Returns the ids of texts, checked.

        Raises:
            TypeError: If they are no list, or one is not a string.
            ValueError: If one is empty, too long, or has words or characters that the
                tokenizer does not know.
        """
        if isinstance(texts, str) or not hasattr(texts, "__len__"):
            raise TypeError(
                f"texts must be a list of strings, received {checks.short(texts)}"
            )
        find, rows = unknown_finder(self.tokenizer), []
        for row, text in enumerate(texts):
            if text is not None and not isinstance(text, str):
                raise TypeError(
                    f"texts[{row}] must be a string, received {checks.short(text)}"
                )
            if not _is_text(text):
                raise ValueError(
                    f"texts[{row}] must have at least one word, received {text!r}. "
                    'Fill it, or pass missing="skip" to fit to leave such rows out'
                )
            if unknown := find(text):
                raise ValueError(
                    f"texts[{row}] has {[*unknown][:8]}, which the tokenizer does not "
                    f"know: {text!r}. Fit the tokenizer on such texts"
                )
            ids = np.asarray(self.tokenizer.encode(text), "int32")
            if not 0 < len(ids) <= self.longest:
                raise ValueError(
                    f"texts[{row}] must have 1 to {self.longest} tokens, "
                    f"max_sequence_length, received {len(ids)}. Cut it, or build the "
                    "model with a larger max_sequence_length"
                )
            rows.append(ids)
        return rows

    def whole_texts(self, texts: Any) -> np.ndarray:
        """Returns the ids of texts with start and end, checked, int32 `(rows, T)`."""
        ids = [np.r_[self.start, each, self.end] for each in self.ids(texts)]
        longest = max(map(len, ids), default=1)
        return padded(ids, min(bucket(longest), self.longest + 2), "int32", PADDING)


def check_counts(count: Mapping[str, int]) -> None:
    """Raises if kinds have unequal numbers of rows.

    Examples:
        >>> check_counts({"images": 3, "texts": 2})
        Traceback (most recent call last):
        ...
        ValueError: expected as many rows of each kind, received images: 3, texts: 2. \
Each row is one picture, sound or film with its text
    """
    if len(set(count.values())) > 1:
        shown = ", ".join(f"{kind}: {n}" for kind, n in count.items())
        raise ValueError(
            f"expected as many rows of each kind, received {shown}. Each row is one "
            "picture, sound or film with its text"
        )


def are_inputs(x: Any) -> bool:
    """Returns whether these are inputs of the graph by name, as `encode` returns."""
    return isinstance(x, Mapping) and "ids" in x


def _is_text(text):
    return isinstance(text, str) and bool(text.strip())


def _listed(kinds):
    return " and ".join(f'"{kind}"' for kind in kinds)
