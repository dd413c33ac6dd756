"""Data of a model with labels: complete rows, and rows with targets and weights."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keras import ops

from kerasseq.core import checks
from kerasseq.core.types import Tensor
from kerasseq.tasks import sources
from kerasseq.tasks.data_checks import are_batches
from kerasseq.tasks.fit_call import check_parts
from kerasseq.tasks.fitted import check_learned
from kerasseq.tasks.input_rows import number_of_rows
from kerasseq.tasks.missing_rows import MISSING, SKIP, is_complete, spread, taken
from kerasseq.tasks.preprocessor import Data
from kerasseq.tasks.streaming import check_streamed, encoded_batches
from kerasseq.training.label_batches import Rows


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
    if y is None and (model.task.has_labels or isinstance(x, list)):
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


def first_inputs(
    model: Any, x: Any, options: Mapping[str, Any], batch_size: int
) -> tuple[Any, dict[str, Any]]:
    """Returns the inputs of `steps` batches of a stream, and the other options.

    Args:
        model: A model with labels.
        x: As for `predict`.
        options: As for `keras.Model.predict`.
        batch_size: Rows in a batch.
    """
    others = {name: value for name, value in options.items() if name != "steps"}
    steps = options.get("steps")
    stream = x if steps is None else stream_of(model, x)
    if not isinstance(stream, sources.TextStream):
        return stream, dict(options)
    return first_rows(model, stream, steps * batch_size)[0], others


def stream_of(model: Any, x: Any) -> Any:
    """Returns a stream of rows as a `TextStream`; other inputs as they are.

    Args:
        model: A model with labels.
        x: As for `fit`.
    """
    stream = sources.text_stream(
        x,
        words=model.preprocessor.reads_words,
        labels=model._arguments.get("labels"),
        is_row=model.preprocessor.is_row,
        multi_label=model.multi_label,
    )
    return x if stream is None else stream


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
