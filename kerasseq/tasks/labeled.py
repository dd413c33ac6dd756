"""Models with labels by name: `LabelsMixin`, with the report of their scores."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from kerasseq.core import checks
from kerasseq.tasks import sources
from kerasseq.tasks.data_checks import check_labels_of_rows
from kerasseq.tasks.input_rows import number_of_rows
from kerasseq.tasks.labels import Label, Labels, plain_list
from kerasseq.tasks.missing_rows import MISSING, SKIP, is_complete, spread, taken
from kerasseq.tasks.streaming import check_streamed, encoded_batches
from kerasseq.training.label_reports import LabelReport, label_report

Data = tuple[Any, Any, Any]  # inputs, labels and sample weights


class LabelsMixin:
    """The labels of a model by name, and the report of its scores.

    A model has `classify` from `ClassLabels`, or with `per_step` `tag` from
    `TaggerMixin`.
    """

    per_step: bool = False  # whether each step has a label, or the whole input
    multi_label: bool = False  # whether an input may have several labels at once
    _labels: Labels | None = None
    _longest: int | None = None  # the most tokens of a text, if there is a limit

    @property
    def labels(self) -> list[Label] | None:
        """The labels in the order of the outputs; None until `fit` has learned them."""
        return None if self._labels is None else self._labels.names

    def report(
        self,
        x: Any,
        y: Any = None,
        *,
        threshold: float = 0.5,
        batch_size: int = 32,
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
        x, y, _ = self._complete(missing, x, y, method="report")
        if self.per_step:
            x = [x] if is_one_text(x) else x
            if isinstance(x, list | tuple):
                x = [row.split() if is_one_text(row) else row for row in x]
            found = self.tag(x, batch_size=batch_size)
            true, found = self._true_tags(x, y, found)
        else:
            x = self.several(x)
            found = self.classify(x, threshold=threshold, batch_size=batch_size)
            check_labels_of_rows(y, len(found))
            found, true = [each.label for each in found], self._true_labels(y)
        return label_report(true, found, self.labels, multi_label=self.multi_label)

    def labeled_inputs(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Returns inputs and labels, taken apart if `x` holds both.

        Args:
            x: As for `fit`.
            y: As for `fit`.
        """
        return self.weighted_inputs(x, y, None)[:2]

    def weighted_inputs(self, x: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
        """Returns inputs, labels and sample weights, as `labeled_inputs`.

        Args:
            x: As for `fit`.
            y: As for `fit`.
            sample_weight: As for `fit`.
        """
        labels = self._arguments["labels"]
        options = {"words": self.reads_words, "labels": labels}
        return sources.read(x, y, sample_weight, **options)

    @property
    def reads_words(self) -> bool:
        """Whether a row of a stream of texts is a list of words."""
        return self.per_step

    def _stream_of(self, x):
        """A stream of texts as a `TextStream`; other inputs as they are."""
        labels = self._arguments["labels"]
        stream = sources.text_stream(x, words=self.reads_words, labels=labels)
        return x if stream is None else stream

    @property
    def _can_encode(self) -> bool:
        """Whether the labels are known, and the tokenizer is trained."""
        return self._labels is not None

    def _encoded(self, x, y, sample_weight):
        """One batch of arrays, of rows of texts with labels."""
        raise NotImplementedError

    def _streamed(self, x, steps_per_epoch, batch_size, missing, refused):
        """Batches of arrays of a stream of texts; other inputs as they are."""
        checks.one_of("missing", missing, MISSING)
        stream = self._stream_of(x)
        if steps_per_epoch is None or not isinstance(stream, sources.TextStream):
            return stream
        if not self._can_encode and stream.has_end:
            return stream  # is read to its end, and its labels learned
        check_streamed(self._can_encode, refused)
        return encoded_batches(
            stream,
            self._encoded,
            batch_size=checks.whole_number("batch_size", batch_size),
            keep=is_complete if missing == SKIP else None,
            padding=self.padding_id,
            longest=self._longest,
            per_step=self.per_step,
        )

    def _first_rows(self, data, steps, batch_size):
        """Data for an evaluation, of a stream of texts the rows of some batches."""
        parts = data if isinstance(data, tuple | list) else (data,)
        if steps is None or any(part is not None for part in parts[1:]):
            return parts
        stream = self._stream_of(parts[0])
        if not isinstance(stream, sources.TextStream):
            return stream, *parts[1:]
        rows = itertools.islice(stream.rows(), steps * batch_size)
        return sources.as_columns([*rows])

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
        rows = self._predictable(missing, x)
        if rows is None:
            return function(x)
        return spread(function(taken(x, rows)), rows, number_of_rows(x))

    def _true_labels(self, y):
        """The labels of each input, checked; sets of labels as lists."""
        names = self._labels.names
        if self.multi_label:
            sets = self._labels.encode_sets(y)
            return [[names[n] for n in np.flatnonzero(row)] for row in sets]
        return [names[n] for n in self._labels.encode(y)]

    def _true_tags(self, x, y, found):
        """True and found tags at the steps with a label: not below 0, no padding."""
        check_labels_of_rows(y, len(found))
        is_array, names = hasattr(y, "ndim"), self._labels.names
        true, kept = [], []
        real = self.real_rows(x, found)
        for row, (tags, best) in enumerate(zip(y, found, strict=True)):
            steps = real[row]
            tags = plain_list(tags, f"y[{row}]")[: len(steps) if is_array else None]
            if len(tags) == len(steps):
                tags = [tag for tag, is_one in zip(tags, steps, strict=True) if is_one]
            if len(tags) != len(best):
                raise ValueError(
                    f"y[{row}] must have {len(best)} tags, received {len(tags)}"
                )
            known = [n for n, tag in enumerate(tags) if not _is_ignored(tag)]
            indices = self._labels.encode([tags[n] for n in known], f"y[{row}]")
            true.append([names[n] for n in indices])
            kept.append([best[n] for n in known])
        return true, kept


def _is_ignored(tag):
    """Whether a tag is a number below 0, which no label is."""
    return isinstance(tag, int) and tag < 0


def is_one_text(x: Any) -> bool:
    """Whether an input is a single text.

    Examples:
        >>> is_one_text("a b"), is_one_text(["a b"])
        (True, False)
    """
    return isinstance(x, str)


def check_learned(labels: Labels | None, missing: str = "labels") -> Labels:
    """Returns the labels of a model, or raises if `fit` has not learned them yet."""
    if labels is None:
        raise ValueError(
            "expected a trained model, received one that has not learned its "
            f"{missing}. Call fit first"
        )
    return labels


def learned_from(y: Any, x: Any) -> Any:
    """Returns the labels of some data, or raises if there are none."""
    if y is None:
        raise ValueError(
            "expected labels y for the inputs, or a model with labels=[...]; received "
            f"y=None and x={checks.short(x)}"
        )
    return y


def training_rows(rows: int, validation_split: float) -> int:
    """Returns how many rows are left for training; the last ones are for validation.

    Examples:
        >>> training_rows(10, 0.2)
        8
    """
    fraction = checks.fraction("validation_split", validation_split)
    cut = rows - round(rows * fraction)
    if not 0 < cut < rows:
        raise ValueError(
            f"validation_split must leave rows for training and validation, received "
            f"{fraction} for {rows} rows"
        )
    return cut


def split_off_end(data: Data, fraction: float) -> tuple[Data, Data]:
    """Splits rows into those to train on and the last ones, for validation.

    Args:
        data: Inputs, labels and sample weights.
        fraction: The fraction of the rows for validation.
    """
    cut = training_rows(len(data[0]), fraction)

    def part(places):
        return tuple(None if values is None else values[places] for values in data)

    return part(slice(cut)), part(slice(cut, None))
