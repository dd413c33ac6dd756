"""Sequence classification (many to one) and sequence tagging (many to many)."""

from typing import Any

import keras
import numpy as np

from kerasseq.core import checks, ids
from kerasseq.core.padding import pad_rows
from kerasseq.core.serialization import register
from kerasseq.tasks.architectures import LastStep, build_layers, first_output
from kerasseq.tasks.base import (
    TaskModel,
    check_sizes,
    embedding_width,
    sequence_input,
)


class SequenceLabeler(TaskModel):
    """The base of `SequenceClassifier` and `SequenceTagger`, which have its arguments.

    A subclass sets `per_step`: whether each step has a label, or the whole sequence.
    """

    per_step = False

    def __init__(
        self,
        architecture: str | keras.Layer,
        num_classes: int,
        *,
        vocabulary_size: int | None = None,
        features: int | None = None,
        units: int = 64,
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        embedding_dim: int | None = None,
        mask_value: float | None = None,
        activation: str | None = None,
        **kwargs: Any,
    ) -> None:
        num_classes = checks.whole_number("num_classes", num_classes, 2)
        bidirectional = checks.flag("bidirectional", bidirectional)
        dropout = checks.rate("dropout", dropout)
        if mask_value is not None:
            checks.number("mask_value", mask_value)
        checks.one_of("activation", activation, [None, "softmax"])
        width = embedding_width(embedding_dim, units)
        rows = {"vocabulary_size": vocabulary_size, "features": features}
        check_sizes(architecture, units, num_layers, width, rows)
        inputs, x = sequence_input(vocabulary_size, features, width, mask_value)
        for layer in build_layers(
            architecture,
            units=units,
            num_layers=num_layers,
            bidirectional=bidirectional,
            dropout=dropout,
            return_sequences=self.per_step,
        ):
            x = first_output(layer(x))
        if self.per_step and len(x.shape) != 3:
            raise ValueError(
                "SequenceTagger needs a layer with outputs (batch, time, units), "
                f"received {layer.name} with {x.shape}: build it with "
                "return_sequences=True"
            )
        if not self.per_step and len(x.shape) == 3:
            x = LastStep(name="last_step")(x)
        # Probabilities and losses are float32, whatever the dtype of the layers.
        outputs = keras.layers.Dense(
            num_classes, activation=activation, dtype="float32", name="output"
        )(x)
        arguments = {
            "architecture": architecture,
            "num_classes": num_classes,
            "vocabulary_size": vocabulary_size,
            "features": features,
            "units": units,
            "num_layers": num_layers,
            "bidirectional": bidirectional,
            "dropout": dropout,
            "embedding_dim": embedding_dim,
            "mask_value": mask_value,
            "activation": activation,
        }
        super().__init__(inputs, outputs, arguments, **kwargs)

    def default_loss(self) -> keras.losses.Loss:
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=self._arguments["activation"] is None
        )

    def default_metrics(self) -> list[str]:
        return ["accuracy"]

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        *,
        validation_data: Any = None,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Trains the model, as `keras.Model.fit` does.

        Args:
            x: For ids, an array `(rows, time)` or a list of lists of unequal length,
                which are padded. There are only a few padded lengths, as each new one
                is compiled.
            y: Labels `(rows,)`; for a tagger, in the form of `x`.
            validation_data: A pair of such inputs and labels.
            **kwargs: As for `keras.Model.fit`.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            ValueError: If an id is outside the vocabulary.
        """
        if validation_data is not None and isinstance(validation_data, (tuple, list)):
            validation_data = (*self._pad(*validation_data[:2]), *validation_data[2:])
        x, y = self._pad(x, y)
        return super().fit(x, y, validation_data=validation_data, **kwargs)

    def evaluate(self, x: Any = None, y: Any = None, **kwargs: Any) -> Any:
        """Evaluates the model, as `keras.Model.evaluate`, on inputs as for `fit`."""
        x, y = self._pad(x, y)
        return super().evaluate(x, y, **kwargs)

    def predict(self, x: Any, **kwargs: Any) -> np.ndarray:
        """Predicts, as `keras.Model.predict` does, on inputs as for `fit`.

        Returns:
            Array `(rows, num_classes)`; for a tagger `(rows, time, num_classes)`, with
            the time of the longest row.
        """
        rows, _ = self._pad(x, None)
        predicted = super().predict(rows, **kwargs)
        if self.per_step and rows is not x:
            longest = max(len(row) for row in x)
            return predicted[:, :longest]
        return predicted

    def _pad(self, x, y):
        """Pads ids to one of a few lengths; other inputs are returned as they are."""
        size = self._arguments["vocabulary_size"]
        if size is None or not (_is_ragged(x) or _is_ids(x)):
            return x, y
        rows = pad_rows(x)
        ids.check_ids(rows, "x", "vocabulary_size", size)
        if self.per_step and y is not None and (_is_ragged(y) or _is_ids(y)):
            y = pad_rows(y)
        elif isinstance(y, list):
            y = np.array(y)
        return rows, y


def _is_ragged(x):
    return isinstance(x, list) and len(x) > 0 and hasattr(x[0], "__len__")


def _is_ids(x):
    is_table = isinstance(x, np.ndarray) and x.ndim == 2
    return is_table and np.issubdtype(x.dtype, np.integer)


@register
class SequenceClassifier(SequenceLabeler):
    r"""Classifies a sequence, from the output at its last real step.

    $$y = W h_T + b$$

    Args:
        architecture: "elman", "gated", "lstm", "peephole_lstm", "full_peephole_lstm",
            "coupled_lstm", "gru", "transformer", or a layer with outputs
            `(batch, units)` or `(batch, time, units)`.
        num_classes: Number of classes.
        vocabulary_size: Number of ids, if the inputs are ids `(batch, time)`. Id 0 is
            padding.
        features: Number of features, if the inputs are vectors
            `(batch, time, features)`.
        units: Units of each layer, for an architecture by name.
        num_layers: Number of layers, for an architecture by name.
        bidirectional: Whether an output of a layer may depend on later steps: recurrent
            layers run in both directions, and the attention of a Transformer is not
            causal.
        dropout: Dropout rate of the inputs of each layer.
        embedding_dim: Size of the embedding of an id. `units` if None.
        mask_value: For vectors: a step whose features all have this value is padding.
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


