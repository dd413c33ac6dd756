"""Fine-tuning of BERT and GPT: training on texts and labels, predictions for texts."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks, sublayers
from kerasseq.models.bert.bert_texts import Rows
from kerasseq.models.task_heads import CLASSIFIERS, TaskHeadMixin
from kerasseq.tasks.data_checks import (
    check_labels_of_rows,
    product_of_weights,
    sample_weights,
)
from kerasseq.tasks.input_rows import check_not_empty, is_empty_list, outputs_of_none
from kerasseq.tasks.labeled import check_learned, training_rows
from kerasseq.tasks.missing_rows import complete_rows, predictable_rows
from kerasseq.tasks.streaming import in_order
from kerasseq.tracing.attribution import TokenInputs
from kerasseq.training.batches import fit_arguments
from kerasseq.training.label_batches import (
    SortedArrays,
    TrimmedBatches,
    real_lengths,
)


class FineTuningMixin(TaskHeadMixin):
    """`fit`, `evaluate`, `predict` and `answers` of a model with a task head.

    The model has a `reader`, which converts texts to arrays.
    """

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        *,
        batch_size: int = 32,
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
        """Trains on texts and labels.

        Args:
            x: The inputs of the head, see the class: a list, an array of strings, a
                column of a table, for pairs also two columns, or a `tf.data` set; or
                arrays of ids. Anything else, such as a stream of batches, is passed to
                `keras.Model.fit`.
            y: Labels, one for each.
            batch_size: Examples in a batch.
            epochs: Index of the last epoch.
            initial_epoch: Number of epochs trained before.
            steps_per_epoch: Batches in an epoch. All of `x` if None. If the labels are
                known, it reads a stream of texts batch by batch.
            validation_split: Fraction of the examples, from the end, for validation.
            validation_data: `(x, y)`, or `(x, y, sample_weight)`.
            class_weight: Weight of each label in the loss, by label; "balanced" gives
                all labels the same share.
            sample_weight: Weight of each example.
            missing: What is done with examples that have an empty cell: None, NaN, or
                a text, word or label "". "error", or "skip", which drops them and warns
                with their number.
            seed: Seed of the order of the examples.
            **kwargs: As for `keras.Model.fit`.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            TypeError: If a text or label has the wrong type.
            ValueError: If the model has no head, a text is empty or too long, or an id
                or label is unknown.
        """
        self._check_head("fit")
        refused = y, sample_weight, class_weight, validation_split or None
        x = self._streamed(x, steps_per_epoch, batch_size, missing, refused)
        x, y, sample_weight = self._complete(missing, x, y, sample_weight)
        if self.task.is_waiting:
            self._learn_labels(x, y)
        options = {"epochs": epochs, "initial_epoch": initial_epoch, **kwargs}
        options = in_order(x, options)
        if validation_data is not None:
            steps = kwargs.get("validation_steps")
            held_out = self._first_rows(validation_data, steps, batch_size)
            held_out = self._validation(held_out, batch_size, missing)
            options["validation_data"] = held_out
        kind = getattr(getattr(x, "dtype", None), "kind", None)
        is_array = isinstance(x, dict) or kind in ("i", "u")  # with special tokens
        rows, y, weights = self._weighted(x, y, sample_weight, class_weight)
        if y is None:
            return super().fit(
                rows,
                steps_per_epoch=steps_per_epoch,
                sample_weight=weights,
                class_weight=class_weight,
                **options,
            )
        if validation_split and validation_data is None:
            cut = training_rows(len(rows["ids"]), validation_split)
            data = rows, y, weights
            held_out = _rows_of(data, slice(cut, None))
            options["validation_data"] = self._sorted(*held_out, batch_size)
            rows, y, weights = _rows_of(data, slice(cut))
        if is_array:
            return super().fit(
                rows,
                y,
                batch_size=batch_size,
                steps_per_epoch=steps_per_epoch,
                sample_weight=weights,
                **options,
            )
        batches = self._batches(rows, y, weights, batch_size, seed)
        return super().fit(**fit_arguments(batches, steps_per_epoch, options))

    def batches(
        self,
        x: Any,
        y: Any,
        *,
        batch_size: int = 32,
        class_weight: str | Mapping[Any, float] | None = None,
        seed: int = 0,
    ) -> TrimmedBatches:
        """Returns the batches that `fit` trains on, for texts and labels.

        Args:
            x: As for `fit`.
            y: As for `fit`.
            batch_size: Examples in a batch.
            class_weight: As for `fit`.
            seed: Seed of the order of the examples.
        """
        self._check_head("batches")
        rows, y, weights = self._weighted(x, y, None, class_weight)
        return self._batches(rows, y, weights, batch_size, seed)

    def _batches(self, rows, y, weights, batch_size, seed):
        return TrimmedBatches(
            rows,
            y,
            weights,
            real_lengths(rows["ids"], self.reader.padding),
            per_step=self.per_step,
            batch_size=batch_size,
            seed=seed,
        )

    def _sorted(self, rows, y, weights, batch_size):
        """Data for an evaluation by `fit`, in which labels are not converted again."""
        return SortedArrays(
            rows,
            y,
            weights,
            real_lengths(rows["ids"], self.reader.padding),
            per_step=self.per_step,
            batch_size=batch_size,
        )

    def _complete(self, missing, x, y=None, sample_weight=None, **options):
        """The examples of data with labels without an empty cell."""
        data = self.weighted_inputs(x, y, sample_weight)
        has_labels = self.task.has_labels
        return complete_rows(*data, missing, has_labels=has_labels, **options)

    def _predictable(self, missing, x):
        """The examples without an empty cell; None for all."""
        return predictable_rows(x, missing)

    def _encoded(self, x, y, sample_weight):
        return self._validation((x, y, sample_weight), len(x), "error")[0]

    def _validation(self, data, batch_size, missing):
        """Texts with labels as batches; other data as they are."""
        parts = self._complete(missing, *data) if len(data) > 1 else data
        rows, y, weights = self._weighted(*parts)
        is_ready = len(parts) > 1 and isinstance(parts[1], dict)  # as the outputs are
        if len(parts) == 1 and y is None:
            return rows
        if y is None or is_ready or not isinstance(rows, dict):
            return data
        return self._sorted(rows, y, weights, batch_size)

    def evaluate(
        self, x: Any = None, y: Any = None, *, missing: str = "error", **kwargs: Any
    ) -> Any:
        """Evaluates like `keras.Model.evaluate`, on texts as for `fit`.

        Args:
            x: As for `fit`.
            y: Labels.
            missing: "skip" leaves out rows with an empty cell, and warns with their
                number; by default they are an error.
            **kwargs: As for `keras.Model.evaluate`.

        Returns:
            As `keras.Model.evaluate`.
        """
        self._check_head("evaluate")
        data = x, y, kwargs.pop("sample_weight", None)
        batch_size = kwargs.get("batch_size") or 32
        data = self._first_rows(data, kwargs.get("steps"), batch_size)
        data = self._complete(missing, *data, method="evaluate")
        x, y, weights = self._weighted(*data)
        return super().evaluate(x, y, sample_weight=weights, **kwargs)

    def predict(self, x: Any, *, missing: str = "error", **kwargs: Any) -> Any:
        """Computes the outputs of the model for texts as for `fit`, or for arrays.

        Args:
            x: Texts, pairs of texts, words or ids; or a dictionary of the inputs.
            missing: "skip" leaves rows with an empty cell (None, NaN, or a text or word
                "") without prediction, and warns with their number; by default they are
                an error.
            **kwargs: As for `keras.Model.predict`.

        Returns:
            Arrays as in the table of heads; for tags of words, a list of arrays
            `(words, C)`. Rows that are left out have NaN, or None in a list.
        """
        return self.for_complete_rows(
            lambda rows: self.scores_of(rows, **kwargs), x, missing
        )

    def scores_of(self, x: Any, **kwargs: Any) -> Any:
        """Computes what `predict` does, inside `trace` and `intervene` too."""
        x = self.labeled_inputs(x, None)[0]
        if is_empty_list(x):
            check_learned(None) if self.task.is_waiting else None
            return [] if self.head == "tag" else outputs_of_none(self)
        rows = self._rows(x)
        if rows is None:
            return super().scores_of(x, **kwargs)
        arrays = self._all_positions(rows.arrays)
        if kernels.is_uncompiled() and isinstance(x, list | tuple):
            arrays = self._without_end(arrays)  # the batch of `encode`
        elif self.head in CLASSIFIERS and isinstance(x, list):
            return self._scores_of_sorted(arrays, kwargs)
        found = super().scores_of(arrays, **kwargs)
        if self.head != "tag" or rows.places is None:
            return found
        return [row[places] for row, places in zip(found, rows.places, strict=True)]

    def encode(self, x: Any) -> dict[str, np.ndarray]:
        """Returns texts as the batch of arrays that the model reads.

        Args:
            x: A text, or a tuple for a pair; or several as for `fit`.

        Returns:
            A dictionary of int32 arrays: "ids" `(B, T)` with the special tokens, for
            BERT also "segments", and "positions" for the heads that predict tokens.
            B is 1 for one text. Shorter rows end with padding.

        Raises:
            TypeError: If the inputs are no texts or ids.
            ValueError: If a text is empty or too long.

        Examples:
            >>> import kerasseq
            >>> tokenizer = kerasseq.text.WordPieceTokenizer(30).fit("the cat sat")
            >>> bert = kerasseq.models.BERT(
            ...     tokenizer, num_layers=1, hidden_dim=8, head="classify", labels=2
            ... )
            >>> batch = bert.encode("the cat")
            >>> sorted(batch), keras.ops.shape(bert(batch))
            (['ids', 'segments'], (1, 2))
        """
        x = self.labeled_inputs(x, None)[0]
        check_not_empty(x, "encode")
        rows = self._read(self.several(x))
        if rows is None:
            raise TypeError(
                "x must be a text, a pair of texts as a tuple, or a list of them, "
                f"received {checks.short(x)}"
            )
        return self._without_end(self._all_positions(rows.arrays))

    def _all_positions(self, arrays):
        """Arrays with the positions of all tokens, if the head reads any."""
        if not self.task.takes_positions or "positions" in arrays:
            return arrays
        T = arrays["ids"].shape[1]
        places = np.broadcast_to(np.arange(T, dtype="int32"), arrays["ids"].shape)
        return {**arrays, "positions": places}

    def _without_end(self, arrays):
        """Arrays without the padding at the end of all rows."""
        T = real_lengths(arrays["ids"], self.reader.padding).max()
        return {name: values[..., :T] for name, values in arrays.items()}

    def _scores_of_sorted(self, arrays, options):
        """The outputs of rows, predicted with others of about the same length."""
        batch_size = options.pop("batch_size", None) or 32
        batches = self._sorted(arrays, None, None, batch_size)
        outputs = super().scores_of(batches, **options)
        found = np.empty_like(outputs)
        found[batches.order] = outputs
        return found

    def arrays(
        self, x: Any, y: Any, class_weight: Any = None
    ) -> tuple[Any, Any, np.ndarray | None]:
        """Converts texts and labels to inputs, labels and sample weights of Keras.

        Args:
            x: As for `fit`.
            y: As for `fit`.
            class_weight: As for `fit`.
        """
        rows = self._rows(x)
        if y is None and isinstance(x, list) and rows is not None:
            raise ValueError("y must have a label for each text, received y=None")
        if y is None or rows is None:
            return x, y, None
        if isinstance(y, dict):  # of arrays, as the outputs are
            self._check_outputs("y", y)
            for name, part in y.items():
                check_labels_of_rows(part, len(rows.arrays["ids"]), f"y[{name!r}]")
            return rows.arrays, y, None
        check_labels_of_rows(y, len(rows.arrays["ids"]))
        return (rows.arrays, *self.task.targets(rows, y, class_weight))

    def _weighted(
        self, x: Any, y: Any = None, given: Any = None, class_weight: Any = None
    ) -> tuple[Any, Any, Any]:
        """Inputs, labels, and the product of all sample weights."""
        x, y, given = self.weighted_inputs(x, y, given)
        if isinstance(x, str) and y is not None:
            is_list = isinstance(y, list)
            tags = self.head == "tag" and is_list and y and not np.shape(y[0])
            x, y = [x], [y] if tags or not is_list else y
        x, y, weights = self.arrays(x, y, class_weight)
        if y is None or not isinstance(x, dict):
            return x, y, given
        return x, y, product_of_weights(weights, self._given_weights(given, y))

    def _given_weights(self, given, y):
        """Sample weights of the user, checked; of several outputs a dictionary."""
        if isinstance(given, dict) and isinstance(self.output, dict):
            self._check_outputs("sample_weight", given)
            return {name: _weights_of(w, y[name]) for name, w in given.items()}
        return _weights_of(given, next(iter(y.values())) if isinstance(y, dict) else y)

    def _check_outputs(self, argument, given):
        """Raises unless a dictionary has arrays for outputs of the model alone."""
        names = self.output if isinstance(self.output, dict) else ()
        if not given or not set(given) <= set(names):
            wanted = f"of {sorted(names)} by name" if names else "without names"
            raise ValueError(
                f"{argument} must be arrays {wanted}, received {checks.short(given)}"
            )

    def _rows(self, x: Any) -> Rows | None:
        """The inputs as `Rows`; None if Keras takes them as they are."""
        if self.task.is_waiting:
            check_learned(None)
        return self._read(x)

    def _read(self, x):
        if isinstance(x, str):
            x = [x]
        if getattr(getattr(x, "dtype", None), "kind", None) in ("U", "O"):
            x = np.asarray(x).tolist()  # an array of texts
        return self.task.read(self.reader, x)

    def token_inputs(self, text: Any) -> TokenInputs:
        """Returns a text or pair as inputs, with its tokens, for `tracing.attribution`.

        Raises:
            TypeError: If the head reads several rows for each example.
        """
        if self.task.multiple_rows:
            raise TypeError(
                f"expected a head that reads one row of tokens, received {self.head!r}"
            )
        arrays = self._without_end(self._rows([text]).arrays)
        return TokenInputs(arrays, *self.reader.tokens(text))

    def answers(self, texts: Any, **kwargs: Any) -> Any:
        """Extracts the most probable span of each text, or of the second of each pair.

        Args:
            texts: A list of texts or of pairs, such as a question and a text; or one
                text, or one pair as a tuple.
            **kwargs: As for `keras.Model.predict`.

        Returns:
            A list of strings, or of ids if the texts are ids; None if "no answer" is
            more probable. For one text or pair, a single answer.

        Raises:
            TypeError: If `texts` has the wrong type.
            ValueError: If the head is not "span".
        """
        self._check_head("answers", "span")
        if self.is_one_input(texts):
            return self.answers([texts], **kwargs)[0]
        texts = self.labeled_inputs(texts, None)[0]
        if is_empty_list(texts):
            return []
        rows = self._rows(texts)
        if rows is None or rows.places is None:
            raise TypeError(
                "texts must be a list of texts, or of pairs (question, text), received "
                f"{type(texts).__name__}"
            )
        arrays = rows.arrays
        if kernels.is_uncompiled():
            arrays = self._without_end(arrays)  # the batch of `encode`
        found = super().scores_of(arrays, **kwargs)
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


def _rows_of(data, rows):
    """Some rows of inputs, labels and weights."""
    return keras.tree.map_structure(
        lambda values: values[rows], data, none_is_leaf=False
    )


def _weights_of(given, y):
    """Sample weights for an array of labels, of rows or of steps."""
    shape = np.shape(y)
    return sample_weights(given, shape[0], shape[1] if len(shape) > 1 else None)


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
        pairs = map(sublayers.flatten, (layer, ours[layer.name]))
        for mine, theirs in zip(*pairs, strict=True):
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
