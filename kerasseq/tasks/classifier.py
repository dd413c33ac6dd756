"""One label for a whole sequence: many to one."""

import keras

from kerasseq.core import checks
from kerasseq.core.serialization import register
from kerasseq.rnn.arguments import own
from kerasseq.tasks.architectures import LastStep, build_layers, first_output
from kerasseq.tasks.base import TaskModel, sequence_input


@register
class SequenceClassifier(TaskModel):
    r"""Say to which class a sequence belongs, from the output at its last real step.

    $$y = W h_T + b$$

    Args:
        architecture: "elman", "gated", "lstm", "peephole_lstm", "full_peephole_lstm",
            "coupled_lstm", "gru", or a layer of your own, which gives `(batch, units)`
            or `(batch, time, units)`.
        num_classes: Number of classes.
        vocabulary_size: Number of ids, if the inputs are ids `(batch, time)`. Id 0 is
            padding.
        features: Number of features, if the inputs are vectors
            `(batch, time, features)`.
        units: Width of the layers, for an architecture by name.
        num_layers: Number of layers, for an architecture by name.
        bidirectional: Whether they read in both directions.
        dropout: Fraction dropped before each layer in training.
        embedding_dim: Width of the vector of an id. `units` if None.
        mask_value: For vectors: a step with only this value is padding.
        activation: "softmax" for probabilities; None for logits, which train the same.
        **kwargs: `name` and `trainable`.

    Raises:
        ValueError: If a name or number is wrong, or both or neither of
            `vocabulary_size` and `features` are given.

    Examples:
        >>> model = SequenceClassifier("gru", 2, vocabulary_size=11, units=3)
        >>> model.predict(np.array([[4, 7, 1, 0]]), verbose=0).shape
        (1, 2)

    References:
        Slides B, C: many to one.
    """

    def __init__(
        self,
        architecture,
        num_classes,
        *,
        vocabulary_size=None,
        features=None,
        units=64,
        num_layers=1,
        bidirectional=False,
        dropout=0.0,
        embedding_dim=None,
        mask_value=None,
        activation=None,
        **kwargs,
    ):
        arguments = own(locals())
        checks.positive_integer("num_classes", num_classes, at_least=2)
        checks.one_of("activation", activation, [None, "softmax"])
        inputs, x = sequence_input(
            vocabulary_size, features, embedding_dim or units, mask_value
        )
        for layer in build_layers(
            architecture,
            units=units,
            num_layers=num_layers,
            bidirectional=bidirectional,
            dropout=dropout,
            return_sequences=False,
        ):
            x = first_output(layer(x))
        if len(x.shape) == 3:
            x = LastStep(name="last_step")(x)
        # Probabilities and losses stay in float32, whatever the layers compute in.
        outputs = keras.layers.Dense(
            num_classes, activation=activation, dtype="float32", name="output"
        )(x)
        super().__init__(inputs, outputs, arguments, **kwargs)

    def default_loss(self):
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=self._arguments["activation"] is None
        )

    def default_metrics(self):
        return ["accuracy"]
