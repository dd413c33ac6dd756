"""The outputs of a model for arrays or batches, compiled or not."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.tasks.data_checks import check_arrays
from kerasseq.tasks.input_rows import is_empty_list, outputs_of_none


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
