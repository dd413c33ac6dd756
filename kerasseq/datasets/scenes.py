"""Small pictures, films and sounds of colored shapes, with captions of what they show.

MERLOT (Zellers et al., 2021), VATT (Akbari et al., 2021) and LIMoE (Mustafa et al.,
2022) learn from millions of films and pictures. These scenes ask the same questions of
a model that trains in minutes: which words belong to which pixels, which shape is left
of which, and which way time runs.
"""

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
from kerasseq.datasets.scene_painting import paint
from kerasseq.datasets.scene_set import Scenes
from kerasseq.datasets.scene_tones import SceneTones, scene_notes
from kerasseq.datasets.wave_files import check_rate

SMALLEST = 16  # pixels: below, small shapes look the same
LOWEST_RATE = 8000  # Hz: the highest tone has 3,400 Hz


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
    - with `objects=2`, is left of, right of, above or below another one, of which
      exactly one holds: "a red square left of a blue cross";
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
    kind: str,
    layout: layouts.Layout,
    images: np.ndarray,
    audio: SceneTones | None,
    language: str,
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
