"""Checks of the labels of BERT's heads for masked tokens and the next sentence."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from kerasseq.core import checks
from kerasseq.tasks.data_checks import as_array
from kerasseq.training.label_batches import Rows


def checked(
    rows: Rows, y: Mapping[str, Any], outputs: Mapping[str, Any], losses: Any
) -> dict[str, Any]:
    """Returns labels as arrays, if each is the index of a class of its output.

    Args:
        rows: The inputs.
        y: Labels by name: "tokens" `(rows, positions)`, "next" `(rows,)`.
        outputs: The outputs of the model, by name, with the classes on the last axis.
        losses: The loss of each output. Labels of an own loss are not checked.

    Raises:
        TypeError: If labels are not whole numbers, or the inputs are texts.
        ValueError: If labels of an output are missing, their shape is wrong, or one is
            out of range.

    Examples:
        >>> rows = Rows({"positions": np.array([[1, 2]])}, is_array=True)
        >>> outputs = {"tokens": np.zeros((1, 2, 7))}
        >>> losses = {"tokens": keras.losses.SparseCategoricalCrossentropy()}
        >>> checked(rows, {"tokens": [[3, 5]]}, outputs, losses)["tokens"].tolist()
        [[3, 5]]
        >>> checked(rows, {"tokens": [[3, 9]]}, outputs, losses)
        Traceback (most recent call last):
        ...
        ValueError: y['tokens'] must be from 0 to 6, the ids of the model, received 9. \
For a position that does not count, pass any of them and the sample weight 0
    """
    _check_names(y, losses)
    if not rows.is_array:
        raise TypeError(
            "x must be arrays with y of tokens, {'ids': …, 'positions': …}, received "
            "texts or lists. Mask their ids with MaskedLMMaskGenerator; or pass "
            'documents, lists of sentences, without y, with head="pretraining"'
        )
    labels = dict(y)
    for name, values in y.items():
        loss = losses.get(name) if isinstance(losses, Mapping) else None
        if not isinstance(loss, keras.losses.SparseCategoricalCrossentropy):
            continue
        positions = rows.arrays["positions"].shape
        wanted = positions if name == "tokens" else positions[:1]
        labels[name] = _integers(name, values, wanted)
        _check_range(name, labels[name], outputs[name].shape[-1])
    return labels


def _check_names(y, losses):
    missing = sorted(set(losses if isinstance(losses, Mapping) else ()) - set(y))
    if missing:
        raise ValueError(
            f"y must be arrays of {sorted(losses)} by name, received {sorted(y)} "
            f"without {missing}. Add them, or use a head without this output"
        )


def _integers(name, values, wanted):
    """Returns labels as an array of integers, if they have the shape that is wanted."""
    array = as_array(values)
    if array is not None and array.shape == (*wanted, 1):
        array = array[..., 0]
    if array is None or array.shape != wanted:
        given = "lists of several lengths" if array is None else str(array.shape)
        axes = (
            "one for each of the positions" if len(wanted) > 1 else "one for each row"
        )
        raise ValueError(
            f"y[{name!r}] must have the shape {wanted}, {axes}, received {given}: "
            f"{checks.short(values)}"
        )
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise TypeError(
            f"y[{name!r}] must be whole numbers, received {array.dtype}: "
            f"{checks.short(values)}"
        )
    return array.astype("int32")


def _check_range(name, array, classes):
    if not array.size or 0 <= array.min() <= array.max() < classes:
        return
    wrong = array.min() if array.min() < 0 else array.max()
    what, advice = "1 for the next sentence", ""
    if name == "tokens":
        what = "the ids of the model"
        advice = (
            ". For a position that does not count, pass any of them and the sample "
            "weight 0"
        )
    raise ValueError(
        f"y[{name!r}] must be from 0 to {classes - 1}, {what}, received {wrong}{advice}"
    )
