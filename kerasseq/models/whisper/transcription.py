"""`transcribe` of a `Whisper`: sounds of any length, window by window."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from kerasseq.models.whisper.alignment import align_window, seconds_per_vector
from kerasseq.models.whisper.inputs import FACTOR
from kerasseq.models.whisper.segments import Piece, split_at_times
from kerasseq.models.whisper.spectrogram import log_mel_frames
from kerasseq.models.whisper.transcripts import (
    WhisperSegment,
    WhisperTranscript,
    text_ids,
    text_of,
)
from kerasseq.models.whisper.window_decoding import (
    Fallback,
    Written,
    decode_windows,
    languages_of,
    padded_rows,
    taken,
)
from kerasseq.tasks.fit_call import check_learned
from kerasseq.tasks.labeled_data import inputs_of

# A function of the seconds so far and in total.
Progress: TypeAlias = Callable[[float, float], Any]
HOT = 0.5  # what is written above is no context for the next window


@dataclasses.dataclass(frozen=True)
class Options:
    """The checked arguments of `transcribe` that each window needs."""

    fallback: Fallback
    language: str | None
    task: str
    timestamps: bool
    context: tuple[int, ...]
    uses_previous: bool
    aligns: bool
    max_new_tokens: int | None
    seed: int


@dataclasses.dataclass
class Track:
    """A sound and what was written of it.

    Attributes:
        number: Its index among the sounds.
        frames: Its log-mel frames, `(frames, mels)`, at least a window of them.
        length: Frames of real sound.
        language: The code of its language.
        probabilities: Of each language, if it was found.
        seek: The first frame of the next window.
        context: Ids of what was written before.
        segments: Its segments.
        ids: The ids of its text, window by window.
        times: When they are heard.
        alignment: How they are heard.
    """

    number: int
    frames: np.ndarray
    length: int
    language: str | None
    context: list[int]
    probabilities: dict[str, float] | None = None
    seek: int = 0
    segments: list[WhisperSegment] = dataclasses.field(default_factory=list)
    ids: list[int] = dataclasses.field(default_factory=list)
    times: list[np.ndarray] = dataclasses.field(default_factory=list)
    alignment: list[np.ndarray] = dataclasses.field(default_factory=list)

    def window(self, size: int) -> np.ndarray:
        """Returns the frames of the next window; zeros after the last, as published."""
        part = self.frames[self.seek : self.seek + size]
        return np.pad(part, ((0, size - len(part)), (0, 0)))


def transcribe_sounds(
    model: Any,
    x: Any,
    options: Options,
    batch_size: int,
    progress: Progress | None,
) -> WhisperTranscript | list[WhisperTranscript]:
    """Transcribes sounds, a batch at a time.

    Args:
        model: A `Whisper`.
        x: A sound, or several.
        options: What each window needs.
        batch_size: Windows that are decoded at once.
        progress: Is called with the seconds so far and in total, or None.
    """
    check_learned(model)
    own = model.preprocessor
    one = own.is_one(x)
    rows = own.sounds(own.several(inputs_of(model, x)))
    total, done, transcripts = float(rows.lengths.sum()) / own.sampling_rate, 0.0, []
    for first in range(0, len(rows), batch_size):
        numbers = range(first, min(first + batch_size, len(rows)))
        tracks = [_track(model, rows.sound(n), n, options) for n in numbers]
        before = done
        while active := [track for track in tracks if track.seek < track.length]:
            _transcribe_windows(model, active, options)
            seek = sum(min(track.seek, track.length) for track in tracks)
            done = before + seek * own.stride / own.sampling_rate
            if progress is not None:
                progress(min(done, total), total)
        transcripts += [_transcript(model, track) for track in tracks]
    return transcripts[0] if one else transcripts


def _track(model, sound, number, options):
    """Returns a sound at its beginning."""
    own = model.preprocessor
    length = len(sound) // own.stride
    if len(sound) < own.samples:  # silence, as in training
        sound = np.pad(sound, (0, own.samples - len(sound)))
    frames = log_mel_frames(model.encoder.log_mel, sound, own.frames_of_window)
    return Track(number, frames, length, options.language, list(options.context))


def _transcribe_windows(model, tracks, options):
    """Transcribes the next window of each sound."""
    size = model.preprocessor.frames_of_window
    rows = padded_rows(list(range(len(tracks))))
    memory = model.memory_of(np.stack([tracks[row].window(size) for row in rows]))
    if model.generation.languages and options.language is None:
        _find_languages(model, memory, tracks)
    prompts = [_prompt(model, track, options) for track in tracks]
    for length in sorted({len(prompt) for prompt in prompts}):  # one cache, one index
        group = [n for n, prompt in enumerate(prompts) if len(prompt) == length]
        written = decode_windows(
            model,
            taken(memory, group),
            [prompts[n] for n in group],
            options.fallback,
            timestamps=options.timestamps,
            max_new_tokens=options.max_new_tokens,
            seeds=[_seed(tracks[n], options) for n in group],
        )
        for n, each in zip(group, written, strict=True):
            _add(model, tracks[n], each, taken(memory, [n]), options)


def _find_languages(model, memory, tracks):
    """Finds the languages of sounds at their beginning."""
    if any(track.language is None for track in tracks):
        probabilities = languages_of(model, memory)
        for track, p in zip(tracks, probabilities, strict=False):
            if track.language is None:
                track.probabilities, track.language = p, max(p, key=p.__getitem__)


def _seed(track, options):
    """Returns the seed of a window, the same for a sound alone and among others."""
    state = np.random.SeedSequence([options.seed, track.seek]).generate_state(1)
    return int(state[0])


def _prompt(model, track, options):
    """Returns the ids before the transcript of a window: context, language, task."""
    settings = model.generation
    ids = settings.prompt(track.language, options.task, options.timestamps)
    most = model.decoder.max_length // 2 - 1
    if not track.context:
        return ids
    return [settings.previous, *track.context[-most:], *ids]


def _add(model, track, written: Written, memory, options):
    """Adds what is written in a window, and goes on to the next."""
    size = model.preprocessor.frames_of_window
    frames = min(size, track.length - track.seek)
    step = seconds_per_vector(model)
    offset, advance = track.seek * step / FACTOR, frames
    if written.is_speech:
        pieces, following = _pieces(model, written, frames, options)
        if following is not None:
            advance = following * FACTOR
        kept = [token for piece in pieces for token in piece.tokens]
        if options.aligns:
            _align(model, track, memory, text_ids(model, kept), frames, options)
        for piece in pieces:
            track.segments.append(_segment(model, piece, written, offset, step))
        _remember(track, pieces, written, options, model.generation)
    track.seek += advance


def _pieces(model, written, frames, options):
    """Returns the segments of a window, and where the next begins."""
    if options.timestamps:
        first = model.generation.first_timestamp
        return split_at_times(written.ids, first, frames // FACTOR)
    return [Piece(written.ids, 0, frames / FACTOR)], None


def _segment(model, piece, written, offset, step):
    return WhisperSegment(
        offset + piece.start * step,
        offset + piece.end * step,
        text_of(model, piece.tokens).strip(),
        piece.tokens,
        written.log_probability,
        written.temperature,
        written.compression_ratio,
        written.no_speech,
    )


def _align(model, track, memory, text, frames, options):
    """Finds when the tokens of a window are heard."""
    if not text:
        return
    prompt = model.generation.prompt(track.language, options.task)
    times, matrix = align_window(model, memory, prompt, text, frames)
    track.ids += text
    offset = track.seek * seconds_per_vector(model) / FACTOR
    track.times.append(times + offset)
    track.alignment.append(matrix)


def _remember(track, pieces, written, options, settings):
    """Keeps the text as context of the next window."""
    if not options.uses_previous:
        return
    if written.temperature >= HOT:
        track.context = []
        return
    first = settings.first_timestamp
    for piece in pieces:
        ids = piece.tokens
        complete = len(ids) > 2 and first is not None and ids[-2] >= first
        track.context += ids[:-1] if complete else ids


def _transcript(model, track):
    """Returns the transcript of a sound."""
    text = "".join(text_of(model, part.tokens) for part in track.segments)
    times = [np.zeros((0, 2)), *track.times]
    return WhisperTranscript(
        text.strip(),
        track.language,
        track.segments,
        track.probabilities,
        [text_of(model, [token]) for token in track.ids],
        np.concatenate(times),
        track.alignment,
    )
