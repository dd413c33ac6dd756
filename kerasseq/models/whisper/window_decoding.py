"""Decoding of a batch of windows, again and hotter where the text is unlikely."""

import dataclasses
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core.types import Nested, Tensor
from kerasseq.decoding import inputs
from kerasseq.decoding.beam import Beam, length_penalties
from kerasseq.decoding.generation import decode
from kerasseq.decoding.samplers import RandomSampler, Sampler
from kerasseq.models.whisper.ruled_step import ruled_state, ruled_step
from kerasseq.models.whisper.rules import language_probabilities, no_speech_probability
from kerasseq.models.whisper.transcripts import text_ids, text_of


class Written(NamedTuple):
    """What is written in a window.

    Attributes:
        ids: The ids, without the end.
        log_probability: The mean of its tokens, with the end.
        temperature: Of the sampling.
        compression_ratio: Of the text.
        no_speech: The probability of no speech, or None.
        is_speech: Whether the window counts.
    """

    ids: list[int]
    log_probability: float
    temperature: float
    compression_ratio: float
    no_speech: float | None
    is_speech: bool


@dataclasses.dataclass(frozen=True)
class Fallback:
    """When a window is decoded again.

    Attributes:
        temperatures: Temperatures to try in order; 0 is the sampler.
        sampler: What decodes at temperature 0.
        compression_ratio: A text that is compressed more repeats itself; None to accept
            all.
        log_probability: The least mean of its tokens; None to accept all.
        no_speech: The window is empty if no speech is more probable than this and the
            text is not likely; None to keep all.
    """

    temperatures: tuple[float, ...]
    sampler: Sampler | Beam
    compression_ratio: float | None
    log_probability: float | None
    no_speech: float | None

    def sampler_at(self, temperature: float) -> Sampler | Beam:
        """Returns what decodes at a temperature."""
        return RandomSampler(temperature) if temperature else self.sampler

    def is_speech(self, log_probability: float, no_speech: float | None) -> bool:
        """Returns whether there is speech."""
        if no_speech is None or self.no_speech is None or no_speech <= self.no_speech:
            return True
        return self.log_probability is not None and (
            log_probability > self.log_probability
        )

    def accepts(self, written: Written) -> bool:
        """Returns whether a text is likely, and does not repeat itself."""
        ratio, likely = self.compression_ratio, self.log_probability
        if not written.is_speech:
            return True
        return (ratio is None or written.compression_ratio <= ratio) and (
            likely is None or written.log_probability >= likely
        )


def decode_windows(
    model: Any,
    memory: Tensor,
    prompts: Sequence[Sequence[int]],
    fallback: Fallback,
    *,
    timestamps: bool,
    max_new_tokens: int | None,
    seeds: Sequence[int],
) -> list[Written]:
    """Decodes windows until each text is accepted, or no temperature is left.

    Args:
        model: A `Whisper`.
        memory: The vectors of the windows, `(B, S, D)`.
        prompts: The ids that each transcript begins with, of equal number.
        fallback: When to decode again.
        timestamps: Whether times are written.
        max_new_tokens: The most tokens; None for as many as the decoder has positions.
        seeds: A seed for each window.
    """
    results: list[Any] = [None] * len(prompts)
    left = list(range(len(prompts)))
    for attempt, temperature in enumerate(fallback.temperatures):
        rows = padded_rows(left)
        written = _decode(
            model,
            memory if rows == list(range(len(prompts))) else taken(memory, rows),
            np.array([prompts[row] for row in rows], "int32"),
            fallback,
            temperature,
            timestamps,
            max_new_tokens,
            [seeds[row] + attempt for row in rows],
        )
        for row, each in zip(left, written, strict=False):
            results[row] = each
        left = [row for row in left if not fallback.accepts(results[row])]
        if not left:
            break
    return results


def padded_rows(rows: list[int]) -> list[int]:
    """Repeats the last row up to a power of two, as each number is compiled.

    Examples:
        >>> padded_rows([4, 6, 7])
        [4, 6, 7, 7]
    """
    size = 1 << (len(rows) - 1).bit_length()
    return [*rows, *[rows[-1]] * (size - len(rows))]


