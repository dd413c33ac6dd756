"""The config of an object of Keras has the arguments that its constructor lists."""

from typing import Any

import keras

from kerasseq.core import arguments
from kerasseq.core.serialization import shared_config
from kerasseq.core.types import Config


def serialized(name: str, value: Any) -> Any:
    """Returns an argument as plain data.

    Args:
        name: Its name; that of an activation ends with "activation".
        value: Its value.

    Examples:
        >>> serialized("activation", keras.activations.tanh), serialized("units", 3)
        ('tanh', 3)
    """
    if name.endswith("activation"):  # its name, where Keras has it
        return keras.activations.serialize(value)
    if isinstance(value, keras.Layer):
        return shared_config(value)
    is_object = callable(value) or hasattr(value, "get_config")
    return keras.saving.serialize_keras_object(value) if is_object else value


class ListedConfig:
    """A mixin for layers, losses and others: their config has what `__init__` lists.

    Each argument is an attribute of the same name. It comes before the class of Keras.

    Examples:
        >>> class Half(ListedConfig, keras.initializers.Initializer):
        ...     def __init__(self, divisor=2):
        ...         self.divisor = divisor
        >>> Half(3).get_config()
        {'divisor': 3}
    """

    def get_config(self) -> Config:
        """Returns the arguments as plain data, after those that Keras has."""
        inherited = getattr(super(), "get_config", dict)()
        # Not those of a subclass, which adds its own to this config.
        cls = next(c for c in type(self).__mro__ if ListedConfig in c.__bases__)
        own = (name for name in arguments.names(cls) if name not in inherited)
        return {**inherited, **{n: serialized(n, getattr(self, n)) for n in own}}
