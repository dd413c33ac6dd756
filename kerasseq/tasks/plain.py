"""The arguments of a model as plain JSON, and back."""

from typing import Any

import keras

from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.text.tokenizers.with_tokenizer import (
    tokenizer_config,
    tokenizer_from_config,
)


def as_plain(value: Any) -> Any:
    """Returns an argument as plain JSON: a tokenizer or a Keras object as its config.

    In a list, each of its items.

    Examples:
        >>> as_plain("gru"), as_plain(keras.layers.Dense(3))["class_name"]
        ('gru', 'Dense')
    """
    if isinstance(value, Tokenizer):
        return tokenizer_config(value)
    if hasattr(value, "get_config"):
        return keras.saving.serialize_keras_object(value)
    if isinstance(value, list | tuple):
        return [as_plain(item) for item in value]
    return value


def from_plain(value: Any) -> Any:
    """Returns what `as_plain` was made from.

    Examples:
        >>> from_plain(as_plain(keras.layers.Dense(3))).units
        3
    """
    if isinstance(value, list):
        return [from_plain(item) for item in value]
    if not isinstance(value, dict) or "class_name" not in value:
        return value
    if value.keys() == {"class_name", "config"}:
        return tokenizer_from_config(value)
    return keras.saving.deserialize_keras_object(value)
