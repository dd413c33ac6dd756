"""Messages for names that a namespace does not have, and for modules that are called.

Loads no Keras.
"""

import sys
import types
from collections.abc import Callable
from typing import Any

from kerasseq.core import checks, synonyms

# What is looked for here, and is in Keras: `Dense`, `Adam`, `Sequential`.
OF_KERAS = (
    *("layers", "models", "optimizers", "losses", "metrics", "callbacks", "ops"),
    "datasets",
)


class Submodule(types.ModuleType):
    """A module that says what is in it if it is called like a function."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        package = sys.modules[self.__name__.rpartition(".")[0]]
        public = [
            name
            for name in package.__all__
            if getattr(getattr(package, name), "__module__", None) == self.__name__
        ]
        listed = ", ".join(f"{package.__name__}.{name}" for name in public)
        raise TypeError(
            f"{self.__name__} is a module, not a function."
            + (f" Public names in it are {listed}" if listed else "")
        )


def explain_calls(package: str) -> None:
    """Lets the submodules of a package explain what they are when they are called."""
    for name, value in vars(sys.modules[package]).items():
        is_submodule = getattr(value, "__name__", None) == f"{package}.{name}"
        if is_submodule and type(value) is types.ModuleType:
            value.__class__ = Submodule


def missing_name(namespace: str) -> Callable[[str], Any]:
    """Returns the `__getattr__` of a namespace, which says what a name may be.

    It is the same name in another namespace, or in one of Keras; or the nearest
    public name. Nothing is imported to find out.

    Examples:
        >>> import kerasseq
        >>> kerasseq.text.WordTokenzier
        Traceback (most recent call last):
        ...
        AttributeError: module 'kerasseq.text' has no attribute 'WordTokenzier'. Did \
you mean "WordTokenizer"?
        >>> kerasseq.layers.Dense
        Traceback (most recent call last):
        ...
        AttributeError: module 'kerasseq.layers' has no attribute 'Dense'. It is \
keras.layers.Dense
    """

    def missing(name: str) -> Any:
        hint = "" if name.startswith("_") else _hint(namespace, name)
        raise AttributeError(
            f"module {namespace!r} has no attribute {name!r}{hint and '.'}{hint}"
        )

    return missing


def _hint(namespace: str, name: str) -> str:
    """Returns the end of the message."""
    for other in (name.lower(), f"{namespace.rpartition('.')[2]}.{name}"):
        if other in synonyms.NAMES:
            return f" It is {synonyms.NAMES[other]}"
    package = sys.modules[namespace.partition(".")[0]]
    loaded = (f"{package.__name__}.{part}" for part in package.__all__)
    places = [place for place in loaded if name in _public(place)]
    keras = ["keras", *(f"keras.{part}" for part in OF_KERAS)]
    places += [place for place in keras if hasattr(sys.modules.get(place), name)]
    if places:
        return f" It is {places[0]}.{name}"
    near = checks.nearest(name, sys.modules[namespace].__all__)
    if near or namespace != package.__name__:
        return near
    return f" Public names are {', '.join(package.__all__)}"


def _public(namespace: str) -> list[str]:
    """Returns the public names of a namespace, none if it is not imported."""
    return getattr(sys.modules.get(namespace), "__all__", [])
