"""The states that a stateful layer keeps from one batch to the next."""

from typing import Any

import keras
from keras import ops, tree

from kerasseq.core.types import Nested


class BatchStates(keras.layers.Layer):
    """Holds the states of a stateful layer as variables that are not weights.

    Keras' `RNN` creates these variables and does not track them. On JAX `fit`,
    `evaluate` and `predict` then drop what a batch assigns to them; on PyTorch an
    assignment in mixed precision goes to a cast copy. As a sublayer this one makes them
    variables of the model, and they are not cast.

    They are in `layer.variables`, as seeds are, but not in `layer.weights`: the weights
    are those of a layer that is not stateful, and files do not contain states.

    Args:
        values: The first states, as a list of tensors or of lists of them.
        dtype: The dtype of the variables.

    Examples:
        >>> holder = BatchStates([np.zeros((2, 3))], "float32")
        >>> len(holder.variables), len(holder.weights)
        (1, 0)
    """

    def __init__(self, values: Nested, dtype: str) -> None:
        super().__init__(name="batch_states", dtype=dtype)
        self.states: Nested = tree.map_structure(
            lambda value: self.add_weight(
                name="state",
                shape=value.shape,
                initializer=lambda shape, dtype, value=value: ops.cast(value, dtype),
                trainable=False,
                autocast=False,
            ),
            values,
        )
        self.built = True

    @property
    def weights(self) -> list[keras.Variable]:
        """No weights: a state is not a parameter."""
        return []

    def save_own_variables(self, store: Any) -> None:
        """Saves nothing: a loaded layer starts anew, as Keras' do."""

    def load_own_variables(self, store: Any) -> None:
        """Loads nothing."""
