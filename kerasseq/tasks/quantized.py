"""NF4 of a whole model: which layers get a kernel of 4 bits."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import keras

from kerasseq.core import checks, sublayers
from kerasseq.tasks.adapters import dense_layers, restart_optimizer

NF4 = "nf4"
Filters = str | Sequence[str] | Callable[[keras.Layer], bool] | None


def quantize(
    model: Any,
    mode: str | None = None,
    config: Any = None,
    filters: Filters = None,
    **kwargs: Any,
) -> None:
    """Rounds weights to few bits, as `keras.Model.quantize`; "nf4" is ours.

    With "nf4" the kernels of the dense layers of kerasseq have 4.127 bits a weight,
    those of a new head and of embeddings stay. The optimizer starts anew.

    Args:
        model: The model.
        mode: "nf4", or "int8", "int4" or another mode of Keras.
        config: As for Keras; None for "nf4".
        filters: As for Keras: patterns of names, or a function of a layer.
        **kwargs: As for `keras.Model.quantize`.

    Raises:
        ValueError: If no layer has a float kernel to round, or a `config` is given for
            "nf4"; for other modes if there is an adapter with dropout.
    """
    if mode == NF4:
        _to_nf4(model, config, filters)
    else:
        _check_no_dropout(model)
        keras.Model.quantize(model, mode, config=config, filters=filters, **kwargs)


def _to_nf4(model, config, filters):
    """Rounds the kernels of dense layers."""
    if config is not None:
        raise ValueError(
            f'config must be None for "{NF4}", which has no settings, received '
            f"{checks.short(config)}"
        )
    fits = _filter(filters)
    layers = [layer for layer in dense_layers(model).values() if fits(layer)]
    floats = [layer for layer in layers if layer.quantized_to is None]
    if not floats:
        raise ValueError(_none_left(model, layers, filters))
    for layer in floats:
        layer.to_nf4()
    restart_optimizer(model)
    model.train_function = model.test_function = model.predict_function = None


def _check_no_dropout(model):
    """Raises a `ValueError` if an adapter has dropout: Keras would skip its layers."""
    for layer in dense_layers(model).values():
        if layer.lora_dropout is not None:
            raise ValueError(
                f'layer "{layer.path}" has an adapter with lora_dropout, and Keras '
                "quantizes no layer that has another inside: quantize the model before "
                "enable_lora"
            )


def _filter(filters):
    """Returns the function of a layer that these filters are."""
    if filters is None:
        return lambda layer: True
    if callable(filters):
        return filters
    patterns = [filters] if isinstance(filters, str) else filters
    patterns = checks.several("filters", patterns)
    return lambda layer: any(re.search(pattern, layer.name) for pattern in patterns)


def _none_left(model, layers, filters):
    """Returns the message about a model without a kernel to round."""
    if layers:
        return f'layer "{layers[0].path}" is quantized already, as are the others'
    names = sorted({layer.name for layer in dense_layers(model).values()})
    kinds = {type(x).__name__ for x in sublayers.flatten(model)[1:]}
    if names:
        return (
            f"filters={checks.short(filters)} fits none of the dense layers of this "
            f"{type(model).__name__}: their names are {names}"
        )
    return (
        f'this {type(model).__name__} has no dense layer that "{NF4}" could round, '
        f"received layers {sorted(kinds)}. int8 and int4 round some others"
    )
