"""Hyper-parameters as attributes and as plain JSON, told apart by the ends of names."""

import inspect
import random

import keras

_KINDS = {
    "activation": keras.activations,
    "initializer": keras.initializers,
    "regularizer": keras.regularizers,
    "constraint": keras.constraints,
}


def own(local_names: dict) -> dict:
    """The arguments of an `__init__`, from its `locals()`, without `**kwargs`."""
    return {
        name: value
        for name, value in local_names.items()
        if name not in ("self", "__class__", "kwargs")
    }


def names(cls) -> list[str]:
    """The named arguments of `cls`, in order.

    Examples:
        >>> class Cell:
        ...     def __init__(self, units, *, activation="tanh", **kwargs): ...
        >>> names(Cell)
        ['units', 'activation']
    """
    parameters = inspect.signature(cls).parameters.values()
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [p.name for p in parameters if p.kind not in variable]


def revive(name: str, value):
    """The object that `value` stands for: "tanh" becomes the function.

    Examples:
        >>> revive("activation", "tanh") is keras.activations.tanh
        True
        >>> revive("units", 3)
        3
    """
    kind = _KINDS.get(name.rsplit("_", 1)[-1])
    return kind.get(value) if kind else value


def as_config(name: str, value):
    """The plain JSON from which `revive` makes `value` again.

    Examples:
        >>> as_config("activation", keras.activations.tanh)
        'tanh'
    """
    kind = _KINDS.get(name.rsplit("_", 1)[-1])
    return kind.serialize(value) if kind else value


def seed_generator(seed):
    """A generator from a seed, or from one that is drawn as Keras draws it.

    Keras' dropout on PyTorch would use the global generator of PyTorch for one without
    a seed, whose state is in no file.

    Examples:
        >>> seed_generator(7).get_config()
        {'seed': 7}
    """
    return keras.random.SeedGenerator(drawn_seed(1.0) if seed is None else seed)


def drawn_seed(rate):
    """A seed for a layer of Keras that drops at this rate, as for `seed_generator`.

    Examples:
        >>> drawn_seed(0.0) is None, isinstance(drawn_seed(0.1), int)
        (True, True)
    """
    return random.randint(1, 10**9) if rate else None
