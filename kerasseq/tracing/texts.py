"""Texts as the ids of a language model."""

from typing import Any

import keras

from kerasseq.core import checks
from kerasseq.core.types import Nested


def inputs_of(name: str, x: Nested, model: keras.Layer) -> Nested:
    """Returns the inputs of a model; a text as its ids.

    Args:
        name: Name of the argument, for messages.
        x: The inputs.
        model: The model.

    Raises:
        TypeError: If it is a text, and the model has no tokenizer.
    """
    if not isinstance(x, str):
        return x
    if not _reads_texts(model):
        raise TypeError(
            f"{name} must be inputs of the model, as it has no tokenizer for texts, "
            f"received {checks.short(x)}"
        )
    return model.ids(x)[None]


def check_reads_texts(model: Any) -> None:
    """Raises unless a model is a language model with a tokenizer.

    Examples:
        >>> check_reads_texts(5)
        Traceback (most recent call last):
        ...
        TypeError: model must be a language model with a tokenizer, such as a GPT, \
received 5
    """
    if not _reads_texts(model):
        raise TypeError(
            "model must be a language model with a tokenizer, such as a GPT, received "
            f"{checks.short(model)}"
        )


def _reads_texts(model):
    return getattr(model, "tokenizer", None) is not None and hasattr(model, "ids")
