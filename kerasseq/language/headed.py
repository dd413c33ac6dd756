"""Models with a task on top: training on texts and labels, answers in their form."""

import functools

import keras
import numpy as np
from keras import ops


class Headed:
    """Training and answers of a model with `reader`, whose arguments name its head.

    Attributes:
        heads: The classes of the heads by name.
    """

    heads: dict

    @functools.cached_property
    def task(self):
        """The head."""
        return self.heads[self._arguments["head"]](self._arguments["num_classes"])

    def default_loss(self):
        return self.task.loss()

    def default_metrics(self):
        return []

    def compile(self, optimizer=None, *args, weighted_metrics=None, **kwargs):
        """Configure training, as `TaskModel.compile`, with Adam at 3e-4."""
        if optimizer is None:
            optimizer = keras.optimizers.Adam(3e-4, global_clipnorm=1.0)
        if weighted_metrics is None and not kwargs.get("metrics"):
            weighted_metrics = self.task.metrics()
        super().compile(optimizer, *args, weighted_metrics=weighted_metrics, **kwargs)

    def fit(
        self,
        x=None,
        y=None,
        *,
        batch_size=32,
        epochs=1,
        steps_per_epoch=None,
        validation_data=None,
        **kwargs,
    ):
        """Train on texts and their labels.

        Args:
            x: A list of what the head reads, see the class; or arrays. Anything else,
                such as a stream of batches, goes to `keras.Model.fit` as it is.
            y: Labels, one for each.
            batch_size: Rows in a batch.
            epochs: Last epoch; an epoch is a pass, or `steps_per_epoch`.
            steps_per_epoch: Batches in an epoch. A whole pass if None.
            validation_data: `(x, y)`, or with weights of the rows as the third.
            **kwargs: As for `keras.Model.fit`.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            TypeError: If a text or label is of the wrong kind.
            ValueError: If the model has no head, a text is empty or longer than it
                reads, or an id or label is out of range.
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

    def evaluate(self, x=None, y=None, **kwargs):
        """Measure, as `keras.Model.evaluate` does, on texts as for `fit`.

        Args:
            x: As for `fit`.
            y: Labels.
            **kwargs: As for `keras.Model.evaluate`.

        Returns:
            What Keras returns.
        """
        self._check_head("evaluate")
        x, y, weights = self._weighted(x, y, kwargs.pop("sample_weight", None))
        return super().evaluate(x, y, sample_weight=weights, **kwargs)

    def predict(self, x, **kwargs):
        """The outputs of the model, for texts as for `fit`, or for arrays.

        Args:
            x: Texts, pairs of texts, words or ids; or a dictionary of the inputs.
            **kwargs: As for `keras.Model.predict`.

        Returns:
            Arrays, as the table of heads says; for tags of words, a list of arrays
            `(words, C)`.
        """
        rows = self._rows(x)
        if rows is None:
            return super().predict(x, **kwargs)
        arrays = rows.arrays
        if self.task.asks and "positions" not in arrays:  # then everywhere
            T = arrays["ids"].shape[1]
            places = np.broadcast_to(np.arange(T, dtype="int32"), arrays["ids"].shape)
            arrays = {**arrays, "positions": places}
        found = super().predict(arrays, **kwargs)
        if self.head != "tag" or rows.places is None:
            return found
        return [row[places] for row, places in zip(found, rows.places, strict=True)]

    def arrays(self, x, y):
        """Inputs, labels and their weights, as Keras takes them.

        Args:
            x: As for `fit`.
            y: As for `fit`.
        """
        rows = self._rows(x)
        if y is None and isinstance(x, list) and rows is not None:
            raise ValueError("texts need labels, one for each, but y is None")
        if y is None or rows is None:
            return x, y, None
        if isinstance(y, dict):  # of arrays, as the outputs are
            return rows.arrays, y, None
        if len(y) != len(rows.arrays["ids"]):
            raise ValueError(
                f"there are {len(rows.arrays['ids'])} texts, but {len(y)} labels"
            )
        return (rows.arrays, *self.task.targets(rows, y))

    def _weighted(self, x, y=None, given=None):
        """Inputs, labels, and weights of rows with those that the labels have."""
        if isinstance(x, str) and y is not None:
            tags = self.head == "tag" and y and not hasattr(y[0], "__len__")
            x, y = [x], [y] if tags or not isinstance(y, list) else y
        x, y, weights = self.arrays(x, y)
        return x, y, _product(weights, given)

    def _rows(self, x):
        """What the head reads, as `Rows`; None if it is for Keras."""
        if isinstance(x, str):
            x = [x]
        if isinstance(x, list | tuple) and not len(x):
            raise ValueError("there are no texts: x is empty")
        if getattr(getattr(x, "dtype", None), "kind", None) in ("U", "O"):
            x = np.asarray(x).tolist()  # an array of texts
        return self.task.read(self.reader, x)

    def answers(self, texts, **kwargs):
        """The likeliest stretch of each text, or of the second text of each pair.

        Args:
            texts: A list of texts or of pairs, such as a question and a text; or one
                text.
            **kwargs: As for `keras.Model.predict`.

        Returns:
            A list of strings, or of ids where the texts are; None where no answer is
            likelier than any. For one text the answer itself.

        Raises:
            TypeError: If there is something else than texts.
            ValueError: If the head is another.
        """
        self._check_head("answers", "span")
        if isinstance(texts, str):
            return self.answers([texts], **kwargs)[0]
        rows = self._rows(texts)
        if rows is None or rows.places is None:
            raise TypeError(
                "answers reads a list of texts, or of pairs (question, text), got "
                f"{type(texts).__name__}"
            )
        found = super().predict(rows.arrays, **kwargs)
        answers = []
        for n, (offsets, first, none, _) in enumerate(rows.places):
            start, end = found["start"][n], found["end"][n]
            inside = slice(first, first + len(offsets))
            # (T_start, T_end), of which the end must not stand before the start.
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

    def _check_head(self, method, *wanted):
        if self.head in (None, "sequence") or (wanted and self.head not in wanted):
            example = wanted[0] if wanted else "classify"
            raise ValueError(
                f"{method} needs another head than {self.head!r}: take "
                f"with_head({example!r}), for example"
            )


def keep_weights(old, new):
    """Give the layers of a model the weights of those with the same names in another.

    Args:
        old: The model that has them, those of LoRA as parts of their kernels. The two
            share nothing afterwards.
        new: The model that gets them, where shapes agree: not where there are other
            classes.

    Raises:
        ValueError: If a layer has been changed in another way, such as quantized.
    """
    ours = {layer.name: layer for layer in old.layers}
    for layer in new.layers:
        if layer.name not in ours:
            continue
        parts = ours[layer.name]._flatten_layers()
        for mine, theirs in zip(layer._flatten_layers(), parts, strict=True):
            _take_over(mine, theirs)


def _take_over(mine, theirs):
    """The own weights of one layer, as Keras would write them into a file."""
    have, given = {}, {}
    mine.save_own_variables(have)
    theirs.save_own_variables(given)
    if have.keys() != given.keys():
        raise ValueError(
            f"the layer {theirs.path!r} has {len(given)} weights, but one of a new "
            f"model {len(have)}: it has been changed, for example quantized"
        )
    if all(have[n].shape == given[n].shape for n in have):
        # Copies: JAX would give both models one array.
        mine.load_own_variables(
            {n: np.array(ops.convert_to_numpy(value)) for n, value in given.items()}
        )


def _product(weights, given):
    """Weights of tokens `(B, T)` and of rows, where there are any."""
    given = np.asarray(given, "float32") if isinstance(given, list) else given
    if weights is None or given is None:
        return given if weights is None else weights
    return weights * np.reshape(given, (len(weights), -1))
