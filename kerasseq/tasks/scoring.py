"""The outputs of a model: for arrays or batches, compiled or not, and for rows."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.tasks.data_checks import check_arrays
from kerasseq.tasks.fit_call import FitCall, own_options
from kerasseq.tasks.input_rows import is_empty_list, outputs_of_none
from kerasseq.training.batches import BATCH_SIZE
from kerasseq.training.label_batches import Rows


def predict(
    model: Any,
    x: Any,
    batch_size: int | None = None,
    *,
    steps: int | None = None,
    **kwargs: Any,
) -> Any:
    """Computes the outputs, as `keras.Model.predict`, for data in any form of `fit`.

    Args:
        model: The model.
        x: As for `fit`. For a `Forecaster` windows `(rows, time, features)`, or a
            stream of them. For pairs arrays of ids, as from `encode`, or pairs, whose
            targets are read token by token. For a `Multimodal` rows of some kinds.
        batch_size: Rows that are processed at once; 32 if None.
        steps: Number of batches, for a stream without an end.
        **kwargs: Others of `keras.Model.predict`. With labels: `missing`, "skip" to
            leave rows with an empty cell, or a damaged file, without prediction, with a
            warning of their number, not an error.

    Returns:
        The outputs: logits `(B, T, V)` of tokens, where B is 1 for a text, or a list
        of `(T, V)` for a list of texts; vectors `(B, S, D)` of a `T5Encoder`, not
        meaningful at padding; forecasts `(rows, horizon)`, with an axis of quantiles if
        there are any. With labels `(rows, labels)`; for tags `(rows, time, labels)`
        with the time of the longest row, or for words a list of arrays `(words,
        labels)`; rows that are left out have NaN, or None in a list. Of a `Multimodal`
        with "contrastive" the unit vectors `(rows, D)` of each kind that is given, by
        its name; with "caption" the logits `(rows, 1, V)` of the first word; with
        "draw" pictures. For arrays of 0 rows arrays of 0 rows.

    Raises:
        TypeError: If an argument is unknown, or data have the wrong type.
        ValueError: If a row is empty, an id out of range, or a number not finite.
    """
    own = own_options(model, "predict", model.predict_options, kwargs)
    data = x, None, None
    size = BATCH_SIZE if batch_size is None else batch_size
    call = FitCall.of_evaluation(data, size, steps, own, "predict")

    def outputs(inputs, steps=steps):
        more = kwargs if steps is None else {**kwargs, "steps": steps}
        return model.scores_of(inputs, batch_size=batch_size, **more)

    return model.predicted(call, outputs)


def outputs_of(
    model: keras.Model,
    x: Any,
    predict: Callable[..., Any],
    batch_size: int | None,
    default_size: int,
    options: dict[str, Any],
) -> Any:
    """Computes what Keras' `predict` does; inside `kernels.uncompiled` without it.

    Args:
        model: The model.
        x: Arrays, or batches as a `keras.utils.PyDataset`.
        predict: Keras' method of the model.
        batch_size: Rows that are processed at once, or None.
        default_size: As many if uncompiled and `batch_size` is None.
        options: Other arguments of `predict`.
    """
    if is_empty_list(x):
        return outputs_of_none(model)
    check_arrays(x)
    shapes = [getattr(part, "shape", None) for part in keras.tree.flatten(x)]
    if shapes and all(shape is not None and shape[:1] == (0,) for shape in shapes):
        return outputs_of_none(model, x)
    is_dataset = isinstance(x, keras.utils.PyDataset)
    if not kernels.is_uncompiled():
        return predict(x, batch_size=None if is_dataset else batch_size, **options)
    if is_dataset:
        batches = [x[n][0] for n in range(len(x))]
    else:
        size = batch_size or default_size
        starts = range(0, len(keras.tree.flatten(x)[0]), size)
        batches = [
            keras.tree.map_structure(lambda rows, n=n: rows[n : n + size], x)
            for n in starts
        ]
    outputs = [model(batch, training=False) for batch in batches]
    return keras.tree.map_structure(
        lambda *parts: np.concatenate(list(map(ops.convert_to_numpy, parts))), *outputs
    )


def outputs_of_rows(
    rows: Rows, outputs_of: Callable[[Any], Any], task: Any, batch_size: int
) -> Any:
    """Returns the outputs of a model for rows.

    Args:
        rows: The rows.
        outputs_of: Function from arrays of some rows to the outputs of the model.
        task: The head of the model.
        batch_size: Rows that are processed at once.

    Returns:
        An array `(rows, ...)`, or several by name. For a label at each step an array
        `(rows, time, labels)`, 0 after the end of shorter rows; or for words a list of
        arrays `(words, labels)`.
    """
    if rows.is_array:
        outputs = outputs_of(rows.arrays)
    elif kernels.is_uncompiled():
        outputs = outputs_of(rows.batch())  # that of `encode`
    elif not task.by_length:
        outputs = outputs_of(rows.arrays)
    else:
        outputs = [None] * len(rows)
        for places, x in rows.by_length(batch_size):
            for row, output in zip(places, outputs_of(x), strict=True):
                outputs[row] = output
    if task.per_step:
        return _of_steps(outputs, rows)
    return np.stack(outputs) if isinstance(outputs, list) else outputs


def _of_steps(outputs, rows):
    """Returns the outputs at steps of rows: at words, or up to the end of each row."""
    if rows.places is not None:
        pairs = zip(outputs, rows.places, strict=True)
        return [output[steps] for output, steps in pairs]
    if rows.is_array:
        return outputs[:, : rows.steps]
    shape = len(rows), int(max(rows.lengths)), *outputs[0].shape[1:]
    padded = np.zeros(shape, "float32")
    for row, (output, length) in enumerate(zip(outputs, rows.lengths, strict=True)):
        padded[row, :length] = output[:length]
    return padded
