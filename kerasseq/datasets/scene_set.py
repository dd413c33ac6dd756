"""A set of scenes: pictures or films, captions, sounds, and what each scene shows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kerasseq.datasets import scene_captions as captions
from kerasseq.datasets.film_order import FilmHalves, film_halves
from kerasseq.datasets.scene_tones import SceneTones
from kerasseq.datasets.splitting import split_at_random


@dataclass(frozen=True, eq=False)
class Scenes:
    """Scenes of colored shapes.

    Names of colors, shapes, sizes and layouts are English, whatever the language of the
    captions.

    Attributes:
        images: Pictures, uint8 `(count, height, width, 3)`; films
            `(count, frames, height, width, 3)`.
        texts: A true caption of each scene.
        audio: The sound of each scene, computed when it is needed; None without sound.
        colors: The colors of the shapes of each scene, a tuple of one or two names, in
            the order in which `texts` names them.
        shapes: Their shapes, in the same order.
        sizes: Their sizes: "small" or "large", and "medium" where captions tell none.
        layouts: The place of one shape, such as "top left"; in a film its motion; for
            two shapes the relation of the first to the second, such as "left of".
        boxes: The smallest box around each shape, `(count, objects, 4)`, for films
            `(count, frames, objects, 4)`: first column, first row, and the column and
            row behind the last, so that a shape lies in
            `image[box[1]:box[3], box[0]:box[2]]`.
        language: The language of the captions.
    """

    images: np.ndarray
    texts: list[str]
    audio: SceneTones | None
    colors: list[tuple[str, ...]]
    shapes: list[tuple[str, ...]]
    sizes: list[tuple[str, ...]]
    layouts: list[str]
    boxes: np.ndarray
    language: str

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, rows: slice) -> "Scenes":
        if not isinstance(rows, slice):
            raise TypeError(
                f"scenes are indexed by slices, such as scenes[:3], received {rows!r}. "
                "For one scene take scenes.images[n] and scenes.texts[n]"
            )
        return self.take(range(len(self))[rows])

    def take(self, rows: Sequence[int]) -> "Scenes":
        """Returns some of the scenes.

        Args:
            rows: Their numbers.
        """
        rows = list(rows)
        lists = {
            name: [getattr(self, name)[row] for row in rows]
            for name in ("texts", "colors", "shapes", "sizes", "layouts")
        }
        audio = None if self.audio is None else self.audio.take(rows)
        index = np.array(rows, "int64")
        return replace(
            self,
            images=self.images[index],
            boxes=self.boxes[index],
            audio=audio,
            **lists,
        )

    def split(
        self, test: float = 0.2, seed: int | None = 0
    ) -> tuple["Scenes", "Scenes"]:
        """Splits the scenes at random into training set and test set.

        Args:
            test: Share of the test set, of which there is at least one scene.
            seed: Random seed.

        Returns:
            Training set and test set.

        Raises:
            ValueError: If a part would be empty.
        """
        parts = split_at_random(len(self), test, seed, "a scene", "scenes")
        training, other = map(self.take, parts)
        return training, other

    def true_captions(self, n: int) -> list[str]:
        """Returns all captions that are true of scene `n`, `texts[n]` first.

        "A left of B" is also "B right of A", so that scenes of two shapes have two.

        Args:
            n: Number of the scene.
        """
        looks = self._named(n)
        if len(looks) == 1:
            return [self.texts[n]]
        inverse = captions.INVERSE[self.layouts[n]]
        other = captions.related(self.language, looks[1], inverse, looks[0])
        return [self.texts[n], other]

    def mentions(self, n: int) -> list[tuple[int, int]]:
        """Returns which words of a caption tell color, shape or size of which shape.

        Args:
            n: Number of the scene.

        Returns:
            The position of each such word in `texts[n].split()`, and the index of its
            shape in `boxes`.

        Examples:
            >>> from kerasseq.datasets import scenes
            >>> data = scenes(1, objects=2)
            >>> data.texts[0]
            'a white cross above a red triangle'
            >>> data.mentions(0)
            [(1, 0), (2, 0), (5, 1), (6, 1)]
        """
        looks = self._named(n)
        places = [(word, 0) for word in range(1, len(looks[0]))]  # 0 is the article
        if len(looks) == 2:
            end = len(self.texts[n].split())
            places += [(word, 1) for word in range(end - len(looks[1]) + 1, end)]
        return places

    def halves(self, *, shuffle: bool = False, seed: int | None = 0) -> FilmHalves:
        """Returns the moving films in both orders of their halves: see `film_halves`.

        Args:
            shuffle: Whether the frames inside each half are shuffled, the control.
            seed: Random seed of the shuffling.

        Raises:
            ValueError: If these are pictures, films of an odd number of frames or of
                two, or no shape moves.
        """
        moving = np.array([motion != "still" for motion in self.layouts], bool)
        if self.images.ndim == 5 and not moving.any():
            raise ValueError(
                "halves need films with motion, received still ones alone. Generate "
                "more scenes"
            )
        return film_halves(self.images[moving], shuffle=shuffle, seed=seed)

    def _named(self, n: int) -> list[list[str]]:
        looks = zip(self.colors[n], self.shapes[n], self.sizes[n], strict=True)
        return [captions.named(self.language, *look) for look in looks]
