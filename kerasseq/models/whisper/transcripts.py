"""What a Whisper writes down of a sound."""

from typing import Any, NamedTuple

import numpy as np


class WhisperSegment(NamedTuple):
    """A part of a transcript.

    Attributes:
        start: When it begins, in seconds.
        end: When it ends.
        text: Its text.
        tokens: Its ids, with those of times.
        log_probability: The mean of all tokens of its window, with the end.
        temperature: Of the sampling of its window.
        compression_ratio: How much shorter the text of its window is when compressed: a
            text that repeats itself is above 2.4.
        no_speech_probability: Of no speech in its window; None for a model
            without such an id.
    """

    start: float
    end: float
    text: str
    tokens: list[int]
    log_probability: float
    temperature: float
    compression_ratio: float
    no_speech_probability: float | None


class WhisperTranscript(NamedTuple):
    """What a model writes down of a sound.

    Attributes:
        text: The text; the ids of a model without a tokenizer, with spaces.
        language: The code of its language, given or found; None for a model of one
            language.
        segments: The parts: one for each window, or with `timestamps=True` those that
            the model divides it into.
        language_probabilities: The probability of each language if it was found, else
            None.
        tokens: The text of each token, with `align=True`; else empty.
        times: The first and the last second of each of these, `(tokens, 2)`.
        alignment: For each window how its tokens are heard, `(tokens, vectors)`: larger
            where the decoder attends to. A vector is of two frames.
    """

    text: str
    language: str | None
    segments: list[WhisperSegment]
    language_probabilities: dict[str, float] | None
    tokens: list[str]
    times: np.ndarray
    alignment: list[np.ndarray]


def text_of(model: Any, ids: list[int]) -> str:
    """Returns the text of ids, without special tokens.

    Args:
        model: A `Whisper`.
        ids: The ids.
    """
    ids = text_ids(model, ids)
    tokenizer = model.preprocessor.tokenizer
    if tokenizer is None:
        return " ".join(map(str, ids))
    return tokenizer.decode(ids, skip_special=True)


def text_ids(model: Any, ids: list[int]) -> list[int]:
    """Returns the ids of text among ids: no times, and none beyond the tokenizer."""
    settings, tokenizer = model.generation, model.preprocessor.tokenizer
    size = model.vocabulary_size if tokenizer is None else tokenizer.vocabulary_size
    if settings.first_timestamp is not None:
        size = min(size, settings.first_timestamp)
    marks = {settings.start, settings.end}
    return [i for i in ids if i < size and i not in marks]
