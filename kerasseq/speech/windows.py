"""Long sounds in windows that overlap, so that memory does not grow with their square.

A window reads a margin on both sides, of which the outputs are left out.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kerasseq.speech.audio_inputs import AudioRows

MARGIN = 0.1  # of a window, on both sides


class Windows(NamedTuple):
    """Parts of sounds.

    Attributes:
        rows: The parts as rows.
        of: The sound of each part, `(parts,)`.
        kept: The first frame of each part that counts, and the one after the last,
            `(parts, 2)`.
    """

    rows: AudioRows
    of: np.ndarray
    kept: np.ndarray


class Parts(Sequence[np.ndarray]):
    """Parts of sounds, which are cut when they are needed.

    Args:
        sounds: The sounds as rows.
        places: For each part its sound, its first sample, and that after its last.
    """

    def __init__(self, sounds: AudioRows, places: list[tuple[int, ...]]) -> None:
        self.sounds = sounds
        self.places = places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, number: Any) -> Any:
        sound, start, end = self.places[number]
        return self.sounds.sound(sound)[start:end]


def windows_of(model: Any, rows: AudioRows) -> Windows:
    """Returns rows as windows, of which each sound has one or several.

    Args:
        model: A `SpeechRecognizer`.
        rows: The sounds.
    """
    reader, arguments = model.preprocessor, model._arguments
    step = reader.stride * reader.factor  # samples of a frame of the outputs
    longest = max(int(arguments["window"] * reader.sampling_rate) // step, 10)
    margin = int(MARGIN * longest)
    places, kept, of = [], [], []
    for n, length in enumerate(rows.lengths.tolist()):
        frames = int(reader.frames(length))
        if frames <= longest:
            places.append((n, 0, length))
            kept.append((0, frames))
            of.append(n)
            continue
        for first in range(0, frames, longest - 2 * margin):
            last = min(first + longest - 2 * margin, frames)
            start, end = max(first - margin, 0), min(last + margin, frames)
            places.append((n, start * step, min(end * step, length)))
            kept.append((first - start, last - start))
            of.append(n)
    lengths = np.array([end - start for _, start, end in places], "int32")
    parts = AudioRows(Parts(rows, places), lengths=lengths)
    return Windows(parts, np.array(of), np.array(kept))


def joined(windows: Windows, outputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns the outputs of whole sounds.

    Args:
        windows: The windows.
        outputs: The outputs of each, `(frames, ...)`.
    """
    pieces = [
        output[first:last]
        for output, (first, last) in zip(outputs, windows.kept, strict=True)
    ]
    cuts = np.flatnonzero(np.diff(windows.of)) + 1
    groups = np.split(np.arange(len(pieces)), cuts)
    return [np.concatenate([pieces[n] for n in group]) for group in groups]
