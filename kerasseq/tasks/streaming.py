"""Training on a stream of texts batch by batch, without reading it to its end."""

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np

from kerasseq.core import checks
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
    x: Any, y: Any, steps_per_epoch: int | None, validation_split: float | None
) -> tuple[Any, bool]:
    """Returns data, and whether they are texts to be trained on batch by batch.

    Args:
        x: The inputs, of which a stream of texts becomes a `TextStream`.
        y: Labels or targets; None if a stream has them.
        steps_per_epoch: As for `keras.Model.fit`.
        validation_split: As for `keras.Model.fit`.

    Raises:
        ValueError: If rows of a stream are to be held out.
    """
    stream = text_stream(x) if y is None else None
    is_streamed = steps_per_epoch is not None and isinstance(stream, TextStream)
    if is_streamed:
        check_streamed(True, (None, None, None, validation_split or None))
    return x if stream is None else stream, is_streamed


def encoded_batches(
    stream: TextStream,
    encode: Callable[..., Batch],
    *,
    batch_size: int,
    keep: Callable[[Row], bool] | None = None,
    padding: int | None = 0,
    longest: int | None = None,
    per_step: bool = False,
) -> Iterator[Batch]:
    """Yields batches of arrays; a stream that can be repeated is, without end.

    TensorFlow compiles an axis of the same length in the first two batches as static:
    the second is made longer then, or, at the limit of the model, all are as long.
    Several inputs, such as sources and targets, may have several lengths.

    Args:
        stream: Texts with labels.
        encode: Function from inputs, labels and sample weights to arrays.
        batch_size: Rows in a batch.
        keep: Function that tells which rows to train on; None for all.
        padding: The id of padding; None for inputs of one shape, such as images.
        longest: The most steps that the model reads; None if there is no limit.
        per_step: Whether labels and weights are `(rows, time)`, as long as the last
            input.
    """
    limit = longest or np.iinfo("int64").max
    first = least = np.zeros(1, "int64")
    rows = repeated(stream, keep)
    for number in itertools.count():
        chunk = [*itertools.islice(rows, batch_size)]
        if not chunk:
            return
        batch = encode(*as_columns(chunk))
        if padding is None:
            yield batch
            continue
        lengths = np.array([part.shape[-1] for part in keras.tree.flatten(batch[0])])
        if number == 0:
            first = lengths
        elif number == 1:
            least = np.where(lengths == first, np.minimum(first + 1, limit), 0)
            lengths = np.maximum(lengths, least)
        elif limit in least:
            lengths = np.maximum(lengths, np.where(least == limit, limit, 0))
        yield _widened(batch, lengths.tolist(), padding, per_step)


def repeated(
    stream: TextStream, keep: Callable[[Row], bool] | None = None
) -> Iterator[Row]:
    """Yields the rows of a stream, again and again if it is no iterator.

    Args:
        stream: The stream.
        keep: Function that tells which rows to train on; None for all.

    Raises:
        ValueError: If there are none.
    """
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


def _widened(
    batch: Batch, lengths: Sequence[int], padding: int, per_step: bool
) -> Batch:
    """Returns a batch with more padding, up to a length for each input.

    Examples:
        >>> batch = np.ones((1, 2), int), np.array([1])
        >>> x, y = _widened(batch, [3], padding=7, per_step=False)
        >>> x.tolist(), y.tolist()
        ([[1, 1, 7]], [1])
    """

    def wider(values, length, fill=0):
        widths = [(0, 0)] * (values.ndim - 1) + [(0, length - values.shape[-1])]
        return np.pad(values, widths, constant_values=fill)

    x, *others = batch
    if isinstance(x, dict):
        fills = [padding if name == "ids" else 0 for name in sorted(x)]
    else:
        fills = [padding] * len(lengths)
    parts = map(wider, keras.tree.flatten(x), lengths, fills)
    x = keras.tree.pack_sequence_as(x, list(parts))
    if per_step:
        others = [wider(each, lengths[-1]) for each in others]
    return x, *others
