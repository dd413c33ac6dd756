"""Fine-tuning of BERT and GPT: training on texts and labels, predictions for texts."""

import functools
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq.language.bert_heads import Head, Loss
from kerasseq.language.bert_texts import Rows


class FineTuningMixin:
    """`fit`, `evaluate`, `predict` and `answers` of a model with a task head.

    The model has a `reader`, which converts texts to arrays, and the arguments `head`
    and `num_classes`.

    Attributes:
        heads: The classes of the heads by name.
    """

    heads: dict[str | None, type[Head]]

    @functools.cached_property
    def task(self) -> Head:
        """The head."""
        return self.heads[self._arguments["head"]](self._arguments["num_classes"])

    def default_loss(self) -> Loss:
        return self.task.loss()

    def default_metrics(self) -> list[keras.metrics.Metric]:
        return []

    def compile(
        self,
        optimizer: keras.optimizers.Optimizer | str | None = None,
        *args: Any,
        weighted_metrics: Any = None,
        **kwargs: Any,
    ) -> None:
        """Configures training like `TaskModel.compile`; the default is Adam at 3e-4."""
        if optimizer is None:
            optimizer = keras.optimizers.Adam(3e-4, global_clipnorm=1.0)
        if weighted_metrics is None and not kwargs.get("metrics"):
            weighted_metrics = self.task.metrics()
        super().compile(optimizer, *args, weighted_metrics=weighted_metrics, **kwargs)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        *,
        batch_size: int = 32,
        epochs: int = 1,
        steps_per_epoch: int | None = None,
        validation_data: Any = None,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Trains on texts and labels.

        Args:
            x: A list of the inputs of the head, see the class; or arrays. Anything
                else, such as a stream of batches, is passed to `keras.Model.fit`.
            y: Labels, one for each.
            batch_size: Examples in a batch.
            epochs: Index of the last epoch.
            steps_per_epoch: Batches in an epoch. All of `x` if None.
            validation_data: `(x, y)`, or `(x, y, sample_weight)`.
            **kwargs: As for `keras.Model.fit`.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            TypeError: If a text or label has the wrong type.
            ValueError: If the model has no head, a text is empty or too long, or an id
                or label is out of range.
        """
        self._check_head("fit")
        if isinstance(validation_data, tuple | list):
            validation_data = self._weighted(*validation_data)
        x, y, weights = self._weighted(x, y, kwargs.pop("sample_weight", None))
        return super().fit(
            x,
            y,
            batch_size=None if y is None else batch_size,
            epochs=epochs,
            steps_per_epoch=steps_per_epoch,
            validation_data=validation_data,
            sample_weight=weights,
            **kwargs,
        )

    def evaluate(self, x: Any = None, y: Any = None, **kwargs: Any) -> Any:
        """Evaluates like `keras.Model.evaluate`, on texts as for `fit`.

        Args:
            x: As for `fit`.
            y: Labels.
            **kwargs: As for `keras.Model.evaluate`.

        Returns:
            As `keras.Model.evaluate`.
        """
        self._check_head("evaluate")
        x, y, weights = self._weighted(x, y, kwargs.pop("sample_weight", None))
        return super().evaluate(x, y, sample_weight=weights, **kwargs)

    def predict(self, x: Any, **kwargs: Any) -> Any:
        """Computes the outputs of the model for texts as for `fit`, or for arrays.

        Args:
            x: Texts, pairs of texts, words or ids; or a dictionary of the inputs.
            **kwargs: As for `keras.Model.predict`.

        Returns:
            Arrays as in the table of heads; for tags of words, a list of arrays
            `(words, C)`.
        """
        rows = self._rows(x)
        if rows is None:
            return super().predict(x, **kwargs)
        arrays = rows.arrays
        if self.task.takes_positions and "positions" not in arrays:  # all positions
            T = arrays["ids"].shape[1]
            places = np.broadcast_to(np.arange(T, dtype="int32"), arrays["ids"].shape)
            arrays = {**arrays, "positions": places}
        found = super().predict(arrays, **kwargs)
        if self.head != "tag" or rows.places is None:
            return found
        return [row[places] for row, places in zip(found, rows.places, strict=True)]

    def arrays(self, x: Any, y: Any) -> tuple[Any, Any, np.ndarray | None]:
        """Converts texts and labels to inputs, labels and sample weights of Keras.

        Args:
            x: As for `fit`.
            y: As for `fit`.
        """
        rows = self._rows(x)
        if y is None and isinstance(x, list) and rows is not None:
            raise ValueError("y must have a label for each text, received y=None")
        if y is None or rows is None:
            return x, y, None
        if isinstance(y, dict):  # of arrays, as the outputs are
            return rows.arrays, y, None
        if len(y) != len(rows.arrays["ids"]):
            raise ValueError(
                f"y must have a label for each of {len(rows.arrays['ids'])} texts, "
                f"received {len(y)} labels"
            )
        return (rows.arrays, *self.task.targets(rows, y))

    def _weighted(
        self, x: Any, y: Any = None, given: Any = None
    ) -> tuple[Any, Any, Any]:
        """Inputs, labels, and the product of both sample weights."""
        if isinstance(x, str) and y is not None:
            tags = self.head == "tag" and y and not hasattr(y[0], "__len__")
            x, y = [x], [y] if tags or not isinstance(y, list) else y
        x, y, weights = self.arrays(x, y)
        return x, y, _product(weights, given)

    def _rows(self, x: Any) -> Rows | None:
        """The inputs as `Rows`; None if Keras takes them as they are."""
        if isinstance(x, str):
            x = [x]
        if isinstance(x, list | tuple) and not len(x):
            raise ValueError("x must have at least one text, received an empty list")
        if getattr(getattr(x, "dtype", None), "kind", None) in ("U", "O"):
            x = np.asarray(x).tolist()  # an array of texts
        return self.task.read(self.reader, x)

    def answers(self, texts: Any, **kwargs: Any) -> Any:
        """Extracts the most probable span of each text, or of the second of each pair.

        Args:
            texts: A list of texts or of pairs, such as a question and a text; or one
                text.
            **kwargs: As for `keras.Model.predict`.

        Returns:
            A list of strings, or of ids if the texts are ids; None if "no answer" is
            more probable. For one text, a single answer.

        Raises:
            TypeError: If `texts` has the wrong type.
            ValueError: If the head is not "span".
        """
        self._check_head("answers", "span")
        if isinstance(texts, str):
            return self.answers([texts], **kwargs)[0]
        rows = self._rows(texts)
        if rows is None or rows.places is None:
            raise TypeError(
                "texts must be a list of texts, or of pairs (question, text), received "
                f"{type(texts).__name__}"
            )
        found = super().predict(rows.arrays, **kwargs)
        answers = []
        for n, (offsets, first, none, _) in enumerate(rows.places):
            start, end = found["start"][n], found["end"][n]
            inside = slice(first, first + len(offsets))
            # (T_start, T_end): the end is not before the start.
            scores = np.triu(
                np.exp(start[inside] - start.max())[:, None]
                * np.exp(end[inside] - end.max())
            )
            s, e = np.unravel_index(scores.argmax(), scores.shape)
            nothing = np.exp(start[none] - start.max()) * np.exp(end[none] - end.max())
            text = texts[n]
            if not isinstance(text, str) and hasattr(text[-1], "__len__"):
                text = text[-1]  # of a pair
            span = text[offsets[s, 0] : offsets[e, 1]]
            answers.append(span if scores[s, e] >= nothing else None)
        return answers

    def _check_head(self, method: str, *wanted: str) -> None:
        if self.head in (None, "sequence") or (wanted and self.head not in wanted):
            example = wanted[0] if wanted else "classify"
            raise ValueError(
                f"{method} is not available for head={self.head!r}. Use "
                f"with_head({example!r}), for example"
            )


def copy_weights(old: keras.Model, new: keras.Model) -> None:
    """Copies weights between the layers of equal names of two models.

    Args:
        old: The source. LoRA weights are merged into their kernels.
        new: The target. Layers of other shapes, such as another number of classes,
            are skipped.

    Raises:
        ValueError: If a layer has other weights, such as after quantization.
    """
    ours = {layer.name: layer for layer in old.layers}
    for layer in new.layers:
        if layer.name not in ours:
            continue
        parts = ours[layer.name]._flatten_layers()
        for mine, theirs in zip(layer._flatten_layers(), parts, strict=True):
            _copy_layer(mine, theirs)


def _copy_layer(mine: keras.Layer, theirs: keras.Layer) -> None:
    """Copies the weights of one layer, without its sublayers."""
    have, given = {}, {}
    mine.save_own_variables(have)
    theirs.save_own_variables(given)
    if have.keys() != given.keys():
        raise ValueError(
            f"the layer {theirs.path!r} must have {len(have)} weights, received "
            f"{len(given)}: quantized layers cannot be copied"
        )
    if all(have[n].shape == given[n].shape for n in have):
        # On JAX both models would share one array.
        mine.load_own_variables(
            {n: np.array(ops.convert_to_numpy(value)) for n, value in given.items()}
        )


def _product(weights: np.ndarray | None, given: Any) -> Any:
    """The product of token weights `(B, T)` and row weights, each optional."""
    given = np.asarray(given, "float32") if isinstance(given, list) else given
    if weights is None or given is None:
        return given if weights is None else weights
    return weights * np.reshape(given, (len(weights), -1))
