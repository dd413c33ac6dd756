"""A model with labels: a preprocessor, layers and a head, trained and evaluated."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.types import Config, Tensor
from kerasseq.tasks import reports
from kerasseq.tasks.base import BATCH_SIZE, TaskModel
from kerasseq.tasks.data_checks import (
    are_batches,
    check_labels_of_rows,
    product_of_weights,
    sample_weights,
)
from kerasseq.tasks.fitted import check_learned
from kerasseq.tasks.heads import Head, Loss
from kerasseq.tasks.input_rows import (
    check_not_empty,
    is_empty_list,
    number_of_rows,
    outputs_of_none,
)
from kerasseq.tasks.labels import Label, learned
from kerasseq.tasks.missing_rows import spread, taken
from kerasseq.tasks.preprocessor import Data, Preprocessor
from kerasseq.tasks.row_outputs import outputs_of_rows
from kerasseq.tasks.streaming import first_rows, in_order, streamed
from kerasseq.tasks.tagging import sentences
from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.tracing.attribution import TokenInputs
from kerasseq.training.batches import fit_arguments
from kerasseq.training.label_batches import Rows
from kerasseq.training.label_reports import LabelReport
from kerasseq.training.metrics import per_step


class LabeledModel(TaskModel):
    """The base of all models with labels.

    A subclass sets `preprocessor`, which makes arrays of raw examples, and `task`, the
    head, which has the labels, their loss and metrics, before its layers are built. It
    has `classify`, or for a label at each step `tag`, and builds the layers anew in
    `build_layers`, when `fit` has learned labels.
    """

    preprocessor: Preprocessor
    task: Head

    def build_layers(self, arguments: Config, options: dict[str, Any]) -> None:
        """Builds the layers, with labels that `fit` has learned.

        Args:
            arguments: The arguments of the model.
            options: `name` and `trainable`.
        """
        raise NotImplementedError

    @property
    def labels(self) -> list[Label] | None:
        """The labels in the order of the outputs; None until `fit` has learned them."""
        return None if self.task.labels is None else self.task.labels.names

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer of texts; None for other inputs, or before it is trained."""
        return self.preprocessor.tokenizer

    @property
    def padding_id(self) -> int:
        """The id of padding: V of a tokenizer with V ids; 0 for a model on raw ids."""
        return self.preprocessor.padding

    @property
    def multi_label(self) -> bool:
        """Whether an input may have several labels at once."""
        return self.task.multi_label

    @property
    def per_step(self) -> bool:
        """Whether each step has a label, or the whole input."""
        return self.task.per_step

    def probabilities(self, outputs: Any) -> np.ndarray:
        """Converts outputs of `predict` to probabilities."""
        return self.task.probabilities(outputs)

    # Training

    def default_loss(self) -> Loss:
        return self.task.loss()

    def default_metrics(self) -> list[Any]:
        return []

    def compile(
        self,
        optimizer: keras.optimizers.Optimizer | str | None = None,
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        **kwargs: Any,
    ) -> None:
        """Configures training, as for every model of a task.

        If the model is to learn its labels or tokenizer, `fit` does it. Metrics of tags
        count the steps that have one, with their sample weights: neither padding nor
        further tokens of a word.
        """
        if self.awaits_fit or self.task.is_waiting:
            options = {"weighted_metrics": weighted_metrics, **kwargs}
            given = (optimizer, loss, loss_weights, metrics)
            self._compile_later(given, options)
            return
        if metrics is None and weighted_metrics is None:
            metrics = self.task.metrics() or []
            if self.task.weighs_metrics:
                metrics, weighted_metrics = [], metrics
        if self.per_step and _is_of_indices(loss):
            given = keras.tree.flatten([metrics, weighted_metrics])
            metrics = []
            weighted_metrics = [per_step(each) for each in given if each is not None]
        kwargs["weighted_metrics"] = weighted_metrics
        super().compile(optimizer, loss, loss_weights, metrics, **kwargs)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        *,
        batch_size: int = BATCH_SIZE,
        epochs: int = 1,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        class_weight: str | Mapping[Any, float] | None = None,
        sample_weight: Any = None,
        missing: str = "error",
        seed: int = 0,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Trains the model.

        Args:
            x: The inputs: see the class. A list, an array, a column, a table or a
                stream; texts and rows of ids may have any lengths: they are padded to a
                few lengths, as each new one is compiled. Batches of arrays are passed
                to `keras.Model.fit`.
            y: The labels, one for each row; for tags, a list for each row. None if `x`
                has them.
            batch_size: Rows in a batch.
            epochs: The last epoch.
            initial_epoch: Number of epochs trained before.
            steps_per_epoch: Batches in an epoch. All rows if None. If labels and
                tokenizer are known, it reads a stream of texts batch by batch.
            validation_split: Fraction of the rows, from the end, for validation.
            validation_data: A pair of inputs and labels, `(x, y)`, or `(x, y,
                sample_weight)`; or data that have labels.
            class_weight: Weight of each label in the loss, by label; "balanced" gives
                all labels the same share.
            sample_weight: Weight of each row.
            missing: What is done with rows that have an empty cell: None, NaN, or a
                text, word or label "". "error", or "skip", which drops them and warns
                with their number.
            seed: Seed of the order of the rows.
            **kwargs: As for `keras.Model.fit`.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            TypeError: If an input or label has the wrong type.
            ValueError: If an id or label is unknown, their numbers differ, or cells
                are empty.
        """
        # Options of the batches: those of a model that changes images at random.
        own = {name: kwargs.pop(name) for name in self.batch_options if name in kwargs}
        refused = y, sample_weight, class_weight, validation_split or None
        x = streamed(self, x, steps_per_epoch, batch_size, missing, refused)
        x, y, sample_weight = self.complete(missing, x, y, sample_weight)
        if self.awaits_fit or self.task.is_waiting:
            self._learn(x, y)
        options = {"epochs": epochs, "initial_epoch": initial_epoch, **kwargs}
        options["steps_per_epoch"] = steps_per_epoch
        if validation_data is not None:
            steps = kwargs.get("validation_steps")
            data = first_rows(self, validation_data, steps, batch_size)
            data = self._held_out(self.complete(missing, *data), batch_size)
            options["validation_data"] = data
        rows = self.labeled_rows(x, y, sample_weight, class_weight)
        if rows is None:
            weights = {"sample_weight": sample_weight, "class_weight": class_weight}
            return super().fit(x, y, **weights, **in_order(x, options))
        if validation_split and validation_data is None:
            rows, held_out = rows.split(validation_split)
            options["validation_data"] = held_out.in_order(batch_size)
        if rows.is_array and not any(own.values()):
            return super().fit(
                rows.arrays,
                rows.y,
                sample_weight=rows.weights,
                batch_size=batch_size,
                **options,
            )
        batches = rows.batches(batch_size, seed, **own)
        steps = options.pop("steps_per_epoch")
        with self.reading(batches):
            return super().fit(**fit_arguments(batches, steps, options))

    batch_options: tuple[str, ...] = ()  # further arguments of `fit` and `batches`

    def reading(self, batches: Any) -> contextlib.AbstractContextManager[Any]:
        """Returns a context in which batches are read."""
        return contextlib.nullcontext()

    def batches(
        self,
        x: Any,
        y: Any = None,
        *,
        batch_size: int = BATCH_SIZE,
        class_weight: str | Mapping[Any, float] | None = None,
        seed: int = 0,
        **options: Any,
    ) -> Any:
        """Returns the batches that `fit` trains on, for a training loop of your own.

        Args:
            x: As for `fit`.
            y: As for `fit`.
            batch_size: Rows in a batch.
            class_weight: As for `fit`.
            seed: Seed of the order of the rows.
            **options: Further arguments of `fit` that change the batches.

        Returns:
            An object with `batch(number)` and `stream(start)`, which return inputs,
            labels and weights, and with `steps_per_epoch`.
        """
        x, y, weights = self.weighted_inputs(x, y, None)
        rows = self.labeled_rows(x, y, weights, class_weight)
        if rows is None or (rows.lengths is None and not self.batch_options):
            raise TypeError(
                f"x must be texts or lists of ids, received {checks.short(x)}"
            )
        return rows.batches(batch_size, seed, **options)

    def _learn(self, x, y):
        """Learns what the layers need of the data, and builds them."""
        arguments, options = {**self._arguments, **self.learned(x, y)}, {}
        if not self.trainable:  # True would thaw each layer
            options["trainable"] = False
        args, compile_options = self._compile_arguments
        self.build_layers(arguments, {"name": self.name, **options})
        if args or compile_options:
            self.compile(*args, **compile_options)

    def learned(self, x: Any, y: Any) -> Config:
        """Returns the arguments of the model that are learned from data.

        Args:
            x: Inputs.
            y: Labels.
        """
        if not self.task.is_waiting:
            return {}
        if y is None:
            raise ValueError(
                "expected labels y for the inputs, or a model with labels=[...]; "
                f"received y=None and x={checks.short(x)}"
            )
        return {"labels": learned(self.task.all_labels(y))}

    # Evaluation and prediction

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        *,
        batch_size: int | None = BATCH_SIZE,
        sample_weight: Any = None,
        missing: str = "error",
        **kwargs: Any,
    ) -> Any:
        """Evaluates the model, as `keras.Model.evaluate`, on inputs as for `fit`.

        Args:
            x: As for `fit`.
            y: As for `fit`.
            batch_size: Rows in a batch.
            sample_weight: Weight of each row.
            missing: "skip" leaves out rows with an empty cell, and warns with their
                number; by default they are an error.
            **kwargs: As for `keras.Model.evaluate`.
        """
        batch_size = batch_size or BATCH_SIZE  # None where `fit` evaluates
        data = x, y, sample_weight
        data = first_rows(self, data, kwargs.get("steps"), batch_size)
        data = self.complete(missing, *data, method="evaluate")
        rows = self.labeled_rows(*data)
        if rows is None:
            x, y, weights = data
            if not are_batches(x):
                kwargs["batch_size"] = batch_size
            return super().evaluate(x, y, sample_weight=weights, **kwargs)
        batches = rows.in_order(batch_size)
        with self.reading(batches):
            return super().evaluate(batches, **kwargs)

    def predict(
        self,
        x: Any,
        *,
        batch_size: int | None = BATCH_SIZE,
        missing: str = "error",
        **kwargs: Any,
    ) -> Any:
        """Predicts the outputs for inputs as for `fit`, as `keras.Model.predict`.

        Args:
            x: As for `fit`.
            batch_size: Rows that are processed at once.
            missing: "skip" leaves rows with an empty cell (None, NaN, a text or word
                "", or a damaged file) without prediction, and warns with their number;
                by default they are an error.
            **kwargs: As for `keras.Model.predict`.

        Returns:
            The outputs, an array `(rows, labels)` for example; for tags `(rows, time,
            labels)` with the time of the longest row, or for words a list of arrays
            `(words, labels)`. Rows that are left out have NaN, or None in a list.
        """

        def predicted(rows):
            return self.scores_of(rows, batch_size=batch_size, **kwargs)

        return self.for_complete_rows(predicted, x, missing)

    def scores_of(
        self, x: Any, *, batch_size: int | None = BATCH_SIZE, **kwargs: Any
    ) -> Any:
        """Computes what `predict` does, inside `trace` and `intervene` too."""
        check_learned(self)
        x = self.labeled_inputs(x, None)[0]
        if is_empty_list(x):
            if self.per_step and self.preprocessor.has_texts:
                return []
            outputs = outputs_of_none(self, self.preprocessor.none())
            return outputs[:, :0] if self.per_step else outputs
        rows = self._rows(x)
        if rows is None:
            return super().scores_of(x, **kwargs)
        return self.outputs_of(rows, batch_size=batch_size, **kwargs)

    def outputs_of(
        self, rows: Rows, *, batch_size: int | None = None, **kwargs: Any
    ) -> Any:
        """Computes the outputs for rows, as `scores_of`.

        Args:
            rows: The rows.
            batch_size: Rows that are processed at once.
            **kwargs: As for `keras.Model.predict`.
        """
        size = batch_size or BATCH_SIZE

        def outputs(arrays):
            with self.reading(arrays):
                return super(LabeledModel, self).scores_of(
                    arrays, batch_size=size, **kwargs
                )

        return outputs_of_rows(rows, outputs, self.task, size)

    def encode(self, x: Any) -> Any:
        """Returns inputs as the batch that the model reads.

        Args:
            x: One input, such as a text, or several as for `fit`; for tags, a text that
                is split at spaces, a list of words, or several of them.

        Returns:
            For `SequenceClassifier` and `SequenceTagger` int32 `(rows, T)`: the ids of
            the tokenizer, and `padding_id` after the end of shorter texts. For `BERT`
            and `GPTTask` a dictionary of int32 arrays: "ids" `(rows, T)` with the
            special tokens, for BERT also "segments", and "positions" for the heads that
            predict tokens. For `ViT` images `(rows, H, W, C)`.

        Raises:
            TypeError: If the inputs are no texts, or the model has no tokenizer.
            ValueError: If a text is empty, or the tokenizer has not been trained yet.

        Examples:
            >>> from kerasseq.models import SequenceClassifier
            >>> from kerasseq.text import CharacterTokenizer
            >>> tokenizer = CharacterTokenizer(unknown=None).fit("abc")
            >>> model = SequenceClassifier("gru", 2, tokenizer=tokenizer, units=3)
            >>> model.encode(["cab", "b"]).tolist()
            [[2, 0, 1], [1, 3, 3]]
            >>> keras.ops.shape(model(model.encode("cab")))
            (1, 2)
        """
        if not self.preprocessor.encodes:
            raise TypeError(
                "expected a model with a tokenizer, received one without. It reads its "
                "inputs as they are: call model(x)"
            )
        if self.awaits_fit:
            check_learned(self)
        x = self.labeled_inputs(x, None)[0]
        check_not_empty(x, "encode")
        rows = self._read(self.several(x))
        if rows is None:
            raise TypeError(
                "x must be a text, a pair of texts as a tuple, or a list of them, "
                f"received {checks.short(x)}"
            )
        return rows.batch()

    def several(self, x: Any) -> Any:
        """Returns one input as a list with it, others as they are."""
        return sentences(x) if self.per_step else self.preprocessor.several(x)

    def report(
        self,
        x: Any,
        y: Any = None,
        *,
        threshold: float = 0.5,
        batch_size: int = BATCH_SIZE,
        missing: str = "error",
    ) -> LabelReport:
        """Evaluates the model label by label.

        Args:
            x: The inputs, as for `fit`.
            y: Their labels, as for `fit`; None for a data set that has them.
            threshold: With several labels at once: the least probability of a label.
            batch_size: Rows that are processed at once.
            missing: "skip" leaves out rows with an empty cell, and warns with their
                number; by default they are an error.

        Returns:
            A `training.LabelReport`, which `print` shows as a table: precision, recall
            and F1 of each label and their averages, the confusion matrix, and for BIO
            and IOBES tags the scores of entities.

        Raises:
            ValueError: If a label is not one of the model, the numbers of inputs and
                labels differ, or cells are empty. `training.label_report` counts
                unknown labels as errors.

        Examples:
            >>> from kerasseq.models import SequenceClassifier
            >>> model = SequenceClassifier("gru", tokenizer="character", units=3)
            >>> history = model.fit(["ja", "nein"], ["yes", "no"], verbose=0)
            >>> report = model.report(["ja", "nein", "nein"], ["yes", "no", "no"])
            >>> report.confusion.sum(axis=1).tolist(), report.labels
            ([2, 1], ['no', 'yes'])
        """
        x, y = self.labeled_inputs(x, y)
        if y is None:
            raise ValueError("expected labels y for the inputs, received y=None")
        x, y, _ = self.complete(missing, x, y, method="report")
        options = {"threshold": threshold, "batch_size": batch_size}
        return reports.report(self, self.several(x), y, **options)

    # Data

    def labeled_inputs(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Returns inputs and labels, taken apart if `x` holds both.

        Args:
            x: As for `fit`.
            y: As for `fit`.
        """
        return self.weighted_inputs(x, y, None)[:2]

    def weighted_inputs(self, x: Any, y: Any, sample_weight: Any) -> Data:
        """Returns inputs, labels and sample weights, as `labeled_inputs`.

        Args:
            x: As for `fit`.
            y: As for `fit`.
            sample_weight: As for `fit`.
        """
        labels = self._arguments["labels"]
        return self.preprocessor.data(x, y, sample_weight, labels)

    def for_complete_rows(
        self, function: Callable[[Any], Any], x: Any, missing: str
    ) -> Any:
        """Predicts the rows without an empty cell.

        Args:
            function: Function from rows to their predictions.
            x: Rows, as for `fit`.
            missing: "skip" leaves rows with an empty cell out, and warns with their
                number; "error" raises.

        Returns:
            The predictions of all rows: None, or NaN in arrays, for those left out.
        """
        x = self.labeled_inputs(x, None)[0]
        rows = self.preprocessor.predictable(missing, x)
        if rows is None:
            return function(x)
        return spread(function(taken(x, rows)), rows, number_of_rows(x))

    def complete(
        self, missing: str, x: Any, y: Any = None, weights: Any = None, **options: Any
    ) -> Data:
        """Returns the rows of data with labels that have no empty cell.

        Args:
            missing: As for `fit`.
            x: As for `fit`.
            y: As for `fit`.
            weights: Weight of each row.
            **options: As for `complete_rows`.
        """
        data = self.weighted_inputs(x, y, weights)
        options["has_labels"] = self.task.has_labels
        return self.preprocessor.complete(missing, *data, **options)

    def _rows(self, x):
        """The inputs as `Rows`; None if Keras takes them as they are."""
        check_learned(self)
        return self._read(x)

    def _read(self, x):
        return self.task.read(self.preprocessor, x)

    def labeled_rows(
        self, x, y=None, sample_weight=None, class_weight=None
    ) -> Rows | None:
        """Inputs, labels and weights as `Rows`; None if Keras takes them as they are.

        Batches of arrays have their labels.
        """
        if y is None and are_batches(x):
            return None
        rows = self._rows(x)
        if y is None:
            if self.task.has_labels or isinstance(x, list):
                raise ValueError("expected labels y for the inputs, received y=None")
            return None
        if rows is None:
            return None
        rows.y, rows.weights = self.targets(rows, y, sample_weight, class_weight)
        return rows

    def targets(
        self, rows: Rows, y: Any, sample_weight: Any = None, class_weight: Any = None
    ) -> tuple[Any, Any]:
        """Converts labels to targets of the loss, and returns them with weights.

        Args:
            rows: The rows.
            y: Their labels.
            sample_weight: Weight of each row or step.
            class_weight: As for `fit`.
        """
        check_labels_of_rows(y, len(rows))
        y, weights = self.task.targets(rows, y, class_weight)
        steps = rows.steps if self.per_step and rows.is_array else None
        given = sample_weights(sample_weight, len(rows), steps)
        if given is not None and given.ndim == 2:  # of ids that are padded
            given = np.pad(given, ((0, 0), (0, y.shape[1] - steps)))
        return y, product_of_weights(weights, given)

    def _held_out(self, data, batch_size):
        """The batches of an evaluation within `fit`; other data as they are."""
        rows = self.labeled_rows(*data)
        if rows is not None:
            return rows.in_order(batch_size)
        return data[0] if data[1] is None else data

    # Labels of steps: padding has none

    def real_steps(self, x: Any) -> Tensor:
        """Returns which steps of a batch of inputs are not padding, `(B, T)`."""
        ids = x["ids"] if isinstance(x, Mapping) else keras.tree.flatten(x)[0]
        return ops.not_equal(ids, self.padding_id)

    def _step_weights(self, x, sample_weight):
        """The weight of each step, 0 at padding.

        Masks of outputs are no substitute: on JAX they are lost in a training step.
        """
        if x is None or not self.per_step:
            return sample_weight
        real = ops.cast(self.real_steps(x), "float32")
        if sample_weight is None:
            return real
        weight = ops.cast(sample_weight, "float32")
        return real * (weight[:, None] if len(weight.shape) == 1 else weight)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Computes the loss; that of padding is 0."""
        sample_weight = self._step_weights(x, sample_weight)
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        """Updates the metrics, in which padding does not count."""
        sample_weight = self._step_weights(x, sample_weight)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def token_inputs(self, text: Any) -> TokenInputs:
        """Returns a text or pair as inputs, with its tokens, for `tracing.attribution`.

        Raises:
            TypeError: If the head reads several rows for each example.
        """
        if self.task.multiple_rows:
            raise TypeError(
                f"expected a head that reads one row of tokens, received {self.head!r}"
            )
        rows = self._rows(self.several(text))
        return TokenInputs(rows.batch(), *self.preprocessor.tokens(text))


def _is_of_indices(loss):
    """Whether a loss takes tags as indices, as the default does."""
    kind = keras.losses.SparseCategoricalCrossentropy
    return loss in (None, "sparse_categorical_crossentropy") or isinstance(loss, kind)
