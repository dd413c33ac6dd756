"""What a beam search considered, as a tree to draw."""

from typing import NamedTuple

import numpy as np


class BeamTree(NamedTuple):
    """The continuations that one row of a beam search considered, in order of time.

    Of each beginning in the beam these are its best continuations, as many as the beam
    is wide. All arrays have the shape `(nodes,)`.

    Attributes:
        step: The place in the sequence, from 0.
        parent: The node that it continues; -1 after the prompt.
        token: The id.
        score: The log-probability of the sequence up to here.
        finished: Whether it ended here, by a stop token or by its length.
        kept: Whether it was among the best; the others were given up.
    """

    step: np.ndarray
    parent: np.ndarray
    token: np.ndarray
    score: np.ndarray
    finished: np.ndarray
    kept: np.ndarray


def path_to(history, row, t, place):
    """The tokens of the sequence that is at `place` in the beam after step t.

    Examples:
        >>> history = {
        ...     "tokens": np.array([[[5, 6], [7, 8]]]),  # (batch, length, width)
        ...     "parents": np.array([[[0, 0], [1, 0]]]),
        ... }
        >>> path_to(history, 0, 1, 0)
        [6, 7]
    """
    path = []
    for now in range(t, -1, -1):
        path.append(int(history["tokens"][row, now, place]))
        place = history["parents"][row, now, place]
    return path[::-1]


def grow(history, row, stop) -> BeamTree:
    """The tree of one row, from what its beam tried at each turn.

    Args:
        history: `tried` and `tried_scores`, `(batch, length, width, tries)`; `places`
            and `scores`, `(batch, length, width)`, say which of them stayed, as
            places in `width * tries`; `turns`, `(batch,)`, when the row was done.
        row: Which row.
        stop: The stop tokens.
    """
    nodes = []
    length, width, tries = history["tried"].shape[1:]
    parent_of = np.full(width, -1)  # the node that stands at each place of the beam
    for t in range(history["turns"][row]):
        scores = history["tried_scores"][row, t].reshape(-1)
        tokens = history["tried"][row, t].reshape(-1)
        stayed = history["places"][row, t][history["scores"][row, t] > -np.inf]
        number = np.full(width * tries, -1)
        for place in np.flatnonzero(scores > -np.inf):
            number[place] = len(nodes)
            kept = place in stayed
            ended = kept and (tokens[place] in stop or t + 1 == length)
            parent = parent_of[place // tries]
            nodes.append((t, parent, tokens[place], scores[place], ended, kept))
        parent_of = number[history["places"][row, t]]
    columns = zip(*nodes, strict=True)
    types = ("int32", "int32", "int32", "float32", "bool", "bool")
    return BeamTree(*map(np.array, columns, types))
