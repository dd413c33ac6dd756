"""The segments of a window: the text between two times."""

from collections.abc import Sequence
from typing import NamedTuple


class Piece(NamedTuple):
    """A part of what is written in a window.

    Attributes:
        tokens: Its ids, with times.
        start: Where it begins in the window, in steps of a time.
        end: Where it ends.
    """

    tokens: list[int]
    start: float
    end: float


def split_at_times(
    tokens: Sequence[int], first_timestamp: int, length: int
) -> tuple[list[Piece], int | None]:
    """Cuts the tokens of a window at pairs of times.

    Two times in a row end a segment and begin the next. The next window begins at the
    last end, unless a single time ends the text: then nothing is heard after it.

    Args:
        tokens: The ids, without the end.
        first_timestamp: The id of 0.00 s.
        length: Length of the sound in the window, in steps of a time.

    Returns:
        The segments, and where the next window begins; None for at the end of this one.

    Examples:
        >>> split_at_times([10, 3, 14, 14, 5, 17, 17, 6], 10, 99)  # 6 is read again
        ([Piece(tokens=[10, 3, 14], start=0, end=4), \
Piece(tokens=[14, 5, 17, 17], start=4, end=7)], 7)
        >>> split_at_times([10, 3, 14], 10, 99)
        ([Piece(tokens=[10, 3, 14], start=0, end=4)], None)
    """
    tokens = list(tokens)
    is_time = [token >= first_timestamp for token in tokens]
    ends_once = is_time[-2:] == [False, True]
    cuts = [n + 1 for n in range(len(tokens) - 1) if is_time[n] and is_time[n + 1]]
    if not cuts:
        times = [t - first_timestamp for t in tokens if t >= first_timestamp]
        end = times[-1] if times and times[-1] else length
        return [Piece(tokens, 0, end)], None
    if ends_once:
        cuts.append(len(tokens))
    else:  # the second time shows that the segment is complete
        cuts[-1] += 1
    pieces, last = [], 0
    for cut in cuts:
        part = tokens[last:cut]
        at_end = cut == cuts[-1] and not ends_once
        end = part[-2 if at_end else -1]
        pieces.append(Piece(part, part[0] - first_timestamp, end - first_timestamp))
        last = cut
    return pieces, None if ends_once else max(pieces[-1].end, 1)
