"""What a run of decoding is given, checked on the host before anything runs."""

from typing import NamedTuple

import keras
import numpy as np

from kerasseq.core import checks


class Prompt(NamedTuple):
    """A batch of prompts.

    Attributes:
        ids: int32 `(batch, time)`, 0 where nothing is real.
        real: bool `(batch, time)`.
    """

    ids: np.ndarray
    real: np.ndarray

    def split(self):
        """All but the last real token of each row, as a `Prompt`, and the last ones.

        Steps at which no row has anything to read are left out.

        Examples:
            >>> prompt = read_prompt([[5, 6, 9], [7, 9, 9]], [[1, 1, 0], [1, 0, 0]])
            >>> before, last = prompt.split()
            >>> before.ids.tolist(), before.real.tolist(), last.tolist()
            ([[5], [0]], [[True], [False]], [6, 7])
        """
        time = self.ids.shape[1]
        last = time - 1 - self.real[:, ::-1].argmax(axis=1)
        rows = np.arange(len(last))
        real = self.real.copy()
        real[rows, last] = False
        columns = real.any(axis=0)
        before = np.where(real, self.ids, 0)[:, columns]
        return Prompt(before, real[:, columns]), self.ids[rows, last]


def read_prompt(prompt, mask=None) -> Prompt:
    """Check prompts `(batch, time)` and their mask.

    Examples:
        >>> read_prompt([3, 1])
        Traceback (most recent call last):
        ...
        ValueError: prompt must be ids of shape (batch, time), got shape (2,): for one \
row write [prompt]
    """
    ids = whole_numbers("prompt", prompt)
    if ids.ndim != 2:
        hint = ": for one row write [prompt]" if ids.ndim == 1 else ""
        raise ValueError(
            f"prompt must be ids of shape (batch, time), got shape {ids.shape}{hint}"
        )
    if not ids.size:
        raise ValueError(
            "prompt must have at least one row and one token to go on from, got shape "
            f"{ids.shape}"
        )
    real = np.ones(ids.shape, bool) if mask is None else read_mask(mask, ids.shape)
    empty = np.flatnonzero(~real.any(axis=1))
    if len(empty):
        raise ValueError(
            f"each row of prompt needs a real token to go on from; mask leaves none in "
            f"row {', '.join(map(str, empty))}"
        )
    return Prompt(np.where(real, ids, 0).astype("int32"), real)


def read_mask(mask, shape):
    """The mask as booleans of the shape of the prompt."""
    mask = keras.ops.convert_to_numpy(mask)
    if mask.shape != shape:
        raise ValueError(
            f"mask must have the shape of prompt, {shape}, got {mask.shape}: True "
            "where a token is real"
        )
    if not np.isin(mask, (0, 1)).all():
        raise ValueError("mask must be True (real) or False (padding) everywhere")
    return mask.astype(bool)


def check_ids(prompt: Prompt, vocabulary: int) -> None:
    """Raise if a real id of the prompt is one that the model does not know."""
    unknown = (prompt.ids < 0) | (prompt.ids >= vocabulary)
    if unknown.any():
        row, t = np.argwhere(unknown)[0]
        raise ValueError(
            f"prompt has id {prompt.ids[row, t]} in row {row} at {t}, but the logits "
            f"of step are {vocabulary}: ids must lie from 0 to {vocabulary - 1}"
        )


def read_stop(stop) -> tuple:
    """The stop tokens as a sorted tuple.

    Examples:
        >>> read_stop(None), read_stop(3), read_stop([5, 2, 5])
        ((), (3,), (2, 5))
    """
    ids = np.empty(0, int) if stop is None else np.atleast_1d(np.asarray(stop))
    ids = whole_numbers("stop", ids) if ids.size else ids
    return tuple(sorted({int(i) for i in ids.reshape(-1)}))


def check_stop(stop: tuple, vocabulary: int) -> None:
    """Raise if a stop token can never come."""
    unknown = [i for i in stop if not 0 <= i < vocabulary]
    if unknown:
        raise ValueError(
            f"stop has id {unknown[0]}, which can never come: the logits of step are "
            f"{vocabulary}, so ids lie from 0 to {vocabulary - 1}"
        )


def whole_numbers(name, value):
    """An array of integers; a `TypeError` for anything else.

    Examples:
        >>> whole_numbers("prompt", [[1.5]])
        Traceback (most recent call last):
        ...
        TypeError: prompt must hold whole numbers, got float64
    """
    try:
        ids = keras.ops.convert_to_numpy(value)
    except (TypeError, ValueError):
        ids = None
    if ids is None or ids.dtype == object:
        raise TypeError(
            f"{name} must be one array of whole numbers, got {checks.short(value)}; "
            "rows of unequal length are filled up, and mask tells what is real"
        )
    if ids.size and ids.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold whole numbers, got {ids.dtype}")
    return ids


def uniform_numbers(seed, batch: int, length: int) -> np.ndarray:
    """The numbers that decide every draw, `(batch, length)`, each in [0, 1).

    Each row has a stream of its own, so that a row does not depend on how many there
    are, nor a token on how many come after it.

    Args:
        seed: An integer; one per row; a `keras.random.SeedGenerator`, which moves on;
            or None for numbers that do not repeat.
        batch: Number of rows.
        length: Numbers per row.

    Examples:
        >>> one, rows = uniform_numbers(7, 1, 3), uniform_numbers([5, 7], 2, 3)
        >>> bool((one[0] == rows[1]).all())
        True
    """
    streams = [
        np.random.default_rng(entropy).random(length, dtype="float32")
        for entropy in entropies(seed, batch)
    ]
    return np.stack(streams)


def entropies(seed, batch):
    """What starts the stream of each row."""
    if seed is None:
        return np.random.SeedSequence().spawn(batch)
    if isinstance(seed, keras.random.SeedGenerator):
        drawn = keras.ops.convert_to_numpy(seed.next()).astype("int64").tolist()
        return [[row, *drawn] for row in range(batch)]
    if isinstance(seed, list | tuple | np.ndarray):
        if len(seed) != batch:
            raise ValueError(
                f"seed has {len(seed)} integers for {batch} rows of prompt: give one, "
                "or one per row"
            )
        return [[0, checks.whole_number("seed", s, 0)] for s in seed]
    return [[row, checks.whole_number("seed", seed, 0)] for row in range(batch)]
