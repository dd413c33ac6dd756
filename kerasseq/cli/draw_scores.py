"""Real, rebuilt and drawn pictures, and their scores beside what needs no model.

Color and shape of scenes are read by the nearest real picture. The brightest pixels are
moved into the middle, so that the place does not count. Then the nearest of some real
pictures of the training tells color and shape. That reads real scenes without an error,
and costs seconds; a ViT that reads as well learns for minutes. It is told how many real
pictures it reads right, as these bound what the others mean.
"""

import pathlib
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import kerasseq
from kerasseq.cli import captions, figures, labeled, multimodal_data, verdict
from kerasseq.cli.console import Console, status
from kerasseq.cli.multimodal_data import Captioned
from kerasseq.core.files import replacing
from kerasseq.datasets import image_reading
from kerasseq.datasets.scene_set import Scenes

if TYPE_CHECKING:
    from kerasseq.models import Multimodal

MOST = 256  # held-out captions that are drawn
LEARNED = 1000  # pictures of the training from which frequencies and means are counted
PART = 64  # pictures that are drawn, or scored, at a time
SHOWN = 8  # pictures in a figure
VISIBLE = 240  # pixels: smaller pictures are enlarged by a whole number
BRIGHT = 0.5  # of the brightest pixel of a picture
MODEL, DRAWN = "the model", "drawn"
FREQUENCIES = "the frequencies of the ids"
SHUFFLED = "the model with captions of other pictures"
FREQUENT_LOOK = "the most frequent color and shape"
SHUFFLED_LOOK = "drawn, with captions of other pictures"

Look = tuple[str, str]  # color and shape


class Pictures(NamedTuple):
    """Pictures of the same rows, float32 `(rows, H, W, C)` from 0 to 1.

    Attributes:
        real: As the data have them.
        rebuilt: Those of their ids.
        drawn: Those of their captions.
        ids: The ids of the real ones, `(rows, R, S)`.
    """

    real: np.ndarray
    rebuilt: np.ndarray
    drawn: np.ndarray
    ids: np.ndarray


def draw_all(model: "Multimodal", images: Any, texts: Sequence[str]) -> Pictures:
    """Reads pictures, rebuilds them, and draws one for each of their captions."""
    with status("rebuilding the pictures"):
        pixels = real(model, images)
        ids = model.codebook.encode(pixels)
        rebuilt = model.codebook.decode(ids)
    drawn = []
    for part in labeled.in_parts(range(len(pixels)), PART, "drawing pictures"):
        drawn.append(model.draw([texts[n] for n in part]))
    return Pictures(pixels, rebuilt, np.concatenate(drawn), ids)


def real(model: "Multimodal", images: Any) -> np.ndarray:
    """Returns files or arrays as the model reads them, pixels from 0 to 1."""
    images = images if isinstance(images, list) else np.asarray(images)
    read = model.preprocessor.pictures.reader(images)
    with read.original_errors():
        pixels = read(np.arange(len(images)))
    fractions = pixels.astype("float32")
    return fractions / np.float32(255) if pixels.dtype.kind in "iu" else fractions


def save(
    folder: pathlib.Path, texts: list[str], pictures: Pictures, name: str = "pictures"
) -> pathlib.Path:
    """Draws real, rebuilt and drawn pictures below each other, with their captions."""
    texts = texts[:SHOWN]
    rows = {
        "real": pictures.real,
        "rebuilt from ids": pictures.rebuilt,
        "drawn from caption": pictures.drawn,
    }
    titles, images = [], []
    for row, (title, each) in enumerate(rows.items()):
        images += [as_bytes(image[..., :3]) for image in each[: len(texts)]]
        captions_of = [textwrap.fill(text, 20, max_lines=4) for text in texts]
        titles += captions_of if row == 0 else [title] * len(texts)
    title = "Pictures, rebuilt from their ids, and drawn from their captions"
    plots = kerasseq.tracing.plots
    figure = plots.plot_images(images, titles, title, columns=len(texts))
    return figures.save(figure, folder / f"{name}.png")


def as_bytes(image: np.ndarray) -> np.ndarray:
    """Returns a picture `(H, W, C)` as uint8; a gray one `(H, W)`.

    Examples:
        >>> as_bytes(np.array([[[0.0], [0.5], [1.0]]])).tolist()
        [[0, 128, 255]]
    """
    pixels = np.round(np.clip(image, 0, 1) * 255).astype("uint8")
    return pixels[..., 0] if pixels.shape[-1] == 1 else pixels


