"""Pairs of texts, and how to divide them so that no test is known from training."""

import math
import numbers
from typing import NamedTuple

import numpy as np

from kerasseq.core.checks import fraction, random_generator, several, short


class Pairs(NamedTuple):
    """What goes in and what should come out, for sequence-to-sequence models.

    Attributes:
        sources: Strings.
        targets: As many strings, in the same order.
    """

    sources: list[str]
    targets: list[str]


def split(pairs, fractions=(0.8, 0.1, 0.1), seed=0) -> list[Pairs]:
    """Divide pairs at random into parts that have no source and no target in common.

    A sentence often has several translations, so one source is in several pairs, and a
    random split would have sources of the training part in the test part. Here pairs
    that share a source or a target, directly or through other pairs, are in the same
    part. If a small part cannot have its exact size, the largest part gets the rest.

    Args:
        pairs: A `Pairs`, any two lists of strings of one length, or a list of tuples
            (source, target).
        fractions: The share of each part; they add up to 1. One number is that of the
            second of two parts, the test.
        seed: Which pairs go where.

    Returns:
        One `Pairs` per fraction. In each the pairs keep the order they came in.

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
        raise ValueError(f"fractions must add up to 1, got {fractions}")
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


def two_lists(pairs) -> tuple[list, list]:
    """Sources and targets, of both or of a list of tuples of two strings.

    Raises:
        ValueError: If there is something else, or not as many of each.

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
            f"(source, target), got {short(pairs)}"
        ) from None
    if len(sources) != len(targets):
        raise ValueError(
            f"pairs must have as many targets as sources, got {len(targets)} and "
            f"{len(sources)}"
        )
    return sources, targets


def are_tuples(pairs):
    """Whether these are tuples of two strings, in a list."""
    return isinstance(pairs, list) and all(
        isinstance(pair, tuple)
        and len(pair) == 2
        and all(isinstance(text, str) for text in pair)
        for pair in pairs
    )


def _groups(sources: list, targets: list) -> list[list[int]]:
    """Positions of pairs that hang together, in the order of their first.

    Examples:
        >>> _groups(["a", "b", "c", "b"], ["p", "q", "r", "r"])
        [[0], [1, 2, 3]]
    """
    parent = list(range(len(sources)))

    def root(i):
        while parent[i] != i:
            parent[i] = i = parent[parent[i]]  # halves the way for the next one
        return i

    for texts in (sources, targets):
        first = {}
        for i, text in enumerate(texts):
            parent[root(i)] = root(first.setdefault(text, i))
    groups = {}
    for i in range(len(sources)):
        groups.setdefault(root(i), []).append(i)
    return list(groups.values())
