r"""Scenes as sound: the color of a shape is a pitch, its shape a number of beeps.

A shape is heard as beeps of one pitch: one for a circle, two for a cross (its strokes),
three for a triangle and four for a square (their sides). Together they take 0.2 s for a
small shape, 0.3 s for one whose size no caption tells, and 0.4 s for a large one, the
last 25 ms of each beep silent. Then
one longer tone, 0.15 s, tells by its pitch the place, the relation or the motion, and
of two shapes the second follows. So different captions differ in sound. Pitch $k$ is

$$f_k = 950\,\left(\tfrac{4100}{950}\right)^{k/14} - 700\ \text{Hz},$$

in equal steps of the mel scale from 250 Hz ($k = 0$) to 3,400 Hz ($k = 14$): the colors
have the six lowest ones, in the order red, green, blue, yellow, purple, white, and the
others follow from $k = 6$: the nine places row by row, the relations left of, above,
right of, below, or the motions left, right, up, down, still.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kerasseq.datasets.scene_layouts import COLORS, Layout

PITCHES = 950 * (4100 / 950) ** (np.arange(15) / 14) - 700  # Hz
BEEPS = np.array([4, 1, 3, 2])  # in the order of `SHAPES`
SECONDS = (0.2, 0.3, 0.4)  # in the order of `SIZES`
LAYOUT = 0.15  # seconds of the tone that tells the place
PAUSE = 0.075  # seconds of silence that follow the beeps of one pitch
FIRST = (0.02, 0.08)  # seconds before the first beep
GAP = 0.025  # seconds of silence at the end of each beep, as part of its time
EDGE = 0.005  # seconds in which a beep rises and falls, without a click
LOUDNESS = (0.3, 0.9)  # amplitudes, of which one is drawn for each sound

Note = tuple[float, int, float]  # pitch in Hz, number of beeps, seconds


class SceneTones(Sequence[np.ndarray]):
    """Sounds of scenes, each computed when it is needed.

    `sounds[n]` is float32 of shape `(samples,)`, from -1 to 1.

    Args:
        notes: For each scene its tones: pitch in Hz, number of beeps, seconds.
        seeds: A whole number for each scene: its pause, loudness, phases and noise.
        sampling_rate: Samples a second.
        noise: Standard deviation of the noise in each sample.

    Examples:
        >>> sounds = SceneTones([[(400.0, 2, 0.3)]] * 3, [5, 6, 7], 8000)
        >>> len(sounds), len(sounds.take([2, 0])), sounds[0].dtype
        (3, 2, dtype('float32'))
    """

    def __init__(
        self,
        notes: Sequence[Sequence[Note]],
        seeds: Sequence[int],
        sampling_rate: int,
        noise: float = 0.0,
    ) -> None:
        self.notes: list[Sequence[Note]] = list(notes)
        self.seeds: list[int] = list(seeds)
        self.sampling_rate: int = sampling_rate
        self.noise: float = noise

    def __len__(self) -> int:
        return len(self.notes)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.take(range(len(self))[index])
        rng = np.random.default_rng(self.seeds[index])
        return _sound(self.notes[index], self.sampling_rate, self.noise, rng)

    def take(self, rows: Sequence[int]) -> "SceneTones":
        """Returns some of the sounds."""
        return SceneTones(
            [self.notes[row] for row in rows],
            [self.seeds[row] for row in rows],
            self.sampling_rate,
            self.noise,
        )

    def __repr__(self) -> str:
        return f"<SceneTones of {len(self):,} scenes at {self.sampling_rate:,} Hz>"


def scene_notes(layout: Layout) -> list[list[Note]]:
    """Returns the tones of each scene.

    Args:
        layout: The shapes.
    """
    parts = (layout.colors, layout.shapes, layout.sizes, layout.layouts)
    columns = (part.tolist() for part in parts)
    notes = []
    for colors, shapes, sizes, where in zip(*columns, strict=True):
        tones = [
            (float(PITCHES[color]), int(BEEPS[shape]), SECONDS[size])
            for color, shape, size in zip(colors, shapes, sizes, strict=True)
        ]
        tones.insert(1, (float(PITCHES[len(COLORS) + where]), 1, LAYOUT))
        notes.append(tones)
    return notes


def _sound(
    notes: Sequence[Note], rate: int, noise: float, rng: np.random.Generator
) -> np.ndarray:
    parts = [np.zeros(round(rng.uniform(*FIRST) * rate))]
    loudness = rng.uniform(*LOUDNESS)
    for pitch, beeps, seconds in notes:
        samples = round(seconds / beeps * rate)
        time = np.arange(samples) / rate
        end = seconds / beeps - GAP
        envelope = np.clip(np.minimum(time, end - time) / EDGE, 0, 1)
        tone = np.sin(2 * np.pi * (pitch * time + rng.random()))
        parts += [np.tile(envelope * tone, beeps), np.zeros(round(PAUSE * rate))]
    sound = loudness * np.concatenate(parts).astype("float32")
    if noise:
        sound += np.float32(noise) * rng.standard_normal(len(sound), dtype="float32")
    return np.clip(sound, -1, 1)
