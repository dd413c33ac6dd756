"""The picture of a transcript: each character above the spectrogram, at its time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.tracing import drawing

if TYPE_CHECKING:  # heavy, and needed for figures only
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SECONDS = 8.0  # of a row
WIDTH, HEIGHT = 13.0, 2.1  # inches of a row
QUIET = 0.3  # of the values are white, so that noise is light
TOKEN_COLOR = drawing.COLORS[1]


def plot_transcript(
    frames: ArrayLike,
    tokens: Sequence[str],
    times: ArrayLike,
    seconds: float,
    title: str | None = None,
) -> "Figure":
    """Plots a spectrogram with each token above the moment at which it is found.

    A bar below a token is as long as the model writes it. A sound of more than eight
    seconds takes several rows.

    Args:
        frames: A log-mel spectrogram, `(frames, mels)`.
        tokens: The tokens of the transcript.
        times: The first and the last second of each, `(tokens, 2)`.
        seconds: How long the sound is.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there are no frames, or not as many times as tokens.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> frames = np.random.default_rng(0).normal(size=(50, 7))
        >>> figure = plot_transcript(frames, ["S", "O"], [[0.1, 0.1], [0.3, 0.4]], 0.5)
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['S', 'O']
    """
    frames, times = np.asarray(frames, "float32"), np.reshape(times, (-1, 2))
    if frames.ndim != 2 or not len(frames) or len(times) != len(tokens):
        raise ValueError(
            "frames must be (frames, mels), and times have one entry for each token, "
            f"received frames of shape {frames.shape}, {len(times)} times and "
            f"{len(tokens)} tokens"
        )
    rows = max(1, int(np.ceil(seconds / SECONDS - 1e-6)))
    shown = seconds if rows == 1 else SECONDS
    figure = drawing.figure(WIDTH, HEIGHT * rows + (0.5 if title else 0.0))
    axes = figure.subplots(rows, 1, squeeze=False, sharey=True)[:, 0]
    for row, axis in enumerate(axes):
        _draw(axis, frames, seconds)
        axis.set_xlim(row * shown, (row + 1) * shown)
    for token, (start, end) in zip(tokens, times.tolist(), strict=True):
        row = min(int((start + end) / 2 / shown), rows - 1)
        _write(axes[row], token, start, end)
    axes[-1].set_xlabel("seconds")
    figure.suptitle(title, parse_math=False)
    return figure


def _draw(axis: "Axes", frames: np.ndarray, seconds: float) -> None:
    """Draws the spectrogram, whose first frame begins at 0."""
    axis.imshow(
        frames.T,
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        cmap="Greys",
        vmin=float(np.quantile(frames, QUIET)),
        extent=(0, seconds, 0, frames.shape[1]),
    )
    axis.set_ylabel("mel band")
    axis.spines[["top", "right"]].set_visible(False)


def _write(axis: "Axes", token: str, start: float, end: float) -> None:
    """Writes a token above the spectrogram, and a bar over its frames."""
    above = axis.get_xaxis_transform()  # seconds, and shares of the height
    label, fonts = drawing.drawable(drawing.visible(token))
    middle = (start + end) / 2
    axis.plot(
        [start, max(end, start + 0.01)],
        [1.02, 1.02],
        transform=above,
        color=TOKEN_COLOR,
        linewidth=3,
        solid_capstyle="butt",
        clip_on=False,
    )
    axis.axvline(middle, color=TOKEN_COLOR, linewidth=0.8, alpha=0.6)
    axis.text(
        *(middle, 1.05, label),
        transform=above,
        ha="center",
        va="bottom",
        family=fonts,
        color=TOKEN_COLOR,
        weight="bold",
        parse_math=False,
    )
