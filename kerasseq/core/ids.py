"""Ids are checked here, on the host: in a compiled graph a wrong one goes unseen."""

import numpy as np


def within(array, name, limit, size):
    """Raise unless all are whole numbers from 0 to below `size`.

    Args:
        array: NumPy array.
        name: What it is.
        limit: What the size is.
        size: How many numbers there are.

    Raises:
        TypeError: If they are not whole.
        ValueError: If one is out of range.

    Examples:
        >>> within(np.array([3, 7]), "ids", "vocabulary_size", 7)
        Traceback (most recent call last):
        ...
        ValueError: ids have a 7, but vocabulary_size=7 allows 0 to 6
    """
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"{name} must be whole numbers, got an array of {array.dtype}")
    if array.size and not 0 <= array.min() <= array.max() < size:
        wrong = array.min() if array.min() < 0 else array.max()
        raise ValueError(
            f"{name} have a {wrong}, but {limit}={size} allows 0 to {size - 1}"
        )


def arrays_within(x, sizes: dict):
    """The same for the arrays that go into a model; anything else is let through.

    Args:
        x: An array for one input, or a tuple, list or dictionary of arrays for several.
        sizes: For each input, by its name and in their order, how many ids it has; None
            if it has no ids.

    Raises:
        TypeError: If ids are not whole numbers.
        ValueError: If an id is out of range.

    Examples:
        >>> arrays_within((np.ones((1, 2), int), np.full((1, 3), 5)), {"a": 2, "b": 5})
        Traceback (most recent call last):
        ...
        ValueError: b have a 5, but b_size=5 allows 0 to 4
    """
    if hasattr(x, "shape"):
        x = (x,)
    if not isinstance(x, tuple | list | dict) or len(x) != len(sizes):
        return
    for name, part in zip(sizes, x, strict=True):
        part = x.get(name) if isinstance(x, dict) else part
        if sizes[name] is not None and hasattr(part, "shape"):
            limit = "vocabulary_size" if len(sizes) == 1 else f"{name}_size"
            within(np.asarray(part), name, limit, sizes[name])
