"""Which half of a film came first: a question that only the order of frames answers.

From: Zellers et al., MERLOT, 2021 (arXiv 2106.02636), which asks it of pairs of frames.
Here films are cut into two halves, in order or exchanged.
"""

from typing import NamedTuple

import numpy as np

from kerasseq.core.checks import random_generator, short, truth


class FilmHalves(NamedTuple):
    """Films in both orders of their halves.

    Attributes:
        films: `(2 * count, frames, height, width, channels)`: each film in order, then
            with its halves exchanged.
        exchanged: 0 or 1 for each: whether the half that came first is shown second.
            Each label is as frequent, so that a constant answer is right in half of
            the cases.
    """

    films: np.ndarray
    exchanged: np.ndarray


def film_halves(
    films: np.ndarray, *, shuffle: bool = False, seed: int | None = 0
) -> FilmHalves:
    """Returns each film in order, and with its halves exchanged.

    Films must show a motion: a still one has no first half. If motions are symmetric,
    as in `scenes`, the order of the frames inside a half alone tells which half came
    first. `shuffle=True` removes it, and nothing better than chance remains, which
    shows that a model uses nothing else.

    Args:
        films: `(count, frames, height, width, channels)`, with an even number of at
            least 4 frames.
        shuffle: Whether the frames inside each half are shuffled: a half of a film is
            the same in both orders, and halves differ in their shuffling.
        seed: Random seed of the shuffling.

    Returns:
        The films and the labels.

    Raises:
        TypeError: If `films` is not an array, or `shuffle` not True or False.
        ValueError: If `films` has another shape.

    Examples:
        >>> films = np.arange(4).reshape(1, 4, 1, 1, 1)
        >>> shown, exchanged = film_halves(films)
        >>> shown[..., 0, 0, 0].tolist(), exchanged.tolist()
        ([[0, 1, 2, 3], [2, 3, 0, 1]], [0, 1])
    """
    if not isinstance(films, np.ndarray):
        raise TypeError(f"films must be an array, received {short(films)}")
    if films.ndim != 5 or films.shape[1] < 4 or films.shape[1] % 2:
        raise ValueError(
            "films must have the shape (count, frames, height, width, channels), with "
            "an even number of at least 4 frames, so that a half has two, received "
            f"the shape {films.shape}"
        )
    count, frames = films.shape[:2]
    # (count, 2 halves, frames of a half)
    order = np.tile(np.arange(frames).reshape(2, -1), (count, 1, 1))
    if truth("shuffle", shuffle):
        order = random_generator(seed).permuted(order, axis=2)
    both = np.stack([order, order[:, ::-1]], axis=1)  # (count, 2 orders, 2, frames / 2)
    rows = np.arange(count)[:, None, None]
    shown = films[rows, both.reshape(count, 2, frames)]
    return FilmHalves(
        shown.reshape(2 * count, *films.shape[1:]), np.tile([0, 1], count)
    )
