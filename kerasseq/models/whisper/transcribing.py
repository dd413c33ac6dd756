"""`transcribe` of `Whisper`: its arguments, and their checks."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kerasseq.core import arguments, checks
from kerasseq.core.types import one_or_several
from kerasseq.decoding.beam import Beam
from kerasseq.decoding.generation import get_sampler
from kerasseq.decoding.samplers import Sampler
from kerasseq.models.whisper.settings import TRANSCRIBE
from kerasseq.models.whisper.transcription import (
    Options,
    Progress,
    transcribe_sounds,
)
from kerasseq.models.whisper.transcripts import WhisperTranscript
from kerasseq.models.whisper.window_decoding import Fallback, check_temperatures
from kerasseq.tasks.fit_call import check_learned

# Tried in this order while a text repeats itself or is improbable, as in Whisper.
TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@one_or_several(WhisperTranscript)
@checks.only_listed(arguments.check_names)
def transcribe(
    model: Any,
    x: Any,
    *,
    language: str | None = None,
    task: str = TRANSCRIBE,
    timestamps: bool = False,
    beam: int | None = None,
    sampler: str | Sampler | Beam | None = None,
    temperature: float | Sequence[float] = TEMPERATURES,
    compression_ratio_threshold: float | None = 2.4,
    logprob_threshold: float | None = -1.0,
    no_speech_threshold: float | None = 0.6,
    prompt: str | None = None,
    condition_on_previous_text: bool = False,
    align: bool = False,
    max_new_tokens: int | None = None,
    seed: int | None = None,
    batch_size: int = 8,
    progress: Progress | None = None,
) -> WhisperTranscript | list[WhisperTranscript]:
    """Transcribes sounds of any length.

    Longer ones than a window are read window by window. With times the next window
    begins where the last complete segment ends, else where the window ends. A
    window is decoded at the first temperature; if its text repeats itself or is
    unlikely, again at the next.

    Args:
        model: The model.
        x: A sound, or several, as for `fit`: arrays `(samples,)`, WAV files, or
            rows with "array" and "sampling_rate".
        language: Code or English name of the language; None to find it from the
            first window of each sound, if the model has several.
        task: "transcribe", or "translate" into English.
        timestamps: Whether the model writes when each segment begins and ends.
        beam: Number of hypotheses of a beam search at temperature 0.
        sampler: What decodes at temperature 0 instead: a sampler, its name or a
            `Beam`. By default the most probable token is taken.
        temperature: The temperatures to try in this order, or one.
        compression_ratio_threshold: The text of a window is decoded again if it is
            compressed by more than this; None for never.
        logprob_threshold: The same if the mean log-probability of its tokens is
            less; None for never.
        no_speech_threshold: A window is empty if no speech is more probable
            than this and the log-probability is below its threshold; None
            for never.
        prompt: Text that precedes, such as names to spell.
        condition_on_previous_text: Whether each window is decoded after the text of
            the windows before: more coherent, but an error may repeat itself.
        align: Whether to find from the attention when each token is heard.
        max_new_tokens: The most tokens of a window; None for as many as the decoder
            has positions.
        seed: Seed of the sampling above temperature 0.
        batch_size: Windows that are decoded at once, of different sounds.
        progress: Is called with the seconds of sound so far and in total.

    Returns:
        A `WhisperTranscript` for one sound, else a list of them. It is the same for
        a sound alone and among others.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If the model has no such language, task or times; if a number is
            out of range; or if a sound is shorter than a frame or has NaN.
    """
    check_learned(model)
    settings = model.generation
    checks.whole_number("batch_size", batch_size)
    settings.prompt(language, task, timestamps)  # raises without such tokens
    fallback = Fallback(
        check_temperatures(temperature),
        _sampler(beam, sampler),
        _threshold("compression_ratio_threshold", compression_ratio_threshold),
        _threshold("logprob_threshold", logprob_threshold),
        _threshold("no_speech_threshold", no_speech_threshold),
    )
    if max_new_tokens is not None:
        checks.whole_number("max_new_tokens", max_new_tokens)
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    uses_previous = checks.flag(
        "condition_on_previous_text", condition_on_previous_text
    )
    options = Options(
        fallback,
        settings.check_language(language),
        task,
        settings.check_timestamps(timestamps),
        _context(model, prompt, uses_previous),
        uses_previous,
        checks.flag("align", align),
        max_new_tokens,
        checks.whole_number("seed", seed, 0),
    )
    return transcribe_sounds(model, x, options, batch_size, progress)


def _sampler(beam, sampler):
    """Returns what decodes at temperature 0."""
    if beam is None:
        return get_sampler(sampler, default="greedy")
    if sampler is not None:
        raise ValueError(
            f"beam and sampler exclude each other, received beam={beam!r} and sampler="
            f"{sampler!r}. Choose one"
        )
    return Beam(checks.whole_number("beam", beam))


def _threshold(name, value):
    return None if value is None else float(checks.finite(name, value))


def _context(model, prompt, uses_previous):
    """Returns the ids of a text that precedes."""
    settings = model.generation
    for name, is_given in {
        "prompt": prompt is not None,
        "condition_on_previous_text": uses_previous,
    }.items():
        if is_given and settings.previous is None:
            raise ValueError(
                f"{name} needs the id of a text that precedes, which the model has "
                "not. Pass generation=WhisperGeneration(..., previous=...) to it"
            )
    if prompt is None:
        return ()
    if not isinstance(prompt, str):
        raise TypeError(f"prompt must be a text, received {checks.short(prompt)}")
    tokenizer = model.preprocessor.tokenizer
    if tokenizer is None:
        raise ValueError("prompt needs a model with a tokenizer, received one for ids")
    return tuple(tokenizer.encode(f" {prompt.strip()}").tolist())
