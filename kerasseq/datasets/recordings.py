"""Sounds and what they say."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kerasseq.datasets.splitting import split_at_random


class Recordings(NamedTuple):
    """Sounds and their transcripts.

    Attributes:
        audio: A float32 array `(samples,)` for each sound: a list, or a sequence such
            as `WaveFiles`, which reads a sound when it is needed.
        texts: The transcript of each sound.
    """

    audio: Sequence[np.ndarray]
    texts: list[str]

    def split(
        self, test: float = 0.2, seed: int | None = 0
    ) -> tuple["Recordings", "Recordings"]:
        """Splits the sounds at random into training set and test set.

        Args:
            test: Share of the test set, of which there is at least one sound.
            seed: Random seed.

        Returns:
            Training set and test set.

        Raises:
            ValueError: If a part would be empty.

        Examples:
            >>> sounds = Recordings([np.zeros(3)] * 5, ["a", "b", "c", "d", "e"])
            >>> [part.texts for part in sounds.split(0.4)]
            [['d', 'a', 'b'], ['c', 'e']]
        """
        parts = split_at_random(len(self.texts), test, seed, "a sound", "sounds")
        training, other = map(self._take, parts)
        return training, other

    def _take(self, rows: list[int]) -> "Recordings":
        take = getattr(self.audio, "take", None)  # of `WaveFiles`
        audio = take(rows) if take else [self.audio[row] for row in rows]
        return Recordings(audio, [self.texts[row] for row in rows])
