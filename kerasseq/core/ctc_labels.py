"""The labels of connectionist temporal classification, checked on the host.

A compiled graph raises no error, so `fit` and the decoders check labels before.
"""

from collections.abc import Sequence

import numpy as np

from kerasseq.core import checks


def checked_blank(blank: int, num_symbols: int) -> int:
    """Returns the id of the blank, from 0.

    Examples:
        >>> checked_blank(-1, 5), checked_blank(0, 5)
        (4, 0)
    """
    blank = checks.whole_number("blank", blank, -(2**31))
    if not -num_symbols <= blank < num_symbols:
        raise ValueError(
            f"blank must be one of the {num_symbols} symbols, an id from 0 to "
            f"{num_symbols - 1} or -1 for the last, received {blank}"
        )
    return blank % num_symbols


def check_ctc_labels(
    labels: Sequence[Sequence[int]] | np.ndarray,
    frames: Sequence[int] | np.ndarray,
    num_symbols: int,
    *,
    blank: int = -1,
) -> None:
    """Raises unless every label can be read from as many frames as its row has.

    A label needs a frame for each id, and one more for a blank between equal neighbors.
    The loss of another one is infinite: it is computed in a compiled graph, which
    raises no error.

    Args:
        labels: A row of ids for each label, or an array `(rows, length)`, negative
            after the end.
        frames: The number of real frames of each row, `(rows,)`.
        num_symbols: Number of symbols, with the blank.
        blank: The id of the blank, from the end if negative.

    Raises:
        TypeError: If ids or frames are not whole numbers.
        ValueError: If a label does not fit, has the blank, or an id that has no logits,
            or if the numbers of rows differ. The message names the row.

    Examples:
        >>> check_ctc_labels([[0, 1], [2, 2]], [2, 3], num_symbols=4)
        >>> check_ctc_labels([[0, 1], [2, 2]], [2, 2], num_symbols=4)
        Traceback (most recent call last):
        ...
        ValueError: labels[1] needs 3 frames or more, 2 for its ids and 1 for blanks \
between equal neighbors, received 2. Leave the row out, or use less subsampling
    """
    num_symbols = checks.size("num_symbols", num_symbols)
    rows = label_rows("labels", labels)
    lengths = whole_numbers("frames", frames)
    if lengths.shape != (len(rows),):
        raise ValueError(
            f"frames must have one number for each of the {len(rows)} labels, received "
            f"{len(lengths)}"
        )
    check_rows("labels", rows, lengths, num_symbols, checked_blank(blank, num_symbols))


def check_rows(
    name: str, rows: list[np.ndarray], frames: np.ndarray, num_symbols: int, blank: int
) -> None:
    """Raises as `check_ctc_labels`, for checked arguments.

    Args:
        name: Name of the labels, for messages.
        rows: The labels without padding.
        frames: Number of frames of each row.
        num_symbols: Number of symbols, with the blank.
        blank: The id of the blank, from 0.
    """
    for i, (ids, length) in enumerate(zip(rows, frames.tolist(), strict=True)):
        wrong = ids[(ids < 0) | (ids >= num_symbols) | (ids == blank)]
        if len(wrong):
            raise ValueError(
                f"{name}[{i}] must have ids of the {num_symbols} symbols, from 0 to "
                f"{num_symbols - 1} without the blank, {blank}, received {wrong[0]}. "
                "Only after its end an id may be -1"
            )
        blanks = int((ids[1:] == ids[:-1]).sum())
        if len(ids) + blanks > length:
            raise ValueError(
                f"{name}[{i}] needs {len(ids) + blanks} frames or more, {len(ids)} for "
                f"its ids and {blanks} for blanks between equal neighbors, received "
                f"{length}. Leave the row out, or use less subsampling"
            )


def label_rows(
    name: str, labels: Sequence[Sequence[int]] | np.ndarray
) -> list[np.ndarray]:
    """Returns labels without the padding at their ends.

    Examples:
        >>> label_rows("labels", [[3, 1, -1, -1], [2]])
        [array([3, 1]), array([2])]
    """
    rows = []
    for i, label in enumerate(checks.several(name, labels, "rows of ids")):
        ids = whole_numbers(f"{name}[{i}]", label)
        real = np.flatnonzero(ids >= 0)
        rows.append(ids[: real[-1] + 1] if len(real) else ids[:0])
    return rows


def whole_numbers(name: str, values: Sequence[int] | np.ndarray) -> np.ndarray:
    """Returns a row of whole numbers as an array.

    Examples:
        >>> whole_numbers("frames", [2.5])
        Traceback (most recent call last):
        ...
        TypeError: frames must be a row of whole numbers, received [2.5]
    """
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):  # rows of unequal length, or a tensor of a GPU
        array = np.empty((0, 0))
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(
            f"{name} must be a row of whole numbers, received {checks.short(values)}"
        )
    return array.astype("int64")
