"""The arguments of a class by name, and the seeds of layers that drop."""

import inspect
import random

import keras


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