def taken(x: Tensor, rows: list[int]) -> Tensor:
    """Returns some rows of a tensor."""
    return ops.take(x, np.array(rows, "int32"), axis=0)


def _decode(
    model,
    memory,
    prompts,
    fallback,
    temperature,
    timestamps,
    max_new_tokens,
    seeds,
):
    """Decodes windows at one temperature."""
    settings = model.generation
    count, length = prompts.shape
    room = model.decoder.max_length - length
    most = min(x for x in (room, settings.max_length, max_new_tokens) if x is not None)
    state = model.state_of(memory, length + most)
    no_speech = no_speech_of(model, state, prompts)
    sampler = fallback.sampler_at(temperature)
    best = decode(
        ruled_step(model, timestamps),
        ruled_state(state, count, length),
        prompts,
        sampler,
        max_new_tokens=most,
        stop=settings.end,
        fill=settings.end,
        **({} if isinstance(sampler, Beam) else {"seed": seeds}),
    )
    written = []
    for row in range(count):
        size, score = int(best.lengths[row, 0]), float(best.scores[row, 0])
        if isinstance(sampler, Beam):
            score *= length_penalties(size, sampler.length_penalty)[-1]
        ids = best.ids[row, 0, :size].tolist()
        ids = ids[:-1] if ids[-1] == settings.end else ids
        silence = None if no_speech is None else float(no_speech[row])
        mean = score / size
        written.append(
            Written(
                ids,
                mean,
                temperature,
                compression_ratio(model, ids),
                silence,
                fallback.is_speech(mean, silence),
            )
        )
    return written


def no_speech_of(model: Any, state: Nested, prompts: np.ndarray) -> np.ndarray | None:
    """Computes the probability of no speech, after the start of the transcript."""
    settings = model.generation
    if settings.no_speech is None:
        return None
    start = int(np.flatnonzero(prompts[0] == settings.start)[-1])
    logits = logits_after(model, state, prompts[:, : start + 1])
    return ops.convert_to_numpy(no_speech_probability(logits, settings.no_speech))


def languages_of(model: Any, memory: Tensor) -> list[dict[str, float]]:
    """Computes the probability of each language of windows."""
    settings = model.generation
    prompts = np.full((memory.shape[0], 1), settings.start, "int32")
    logits = logits_after(model, model.state_of(memory, 1), prompts)
    p = language_probabilities(logits, list(settings.languages.values()))
    return [dict(zip(settings.languages, row.tolist(), strict=True)) for row in p]


def logits_after(model: Any, state: Nested, prompts: np.ndarray) -> Tensor:
    """Returns the logits `(B, V)` of the token after prompts `(B, T)`."""
    programs = kernels.programs(model)

    def make():
        return kernels.compiled(model.step, pure=programs.pure)

    step = programs.get("one_step", None, make)
    for token in prompts.T:
        logits, state = step(state, ops.convert_to_tensor(token))
    return logits


def compression_ratio(model: Any, ids: list[int]) -> float:
    """Computes the bytes of a text over those after compression.

    Of a model without a tokenizer the ids are the text.
    """
    if model.preprocessor.tokenizer is None:
        content = np.array(text_ids(model, ids), "<u4").tobytes()
    else:
        content = text_of(model, ids).encode("utf-8", "replace")
    return len(content) / len(zlib.compress(content))


def check_temperatures(value: Any) -> tuple[float, ...]:
    """Returns the temperatures to try, of which only the first may be 0.

    Examples:
        >>> check_temperatures(0.0), check_temperatures([0, 0.5])
        ((0.0,), (0.0, 0.5))
    """
    several = value if isinstance(value, list | tuple) else (value,)
    if not several:
        raise ValueError(
            f"temperature must be a number, or several to try, received {value!r}"
        )
    for n, each in enumerate(several):
        if n or isinstance(each, bool) or each != 0:
            inputs.temperature(each)
    return tuple(map(float, several))
