"""Errors about values that were not recorded: why, and what to do.

Only layers of kerasseq record values. A model of Keras' or KerasHub's layers has none
until they are replaced.
"""

from collections.abc import Iterable

import keras

from kerasseq.core.checks import nearest
from kerasseq.tracing.compiled_calls import ADVICE
from kerasseq.tracing.listeners import located

# Layers of Keras and KerasHub, and those of kerasseq that take the same weights.
COUNTERPARTS = {
    "SimpleRNN": "SimpleRNN",
    "LSTM": "LSTM",
    "GRU": "GRU",
    "RNN": "RNN",
    "MultiHeadAttention": "MultiHeadAttention",
    "GroupedQueryAttention": "MultiHeadAttention",
    "TransformerEncoder": "TransformerEncoder",
    "TransformerDecoder": "TransformerDecoder",
}


def missing_value(key: str, known: Iterable[str], model: keras.Layer) -> str:
    """Returns the message about a key under which no value was recorded.

    Args:
        key: The key.
        known: The keys of what was recorded.
        model: The model or layer.

    Examples:
        >>> layer = keras.layers.LSTM(3)
        >>> print(missing_value("forget_gate", [], layer).partition(". ")[0])
        no 'forget_gate' was recorded
    """
    known = list(known)
    around = _layers_of(key, model)
    if _is_foreign(around[-1][1]):
        movable = [each for each in around if _is_movable(each[1])]
        asked = [*movable, around[-1]][0]
        return f"no {key!r} was recorded. {_explain([asked])}"
    if known:
        choice = ", ".join(known)
        return f"no {key!r} was recorded.{nearest(key, known)} There is: {choice}"
    return (
        f"nothing was recorded or replaced, so there is no {key!r}. {unrecorded(model)}"
    )


def unrecorded(model: keras.Layer) -> str:
    """Returns the sentences that say why a model recorded nothing, and what to do."""
    layers = list(located(model).items())
    foreign = [each for each in layers if _is_foreign(each[1])]
    movable = [each for each in foreign if _is_movable(each[1])]
    containers = (keras.Model, keras.layers.InputLayer)
    others = [
        layer
        for _, layer in layers
        if not _is_foreign(layer) and not isinstance(layer, containers)
    ]
    sentences = [_explain(movable)] if movable else []
    if not others and not movable:
        sentences = [_explain(foreign)]
    return " ".join([*sentences, ADVICE] if others else sentences)


def _layers_of(key, model):
    """Returns the layers along the path of a key, from the outside in."""
    inside = [
        (path, layer)
        for path, layer in located(model).items()
        if path == "" or key.startswith(f"{path}/")
    ]
    return sorted(inside, key=lambda each: len(each[0]))


def _is_foreign(layer):
    """Returns whether a layer is of Keras or KerasHub, and no plain container."""
    package = type(layer).__module__.partition(".")[0]
    if package in ("keras_hub", "keras_nlp"):
        return True
    containers = (keras.Model, keras.layers.InputLayer, keras.layers.Wrapper)
    return package == "keras" and not isinstance(layer, containers)


def _is_movable(layer):
    """Returns whether kerasseq has a layer or model in the place of a foreign one."""
    return type(layer).__name__ in COUNTERPARTS or (
        _is_foreign(layer) and isinstance(layer, keras.Model)
    )


def _explain(layers):
    """Says which layers record nothing, and how to move to those that do."""
    if not layers:
        return "The model has no layers of kerasseq, which record values."
    named = [
        _public_name(layer) + (f" {path!r}" if path else "") for path, layer in layers
    ]
    more = ", ..." if len(named) > 3 else ""
    names = ", ".join(dict.fromkeys(named[:3])) + more
    text = f"Only layers of kerasseq record values, received {names}. "
    path, layer = layers[0]
    ours = COUNTERPARTS.get(type(layer).__name__)
    if ours:
        return (
            f"{text}Build the model with kerasseq.layers.{ours} in its place, which "
            "takes the same weights: new.set_weights(old.get_weights())."
        )
    if isinstance(layer, keras.Model):
        return (
            f"{text}Save it by save_to_preset(folder), and load the folder by "
            "from_pretrained of kerasseq.models.GPT, BERT or T5."
        )
    return (
        f"{text}Its output is that of keras.Model(model.inputs, layer.output); a "
        "layer of your own records by tracing.record."
    )


def _public_name(layer):
    """Returns the name under which users import the class of a layer."""
    kind = type(layer)
    package = kind.__module__.partition(".")[0]
    part = "models" if isinstance(layer, keras.Model) else "layers"
    names = [n for n, each in vars(keras.layers).items() if each is kind]
    return f"{package}.{part}.{(names or [kind.__name__])[0]}"
