"""Splits of rows into a training set and a test set, at random or class by class."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kerasseq.core import checks


def split_at_random(
    count: int, test: float, seed: int | None, one: str, several: str
) -> tuple[list[int], list[int]]:
    """Splits rows at random into a training set and a test set.

    Args:
        count: The number of rows.
        test: Share of the test set, of which there is at least one row.
        seed: Random seed.
        one: What a row is, such as "a sound".
        several: What rows are, such as "sounds".

    Returns:
        Indices of both parts, in random order.

    Raises:
        ValueError: If a part would be empty.

    Examples:
        >>> split_at_random(5, 0.4, 0, "a sound", "sounds")
        ([3, 0, 1], [2, 4])
    """
    held_out = max(1, round(checks.fraction("test", test) * count))
    if held_out >= count:
        raise ValueError(
            f"a split must leave {one} in each part, received test={test} and {count} "
            f"{several}. Choose a smaller share, or more {several}"
        )
    order = checks.random_generator(seed).permutation(count).tolist()
    return order[held_out:], order[:held_out]


def split_by_class(
    labels: Sequence[Any], fraction: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Splits rows into training and held-out rows, class by class.

    Args:
        labels: The label of each row.
        fraction: Share of each class that is held out; a class with a single row stays
            in the training part.
        seed: Seed of the split.

    Returns:
        Indices of both parts, in order.

    Examples:
        >>> training, held_out = split_by_class(["a", "b"] * 5, 0.2, seed=0)
        >>> len(training), sorted(["ab"[n % 2] for n in held_out])
        (8, ['a', 'b'])
    """
    rng = np.random.default_rng(seed)
    index = {label: n for n, label in enumerate(sorted(set(labels), key=str))}
    classes = np.fromiter((index[label] for label in labels), "int64", len(labels))
    by_class = np.argsort(classes, kind="stable")
    ends = np.cumsum(np.bincount(classes, minlength=len(index)))
    held_out = []
    for rows in np.split(by_class, ends[:-1]):
        count = round(len(rows) * fraction)
        held_out.append(rng.permutation(rows)[: min(max(count, 1), len(rows) - 1)])
    held_out = np.sort(np.concatenate(held_out))
    return np.setdiff1d(np.arange(len(classes)), held_out), held_out
