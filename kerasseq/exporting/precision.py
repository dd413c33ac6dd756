"""Models in float32, as converters read them."""

from typing import Any

import keras

from kerasseq.core.sublayers import flatten

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
    plain = keras.saving.serialize_keras_object(model)
    plain.pop("compile_config", None)  # the optimizer, which has dtypes of its own
    changed = _changed(plain)
    if changed == plain:
        return model
    # Layers of the user that are registered nowhere.
    own = {type(layer).__name__: type(layer) for layer in flatten(model)}
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")
    try:
        copy = keras.saving.deserialize_keras_object(changed, custom_objects=own)
    finally:
        keras.config.set_dtype_policy(policy)
    copy.set_weights(model.get_weights())
    return copy


def _changed(config: Any, is_dtype: bool = False) -> Any:
    """Returns a config whose dtypes are float32 in place of half precision.

    Other strings stay: the vocabulary of a tokenizer may have the word float16.

    Examples:
        >>> _changed({"dtype": {"name": "mixed_float16"}, "words": ["float16"]})
        {'dtype': {'name': 'float32'}, 'words': ['float16']}
    """
    if isinstance(config, dict):
        return {
            name: _changed(value, is_dtype or name == "dtype")
            for name, value in config.items()
        }
    if isinstance(config, list | tuple):
        return type(config)(_changed(value, is_dtype) for value in config)
    is_half = isinstance(config, str) and config.removeprefix("mixed_") in HALVES
    return "float32" if is_dtype and is_half else config
