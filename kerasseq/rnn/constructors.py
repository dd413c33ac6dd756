"""Constructors that list their arguments, and do not repeat what a base class does.

Each cell and each layer lists its arguments in Keras' order, as editors and `help` show
them. A decorator passes them on by name; the body is about those that are left.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec

from kerasseq.core import arguments

Listed = ParamSpec("Listed")


def passes_on(
    base: type,
) -> Callable[[Callable[Listed, None]], Callable[Listed, None]]:
    """Passes the arguments that `base` lists, too, and `**kwargs` to its `__init__`.

    The body of the decorated `__init__` runs after it. `argument_names` of the object
    are those that the decorated `__init__` lists.

    Examples:
        >>> class Cell:
        ...     def __init__(self, units, use_bias=True):
        ...         self.units, self.use_bias = units, use_bias
        >>> class Gated(Cell):
        ...     @passes_on(Cell)
        ...     def __init__(self, units, gate="sigmoid", use_bias=False):
        ...         self.gate = gate
        >>> cell = Gated(3, "tanh")
        >>> cell.units, cell.use_bias, cell.gate
        (3, False, 'tanh')
    """
    shared = arguments.names(base)

    def to_base(self: Any, listed: dict[str, Any], more: dict[str, Any]) -> None:
        base.__init__(self, **{n: listed[n] for n in shared if n in listed}, **more)
        self.argument_names = (*listed,)

    def decorate(init: Callable[Listed, None]) -> Callable[Listed, None]:
        return before_body(init, to_base)

    return decorate


def before_body(
    init: Callable[Listed, None],
    pass_on: Callable[[Any, dict[str, Any], dict[str, Any]], None],
) -> Callable[Listed, None]:
    """Returns an `__init__` that calls `pass_on` before its body.

    Args:
        init: The constructor.
        pass_on: Takes the object, the listed arguments by name, with defaults, and
            those in `**kwargs`.
    """
    signature = inspect.signature(init)

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            call = signature.bind(self, *args, **kwargs)
        except TypeError:
            return init(self, *args, **kwargs)  # Python says more of what is wrong
        call.apply_defaults()
        listed = {n: v for n, v in call.arguments.items() if n != "self"}
        pass_on(self, listed, listed.pop("kwargs", {}))
        return init(self, *args, **kwargs)

    __init__.__signature__ = signature  # Keras looks for it here
    return __init__
