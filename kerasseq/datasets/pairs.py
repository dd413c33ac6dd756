"""Pairs of texts, and a split without overlap of sources or targets."""

import math
import numbers
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kerasseq.core.checks import fraction, random_generator, several, short


class Pairs(NamedTuple):
    """Sources and targets for sequence-to-sequence models.

    Attributes:
        sources: Strings.
        targets: The target of each source.
    """

    sources: list[str]
    targets: list[str]


def split(
    pairs: Iterable[Iterable[str]],
    fractions: float | Iterable[float] = (0.8, 0.1, 0.1),
    seed: int | None = 0,
) -> list[Pairs]:
    """Splits pairs at random into parts without common sources or targets.

    A sentence often has several translations, so that a split by pairs would leak test
    sentences into training. Here pairs that share a source or a target, directly or
    through other pairs, are in the same part. If a small part cannot have its exact
    size, the largest part gets the rest.

    Args:
        pairs: A `Pairs`, any two lists of strings of one length, or a list of tuples
            (source, target).
        fractions: The fraction of each part, with sum 1. One number is the fraction of
            the second of two parts, the test set.
        seed: Random seed.

    Returns:
        One `Pairs` per fraction. Pairs keep their order.

    Raises:
        TypeError: If a fraction is not a number.
        ValueError: If the lists differ in length, the fractions do not add up to 1, or
            a part would have no pair.

    Examples:
        >>> sources = ["Hi.", "Hi.", "Run!", "Go."]
        >>> targets = ["Salut.", "Hé.", "Va !", "Va !"]
        >>> training, test = split((sources, targets), (0.5, 0.5))
        >>> sorted([training.sources, test.sources])
        [['Hi.', 'Hi.'], ['Run!', 'Go.']]
    """
    sources, targets = two_lists(pairs)
    if isinstance(fractions, numbers.Real):
        share = fraction("fractions", fractions)
        fractions = (1 - share, share)
    fractions = several("fractions", fractions, "numbers")
    fractions = [fraction(f"fractions[{i}]", f) for i, f in enumerate(fractions)]
    if not math.isclose(math.fsum(fractions), 1):
        raise ValueError(f"fractions must add up to 1, received {fractions}")
    bounds = np.rint(np.cumsum([0, *fractions]) * len(sources))
    room = np.diff(bounds).astype(int).tolist()
    largest = int(np.argmax(room))
    small = [part for part in range(len(room)) if part != largest]

    groups = _groups(sources, targets)
    parts = [[] for _ in room]
    for which in random_generator(seed).permutation(len(groups)):
        group = groups[which]
        fits = (part for part in small if len(group) <= room[part] - len(parts[part]))
        parts[next(fits, largest)] += group
    for share, part in zip(fractions, parts, strict=True):
        if share and not part:
            raise ValueError(
                f"fractions={tuple(fractions)} leave a part of {share} without a pair: "
                f"there are {len(sources)} pairs in {len(groups)} groups that share no "
                "text. Use fewer parts or more pairs"
            )
    return [
        Pairs([sources[i] for i in sorted(part)], [targets[i] for i in sorted(part)])
        for part in parts
    ]


def two_lists(pairs: Iterable[Iterable[str]]) -> tuple[list[str], list[str]]:
    """Returns sources and targets, from both lists or from a list of tuples.

    Raises:
        ValueError: If `pairs` is neither, or the lengths differ.

    Examples:
        >>> two_lists([("a", "p"), ("b", "q"), ("c", "r")])
        (['a', 'b', 'c'], ['p', 'q', 'r'])
    """
    if are_tuples(pairs):
        pairs = zip(*pairs, strict=True)
    try:
        sources, targets = map(list, pairs)
    except (TypeError, ValueError):
        raise ValueError(
            "pairs must be two lists of texts, (sources, targets), or a list of tuples "
            f"(source, target), received {short(pairs)}"
        ) from None
    if len(sources) != len(targets):
        raise ValueError(
            f"pairs must have as many targets as sources, received {len(targets)} and "
            f"{len(sources)}"
        )
    return sources, targets


def are_tuples(pairs: object) -> bool:
    """Returns whether `pairs` is a list of tuples of two strings."""
    return isinstance(pairs, list) and all(
        isinstance(pair, tuple)
        and len(pair) == 2
        and all(isinstance(text, str) for text in pair)
        for pair in pairs
    )


def _groups(sources: list, targets: list) -> list[list[int]]:
    """Returns the indices of connected pairs, by union-find.

    Examples:
        >>> _groups(["a", "b", "c", "b"], ["p", "q", "r", "r"])
        [[0], [1, 2, 3]]
    """
    parent = list(range(len(sources)))

    def root(i):
        while parent[i] != i:
            parent[i] = i = parent[parent[i]]  # path halving
        return i

    for texts in (sources, targets):
        first = {}
        for i, text in enumerate(texts):
            parent[root(i)] = root(first.setdefault(text, i))
    groups = {}
    for i in range(len(sources)):
        groups.setdefault(root(i), []).append(i)
    return list(groups.values())
