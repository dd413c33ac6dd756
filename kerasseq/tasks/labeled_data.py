"""Data of a model with labels: rows without empty cells, with targets and weights."""

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.types import Tensor
from kerasseq.tasks import sources
from kerasseq.tasks.fit_call import check_learned, check_parts
from kerasseq.tasks.input_rows import (
    are_batches,
    check_not_empty,
    is_stream,
    number_of_rows,
)
from kerasseq.tasks.streaming import check_streamed, encoded_batches
from kerasseq.training.label_batches import Rows

SKIP = "skip"  # drops these rows
MISSING = ("error", SKIP)  # what is done with them
FIRST = 5  # that a message names
Data = tuple[Any, Any, Any]  # inputs, labels and sample weights
NO_VALUES = ("NAType", "NaTType")  # types of pandas


def complete_rows(
    x: Any,
    y: Any,
    sample_weight: Any,
    missing: str,
    *,
    has_texts: bool = True,
    has_labels: bool = True,
    method: str = "fit",
) -> tuple[Any, Any, Any]:
    """Returns the rows without empty cells, of which there is at least one.

    A cell is empty if it is None, NaN or a blank text, or has such a part: a text of a
    pair, a word or a tag.

    Args:
        x: Inputs, as from `sources.read`.
        y: Labels, or None.
        sample_weight: Weight of each row, or None.
        missing: "skip" drops rows with an empty cell, and warns with their number.
        has_texts: Whether inputs are texts, or are not checked.
        has_labels: Whether `y` has labels, or is not checked.
        method: The name of the method that needs the rows.

    Raises:
        ValueError: If a cell is empty and `missing` is "error", or no row is left. The
            message has the number of these rows, and the first.

    Examples:
        >>> complete_rows(["a", None, ""], ["x", "y", "x"], None, "error")
        Traceback (most recent call last):
        ...
        ValueError: x and y must have no empty cells, received 2 rows with one, of 3: \
x[1] is None, x[2] is ''. Fill them, or pass missing="skip" to drop the rows
    """
    checks.one_of("missing", missing, MISSING)
    check_not_empty(x, method)
    empty = _empty_rows(x if has_texts else None, y if has_labels else None)
    count = number_of_rows(x)
    if not empty or not (y is None or len(y) == count):
        return x, y, sample_weight
    what = "x" if y is None else "x and y"
    _refuse(empty, count, what, missing, "drop the rows", least=1)
    warnings.warn(
        f"{_described(empty, count)} are left out: {_first(empty)}", stacklevel=4
    )
    kept = sorted(set(range(count)).difference(empty))
    return taken(x, kept), taken(y, kept), taken(sample_weight, kept)


def predictable_rows(
    x: Any, missing: str, *, has_texts: bool = True
) -> list[int] | None:
    """Returns the rows that can be predicted, those without empty cells; None for all.

    Args:
        x: Inputs, as for `complete_rows`.
        missing: "skip" leaves rows with an empty cell without prediction, and warns
            with their number.
        has_texts: Whether inputs are texts, or are not checked.

    Raises:
        ValueError: If a cell is empty and `missing` is "error".

    Examples:
        >>> predictable_rows(["a", "b"], "error") is None
        True
    """
    checks.one_of("missing", missing, MISSING)
    empty, count = _empty_rows(x if has_texts else None), number_of_rows(x)
    if not empty:
        return None
    _refuse(empty, count, "x", missing, "leave the rows without prediction")
    warnings.warn(
        f"{_described(empty, count)} get no prediction, but None, or NaN in an array: "
        f"{_first(empty)}",
        stacklevel=5,
    )
    return sorted(set(range(count)).difference(empty))


def is_complete(row: Sequence[Any]) -> bool:
    """Returns whether an input and its label have no empty cell.

    Args:
        row: `(x,)`, `(x, y)` or `(x, y, sample_weight)`.

    Examples:
        >>> is_complete(("a", 1)), is_complete((" ", 1)), is_complete(("a", None))
        (True, False, False)
    """
    return not any(map(_is_empty, row[:2])) and not _is_without_words(row[0])


