"""The arguments of a class by name, and the seeds of layers that drop."""

import inspect
import random
from collections.abc import Callable, Iterable
from typing import Any

import keras

from kerasseq.core import synonyms


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
            advice = synonyms.nearest_argument(name, names) or " Leave it out"
            raise TypeError(
                f"{what} has no argument {name}, received {name}="
                f"{kwargs[name]!r:.60}.{advice}"
            )


def check_not_of_fit(cls: Any, options: dict[str, Any]) -> None:
    """Raises if an argument of a model is one of its `fit`.

    Args:
        cls: The class of the model, with `fit_options`.
        options: The arguments that its constructor does not list.

    Raises:
        TypeError: If there is one, by its name or by that of another library.
    """
    of_fit = cls.fit_options
    for name in options:
        meant = name if name in of_fit else synonyms.of_argument(name, of_fit)
        if meant:
            raise TypeError(
                f"{cls.__name__} has no argument {name}, received {name}="
                f"{options[name]!r:.60}. It is one of fit: fit(x, {meant}=...)"
            )


def refuse_synonyms(instance: object, kwargs: dict[str, Any]) -> None:
    """Raises if an argument has the name that another library gives it.

    Args:
        instance: The object whose constructor is called. The arguments of its class are
            those that the constructors of all its bases list.
        kwargs: The arguments that its constructor does not list.

    Raises:
        TypeError: With the name that the argument has here.
    """
    kwargs = {name: kwargs[name] for name in kwargs if name in synonyms.ARGUMENTS}
    known = listed(type(instance))
    for name in kwargs:
        if name not in known and synonyms.of_argument(name, known):
            check_names(type(instance).__name__, type(instance).__init__, known, kwargs)


def listed(cls: type) -> list[str]:
    """Returns the named arguments of the constructors of a class and of its bases."""
    bases = (base for base in cls.__mro__ if "__init__" in vars(base))
    return [name for base in bases for name in names(base) if name != "self"]
