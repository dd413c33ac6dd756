"""Small pictures, films and sounds of colored shapes, with captions of what they show.

MERLOT (Zellers et al., 2021), VATT (Akbari et al., 2021) and LIMoE (Mustafa et al.,
2022) learn from millions of films and pictures. These scenes ask the same questions of
a model that trains in minutes: which words belong to which pixels, which shape is left
of which, and which way time runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kerasseq.core.checks import (
    fits_memory,
    fraction,
    one_of,
    random_generator,
    truth,
    whole_number,
)
from kerasseq.datasets import scene_captions as captions
from kerasseq.datasets import scene_layouts as layouts
from kerasseq.datasets.film_order import FilmHalves, film_halves
from kerasseq.datasets.scene_painting import paint
from kerasseq.datasets.scene_tones import SceneTones, scene_notes
from kerasseq.datasets.wave_files import check_rate

SMALLEST = 16  # pixels: below, small shapes look the same
LOWEST_RATE = 8000  # Hz: the highest tone has 3,400 Hz


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
        held_out = max(1, round(fraction("test", test) * len(self)))
        if held_out >= len(self):
            raise ValueError(
                f"a split must leave a scene in each part, received test={test} and "
                f"{len(self)} scenes. Choose a smaller share, or more scenes"
            )
        order = random_generator(seed).permutation(len(self)).tolist()
        return self.take(order[held_out:]), self.take(order[:held_out])

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
            >>> data = scenes(1, objects=2)
            >>> data.texts[0]
            'a white cross above a red triangle'
            >>> data.mentions(0)
            [(1, 0), (2, 0), (5, 1), (6, 1)]
        """
        looks = self._named(n)
        found = [(word, 0) for word in range(1, len(looks[0]))]  # 0 is the article
        if len(looks) == 2:
            end = len(self.texts[n].split())
            found += [(word, 1) for word in range(end - len(looks[1]) + 1, end)]
        return found

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


def scenes(
    count: int,
    *,
    objects: int = 1,
    frames: int = 1,
    sound: bool = False,
    size: int = 24,
    language: str = "en",
    noise: float = 0.0,
    lighting: float = 0.0,
    held_out: float = 0.0,
    unseen: bool = False,
    sampling_rate: int = 16000,
    seed: int | None = 0,
) -> Scenes:
    """Generates scenes of colored shapes with captions.

    A square, circle, triangle or cross in one of six colors

    - is small or large, at one of nine places: "a small red square at the top left";
    - with `objects=2`, is left of, right of, above or below another one, alone one of
      these: "a red square left of a blue cross";
    - with `frames`, moves left, right, up or down, or stands still: "a red square moves
      left". The five are equally frequent. The speed, 2 to 4 pixels a frame at 24
      pixels, is constant, the path lies inside the picture, and the starts of opposite
      motions are mirrored, so that neither a single frame nor a jump tells the order
      of the frames.

    Scene n depends on the seed alone, not on `count`.

    Args:
        count: Number of scenes.
        objects: Number of shapes, 1 or 2. Two differ in color or shape.
        frames: Number of frames; 1 for pictures, from 2 for films of one shape.
        sound: Whether scenes have a sound: color, shape, size and layout as tones.
        size: Height and width in pixels.
        language: Language of the captions, "en" or "fr".
        noise: Standard deviation of the noise in each pixel and each sample of the
            sound, where white and the loudest sound are 1.
        lighting: Largest brightness of the background, 0 is black, and largest share
            by which the shapes of a scene are darker.
        held_out: Share of the combinations of color, shape and layout that are left
            out. Each layout lacks as many. Which ones depends on the share alone.
        unseen: Whether scenes show the combinations that are held out, instead of the
            others.
        sampling_rate: Samples a second of the sounds.
        seed: Random seed.

    Returns:
        The `Scenes`.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If a number is out of range, there are two shapes in a film, or a
            part of the combinations is empty.

    Examples:
        >>> data = scenes(100, seed=1)
        >>> data.images.shape, data.images.dtype, data.texts[0]
        ((100, 24, 24, 3), dtype('uint8'), 'a small white square at the bottom left')
        >>> films = scenes(5, frames=4, language="fr")
        >>> films.images.shape, films.texts[0]
        ((5, 4, 24, 24, 3), 'une croix verte reste immobile')
        >>> training = scenes(100, held_out=0.2)
        >>> test = scenes(100, held_out=0.2, unseen=True)
        >>> {*training.texts} & {*test.texts}
        set()
    """
    count = whole_number("count", count)
    kind = _kind(objects, frames)
    size = whole_number("size", size, SMALLEST)
    frames = whole_number("frames", frames)
    if kind == "motions" and not layouts.speeds(size, frames)[0]:
        raise ValueError(
            f"frames must leave a shape room to move inside {size} pixels, received "
            f"{frames}. Choose fewer frames, or a larger size"
        )
    fits_memory("count", count, frames * size * size * 3, 1)
    one_of("language", language, captions.LANGUAGES)
    noise, lighting = fraction("noise", noise), fraction("lighting", lighting)
    rate = check_rate("sampling_rate", sampling_rate)
    with_sound = truth("sound", sound)
    if with_sound and rate < LOWEST_RATE:
        raise ValueError(
            f"sampling_rate must be at least {LOWEST_RATE:,} for tones up to 3,400 Hz, "
            f"received {rate:,}"
        )
    rows = _combinations(kind, held_out, unseen)
    # A row of random numbers for each scene, so that it does not depend on `count`.
    placing, lights, dots, sounds = random_generator(seed).spawn(4)
    layout = layouts.draw(
        kind, placing.random((count, layouts.DRAWS)), rows, size, frames
    )
    light = lighting * lights.random((count, 2))
    light[:, 1] = 1 - light[:, 1]
    images = paint(layout, size, light, noise, dots)
    seeds = sounds.integers(2**63, size=count).tolist()
    audio = SceneTones(scene_notes(layout), seeds, rate, noise) if with_sound else None
    return _described(kind, layout, images, audio, language)


