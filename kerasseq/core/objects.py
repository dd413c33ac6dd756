"""Activations, initializers, regularizers and constraints given as arguments.

Each function takes what Keras takes: a name, a config, an object, or None.
"""

import keras

from kerasseq.core import checks


def activation(name: str, value):
    """The activation function that `value` names.

    Args:
        name: Name of the argument, for messages.
        value: A name, a config, a function, or None for the identity.

    Raises:
        TypeError: If it is of another type.
        ValueError: If Keras has no activation of that name.

    Examples:
        >>> activation("activation", "tanh") is keras.activations.tanh
        True
    """
    if isinstance(value, type):
        raise TypeError(
            f"{name} must be the name of an activation of Keras or a function, "
            f"received the class {value!r}. Pass an instance"
        )
    return _get(keras.activations, "an activation", name, value)


def initializer(name: str, value):
    """The initializer that `value` names; see `activation`.

    Examples:
        >>> type(initializer("kernel_initializer", "zeros")).__name__
        'Zeros'
    """
    return _get(keras.initializers, "an initializer", name, value)


def regularizer(name: str, value):
    """The regularizer that `value` names, or None; see `activation`."""
    return _get(keras.regularizers, "a regularizer", name, value)


def constraint(name: str, value):
    """The constraint that `value` names, or None; see `activation`."""
    return _get(keras.constraints, "a constraint", name, value)


def _get(module, kind, name, value):
    wanted = f"{name} must be the name of {kind} of Keras or an object"
    try:
        found = module.get(value)
    except (ValueError, TypeError) as error:
        raise type(error)(
            f"{wanted}, received {checks.short(value)}: {error}"
        ) from error
    if found is not None and not callable(found):
        raise TypeError(f"{wanted}, received {checks.short(value)}")
    return found
