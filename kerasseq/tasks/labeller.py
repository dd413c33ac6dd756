"""What classifier and tagger share: the graph, and ids in rows of any length."""

import keras
import numpy as np

from kerasseq.core import checks
from kerasseq.core.padding import pad_rows
from kerasseq.tasks.architectures import LastStep, build_layers, first_output
from kerasseq.tasks.base import TaskModel, embedding_width, sequence_input


class SequenceLabeller(TaskModel):
    """A model that gives labels, for each sequence or for each step.

    A subclass lists its arguments in `__init__`, hands them over, and sets `per_step`.
    """

    per_step = False

    def __init__(self, arguments: dict, **kwargs):
        classes = checks.whole_number("num_classes", arguments["num_classes"], 2)
        checks.one_of("activation", arguments["activation"], [None, "softmax"])
        inputs, x = sequence_input(
            arguments["vocabulary_size"],
            arguments["features"],
            embedding_width(arguments["embedding_dim"], arguments["units"]),
            arguments["mask_value"],
        )
        shared = ("units", "num_layers", "bidirectional", "dropout")
        for layer in build_layers(
            arguments["architecture"],
            return_sequences=self.per_step,
            **{name: arguments[name] for name in shared},
        ):
            x = first_output(layer(x))
        if self.per_step and len(x.shape) != 3:
            raise ValueError(
                f"a tagger needs an output at every step, but {layer.name} gives "
                f"{x.shape}: build it with return_sequences=True"
            )
        if not self.per_step and len(x.shape) == 3:
            x = LastStep(name="last_step")(x)
        # Probabilities and losses stay in float32, whatever the layers compute in.
        outputs = keras.layers.Dense(
            classes, activation=arguments["activation"], dtype="float32", name="output"
        )(x)
        super().__init__(inputs, outputs, arguments, **kwargs)

    def default_loss(self):
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=self._arguments["activation"] is None
        )

    def default_metrics(self):
        return ["accuracy"]

    def fit(self, x=None, y=None, *, validation_data=None, **kwargs):
        """Train, as `keras.Model.fit` does.

        Args:
            x: For ids, an array `(rows, time)` or a list of lists of unequal length;
                they are padded to one of a few lengths, as each new one is compiled.
            y: Labels `(rows,)`; of a tagger, in the form of `x`.
            validation_data: Pair of such inputs and labels.
            **kwargs: As for `keras.Model.fit`.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            ValueError: If an id is outside the vocabulary.
        """
        if validation_data is not None and isinstance(validation_data, (tuple, list)):
            validation_data = (*self._rows(*validation_data[:2]), *validation_data[2:])
        x, y = self._rows(x, y)
        return super().fit(x, y, validation_data=validation_data, **kwargs)

    def evaluate(self, x=None, y=None, **kwargs):
        """Measure, as `keras.Model.evaluate` does, on inputs as for `fit`."""
        x, y = self._rows(x, y)
        return super().evaluate(x, y, **kwargs)

    def predict(self, x, **kwargs):
        """Predict, as `keras.Model.predict` does, on inputs as for `fit`.

        Returns:
            Array `(rows, num_classes)`; of a tagger `(rows, time, num_classes)`, where
            the time is that of the longest row.
        """
        rows, _ = self._rows(x, None)
        predicted = super().predict(rows, **kwargs)
        if self.per_step and rows is not x:
            longest = max(len(row) for row in x)
            return predicted[:, :longest]
        return predicted

    def _rows(self, x, y):
        """Ids as an array of one of a few lengths; all else as it is."""
        size = self._arguments["vocabulary_size"]
        if size is None or not (_is_ragged(x) or _is_ids(x)):
            return x, y
        rows = pad_rows(x)
        if rows.size and (rows.min() < 0 or rows.max() >= size):
            wrong = rows.min() if rows.min() < 0 else rows.max()
            raise ValueError(
                f"x has the id {wrong}, but vocabulary_size={size} allows 0 to "
                f"{size - 1}, where 0 is padding"
            )
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