def _kind(objects: int, frames: int) -> str:
    """Returns what captions tell beside the shapes: places, relations or motions."""
    whole_number("frames", frames)
    if whole_number("objects", objects) > 2:
        raise ValueError(f"objects must be 1 or 2, received {objects}")
    if objects == 2 and frames > 1:
        raise ValueError(
            f"films have one shape, received objects=2 and frames={frames}. Choose "
            "objects=1, or frames=1"
        )
    if objects == 2:
        return "relations"
    return "places" if frames == 1 else "motions"


def _combinations(kind: str, held_out: float, unseen: bool) -> np.ndarray:
    """Returns the combinations that scenes show."""
    share = fraction("held_out", held_out)
    shown, hidden = layouts.divide(kind, share)
    if share and not (len(hidden) and len(shown)):
        raise ValueError(
            "held_out must leave combinations in both parts, received "
            f"{held_out}, which holds out {len(hidden):,} of "
            f"{len(hidden) + len(shown):,}"
        )
    if truth("unseen", unseen) and not share:
        raise ValueError(
            "unseen=True needs held_out above 0, the share of the combinations that "
            "training leaves out, received held_out=0"
        )
    return hidden if unseen else shown


def _described(
    kind: str, layout: layouts.Layout, images: np.ndarray, audio: Any, language: str
) -> Scenes:
    """Returns scenes with the names of what they show."""
    names = (layouts.COLORS, layouts.SHAPES, layouts.SIZES)
    colors, shapes, sizes = (
        [tuple(name[i] for i in row) for row in indices.tolist()]
        for name, indices in zip(names, layout[:3], strict=True)
    )
    wheres = [layouts.LAYOUTS[kind][i] for i in layout.layouts.tolist()]
    texts = []
    for *looks, where in zip(colors, shapes, sizes, wheres, strict=True):
        first, *second = (
            captions.named(language, *look) for look in zip(*looks, strict=True)
        )
        if second:
            texts.append(captions.related(language, first, where, second[0]))
        else:
            texts.append(captions.located(language, kind, first, where))
    radii = layout.radii[:, None, :, None]
    boxes = np.concatenate([layout.centers - radii, layout.centers + radii + 1], -1)
    if kind != "motions":
        images, boxes = images[:, 0], boxes[:, 0]
    return Scenes(images, texts, audio, colors, shapes, sizes, wheres, boxes, language)
