"""Checks of ids against the size of a vocabulary.

They run on arrays, before a model is called: a compiled graph raises no error.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kerasseq.core.types import Tensor


def check_ids(array: np.ndarray, name: str, limit: str, size: int) -> None:
    """Raises unless all ids are integers from 0 to `size` - 1.

    Args:
        array: NumPy array of ids.
        name: The name of the array, for messages.
        limit: The name of the size, for messages.
        size: The number of ids.

    Raises:
        TypeError: If they are not integers.
        ValueError: If one is out of range.

    Examples:
        >>> check_ids(np.array([3, 7]), "ids", "vocabulary_size", 7)
        Traceback (most recent call last):
        ...
        ValueError: expected ids from 0 to 6, as vocabulary_size=7, received 7
    """
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise TypeError(
            f"{name} must be integers, as they are ids, received an array of "
            f"{array.dtype}. Tokenize texts, or convert whole numbers by "
            f'{name}.astype("int32")'
        )
    if array.size and not 0 <= array.min() <= array.max() < size:
        wrong = array.min() if array.min() < 0 else array.max()
        raise ValueError(
            f"expected {name} from 0 to {size - 1}, as {limit}={size}, received {wrong}"
        )


def has_texts(x: Any) -> bool:
    """Returns whether inputs are strings, in lists, dictionaries or an array, not ids.

    Examples:
        >>> has_texts([["a", "b"]]), has_texts([[3, 7]]), has_texts(np.array(["a"]))
        (True, False, True)
    """
    if isinstance(x, str):
        return True
    if isinstance(x, np.ndarray):
        return x.dtype.kind in "US" or (
            x.dtype.kind == "O" and x.size > 0 and isinstance(x.flat[0], str)
        )
    if isinstance(x, dict):
        return any(map(has_texts, x.values()))
    return isinstance(x, list | tuple) and len(x) > 0 and has_texts(x[0])


def refuse_texts(x: Any, has_tokenizer: bool) -> None:
    """Raises a `TypeError` if inputs are strings where a model reads ids.

    Examples:
        >>> refuse_texts("to be", has_tokenizer=False)
        Traceback (most recent call last):
        ...
        TypeError: expected ids or other numbers, received the text 'to be'. \
Build the model with a tokenizer, or encode the text first
    """
    if has_texts(x):
        advice = (
            "Encode the text first, as in model(model.encode(text))"
            if has_tokenizer
            else "Build the model with a tokenizer, or encode the text first"
        )
        received = f"the text {x!r:.40}" if isinstance(x, str) else f"texts, {x!r:.60}"
        raise TypeError(f"expected ids or other numbers, received {received}. {advice}")


def check_inputs(x: Tensor, sizes: Mapping[str, int | None]) -> None:
    """Checks the ids among the inputs of a model. Other inputs are not checked.

    Args:
        x: An array for one input, or a tuple, list or dictionary of arrays for several.
        sizes: The number of ids of each input, by its name and in order; None for an
            input without ids.

    Raises:
        TypeError: If ids are not integers.
        ValueError: If an id is out of range.

    Examples:
        >>> check_inputs((np.ones((1, 2), int), np.full((1, 3), 5)), {"a": 2, "b": 5})
        Traceback (most recent call last):
        ...
        ValueError: expected b from 0 to 4, as b_size=5, received 5
    """
    if hasattr(x, "shape"):
        x = (x,)
    if not isinstance(x, tuple | list | dict) or len(x) != len(sizes):
        return
    for name, part in zip(sizes, x, strict=True):
        part = x.get(name) if isinstance(x, dict) else part
        if sizes[name] is not None and hasattr(part, "shape"):
            limit = "vocabulary_size" if len(sizes) == 1 else f"{name}_size"
            check_ids(np.asarray(part), name, limit, sizes[name])
