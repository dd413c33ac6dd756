"""Training on a stream of texts batch by batch, without reading it to its end."""

import itertools
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np

from kerasseq.core import checks
from kerasseq.tasks.labeled_data import complete_data, labeled_rows
from kerasseq.tasks.missing_rows import MISSING, SKIP, is_complete
from kerasseq.tasks.sources import Row, TextStream, as_columns, text_stream

# Arguments of `fit` that need all rows.
REFUSED = ("y", "sample_weight", "class_weight", "validation_split")
Batch = tuple[Any, ...]  # arrays of inputs, labels and sample weights


def check_streamed(can_encode: bool, refused: Sequence[Any]) -> None:
    """Raises unless a model can be trained on a stream batch by batch.

    Args:
        can_encode: Whether the model has its labels and tokenizer.
        refused: Other arguments of `fit`, in the order of `REFUSED`; None for those
            that are not given.

    Raises:
        ValueError: If it cannot.
    """
    if not can_encode:
        raise ValueError(
            "steps_per_epoch with a stream of unknown length needs a model with labels "
            "and a tokenizer, received one that is to learn them from all texts. Pass "
            "labels=[...] and a fitted tokenizer, or a stream with an end and no "
            "steps_per_epoch"
        )
    for name, value in zip(REFUSED, refused, strict=True):
        if value is not None:
            raise ValueError(
                f"{name} must be left out if steps_per_epoch is given, as texts are "
                f"then read batch by batch, received {checks.short(value)}. The stream "
                "has labels and weights, (x, y, weight); or pass lists"
            )


def streamed(
    model: Any,
    x: Any,
    steps_per_epoch: int | None,
    batch_size: int,
    missing: str,
    refused: Sequence[Any],
) -> Any:
    """Returns batches of arrays of a stream of texts; other inputs as they are.

    Args:
        model: A model with labels.
        x: As for `fit`, like the next three.
        steps_per_epoch: If it is not given, a stream is read to its end.
        batch_size: Rows in a batch.
        missing: "error" or "skip".
        refused: As for `check_streamed`.
    """
    checks.one_of("missing", missing, MISSING)
    stream = _stream_of(model, x)
    if steps_per_epoch is None or not isinstance(stream, TextStream):
        return stream
    is_waiting = model.awaits_fit or model.task.is_waiting
    if is_waiting and stream.has_end:
        return stream  # its labels are learned from all texts
    check_streamed(not is_waiting, refused)

    def encode(*data):
        rows = labeled_rows(model, *complete_data(model, "error", *data))
        return rows.in_order(len(rows))[0]

    return encoded_batches(
        stream,
        encode,
        batch_size=checks.whole_number("batch_size", batch_size),
        keep=is_complete if missing == SKIP else None,
        padding=model.padding_id,
        longest=model.preprocessor.longest,
        per_step=model.per_step,
    )


def first_rows(model: Any, data: Any, steps: int | None, batch_size: int) -> Any:
    """Returns data for an evaluation, of a stream of texts the rows of some batches.

    Args:
        model: A model with labels.
        data: `x`, `(x, y)` or `(x, y, sample_weight)`.
        steps: Batches to read; all if None.
        batch_size: Rows in a batch.
    """
    parts = data if isinstance(data, tuple | list) else (data,)
    if steps is None or any(part is not None for part in parts[1:]):
        return parts
    stream = _stream_of(model, parts[0])
    if not isinstance(stream, TextStream):
        return stream, *parts[1:]
    return as_columns([*itertools.islice(stream.rows(), steps * batch_size)])


def _stream_of(model, x):
    """A stream of texts as a `TextStream`; other inputs as they are."""
    words, labels = model.preprocessor.reads_words, model._arguments["labels"]
    stream = text_stream(x, words=words, labels=labels)
    return x if stream is None else stream


def in_order(x: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Returns options of `keras.Model.fit`, which cannot shuffle a generator.

    Args:
        x: The inputs.
        options: The options.
    """
    return {"shuffle": not isinstance(x, types.GeneratorType), **options}


def encoded_batches(
    stream: TextStream,
    encode: Callable[..., Batch],
    *,
    batch_size: int,
    keep: Callable[[Row], bool] | None = None,
    padding: int = 0,
    longest: int | None = None,
    per_step: bool = False,
) -> Iterator[Batch]:
    """Yields batches of arrays; a stream that can be repeated is, without end.

    TensorFlow compiles an axis of the same length in the first two batches as static:
    the second is made longer then, or, at the limit of the model, all are as long.

    Args:
        stream: Texts with labels.
        encode: Function from inputs, labels and sample weights to arrays.
        batch_size: Rows in a batch.
        keep: Function that tells which rows to train on; None for all.
        padding: The id of padding.
        longest: The most steps that the model reads; None if there is no limit.
        per_step: Whether labels and weights are `(rows, time)`.
    """
    first = least = 0
    rows = _repeated(stream, keep)
    for number in itertools.count():
        chunk = [*itertools.islice(rows, batch_size)]
        if not chunk:
            return
        batch = encode(*as_columns(chunk))
        length = _length(batch[0])
        if number == 1 and length == first:
            length = least = min(first + 1, longest or first + 1)
        if least == longest:
            length = max(length, least)
        yield _widened(batch, length, padding, per_step)
        first = first or length


def _repeated(stream, keep):
    """The rows of a stream to train on, again and again if it is no iterator."""
    has_warned = False
    while True:
        kept = 0
        for row in stream.rows():
            if keep is None or keep(row):
                kept += 1
                yield row
            elif not has_warned:
                has_warned = True
                warnings.warn(
                    "rows of the stream that have an empty cell are left out, the "
                    f"first of them {checks.short(row)}",
                    stacklevel=2,
                )
        if isinstance(stream.source, Iterator):
            return
        if not kept:  # or it would be read without end
            raise ValueError(
                "fit needs a row without an empty cell, received none in "
                f"{checks.short(stream.source)}. Check how the rows were read"
            )
        stream = stream.again()


def _length(x):
    return next(iter(keras.tree.flatten(x))).shape[-1]


def _widened(batch: Batch, length: int, padding: int, per_step: bool) -> Batch:
    """A batch with more padding, up to a length.

    Examples:
        >>> batch = np.ones((1, 2), int), np.array([1])
        >>> x, y = _widened(batch, 3, padding=7, per_step=False)
        >>> x.tolist(), y.tolist()
        ([[1, 1, 7]], [1])
    """
    old = _length(batch[0])

    def wider(values, fill=0):
        widths = [(0, 0)] * (values.ndim - 1) + [(0, length - old)]
        return np.pad(values, widths, constant_values=fill)

    x, *others = batch
    if not isinstance(x, dict):
        x = wider(x, padding)
    else:
        x = {n: wider(v, padding if n == "ids" else 0) for n, v in x.items()}
    return x, *(map(wider, others) if per_step else others)
