"""Messages for names that a namespace does not have, and for modules that are called.

Loads no Keras.
"""

import sys
import types
from collections.abc import Callable
from typing import Any

from kerasseq.core import checks


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
    """Returns the `__getattr__` of a namespace, which suggests the nearest public name.

    Examples:
        >>> import kerasseq
        >>> kerasseq.text.WordTokenzier
        Traceback (most recent call last):
        ...
        AttributeError: module 'kerasseq.text' has no attribute 'WordTokenzier'. Did \
you mean "WordTokenizer"?
    """

    def missing(name: str) -> Any:
        near = ""
        if not name.startswith("_"):
            near = checks.nearest(name, sys.modules[namespace].__all__)
        raise AttributeError(
            f"module {namespace!r} has no attribute {name!r}{near and '.'}{near}"
        )

    return missing
