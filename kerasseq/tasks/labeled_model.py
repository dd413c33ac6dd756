"""A model with labels: a preprocessor, layers and a head, trained and evaluated."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.types import Config, Tensor
from kerasseq.tasks import reports
from kerasseq.tasks.base import BATCH_SIZE, TaskModel
from kerasseq.tasks.fit_call import FitCall, check_learned, of_parts
from kerasseq.tasks.heads import Head, Loss
from kerasseq.tasks.input_rows import (
    check_not_empty,
    is_empty_list,
    outputs_of_none,
)
from kerasseq.tasks.labeled_data import (
    Data,
    complete_data,
    first_inputs,
    first_rows,
    for_complete_rows,
    inputs_of,
    labeled_rows,
    learned_rows,
    step_weights,
    stream_of,
    streamed_batches,
)
from kerasseq.tasks.labels import Label
from kerasseq.tasks.preprocessor import Preprocessor
from kerasseq.tasks.scoring import outputs_of_rows
from kerasseq.tasks.tagging import step_metrics
from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.tracing.attribution import TokenInputs
from kerasseq.training.batches import KerasData
from kerasseq.training.label_batches import Rows
from kerasseq.training.label_reports import LabelReport


class LabeledModel(TaskModel):
    """The base of all models with labels.

    A subclass sets `preprocessor`, which makes arrays of raw examples, and `task`, the
    head, which has the labels, their loss and metrics, before its layers are built. It
    has `classify`, or for a label at each step `tag`, and builds the layers anew in
    `build_layers`, when `fit` has learned labels.

    `fit(missing="skip")` drops rows with an empty cell (None, NaN, or a text, word or
    label ""), and warns with their number; by default they are an error.
    """

    preprocessor: Preprocessor
    task: Head
    fit_options: tuple[str, ...] = ("missing",)
    evaluate_options: tuple[str, ...] = ("missing",)
    predict_options: tuple[str, ...] = ("missing",)

    def build_layers(self, arguments: Config, options: dict[str, Any]) -> None:
        """Builds the layers.

        Args:
            arguments: The arguments of the model, with labels that `fit` has learned.
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

    def default_loss(self) -> Loss:
        return self.task.loss()

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
        if self.per_step:
            counted = step_metrics(loss, metrics, weighted_metrics)
            if counted is not None:
                metrics, weighted_metrics = [], counted
        kwargs["weighted_metrics"] = weighted_metrics
        super().compile(optimizer, loss, loss_weights, metrics, **kwargs)

    def training_data(self, call: FitCall) -> KerasData | Rows:
        missing = call.own.get("missing", "error")
        fraction = call.validation_split or None
        refused = call.y, call.sample_weight, call.class_weight, fraction
        sizes = call.steps_per_epoch, call.batch_size
        x = streamed_batches(self, call.x, *sizes, missing, refused)
        data = complete_data(self, missing, x, call.y, call.sample_weight)
        if self.awaits_fit or self.task.is_waiting:
            self._learn(*data[:2])
        rows = labeled_rows(self, *data, call.class_weight)
        return KerasData(*data, call.class_weight) if rows is None else rows

    def held_out_data(self, call: FitCall) -> Any:
        missing, rows = call.own.get("missing", "error"), call.held_out_rows
        data = first_rows(self, call.validation_data, rows)
        data = complete_data(self, missing, *data, method=call.method)
        rows = labeled_rows(self, *data)
        return of_parts(*data) if rows is None else rows.in_order(call.held_out_size)

    @contextlib.contextmanager
    def training_on(
        self, call: FitCall, source: Any, arguments: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        with self.reading(source):
            yield arguments

    @contextlib.contextmanager
    def evaluating_on(self, arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
        with self.reading(arguments["x"]):
            yield arguments

    def reading(self, batches: Any) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()  # in which batches are read

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
            Batches: `batch(number)`, `stream(start)` and `steps_per_epoch`.
        """
        x, y, weights = self.weighted_inputs(x, y, None)
        rows = labeled_rows(self, x, y, weights, class_weight)
        if rows is None or (rows.lengths is None and rows.batched_by_length):
            given = checks.short(x)
            raise TypeError(f"x must be texts or lists of ids, received {given}")
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
        return self.task.learned(self._arguments, x, y)

    def predicted(self, call: FitCall, outputs: Callable[..., Any]) -> Any:
        x, is_stream = first_inputs(self, call.x, call.held_out_rows)
        if is_stream:
            outputs = functools.partial(outputs, steps=None)
        missing = call.own.get("missing", "error")
        return for_complete_rows(self, outputs, x, missing)

    def scores_of(
        self, x: Any, *, batch_size: int | None = BATCH_SIZE, **kwargs: Any
    ) -> Any:
        """Computes what `predict` does, inside `trace` and `intervene` too."""
        check_learned(self)
        x = inputs_of(self, x)
        if is_empty_list(x):
            outputs = outputs_of_none(self, self.preprocessor.none())
            if not self.per_step:
                return outputs
            return [] if self.preprocessor.has_texts else outputs[:, :0]
        rows = learned_rows(self, x)
        if rows is None:
            return super().scores_of(x, **kwargs)
        return self.outputs_of(rows, batch_size=batch_size, **kwargs)

    def outputs_of(
        self, rows: Rows, *, batch_size: int | None = None, **kwargs: Any
    ) -> Any:
        """Computes the outputs for rows, as `scores_of`."""
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
            ValueError: If a text is empty, or nothing was learned yet.

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
        x = inputs_of(self, x)
        check_not_empty(x, "encode")
        rows = self.rows_of(self.preprocessor.several(x))
        if rows is None:
            raise TypeError(
                "x must be a text, a pair of texts as a tuple, or a list of them, "
                f"received {checks.short(x)}"
            )
        return rows.batch()

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
            missing: As for `fit`.

        Returns:
            A `training.LabelReport`, a table: precision, recall and F1 of each label
            and their averages, the confusion matrix, and the scores of entities.

        Raises:
            ValueError: If a label is unknown, or cells are empty.

        Examples:
            >>> from kerasseq.models import SequenceClassifier
            >>> model = SequenceClassifier("gru", tokenizer="character", units=3)
            >>> history = model.fit(["ja", "nein"], ["yes", "no"], verbose=0)
            >>> report = model.report(["ja", "nein", "nein"], ["yes", "no", "no"])
            >>> report.confusion.sum(axis=1).tolist(), report.labels
            ([2, 1], ['no', 'yes'])
        """
        x, y, _ = complete_data(self, missing, x, y, method="report")
        return reports.report(self, x, y, threshold=threshold, batch_size=batch_size)

    def weighted_inputs(self, x: Any, y: Any, sample_weight: Any) -> Data:
        """Returns inputs, labels and sample weights, taken apart if `x` holds them.

        Args:
            x: As for `fit`.
            y: As for `fit`.
            sample_weight: As for `fit`.
        """
        data = stream_of(self, x), y, sample_weight
        return self.preprocessor.data(*data, self._arguments.get("labels"))

    def check_method(self, method: str) -> None:
        """Raises if the head does not have a method, such as "fit"."""
        if method == "report" and self.task.evaluated_by is not None:
            raise TypeError(
                f"report needs a model with labels, received a {type(self).__name__}. "
                f"Use {self.task.evaluated_by}"
            )

    def rows_of(self, x: Any) -> Rows | None:
        """Returns inputs as rows; None for what Keras takes as it is."""
        return self.task.read(self.preprocessor, x)

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
        return self.task.weighted_targets(rows, y, sample_weight, class_weight)

    def real_steps(self, x: Any) -> Tensor:
        """Returns which steps of a batch of inputs are not padding, `(B, T)`."""
        ids = x["ids"] if isinstance(x, Mapping) else keras.tree.flatten(x)[0]
        return ops.not_equal(ids, self.padding_id)

    def counted(self, x: Any, sample_weight: Any) -> Any:
        return step_weights(self, x, sample_weight)

    def token_inputs(self, text: Any) -> TokenInputs:
        """Returns a text or pair as inputs, with its tokens, for `tracing.attribution`.

        A head that reads several rows at once raises a `TypeError`.
        """
        if self.task.multiple_rows:
            raise TypeError("expected a head that reads one row, received several")
        rows = learned_rows(self, self.preprocessor.several(text))
        return TokenInputs(rows.batch(), *self.preprocessor.tokens(text))
