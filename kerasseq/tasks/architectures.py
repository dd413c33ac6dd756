"""From the name of an architecture to its layers: a race is a loop over names."""

import keras
from keras import ops, tree

from kerasseq.core import checks
from kerasseq.core.arguments import drawn_seed
from kerasseq.core.serialization import register
from kerasseq.rnn.elman import ElmanRNN
from kerasseq.rnn.gated import GatedRNN
from kerasseq.rnn.gru import GRU
from kerasseq.rnn.lstm import LSTM, PeepholeLSTM

ARCHITECTURES = {
    "elman": (ElmanRNN, {}),
    "gated": (GatedRNN, {}),
    "lstm": (LSTM, {}),
    "peephole_lstm": (PeepholeLSTM, {}),
    "full_peephole_lstm": (LSTM, {"peephole": "full"}),
    "coupled_lstm": (LSTM, {"coupled": True}),
    "gru": (GRU, {}),
}


def build_layers(
    architecture,
    *,
    units,
    num_layers=1,
    bidirectional=False,
    dropout=0.0,
    return_sequences=True,
) -> list:
    """Make the layers of an architecture, from the bottom up.

    Args:
        architecture: A name from `ARCHITECTURES`, or a layer, which is used as it is.
        units: Width of each layer.
        num_layers: How many layers stand on top of each other.
        bidirectional: Whether each reads in both directions.
        dropout: Fraction of the inputs of each layer that is dropped in training.
        return_sequences: Whether the last layer returns all outputs.

    Returns:
        A list of layers, named after the architecture, numbered if several.

    Raises:
        ValueError: If the name is unknown, or a number out of range.
        TypeError: If `architecture` is neither a name nor a layer.

    Examples:
        >>> [layer.name for layer in build_layers("gru", units=3, num_layers=2)]
        ['gru_1', 'gru_2']
    """
    if isinstance(architecture, keras.Layer):
        return [architecture]
    if not isinstance(architecture, str):
        raise TypeError(
            f"architecture must be a name or a keras.Layer, got {architecture!r}"
        )
    cls, options = ARCHITECTURES[
        checks.one_of("architecture", architecture, ARCHITECTURES)
    ]
    checks.whole_number("units", units)
    count = checks.whole_number("num_layers", num_layers)
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


@register
class LastStep(keras.layers.Layer):
    """The output at the last real step, `(batch, time, units)` to `(batch, units)`.

    Examples:
        >>> x = np.arange(6.0).reshape(1, 3, 2)
        >>> y = LastStep()(x, mask=np.array([[True, True, False]]))
        >>> keras.ops.convert_to_numpy(y).tolist()
        [[2.0, 3.0]]
    """

    def call(self, sequence, mask=None):
        return last_step(sequence, mask)

    def compute_mask(self, inputs, mask=None):
        return None


def last_step(sequence, mask=None):
    """`(batch, time, units)` at the last step that `(batch, time)` says is real."""
    if mask is None:
        return sequence[:, -1]
    mask = ops.cast(mask, "bool")
    time = ops.arange(ops.shape(mask)[1], dtype="int32")
    last = ops.max(ops.where(mask, time, 0), axis=1)
    return ops.take_along_axis(sequence, last[:, None, None], axis=1)[:, 0]


def first_output(result):
    """The output alone, if a layer returned its states, too."""
    return tree.flatten(result)[0]
