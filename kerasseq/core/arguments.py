"""The arguments of a class by name, and the seeds of layers that drop."""

import inspect
import random
from collections.abc import Callable, Iterable
from typing import Any

import keras

from kerasseq.core import checks


def names(cls: type) -> list[str]:
    """Returns the named arguments of `cls`, in order.

    Examples:
        >>> class Cell:
        ...     def __init__(self, units, *, activation="tanh", **kwargs): ...
        >>> names(Cell)
        ['units', 'activation']
    """
    parameters = inspect.signature(cls).parameters.values()
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [p.name for p in parameters if p.kind not in variable]


def seed_generator(seed: int | None) -> keras.random.SeedGenerator:
    """Returns a generator from a seed, or from one that is drawn as Keras draws it.

    Keras' dropout on PyTorch would use the global generator of PyTorch for one without
    a seed, whose state is in no file.

    Examples:
        >>> seed_generator(7).get_config()["seed"]
        7
    """
    return keras.random.SeedGenerator(drawn_seed(1.0) if seed is None else seed)


def drawn_seed(rate: float) -> int | None:
    """Draws the seed of a layer of Keras that drops, as for `seed_generator`.

    Examples:
        >>> drawn_seed(0.0) is None, isinstance(drawn_seed(0.1), int)
        (True, True)
    """
    return random.randint(1, 10**9) if rate else None  # the range of Keras' seeds


def check_names(
    what: str, own: Callable[..., Any], known: Iterable[str], kwargs: dict[str, Any]
) -> None:
    """Raises if there is an argument that neither a function nor Keras knows.

    Args:
        what: What has the arguments, for the message.
        own: The function.
        known: The names that Keras knows.
        kwargs: The arguments.
    """
    for name in kwargs:
        if name not in known:
            names = [*inspect.signature(own).parameters, *known]
            raise TypeError(
                f"{what} has no argument {name}, received {name}="
                f"{kwargs[name]!r:.60}.{checks.nearest(name, names)} Leave it out"
            )
