"""A split of labeled rows into two parts that keeps the shares of the classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np


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