def write_png(image: np.ndarray, file: pathlib.Path) -> None:
    """Writes a picture as PNG; a small one enlarged, so that it can be seen.

    Args:
        image: `(H, W, C)`, pixels from 0 to 1.
        file: The file.
    """
    pillow = image_reading.load_pillow()
    pixels = as_bytes(image)
    factor = max(1, VISIBLE // max(pixels.shape[:2]))
    pixels = pixels.repeat(factor, axis=0).repeat(factor, axis=1)
    with replacing(file) as temporary:
        pillow.Image.fromarray(pixels).save(temporary, format="PNG")


# Scores


def rows(pictures: Captioned, seed: int) -> list[int]:
    """Chooses held-out pictures at random, each once."""
    return captions.rows(pictures, seed)[:MOST]


def scores(
    model: "Multimodal", learned: Captioned, tested: Captioned, pictures: Pictures
) -> dict[str, Any]:
    """Compares what a model draws with what needs no model.

    Args:
        model: The model.
        learned: The pictures of the training.
        tested: Some held-out pictures.
        pictures: Those, rebuilt and drawn.

    Returns:
        "bits": bits per id of each held-out picture, by what predicts them. "errors":
        mean squared errors of the pixels. "codes": how many are in use. "looks": for
        scenes of one shape which pictures have color and shape of their captions.
    """
    some = np.random.default_rng(0).permutation(len(learned.texts))[:LEARNED].tolist()
    some = multimodal_data.take(learned, some)
    with status("counting the ids of the training"):
        pixels = real(model, some.images)
        known = model.codebook.encode(pixels)
    with status("computing the loss on the held-out pictures"):
        bits = bits_per_id(model, known, tested, pictures)
    mean = pixels.mean(axis=0)
    scored = {
        "bits": bits,
        "errors": {
            "rebuilt": float(np.mean((pictures.real - pictures.rebuilt) ** 2)),
            "the mean picture": float(np.mean((pictures.real - mean) ** 2)),
        },
        "codes": in_use(pictures.ids, model.codebook.num_codes),
    }
    if has_looks(learned):
        with status("reading color and shape"):
            scored["looks"] = look_scores(some, pixels, tested, pictures)
    return scored


def bits_per_id(
    model: "Multimodal", known: np.ndarray, tested: Captioned, pictures: Pictures
) -> dict[str, np.ndarray]:
    """Returns bits per id of each held-out picture, by what predicts its ids.

    Args:
        model: The model.
        known: Ids of pictures of the training.
        tested: The held-out pictures, of which the captions are read.
        pictures: The same, with their ids.
    """
    K, ids = model.codebook.num_codes, pictures.ids.reshape(len(pictures.ids), -1)
    bits = {FREQUENCIES: -np.log2(frequencies(known, K))[ids].mean(axis=1)}
    if len(ids) > 1:
        others = [*tested.texts[1:], tested.texts[0]]
        bits[SHUFFLED] = _bits(model, others, pictures.real, ids)
    return {**bits, MODEL: _bits(model, tested.texts, pictures.real, ids)}


def _bits(model, texts, pixels, ids):
    """Bits per id of pictures after captions, `(rows,)`."""
    parts = []
    for start in range(0, len(texts), PART):
        part = slice(start, start + PART)
        encoded = model.encode(pixels[part], texts[part])
        z = np.asarray(model.predict_on_batch(encoded), "float64")  # (B, N, K + 1)
        most = z.max(axis=-1, keepdims=True)
        nats = np.log(np.exp(z - most).sum(axis=-1)) + most[..., 0]
        nats -= np.take_along_axis(z, ids[part, :, None], axis=-1)[..., 0]
        parts.append(nats.mean(axis=1) / np.log(2))
    return np.concatenate(parts)


def frequencies(ids: np.ndarray, count: int) -> np.ndarray:
    """Returns the probability of each id, with one more of each than there are.

    Args:
        ids: Ids.
        count: K.

    Examples:
        >>> frequencies(np.array([[0, 0], [0, 2]]), 4).tolist()
        [0.5, 0.125, 0.25, 0.125]
    """
    n = np.bincount(ids.ravel(), minlength=count) + 1
    return n / n.sum()


def in_use(ids: np.ndarray, count: int) -> dict[str, float]:
    """Returns how many codes occur, and their perplexity, as plain data.

    Args:
        ids: Ids of pictures.
        count: K.

    Examples:
        >>> in_use(np.array([[0, 0], [2, 2]]), 4)
        {'num_codes': 4, 'used': 2, 'perplexity': 2.0}
    """
    n = np.bincount(ids.ravel(), minlength=count)
    p = n[n > 0] / n.sum()
    perplexity = float(np.exp(-np.sum(p * np.log(p))))
    return {"num_codes": count, "used": len(p), "perplexity": perplexity}


def judge(scored: dict[str, Any]) -> dict[str, Any]:
    """Returns whether a model beats the best that needs no model, as plain data.

    It is judged by what its pictures show, or by the bits per id.

    Args:
        scored: What `scores` returns.
    """
    if "looks" in scored:
        both = {name: each["both"] for name, each in scored["looks"].items()}
        own, lowest = both[DRAWN].astype("float64"), False
        others = {name: both[name] for name in (SHUFFLED_LOOK, FREQUENT_LOOK)}
        what = "color and shape of drawn pictures as in the caption"
        rows, advice = "held-out captions", "more --codebook-steps"
    else:
        others, lowest = dict(scored["bits"]), True
        own = others.pop(MODEL)
        what = "bits per id of the held-out pictures"
        rows, advice = "held-out pictures", "more pictures"
    words = "The model", own, others, what, ["more --steps", advice]
    return verdict.compare(*words, rows=rows, lowest=lowest)


def plain(scored: dict[str, Any]) -> dict[str, Any]:
    """Returns scores as plain data: means over the held-out pictures."""
    bits = {name: float(each.mean()) for name, each in scored["bits"].items()}
    data = {**scored, "bits": bits}
    if "looks" in scored:
        data["looks"] = {
            name: {key: float(np.mean(right)) for key, right in each.items()}
            for name, each in scored["looks"].items()
        }
    return data


def show(console: Console, scored: dict[str, Any]) -> None:
    """Prints the scores."""
    data = plain(scored)
    errors, codes = data["errors"], data["codes"]
    title = f"Bits per id, {len(scored['bits'][MODEL]):,} held-out pictures"
    cells = [(name, f"{bits:.3f}") for name, bits in data["bits"].items()]
    console.table(title, ("predicted by", ">bits"), cells)
    console.write(
        "Rebuilt from their ids, held-out pictures have a mean squared error of "
        f"{errors['rebuilt']:.4f}; the mean picture has "
        f"{errors['the mean picture']:.4f}. {codes['used']:,} of "
        f"{codes['num_codes']:,} codes are in use, as many as "
        f"{codes['perplexity']:.1f} equally frequent ones."
    )
    if "looks" in data:
        cells = [
            (name, *(f"{share:.3f}" for share in each.values()))
            for name, each in data["looks"].items()
        ]
        title = "Right color and shape, read by the nearest real picture"
        console.table(title, ("pictures", ">color", ">shape", ">both"), cells)


# Color and shape of scenes


def has_looks(pictures: Captioned) -> bool:
    """Returns whether these are scenes of one shape, which have one color and shape."""
    return isinstance(pictures, Scenes) and pictures.boxes.shape[1] == 1


def looks_of(scenes: Scenes) -> list[Look]:
    """Returns color and shape of scenes of one shape."""
    pairs = zip(scenes.colors, scenes.shapes, strict=True)
    return [(color, shape) for (color,), (shape,) in pairs]


def centered(images: np.ndarray) -> np.ndarray:
    """Moves the bright pixels of pictures into the middle, around the edges.

    Args:
        images: `(rows, H, W, C)`, pixels from 0 to 1.

    Returns:
        The same shape.

    Examples:
        >>> image = np.zeros((1, 3, 3, 1))
        >>> image[0, 0, 2] = 1
        >>> centered(image)[0, :, :, 0].tolist()
        [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    light = images.max(axis=-1)  # (rows, H, W)
    most = light.max(axis=(1, 2), keepdims=True)
    bright = (light >= BRIGHT * most).astype("float64")
    _, H, W = light.shape
    total = bright.sum(axis=(1, 2))
    row = np.rint(bright.sum(axis=2) @ np.arange(H) / total).astype(int)
    column = np.rint(bright.sum(axis=1) @ np.arange(W) / total).astype(int)
    rows = (np.arange(H) + row[:, None] - H // 2) % H  # (rows, H)
    columns = (np.arange(W) + column[:, None] - W // 2) % W
    n = np.arange(len(images))[:, None, None]
    return images[n, rows[:, :, None], columns[:, None, :]]


def nearest(known: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Returns the index of the nearest known picture of each, both centered.

    Args:
        known: `(n, H, W, C)`.
        images: `(rows, H, W, C)`.
    """
    x, y = (centered(each).reshape(len(each), -1) for each in (known, images))
    return captions.nearest_rows(x, y)


def right(read: Sequence[Look], asked: Sequence[Look]) -> dict[str, np.ndarray]:
    """Returns which colors and shapes are right, and which are both.

    Examples:
        >>> cells = [("red", "cross"), ("blue", "cross")]
        >>> {name: x.tolist() for name, x in right(cells, [cells[0]] * 2).items()}
        {'color': [True, False], 'shape': [True, True], 'both': [True, False]}
    """
    same = np.array(read) == np.array(asked)
    return {"color": same[:, 0], "shape": same[:, 1], "both": same.all(axis=1)}


def look_scores(
    learned: Scenes, pixels: np.ndarray, tested: Scenes, pictures: Pictures
) -> dict[str, dict[str, np.ndarray]]:
    """Returns which pictures have color and shape of their captions.

    Args:
        learned: Scenes of the training.
        pixels: Their pictures.
        tested: Held-out scenes.
        pictures: Their pictures, rebuilt and drawn.
    """
    known, asked = looks_of(learned), looks_of(tested)

    def read(images):
        return [known[n] for n in nearest(pixels, images)]

    drawn = read(pictures.drawn)
    most = Counter(known).most_common(1)[0][0]
    return {
        "real": right(read(pictures.real), asked),
        "rebuilt from their ids": right(read(pictures.rebuilt), asked),
        DRAWN: right(drawn, asked),
        SHUFFLED_LOOK: right([*drawn[1:], drawn[0]], asked),
        FREQUENT_LOOK: right([most] * len(asked), asked),
    }
