"""Architectures by name: a comparison of architectures is a loop over names."""

from collections.abc import Callable
from typing import Any

import keras
from keras import tree

from kerasseq.convolution.wavenet import WaveNet
from kerasseq.core import checks
from kerasseq.core.arguments import drawn_seed
from kerasseq.core.types import Tensor
from kerasseq.rnn.elman import ElmanRNN
from kerasseq.rnn.gated import GatedRNN
from kerasseq.rnn.gru import GRU
from kerasseq.rnn.layer import RecurrentLayer
from kerasseq.rnn.lstm import LSTM, PeepholeLSTM
from kerasseq.rnn.min_gru import MinGRU
from kerasseq.rnn.min_lstm import MinLSTM
from kerasseq.rnn.slstm import SLSTM
from kerasseq.tasks.both_directions import BothDirections
from kerasseq.tasks.residual_stack import RESIDUAL, ResidualStack
from kerasseq.tasks.transformer_stack import (
    DENSE,
    SPARSE,
    TransformerStack,
    check_causal,
)

RECURRENT: dict[str, tuple[Callable[..., RecurrentLayer], dict[str, Any]]] = {
    "elman": (ElmanRNN, {}),
    "gated": (GatedRNN, {}),
    "lstm": (LSTM, {}),
    "peephole_lstm": (PeepholeLSTM, {}),
    "full_peephole_lstm": (LSTM, {"peephole": "full"}),
    "coupled_lstm": (LSTM, {"coupled": True}),
    "gru": (GRU, {}),
    "min_gru": (MinGRU, {}),
    "min_lstm": (MinLSTM, {}),
    "slstm": (SLSTM, {}),
}
TRANSFORMERS = {"transformer": DENSE, **{name: name for name in SPARSE}}
ARCHITECTURES = (*RECURRENT, *TRANSFORMERS, "wavenet", *RESIDUAL)
BAG = "bag"  # of `SequenceClassifier` alone; see `bag.py`


def build_layers(
    architecture: str | keras.Layer,
    *,
    units: int,
    num_layers: int = 1,
    bidirectional: bool = False,
    dropout: float = 0.0,
    return_sequences: bool = True,
) -> list[keras.Layer]:
    """Builds the layers of an architecture, from the inputs to the outputs.

    Args:
        architecture: A name from `ARCHITECTURES`, or a layer, which is used as it is.
        units: Units of each layer; the hidden size of a Transformer.
        num_layers: Number of layers or blocks; the stacks of a WaveNet.
        bidirectional: Whether an output may depend on later inputs. Recurrent layers
            are then wrapped in `Bidirectional`, others in `BothDirections`; the
            attention of a Transformer is causal without it, which "reformer" and
            "linformer" cannot be.
        dropout: Dropout rate of the inputs of each layer.
        return_sequences: Whether the last recurrent layer, or `BothDirections`, returns
            all outputs. Other layers always do.

    Returns:
        A list of layers, named after the architecture, numbered if several. Those that
        are not recurrent layers are one layer.

    Raises:
        ValueError: If the name is unknown, or a number is out of range.
        TypeError: If `architecture` is neither a name nor a layer.

    Examples:
        >>> [layer.name for layer in build_layers("gru", units=3, num_layers=2)]
        ['gru_1', 'gru_2']
        >>> build_layers("transformer", units=3)[0].causal
        True
    """
    if isinstance(architecture, keras.Layer):
        return [architecture]
    if not isinstance(architecture, str):
        raise TypeError(
            "architecture must be a name or a keras.Layer, received "
            f"{checks.short(architecture)}"
        )
    refuse_bag(architecture)
    checks.one_of("architecture", architecture, ARCHITECTURES)
    checks.whole_number("units", units)
    count = checks.whole_number("num_layers", num_layers)
    if architecture not in RECURRENT:
        layer = _one_layer(architecture, units, count, not bidirectional, dropout)
        if bidirectional and architecture not in TRANSFORMERS:
            layer = BothDirections(
                layer,
                return_sequences=return_sequences,
                name=f"bidirectional_{architecture}",
            )
        return [layer]
    cls, options = RECURRENT[architecture]
    layers = []
    for n in range(1, count + 1):
        name = architecture if count == 1 else f"{architecture}_{n}"
        layer = cls(
            units,
            dropout=dropout,
            seed=drawn_seed(dropout),
            return_sequences=return_sequences or n < count,
            name=name,
            **options,
        )
        if bidirectional:
            layer = keras.layers.Bidirectional(layer, name=f"bidirectional_{name}")
        layers.append(layer)
    return layers


def _one_layer(architecture, units, count, causal, dropout):
    """Returns the layer of an architecture whose blocks are inside one layer."""
    options = {"dropout": dropout, "seed": drawn_seed(dropout), "name": architecture}
    if architecture in TRANSFORMERS:
        check_causal("architecture", architecture, causal)
        attention = TRANSFORMERS[architecture]
        return TransformerStack(
            units, count, causal=causal, attention=attention, **options
        )
    if architecture == "wavenet":
        return WaveNet(units, stacks=count, **options)
    return ResidualStack(architecture, units, count, **options)


def refuse_bag(architecture: str) -> None:
    """Raises for "bag", which is no architecture of a model with outputs at each step.

    Examples:
        >>> refuse_bag("bag")
        Traceback (most recent call last):
        ...
        ValueError: architecture="bag" is for SequenceClassifier alone: a bag has no \
order, and one vector for a row, not an output at each step. Choose another, such as \
"gru"
    """
    if architecture == BAG:
        raise ValueError(
            'architecture="bag" is for SequenceClassifier alone: a bag has no order, '
            "and one vector for a row, not an output at each step. Choose another, "
            'such as "gru"'
        )


def first_output(result: Any) -> Tensor:
    """Returns the output of a layer without its states."""
    return tree.flatten(result)[0]
