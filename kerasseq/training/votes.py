"""Votes between two players, such as two models: rows, or a file of preferences."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kerasseq.core import checks
from kerasseq.core.files import as_path, parse_json, read_text
from kerasseq.core.types import FilePath

SCORES = (0, 0.5, 1)  # of the first player: it lost, tied or won
NAMES = ("chosen_model", "rejected_model")  # keys of a row of preferences

Row: TypeAlias = tuple[str, str] | tuple[str, str, float] | Mapping[str, Any]


class Vote(NamedTuple):
    """A vote.

    Attributes:
        first: The name of a player.
        second: The name of another.
        score: The score of the first: 1 if it won, 0 if it lost, 0.5 for a tie.
    """

    first: str
    second: str
    score: float


def read_votes(votes: FilePath | Iterable[Row]) -> list[Vote]:
    """Reads votes in each form that `ratings` and `elo` take.

    Args:
        votes: Rows, or the path of a file of JSON lines.

    Raises:
        FileNotFoundError: If there is no such file.
        TypeError: If `votes`, a row or a name has the wrong type.
        ValueError: If there are no votes, or a row is not a vote. The message has the
            index of the row, or the line of the file.

    Examples:
        >>> rows = [("gpt", "lstm"), ("gpt", "gru", 0.5)]
        >>> [*map(tuple, read_votes(rows))]
        [('gpt', 'lstm', 1.0), ('gpt', 'gru', 0.5)]
    """
    if isinstance(votes, str | os.PathLike):
        path = as_path("votes", votes)
        lines = enumerate(read_text(path).split("\n"), 1)
        texts = ((f"{path}, line {n}", text) for n, text in lines if text.strip())
        read = [_vote(where, parse_json(text, where)) for where, text in texts]
        if not read:
            raise ValueError(f"`votes` must have at least one vote, {path} is empty.")
        return read
    rows = checks.several("votes", votes, "rows (winner, loser)")
    if not rows:
        raise ValueError(f"`votes` must have at least one vote, received {votes!r}.")
    return [_vote(f"votes[{n}]", row) for n, row in enumerate(rows)]


def _vote(where, row):
    values = _of_preference(where, row) if isinstance(row, Mapping) else row
    if not isinstance(values, list | tuple | np.ndarray) or len(values) not in (2, 3):
        raise TypeError(
            f"{where}: expected (winner, loser), (first, second, score) or an object "
            f'with "{NAMES[0]}" and "{NAMES[1]}", received {checks.short(row)}'
        )
    first, second, score = (*values, 1)[:3]
    if not isinstance(first, str) or not isinstance(second, str):
        raise TypeError(
            f"{where}: the names of players must be strings, received "
            f"{checks.short(row)}"
        )
    if first == second:
        raise ValueError(
            f"{where}: expected two different players, received {first!r} twice"
        )
    if checks.number(f"{where}: the score", score) not in SCORES:
        raise ValueError(
            f"{where}: the score of {first!r} must be 1, 0 or 0.5 for a tie, received "
            f"{score}"
        )
    return Vote(str(first), str(second), float(score))


def _of_preference(where, row):
    """Returns the names and the score in a row of preferences."""
    missing = [name for name in NAMES if name not in row]
    if missing:
        raise ValueError(
            f'{where}: expected the keys "{NAMES[0]}" and "{NAMES[1]}", received '
            f"{checks.short([*row])}. A vote names the two models"
        )
    tie = checks.flag(f'{where}: "tie"', row.get("tie", False))
    return (*(row[name] for name in NAMES), 0.5 if tie else 1)
