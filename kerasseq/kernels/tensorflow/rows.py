"""Row updates on TensorFlow: scatter operations on its variables."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import tree

from kerasseq.core.types import Nested, Tensor


def add_to_rows(table: keras.Variable, rows: Tensor, values: Tensor) -> None:
    """See `kerasseq.kernels.add_to_rows`."""
    table.value.scatter_add(tf.IndexedSlices(values, rows))


def train_steps(
    model: keras.Model, step: Callable[[Nested], None], data: Nested
) -> Any:
    """See `kerasseq.kernels.train_steps`."""
    count = tf.shape(tree.flatten(data)[0])[0]

    def body(n: Tensor) -> tuple[Tensor]:
        step(tree.map_structure(lambda x: x[n], data))
        return (n + 1,)

    tf.while_loop(lambda n: n < count, body, (tf.constant(0),), parallel_iterations=1)
    return model.get_metrics_result()
