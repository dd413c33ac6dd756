"""Constructors that list their arguments, and do not repeat what a base class does.

Each cell, layer and model lists its arguments in Keras' order, as editors and `help`
show them. A decorator passes them on by name, or checks and keeps them; the body is
about those that are left. The config of a `Layer` has the arguments that its
constructor lists.
"""

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec

import keras

from kerasseq.core import arguments, objects, synonyms
from kerasseq.core.dense import Dense, WithInitialValues
from kerasseq.core.listed_config import serialized
from kerasseq.core.serialization import check_float64
from kerasseq.core.sublayers import WithSublayers
from kerasseq.core.types import Config

Listed = ParamSpec("Listed")


class Layer(WithSublayers, WithInitialValues, keras.layers.Layer):
    """A layer whose config has the arguments that its constructor lists.

    Each is an attribute of the same name, or of the name in `stored_as`. `passes_on`
    decorates the constructors.
    """

    argument_names: tuple[str, ...] = ()
    stored_as: Mapping[str, str] = types.MappingProxyType({})

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_float64(self)
        self.supports_masking = True

    def built_dense(
        self, name: str, inputs: int, units: int, **options: Any
    ) -> keras.layers.Dense:
        """Creates a dense layer with the initializers of this one, and builds it.

        Args:
            name: Its name.
            inputs: Width of its inputs.
            units: Width of its outputs.
            **options: Other arguments of `keras.layers.Dense`.
        """
        for own in ("use_bias", "kernel_initializer", "bias_initializer"):
            if own in self.argument_names:
                options.setdefault(own, getattr(self, own))
        options = {n: objects.copy_initializer(v) for n, v in options.items()}
        dense = Dense(units, dtype=self.dtype_policy, name=name, **options)
        dense.build((None, inputs))
        return dense

    def own_config(self) -> Config:
        """Returns the arguments that the constructor lists, as plain data."""
        return {
            name: serialized(name, getattr(self, self.stored_as.get(name, name)))
            for name in self.argument_names
        }

    def get_config(self) -> Config:
        return {**super().get_config(), **self.own_config()}


def passes_on(
    base: type, **fixed: Any
) -> Callable[[Callable[Listed, None]], Callable[Listed, None]]:
    """Passes the arguments that `base` lists, too, and `**kwargs` to its `__init__`.

    The body of the decorated `__init__` runs after it. `argument_names` of the object
    are those that the decorated `__init__` lists. Other initializers, regularizers,
    constraints and activations, which have such a name, are made here: they are
    attributes before the body runs.

    Args:
        base: The base class.
        **fixed: Arguments of `base` that the decorated `__init__` does not list.

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
    # Those that `base` lists, and those that it takes as `**kwargs` for its own bases.
    own = [cls for cls in base.__mro__ if not issubclass(keras.layers.Layer, cls)]
    shared = {name for cls in own for name in arguments.names(cls)}

    def to_base(self: Any, listed: dict[str, Any], more: dict[str, Any]) -> None:
        passed = {n: v for n, v in listed.items() if n in shared}
        base.__init__(self, **passed, **fixed, **more)
        self.argument_names = (*listed,)
        for name in listed:  # in order: initializers draw their seeds
            make = objects.BY_ENDING.get(name.rpartition("_")[2])
            if make is not None and name not in passed:
                setattr(self, name, make(name, listed[name]))

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
            those in `**kwargs`. The body runs with what it leaves of the listed ones.
    """
    signature = inspect.signature(init)
    foreign = synonyms.ARGUMENTS.keys() - signature.parameters.keys()

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if not foreign.isdisjoint(kwargs):
            arguments.refuse_synonyms(self, kwargs)
        try:
            call = signature.bind(self, *args, **kwargs)
        except TypeError:
            return init(self, *args, **kwargs)  # Python says more of what is wrong
        call.apply_defaults()
        listed = {n: v for n, v in call.arguments.items() if n != "self"}
        pass_on(self, listed, listed.pop("kwargs", {}))
        call.arguments.update(listed)
        return init(*call.args, **call.kwargs)

    __init__.__signature__ = signature  # Keras looks for it here
    return __init__


def keeps_arguments(
    checks_of: Mapping[str, Callable[[str, Any], Any]],
) -> Callable[[Callable[Listed, None]], Callable[Listed, None]]:
    """Checks the arguments that an `__init__` lists, and keeps them in `_arguments`.

    The body runs with what the checks return. An argument that is None by default may
    be None. A class whose constructor calls another that keeps its arguments keeps
    those of the inner one, until it sets its own.

    Args:
        checks_of: The checks by the name of the argument; they take the name and the
            value. Arguments with other names stay as they are.

    Examples:
        >>> from kerasseq.core import checks
        >>> class Model:
        ...     @keeps_arguments({"units": checks.size, "depth": checks.size})
        ...     def __init__(self, units, depth=None, norm="layer"):
        ...         self.width = units
        >>> Model(np.int64(3))._arguments
        {'units': 3, 'depth': None, 'norm': 'layer'}
    """

    def decorate(init: Callable[Listed, None]) -> Callable[Listed, None]:
        parameters = inspect.signature(init).parameters

        def check(self: Any, listed: dict[str, Any], more: dict[str, Any]) -> None:
            for name, value in listed.items():
                if name not in checks_of:
                    continue
                if value is not None or parameters[name].default is not None:
                    listed[name] = checks_of[name](name, value)
            # Not an attribute for Keras, whose constructor has not run.
            vars(self)["_arguments"] = {**listed}

        return before_body(init, check)

    return decorate
