"""What classifier and tagger share: inputs, labels by name, training and prediction."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from kerasseq import kernels
from kerasseq.core import checks, ids
from kerasseq.core.padding import bucket
from kerasseq.core.types import Config
from kerasseq.tasks import data_checks, text_inputs
from kerasseq.tasks.architectures import build_layers, first_output
from kerasseq.tasks.base import BATCH_SIZE, TaskModel
from kerasseq.tasks.embedding import move_padding_last
from kerasseq.tasks.input_rows import check_not_empty, is_empty_list, is_ids
from kerasseq.tasks.labeled import (
    Data,
    LabelsMixin,
    check_learned,
    learned_from,
    split_off_end,
)
from kerasseq.tasks.labeler_inputs import check_arguments, input_layers
from kerasseq.tasks.labels import Labels, learned
from kerasseq.tasks.last_step import LastStep
from kerasseq.tasks.missing_rows import complete_rows, predictable_rows
from kerasseq.tasks.streaming import in_order
from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.training.batches import fit_arguments, padded
from kerasseq.training.label_batches import LabelBatches, SortedBatches

PADDING = "padding_id"  # in files


class SequenceLabeler(LabelsMixin, TaskModel):
    """The base of `SequenceClassifier` and `SequenceTagger`.

    If the labels or the tokenizer are to be learned from data, `fit` builds the layers.

    Args:
        arguments: The arguments of the subclass by name.
        **kwargs: `name` and `trainable`.
    """

    least_labels = 2
    _moves_optimizer_rows: bool = False  # after an older file was loaded

    def __init__(self, arguments: Config, **kwargs: Any) -> None:
        check_arguments(arguments, self.least_labels)
        if arguments["labels"] is None or isinstance(arguments["tokenizer"], str):
            keras.Model.__init__(self, **kwargs)
            self.awaits_fit = True
            self._arguments = arguments
        else:
            self._build_layers(arguments, kwargs)

    def _build_layers(self, arguments, kwargs):
        labels = Labels(arguments["labels"], at_least=self.least_labels)
        inputs, x = input_layers(arguments)
        for layer in build_layers(
            arguments["architecture"],
            units=arguments["units"],
            num_layers=arguments["num_layers"],
            bidirectional=arguments["bidirectional"],
            dropout=arguments["dropout"],
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
        scores = keras.layers.Dense(
            labels.count,
            activation=arguments["activation"],
            dtype="float32",
            name="output",
        )(x)
        self._labels = labels
        super().__init__(
            inputs, self.outputs_of(scores, arguments), arguments, **kwargs
        )

    def outputs_of(self, scores: Any, arguments: Config) -> Any:
        """Returns the outputs of the model for the scores of the labels."""
        return scores

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer of texts; None for other inputs, or before it is trained."""
        found = self._arguments["tokenizer"]
        return None if isinstance(found, str) else found

    @property
    def padding_id(self) -> int:
        """The id of padding: V of a tokenizer with V ids; 0 for a model on raw ids."""
        return 0 if self.tokenizer is None else self.tokenizer.vocabulary_size

    def encode(self, x: Any) -> np.ndarray:
        """Returns texts as the batch of ids that the model reads.

        Args:
            x: A text, or several; for a tagger, a text that is split at spaces, a list
                of words, or several of them.

        Returns:
            int32 `(rows, T)`: the ids of the tokenizer, and `padding_id` after the end
            of shorter texts; `(1, T)` for one text.

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
        if self._arguments["tokenizer"] is None:
            raise TypeError(
                "expected a model with a tokenizer, received one without. It reads its "
                "inputs as they are: call model(x)"
            )
        x = self.labeled_inputs(x, None)[0]
        check_not_empty(x, "encode")
        rows, _ = self._rows(self.several(x))
        return padded(rows, value=self.padding_id)

    def default_loss(self) -> keras.losses.Loss | None:
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=self._arguments["activation"] is None
        )

    def default_metrics(self) -> list[Any]:
        return ["accuracy"]

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Configures training, as for every model of a task.

        If the model is to learn its labels or tokenizer, `fit` does it.
        """
        if self._labels is None:
            self._compile_later(args, kwargs)
        else:
            super().compile(*args, **kwargs)

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
            x: The inputs: see the class. Texts and rows of ids may have any lengths:
                they are padded to a few lengths, as each new one is compiled.
            y: The labels; for a tagger, a list for each row.
            batch_size: Rows in a batch.
            epochs: The last epoch.
            initial_epoch: Number of epochs trained before.
            steps_per_epoch: Batches in an epoch. All rows if None. If labels and
                tokenizer are known, it reads a stream of texts batch by batch.
            validation_split: Fraction of the rows, from the end, for validation.
            validation_data: A pair of inputs and labels.
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
        refused = y, sample_weight, class_weight, validation_split or None
        x = self._streamed(x, steps_per_epoch, batch_size, missing, refused)
        x, y, sample_weight = self._complete(missing, x, y, sample_weight)
        if self._labels is None:
            self._learn(x, y)
        shared = {"epochs": epochs, "initial_epoch": initial_epoch, **kwargs}
        options = in_order(x, shared)
        if validation_data is not None:
            steps = kwargs.get("validation_steps")
            data = self._first_rows(validation_data, steps, batch_size)
            data = self._complete(missing, *data)
            options["validation_data"] = self._evaluated(*data, batch_size)
        prepared = self._prepare(x, y, sample_weight, class_weight)
        if prepared is None:
            return super().fit(x, steps_per_epoch=steps_per_epoch, **options)
        if validation_split and validation_data is None:
            prepared, held_out = split_off_end(prepared, validation_split)
            options["validation_data"] = self._sorted(held_out, batch_size)
        rows, y, weights = prepared
        if not isinstance(rows, list):
            return super().fit(
                rows,
                y,
                batch_size=batch_size,
                steps_per_epoch=steps_per_epoch,
                sample_weight=weights,
                **options,
            )
        batches = LabelBatches(*prepared, batch_size, seed, padding=self.padding_id)
        return super().fit(**fit_arguments(batches, steps_per_epoch, options))

    def batches(
        self,
        x: Any,
        y: Any,
        *,
        batch_size: int = BATCH_SIZE,
        class_weight: str | Mapping[Any, float] | None = None,
        seed: int = 0,
    ) -> LabelBatches:
        """Returns the batches that `fit` trains on, for texts or rows of ids.

        Args:
            x: As for `fit`.
            y: As for `fit`.
            batch_size: Rows in a batch.
            class_weight: As for `fit`.
            seed: Seed of the order of the rows.
        """
        prepared = self._prepare(*self.labeled_inputs(x, y), class_weight=class_weight)
        if prepared is None or not isinstance(prepared[0], list):
            raise TypeError(
                f"x must be texts or lists of ids, received {checks.short(x)}"
            )
        return LabelBatches(*prepared, batch_size, seed, padding=self.padding_id)

    def _learn(self, x, y):
        """Learns labels and tokenizer, and builds the layers."""
        arguments, kwargs = dict(self._arguments), {"name": self.name}
        if not self.trainable:
            kwargs["trainable"] = False
        if arguments["labels"] is None:
            arguments["labels"] = learned(self.all_labels(learned_from(y, x)))
        if isinstance(arguments["tokenizer"], str):
            texts = self.texts_of(x)
            if texts is None:
                raise TypeError(
                    "expected texts, as the model has a tokenizer, received "
                    f"x={checks.short(x)}"
                )
            arguments["tokenizer"] = text_inputs.train_tokenizer(
                arguments["tokenizer"], texts
            )
        args, options = self._compile_arguments
        self._build_layers(arguments, kwargs)
        if args or options:
            self.compile(*args, **options)

    @property
    def reads_words(self) -> bool:
        return self.per_step and self._arguments["tokenizer"] is not None

    def _complete(self, missing, x, y=None, sample_weight=None, **options):
        """The rows of data with labels without an empty cell."""
        data = self.weighted_inputs(x, y, sample_weight)
        has_texts = self._arguments["tokenizer"] is not None
        return complete_rows(*data, missing, has_texts=has_texts, **options)

    def _predictable(self, missing, x):
        """The rows of inputs without an empty cell; None for all."""
        has_texts = self._arguments["tokenizer"] is not None
        return predictable_rows(x, missing, has_texts=has_texts)

    def _prepare(self, x, y, sample_weight=None, class_weight=None) -> Data | None:
        """Rows of ids or an array, with labels and weights; None for other inputs."""
        if y is None and data_checks.are_batches(x):
            return None  # they have labels
        rows, first = self._rows(x)
        if y is None:
            raise ValueError("expected labels y for the inputs, received y=None")
        if not data_checks.are_batches(rows):
            data_checks.check_labels_of_rows(y, len(rows))
        y, weights = self.targets(rows, y, first, class_weight)
        steps = np.shape(x)[1] if self.per_step and hasattr(rows, "shape") else None
        given = data_checks.sample_weights(sample_weight, len(rows), steps)
        if given is not None and given.ndim == 2:  # of ids that are padded
            given = np.pad(given, ((0, 0), (0, y.shape[1] - steps)))
        return rows, y, data_checks.product_of_weights(weights, given)

    def _rows(self, x):
        """The inputs as a list of rows of ids, or as they are; and words, if any."""
        if self._arguments["tokenizer"] is None and not self.awaits_fit:
            ids.refuse_texts(x, has_tokenizer=False)
        if self._labels is None:
            missing = "labels" if self._arguments["labels"] is None else "tokenizer"
            check_learned(None, missing)
        tokenizer = self.tokenizer
        if is_empty_list(x):
            return [], [] if self.per_step and tokenizer is not None else None
        if tokenizer is not None and not is_ids(x):
            return self.text_rows(tokenizer, x)
        size = self._arguments["vocabulary_size"]
        if tokenizer is not None:
            size = self.padding_id + 1
        features = self._arguments["features"]
        return data_checks.array_rows(
            x, size, self.padding_id, features, self.inputs[0].name
        ), None

    def _evaluated(self, x, y=None, sample_weight=None, batch_size=BATCH_SIZE):
        """The batches of an evaluation; other data as they are."""
        x, y, sample_weight = self.weighted_inputs(x, y, sample_weight)
        prepared = self._prepare(x, y, sample_weight)
        return x if prepared is None else self._sorted(prepared, batch_size)

    def _sorted(self, prepared, batch_size):
        return SortedBatches(*prepared, batch_size, self.padding_id)

    def _encoded(self, x, y, sample_weight):
        return self._evaluated(*self._complete("error", x, y, sample_weight), len(x))[0]

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
        steps = kwargs.get("steps")
        data = self._first_rows((x, y, sample_weight), steps, batch_size)
        data = self._complete(missing, *data, method="evaluate")
        return super().evaluate(self._evaluated(*data, batch_size), **kwargs)

    def predict(
        self,
        x: Any,
        *,
        batch_size: int = BATCH_SIZE,
        missing: str = "error",
        **kwargs: Any,
    ) -> Any:
        """Predicts the outputs for inputs as for `fit`, as `keras.Model.predict`.

        Args:
            x: As for `fit`.
            batch_size: Rows that are processed at once.
            missing: "skip" leaves rows with an empty cell (None, NaN, or a text or word
                "") without prediction, and warns with their number; by default they are
                an error.
            **kwargs: As for `keras.Model.predict`.

        Returns:
            Array `(rows, labels)`; for a tagger `(rows, time, labels)` with the time of
            the longest row, or for lists of words a list of arrays `(words, labels)`.
            Rows that are left out have NaN, or None in a list.
        """

        def predicted(rows):
            return self.scores_of(rows, batch_size=batch_size, **kwargs)

        return self.for_complete_rows(predicted, x, missing)

    def scores_of(
        self, x: Any, *, batch_size: int | None = BATCH_SIZE, **kwargs: Any
    ) -> Any:
        """Computes what `predict` does, inside `trace` and `intervene` too."""
        x = self.labeled_inputs(x, None)[0]
        rows, first = self._rows(x)
        if not isinstance(rows, list):
            options = {"batch_size": batch_size} if hasattr(rows, "shape") else {}
            found = super().scores_of(rows, **options, **kwargs)
            is_padded = self.per_step and is_ids(rows)
            return found[:, : np.shape(x)[1]] if is_padded else found
        if not rows and first is None:
            return np.zeros([size or 0 for size in self.output_shape], "float32")
        found = self._scores_of_rows(rows, batch_size, kwargs)
        if not self.per_step:
            return np.stack(found)
        found = [scores[: len(row)] for scores, row in zip(found, rows, strict=True)]
        if first is not None:
            return [scores[places] for scores, places in zip(found, first, strict=True)]
        return keras.utils.pad_sequences(found, dtype="float32", padding="post")

    def _scores_of_rows(self, rows, batch_size, options):
        """The outputs of each row, computed with rows of about the same length."""
        if kernels.is_uncompiled():  # the batch of `encode`
            x = padded(rows, value=self.padding_id)
            return super().scores_of(x, batch_size=batch_size)
        lengths = np.array([bucket(len(row)) for row in rows])
        found = [None] * len(rows)
        for length in np.unique(lengths):
            places = np.flatnonzero(lengths == length)
            x = padded([rows[n] for n in places], length, value=self.padding_id)
            outputs = super().scores_of(x, batch_size=batch_size, **options)
            for n, output in zip(places, outputs, strict=True):
                found[n] = output
        return found

    def save_own_variables(self, store: Any) -> None:
        self._move_optimizer_rows()
        super().save_own_variables(store)
        if self.tokenizer is not None:
            store[PADDING] = np.array(self.padding_id)

    def load_own_variables(self, store: Any) -> None:
        """Loads a file, also one of the time when ids were the tokenizer's plus 1."""
        names = list(store.keys())
        if self.tokenizer is not None and PADDING not in names and self.layers:
            self.get_layer("embedding").loads_padding_first = True
            self._moves_optimizer_rows = True
        super().load_own_variables({n: store[n] for n in names if n != PADDING})

    def _build_optimizer(self):
        super()._build_optimizer()
        self._move_optimizer_rows()

    def _move_optimizer_rows(self):
        """Finishes the loading of an older file, in which the optimizer comes last."""
        if self._moves_optimizer_rows:
            self._moves_optimizer_rows = False
            move_padding_last(self.get_layer("embedding"), self.optimizer.variables)

    def move_padding_last(self) -> None:
        """Moves the rows of weights that were set in the order of older files."""
        if self.tokenizer is not None:
            embedding = self.get_layer("embedding")
            variables = [*self.variables, *self.optimizer.variables]
            move_padding_last(embedding, variables)

    def text_rows(
        self, tokenizer: Tokenizer, x: Any
    ) -> tuple[list[np.ndarray], list[np.ndarray] | None]:
        """Returns the ids of texts; for words also the index of each one's first id."""
        raise NotImplementedError

    def texts_of(self, x: Any) -> list[str] | None:
        """Returns the texts among the inputs to train a tokenizer; None for others."""
        raise NotImplementedError

    def all_labels(self, y: Any) -> Any:
        """Returns the labels of the data, to learn the distinct ones."""
        raise NotImplementedError

    def targets(
        self, rows: Any, y: Any, first: Any, class_weight: Any
    ) -> tuple[Any, Any]:
        """Converts labels to indices, and returns them with sample weights.

        Args:
            rows: Rows of ids; or arrays.
            y: The labels.
            first: For words, the index of the first id of each.
            class_weight: As for `fit`.
        """
        raise NotImplementedError
