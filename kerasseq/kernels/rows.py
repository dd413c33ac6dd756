"""Updates of the rows of a table that occur in a batch, and of no others.

A dense gradient of an embedding table has as many rows as the vocabulary, almost all of
them zero: computing it, and adding it, takes most of the time of a step.
"""

from typing import Any

import keras
from keras import ops

from kerasseq.core.types import Nested, Tensor
from kerasseq.kernels.operations import backend_module


def take_rows(table: keras.Variable, rows: Tensor) -> Tensor:
    """Returns the rows of a table, such as the vectors of words.

    Args:
        table: `(V, ...)`.
        rows: Integers of any shape.

    Returns:
        `(*rows.shape, ...)`.
    """
    return ops.take(table, rows, axis=0)


def add_to_rows(table: keras.Variable, rows: Tensor, values: Tensor) -> None:
    """Adds values to the rows of a table, in place where the backend can.

    Several values for one row are added up. In a function that JAX compiles, this needs
    a `keras.StatelessScope`, as `train_steps` opens it.

    Args:
        table: A variable `(V, ...)`.
        rows: Integers `(...)`, from 0 to V - 1.
        values: `(*rows.shape, *table.shape[1:])`.

    Examples:
        >>> table = keras.Variable(np.zeros((3, 1)))
        >>> add_to_rows(table, np.array([2, 0, 2]), np.array([[1.0], [5.0], [2.0]]))
        >>> keras.ops.convert_to_numpy(table)[:, 0].tolist()
        [5.0, 0.0, 3.0]
    """
    inner = tuple(table.shape[1:])
    rows = ops.reshape(ops.convert_to_tensor(rows, "int32"), (-1,))
    values = ops.reshape(ops.convert_to_tensor(values, table.dtype), (-1, *inner))
    backend_module("functions").add_to_rows(table, rows, values)


def train_steps(model: keras.Model, step: Any, *args: Nested) -> Nested:
    """Trains a model by several updates of its own, for an override of `train_step`.

    Keras' work for a batch is done once for all of them.

    Args:
        model: A compiled and built model, whose `metrics` the step updates.
        step: Function of a structure of tensors that assigns the variables of the
            model, and returns nothing.
        *args: The arguments of `train_step` on this backend. The last one is the data,
            whose tensors have the updates on axis 0.

    Returns:
        What `train_step` returns on this backend.
    """
    return backend_module("functions").train_steps(model, step, *args)
