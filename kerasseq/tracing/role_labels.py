"""The labels of sentences for `head_roles`, checked and as arrays."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from kerasseq.core import checks
from kerasseq.tracing.texts import check_reads_texts


class Places(NamedTuple):
    """Labels of a role in a batch of sentences.

    Attributes:
        edges: Integers `(E, 3)`: sentence, query and key.
        targets: Integers `(K, 2)`: sentence, and position of the predicted token.
    """

    edges: np.ndarray
    targets: np.ndarray


def read_labels(
    model: keras.Model, sentences: Sequence[Sequence[Any]]
) -> tuple[np.ndarray, dict[str, Places]]:
    """Returns the ids of sentences, padded at the end, and the labels of each role.

    Args:
        model: A language model with a tokenizer.
        sentences: Rows `(text, edges, targets)`.

    Raises:
        TypeError: If the model has no tokenizer, or a sentence is no such row.
        ValueError: If a position is outside of a sentence, or a role has no edges or no
            targets.
    """
    check_reads_texts(model)
    if isinstance(sentences, str) or not isinstance(sentences, Sequence):
        raise TypeError(
            "sentences must be a list of rows (text, edges, targets), received "
            f"{checks.short(sentences)}"
        )
    if not sentences:
        raise ValueError("sentences must have at least one row, received none")
    texts, edges, targets = [], {}, {}
    for n, row in enumerate(sentences):
        texts.append(model.ids(_checked_row(row, n)))
        length = len(texts[-1])
        # A query at the last token predicts nothing, and is not run.
        for role, pairs in _checked("edges", row[0], row[1], length).items():
            kept = [(n, q, k) for q, k in pairs if q < length - 1]
            edges.setdefault(role, []).extend(kept)
        for role, positions in _checked("targets", row[0], row[2], length).items():
            targets.setdefault(role, []).extend((n, t) for t in positions)
    _check_roles(edges, targets)
    # The padding comes last, so that no token before it attends to it.
    ids = np.zeros((len(texts), max(map(len, texts))), "int32")
    for n, row in enumerate(texts):
        ids[n, : len(row)] = row
    return ids, {
        role: Places(np.array(edges[role]), np.array(targets[role])) for role in edges
    }


def _checked_row(row, n):
    """Returns the text of a row."""
    if not isinstance(row, str) and isinstance(row, Sequence) and len(row) >= 3:
        text, edges, targets = row[:3]
        if isinstance(text, str) and {type(edges), type(targets)} == {dict}:
            return text
    raise TypeError(
        "sentences must have rows (text, edges, targets), the last two dictionaries "
        f"by role, received {checks.short(row)} at {n}"
    )


def _checked(name, text, by_role, length):
    """Returns the positions of each role, pairs of them if they are edges."""
    for given in by_role.values():
        if not isinstance(given, list | tuple):
            raise TypeError(
                f"{name} must be dictionaries of lists of positions, received "
                f"{checks.short(given)}"
            )
        for each in given:
            _check_position(name, text, each, length)
    return by_role


def _check_position(name, text, given, length):
    """Raises unless it is a pair of positions, or one that something can predict."""
    first, count = (0, 2) if name == "edges" else (1, 1)
    positions = given if isinstance(given, list | tuple) else (given,)
    are_numbers = all(isinstance(p, int | np.integer) for p in positions)
    if len(positions) != count or not are_numbers or not (
        first <= min(positions) <= max(positions) < length
    ):  # fmt: skip
        raise ValueError(
            f"{name} must have positions from {first} to {length - 1} in "
            f"{checks.short(text)}, received {checks.short(given)}"
        )


def _check_roles(edges, targets):
    for role in {**edges, **targets}:
        if not edges.get(role) or not targets.get(role):
            raise ValueError(
                "sentences must have edges and targets of each role, received "
                f"{len(edges.get(role, []))} edges and {len(targets.get(role, []))} "
                f"targets of {role!r}"
            )