@register
class SequenceTagger(SequenceLabeler):
    r"""Labels each step of a sequence. Padding is ignored by loss and metrics.

    $$y_t = W h_t + b$$

    Args:
        architecture: A name, as for `SequenceClassifier`, or a layer with outputs
            `(batch, time, units)`.
        num_classes: Number of labels.
        vocabulary_size: Number of ids, if the inputs are ids `(batch, time)`. Id 0 is
            padding.
        features: Number of features, if the inputs are vectors
            `(batch, time, features)`.
        units: Units of each layer, for an architecture by name.
        num_layers: Number of layers, for an architecture by name.
        bidirectional: Whether a label may depend on later steps: recurrent layers run
            in both directions, and the attention of a Transformer is not causal.
        dropout: Dropout rate of the inputs of each layer.
        embedding_dim: Size of the embedding of an id. `units` if None.
        mask_value: For vectors: a step whose features all have this value is padding.
        activation: "softmax" for probabilities; None for logits, which train the same.
        **kwargs: `name` and `trainable`.

    Raises:
        ValueError: If a name or number is wrong, or if the layer has no output at each
            step.

    Examples:
        >>> model = SequenceTagger("lstm", 3, vocabulary_size=11, units=5)
        >>> model.predict(np.array([[4, 7, 1, 0]]), verbose=0).shape
        (1, 4, 3)

    References:
        Slides B, C: many to many.
    """

    per_step = True
