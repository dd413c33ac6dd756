"""Activations, initializers, regularizers, constraints and norms given as arguments."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import keras

from kerasseq.core import checks
from kerasseq.core.types import Config, DType, Identifier, Tensor


def activation(name: str, value: Identifier) -> Callable[[Tensor], Tensor]:
    """Returns the activation function that `value` names.

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


def initializer(name: str, value: Identifier) -> Callable[..., Tensor] | None:
    """Returns the initializer that `value` names; see `activation`.

    Examples:
        >>> type(initializer("kernel_initializer", "zeros")).__name__
        'Zeros'
    """
    return _get(keras.initializers, "an initializer", name, value)


def copy_initializer(value: Callable[..., Tensor] | None) -> Any:
    """Returns an initializer that draws its own values; a function as it is.

    Keras' own `serialize` would make a copy, too, but imports TensorFlow on every
    backend where it is installed.

    Examples:
        >>> zeros = keras.initializers.Zeros()
        >>> type(copy_initializer(zeros)).__name__, copy_initializer(zeros) is zeros
        ('Zeros', False)
    """
    is_keras = isinstance(value, keras.initializers.Initializer)
    return value.clone() if is_keras else value


def regularizer(name: str, value: Identifier) -> Callable[[Tensor], Tensor] | None:
    """Returns the regularizer that `value` names, or None; see `activation`."""
    return _get(keras.regularizers, "a regularizer", name, value)


def constraint(name: str, value: Identifier) -> Callable[[Tensor], Tensor] | None:
    """Returns the constraint that `value` names, or None; see `activation`."""
    return _get(keras.constraints, "a constraint", name, value)


BY_ENDING: dict[str, Callable[[str, Identifier], Any]] = {  # of the name of an argument
    "activation": activation,
    "initializer": initializer,
    "regularizer": regularizer,
    "constraint": constraint,
}


def _get(module: ModuleType, kind: str, name: str, value: Identifier) -> Any:
    wanted = f"{name} must be the name of {kind} of Keras or an object"
    try:
        made = module.get(value)
    except (ValueError, TypeError) as error:
        raise type(error)(
            f"{wanted}, received {checks.short(value)}: {error}"
        ) from error
    if made is not None and not callable(made):
        raise TypeError(f"{wanted}, received {checks.short(value)}")
    return made


def norm_config(name: str, norm: keras.Layer | Config | None) -> Config | None:
    """Returns the config of a normalization layer that is copied; None of None.

    Args:
        name: Name of the argument, for messages.
        norm: A layer, its config, or None.

    Raises:
        TypeError: If it is of another type.

    Examples:
        >>> norm_config("norm", keras.layers.RMSNormalization())["class_name"]
        'RMSNormalization'
    """
    if norm is None or isinstance(norm, dict):
        return norm
    if isinstance(norm, keras.Layer):
        return keras.saving.serialize_keras_object(norm)
    raise TypeError(
        f"{name} must be a normalization layer of which copies are made, or None, "
        f"received {checks.short(norm)}. Pass keras.layers.RMSNormalization(), for "
        "example"
    )


def copy_norm(config: Config, name: str, dtype: DType) -> keras.Layer:
    """Creates a normalization layer from a config, without weights.

    Args:
        config: From `norm_config`.
        name: Name of the new layer.
        dtype: Its dtype policy.

    Examples:
        >>> config = norm_config("norm", keras.layers.RMSNormalization())
        >>> copy_norm(config, "query_norm", "float32").name
        'query_norm'
    """
    norm = keras.saving.deserialize_keras_object(config)
    norm = type(norm).from_config({**norm.get_config(), "name": name, "dtype": dtype})
    norm.supports_masking = True  # each vector is normalized by itself
    return norm


def copy_layer(
    layer: keras.Layer, name: str, *, dtype: DType | None = None, seed_offset: int = 0
) -> keras.Layer:
    """Creates a layer with the arguments of another, without its weights.

    Args:
        layer: The layer.
        name: Name of the new layer.
        dtype: Its dtype policy; that of `layer` if None.
        seed_offset: Added to the seed of dropout, so that the two drop other numbers.

    Examples:
        >>> copy_layer(keras.layers.Dropout(0.5, seed=3), "other", seed_offset=1).seed
        4
    """
    config = {**layer.get_config(), "name": name}
    if dtype is not None:
        config["dtype"] = dtype
    if config.get("seed") is not None:
        config["seed"] = (config["seed"] + seed_offset) % 2**31
    return type(layer).from_config(config)