def spread(predictions: Any, rows: Sequence[int], count: int) -> Any:
    """Returns predictions in the order of all rows: None, or NaN in arrays, for others.

    Args:
        predictions: Those of some rows: a list, an array or several by name.
        rows: The indices of these rows.
        count: The number of all rows.

    Examples:
        >>> spread(["a", "b"], [0, 2], 3), spread(np.ones(1), [1], 2).tolist()
        (['a', None, 'b'], [nan, 1.0])
    """
    if isinstance(predictions, Mapping):
        return {name: spread(part, rows, count) for name, part in predictions.items()}
    if isinstance(predictions, list):
        by_row = dict(zip(rows, predictions, strict=True))
        return [by_row.get(row) for row in range(count)]
    array = np.full((count, *predictions.shape[1:]), np.nan, predictions.dtype)
    array[rows] = predictions
    return array


def _empty_rows(x, y=None):
    """Returns the first empty cell of each row that has one, as text."""
    empty: dict[int, str] = {}
    for name, part in (("x", x), ("y", y)):
        if _has_cells(part):
            for row, cell in enumerate(part):
                if _is_empty(cell) or (name == "x" and _is_without_words(cell)):
                    empty.setdefault(row, f"{name}[{row}] is {checks.short(cell)}")
    return dict(sorted(empty.items()))


def _first(empty):
    """Returns the first empty cells."""
    return ", ".join([*empty.values()][:FIRST]) + ", …" * (len(empty) > FIRST)


def _described(empty, count):
    return f"{len(empty):,} of {count:,} rows have an empty cell and"


def _refuse(empty, count, what, missing, skipping, least=0):
    """Raises if empty cells are an error, or fewer rows than the least are left."""
    left = count - len(empty)
    if missing == SKIP and left >= least:
        return
    advice = f', or pass missing="skip" to {skipping}' * (left >= least)
    raise ValueError(
        f"{what} must have no empty cells, received {len(empty):,} "
        f"row{'s' * (len(empty) > 1)} with one, of {count:,}: {_first(empty)}. Fill "
        f"them{advice}"
    )


def _has_cells(part: Any) -> bool:
    """Returns whether rows can have empty cells: lists, and arrays of one axis."""
    if isinstance(part, list | tuple):
        return True
    return isinstance(part, np.ndarray) and part.ndim == 1 and part.dtype.kind in "OUf"


def _is_empty(cell: Any) -> bool:
    """Returns whether a cell has no value, or a part without one.

    Examples:
        >>> [_is_empty(cell) for cell in (None, float("nan"), " ", ("a", ""), "a", [])]
        [True, True, True, True, False, False]
    """
    if isinstance(cell, str):
        return not cell.strip()
    if isinstance(cell, list | tuple):
        return any(map(_is_empty, cell))
    if isinstance(cell, np.ndarray) and cell.dtype.kind in "OU":
        return any(map(_is_empty, cell.tolist()))
    if isinstance(cell, float | np.floating):
        return bool(np.isnan(cell))
    return cell is None or type(cell).__name__ in NO_VALUES


def _is_without_words(cell: Any) -> bool:
    return isinstance(cell, list | tuple | np.ndarray) and not len(cell)


def taken(part: Any, rows: Sequence[int]) -> Any:
    """Selects rows of a list, an array or several by name; None as it is."""
    if part is None:
        return None
    if isinstance(part, Mapping):
        return {name: taken(array, rows) for name, array in part.items()}
    if isinstance(part, list | tuple):
        return [part[row] for row in rows]
    return np.asarray(part)[rows]


def inputs_of(model: Any, x: Any) -> Any:
    """Returns the inputs among data of any source, as for `fit`."""
    return model.weighted_inputs(x, None, None)[0]


def complete_data(
    model: Any,
    missing: str,
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    method: str = "fit",
) -> Data:
    """Returns inputs, labels and weights of the rows without an empty cell.

    Args:
        model: A model with labels.
        missing: "error" or "skip".
        x: As for `fit`.
        y: As for `fit`.
        sample_weight: As for `fit`.
        method: The method that needs the rows.
    """
    model.check_method(method)
    data = model.weighted_inputs(x, y, sample_weight)
    options = {"has_labels": model.task.has_labels, "method": method}
    return model.preprocessor.complete(missing, *data, **options)


def for_complete_rows(
    model: Any, function: Callable[[Any], Any], x: Any, missing: str
) -> Any:
    """Returns predictions of all rows: None, or NaN in arrays, for those left out.

    Args:
        model: A model with labels.
        function: Function from rows to their predictions.
        x: As for `predict`.
        missing: "skip" leaves rows with an empty cell out, and warns with their number;
            "error" raises.
    """
    x = inputs_of(model, x)
    rows = model.preprocessor.predictable(missing, x)
    if rows is None:
        return function(x)
    return spread(function(taken(x, rows)), rows, number_of_rows(x))


