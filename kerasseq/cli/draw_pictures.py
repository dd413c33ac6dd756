"""Real, rebuilt and drawn pictures: as arrays, beside each other, and as PNG."""

import pathlib
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import kerasseq
from kerasseq.cli import figures, labeled
from kerasseq.cli.console import status
from kerasseq.cli.multimodal_data import Captioned
from kerasseq.core.files import replacing
from kerasseq.datasets import image_reading

if TYPE_CHECKING:
    from kerasseq.models import Multimodal

PART = 64  # pictures that are drawn between two messages
SHOWN = 8  # pictures in a figure
VISIBLE = 240  # pixels: smaller pictures are enlarged by a whole number


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


def draw_all(model: "Multimodal", tested: Captioned) -> Pictures:
    """Reads pictures, rebuilds them, and draws one for each of their captions."""
    with status("rebuilding the held-out pictures"):
        pixels = real(model, tested.images)
        ids = model.codebook.encode(pixels)
        rebuilt = model.codebook.decode(ids)
    drawn = []
    for part in labeled.in_parts(range(len(pixels)), PART, "drawing pictures"):
        drawn.append(model.draw([tested.texts[n] for n in part]))
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
        captions = [textwrap.fill(text, 20, max_lines=4) for text in texts]
        titles += captions if row == 0 else [title] * len(texts)
    figure = kerasseq.tracing.plots.plot_images(
        images,
        titles,
        "Pictures, rebuilt from their ids, and drawn from their captions",
        columns=len(texts),
    )
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
