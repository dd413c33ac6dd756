"""The outputs of rows of several lengths, computed with others of about the same."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kerasseq import kernels
from kerasseq.training.label_batches import Rows


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