def learned_rows(model: Any, x: Any) -> Rows | None:
    """Returns inputs as rows; raises before `fit` has learned what they need."""
    check_learned(model)
    return model.rows_of(x)


def labeled_rows(
    model: Any,
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    class_weight: str | Mapping[Any, float] | None = None,
) -> Rows | None:
    """Returns rows with targets and weights; None for what Keras takes as it is.

    Args:
        model: A model with labels.
        x: Inputs.
        y: Labels.
        sample_weight: As for `fit`.
        class_weight: As for `fit`.
    """
    if y is None and are_batches(x):
        return None  # they have labels
    rows = learned_rows(model, x)
    needs_targets = model.task.has_labels or model.task.needs_targets
    if y is None and (needs_targets or isinstance(x, list)):
        raise ValueError(f"{model.task.wanted}, received y=None")
    if y is None or rows is None:
        return None
    rows.y, rows.weights = model.targets(rows, y, sample_weight, class_weight)
    return rows


def streamed_batches(
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
    stream = stream_of(model, x)
    are_texts = isinstance(stream, sources.TextStream)
    if missing == SKIP and are_batches(stream) and not are_texts:
        raise ValueError(
            'missing="skip" must be left out for batches of arrays, which have no '
            f"empty cells, received {checks.short(x)}"
        )
    if steps_per_epoch is None or not are_texts:
        return stream
    is_waiting = model.awaits_fit or model.task.is_waiting
    if is_waiting and stream.has_end:
        return stream  # its labels are learned from all texts
    check_streamed(not is_waiting, refused)

    def encode(*data):
        rows = labeled_rows(model, *complete_data(model, "error", *data))
        return rows.in_order(len(rows))[0]

    has_lengths = model.preprocessor.has_texts or model.preprocessor.row_rank == 1
    return encoded_batches(
        stream,
        encode,
        batch_size=checks.whole_number("batch_size", batch_size),
        keep=is_complete if missing == SKIP else None,
        padding=model.padding_id if has_lengths else None,
        longest=model.preprocessor.longest,
        per_step=model.per_step,
    )


def first_rows(model: Any, data: Any, rows: int | None) -> Any:
    """Returns data for an evaluation, of a stream of texts the first rows.

    Args:
        model: A model with labels.
        data: `x`, `(x,)`, `(x, y)` or `(x, y, sample_weight)`.
        rows: How many rows to read; all if None.
    """
    is_several = isinstance(data, tuple | list)
    is_several = is_several and not model.preprocessor.has_labels(data)
    parts = data if is_several else (data,)
    check_parts(parts)
    if rows is None or any(part is not None for part in parts[1:]):
        return parts
    stream = stream_of(model, parts[0])
    if not isinstance(stream, sources.TextStream):
        return stream, *parts[1:]
    return sources.as_columns([*itertools.islice(stream.rows(), rows)])


def first_inputs(model: Any, x: Any, rows: int | None) -> tuple[Any, bool]:
    """Returns the first inputs of a stream, and whether there were any to take.

    Args:
        model: A model with labels.
        x: As for `predict`.
        rows: How many rows to read; all if None.
    """
    stream = x if rows is None else stream_of(model, x)
    if not isinstance(stream, sources.TextStream):
        return stream, False
    return first_rows(model, stream, rows)[0], True


def stream_of(model: Any, x: Any) -> Any:
    """Returns a stream of rows as a `TextStream`; other inputs as they are.

    Args:
        model: A model with labels.
        x: As for `fit`.
    """
    if not is_stream(x):
        return x
    return sources.text_stream(
        x,
        words=model.preprocessor.reads_words,
        labels=model._arguments.get("labels"),
        is_row=model.preprocessor.is_row,
        multi_label=model.multi_label,
    )


def step_weights(model: Any, x: Any, sample_weight: Any) -> Tensor | None:
    """Returns the weight of each step, 0 at padding, for labels of steps.

    Masks of outputs are no substitute: on JAX they are lost in a training step.

    Args:
        model: A model with labels.
        x: The inputs of a batch.
        sample_weight: Weight of each row, or of each step; or None.
    """
    if x is None or not model.per_step:
        return sample_weight
    real = ops.cast(model.real_steps(x), "float32")
    if sample_weight is None:
        return real
    weight = ops.cast(sample_weight, "float32")
    return real * (weight[:, None] if len(weight.shape) == 1 else weight)
