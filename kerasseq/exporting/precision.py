"""Models in float32, as converters read them."""

import json
from typing import Any

import keras

HALVES = ("float16", "bfloat16")


def in_float32(model: keras.Model) -> keras.Model:
    """Returns a model that computes in float32: itself, or a copy.

    Args:
        model: The model.

    Examples:
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        >>> in_float32(model) is model
        True
    """
    config = model.get_config()
    plain = keras.saving.serialize_keras_object(config)
    text = json.dumps(plain, default=str)
    if not any(f'"{name}"' in text or f'"mixed_{name}"' in text for name in HALVES):
        return model
    precise = keras.saving.deserialize_keras_object(_changed(plain))
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")
    try:
        copy = type(model).from_config(precise)
    finally:
        keras.config.set_dtype_policy(policy)
    copy.set_weights(model.get_weights())
    return copy


def _changed(config: Any) -> Any:
    """Returns a config with float32 in place of half precision."""
    if isinstance(config, dict):
        return {name: _changed(value) for name, value in config.items()}
    if isinstance(config, list | tuple):
        return type(config)(map(_changed, config))
    halves = (*HALVES, *(f"mixed_{name}" for name in HALVES))
    return "float32" if isinstance(config, str) and config in halves else config
