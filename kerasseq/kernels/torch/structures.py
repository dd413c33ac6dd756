"""Structures of arguments on PyTorch: their tensors, and the structure to rebuild."""

import collections
from collections.abc import Iterator
from typing import Any

from keras import ops

from kerasseq.core.types import Nested, Tensor


def flatten(value: Nested) -> tuple[list[Tensor], Any]:
    """The leaves of a structure as tensors, and the structure, hashable.

    As in `keras.tree` a dictionary is taken in the order of its keys, and an
    `OrderedDict` in its own, which is part of the structure.

    Examples:
        >>> leaves, structure = flatten({"b": 1, "a": [2.0, ()]})
        >>> [float(x) for x in leaves], structure[1]
        ([2.0, 1.0], ('a', 'b'))
        >>> rebuild(structure, iter("xy"))
        {'a': ['x', ()], 'b': 'y'}
    """
    leaves = []
    return leaves, _flatten(value, leaves)


def _flatten(value: Nested, leaves: list[Tensor]) -> Any:
    kind = type(value)
    if isinstance(value, dict):
        keys = sorted(value) if kind in (dict, collections.defaultdict) else value
        return kind, tuple(keys), *[_flatten(value[key], leaves) for key in keys]
    if isinstance(value, list | tuple):
        return kind, None, *[_flatten(x, leaves) for x in value]
    leaves.append(ops.convert_to_tensor(value))
    return None


def rebuild(structure: Any, leaves: Iterator[Any]) -> Nested:
    """The structure with other leaves, an iterator over them."""
    if structure is None:
        return next(leaves)
    kind, keys, *parts = structure
    parts = [rebuild(part, leaves) for part in parts]
    if keys is not None:
        entries = zip(keys, parts, strict=True)
        return kind(None, entries) if kind is collections.defaultdict else kind(entries)
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
