"""Runs code that reads and assigns variables as a function of their values."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import keras
from keras import ops

from kerasseq.core.keras_private import raw_value
from kerasseq.core.method_layer import OfWeights
from kerasseq.core.types import Tensor


class Scope(keras.StatelessScope):
    """Gives variables other values inside the block, and collects what is assigned.

    Other variables have the values of the scope around it, if there is one.

    Args:
        values: Pairs of a variable and its value.

    Examples:
        >>> count, other = keras.Variable(3.0), keras.Variable(7.0)
        >>> with Scope([(count, keras.ops.ones(()))]) as scope:
        ...     _ = count.assign_add(other)
        >>> ((variable, value),) = scope.assigned()
        >>> variable is count, *map(keras.ops.convert_to_numpy, (value, count))
        (True, array(8., dtype=float32), array(3., dtype=float32))
    """

    original_scope: Any = None  # the scope around this one, set by Keras

    def __init__(self, values: Iterable[tuple[keras.Variable, Tensor]]) -> None:
        super().__init__([*values], collect_losses=True, initialize_variables=False)
        self.variables: dict[int, keras.Variable] = {}  # that were assigned

    def add_update(self, update: tuple[keras.Variable, Tensor]) -> None:
        variable, _ = update
        self.variables[id(variable)] = variable
        super().add_update(update)

    def get_current_value(self, variable: keras.Variable) -> Tensor | None:
        value = super().get_current_value(variable)
        if value is None and self.original_scope is not None:
            value = self.original_scope.get_current_value(variable)
        return value

    def assigned(self) -> Iterator[tuple[keras.Variable, Tensor]]:
        """Yields the variables that were assigned, and their last values."""
        for key, variable in self.variables.items():
            yield variable, self.state_mapping[key]


def values_of(variables: Sequence[keras.Variable]) -> list[Tensor]:
    """Returns the values of variables in their own dtypes, also in mixed precision.

    Examples:
        >>> (value,) = values_of([keras.Variable(3.0)])
        >>> keras.ops.convert_to_numpy(value)
        array(3., dtype=float32)
    """
    with Scope([]) as scope:
        values = [scope.get_current_value(variable) for variable in variables]
    return [
        _tensor(raw_value(variable) if value is None else value)
        for variable, value in zip(variables, values, strict=True)
    ]


def _tensor(value):
    """Returns a tensor that keeps its numbers; no copy of weights, which are large."""
    if keras.backend.is_float_dtype(keras.backend.standardize_dtype(value.dtype)):
        return ops.convert_to_tensor(value)
    return ops.copy(value)  # the state of seeds is assigned in place


class _Context(keras.layers.Layer):
    """Calls a function as a part of the call of a layer."""

    def call(self, function: Callable[..., Any], training: bool | None = None) -> Any:
        return function(training)


_READER = _Context(name="training", autocast=False)


def current_training() -> bool | None:
    """Returns `training` of the call of a layer or model that is running.

    Examples:
        >>> current_training() is None
        True
    """
    return _READER(function=lambda training: training)


def in_call(
    layer: keras.Layer, function: Callable[[], Any], training: bool | None
) -> Any:
    """Calls a function as in a call of a layer: weights are cast to its compute dtype.

    Args:
        layer: A layer.
        function: Function of no arguments.
        training: What layers inside find as `training`.

    Examples:
        >>> dense = keras.layers.Dense(2, dtype="mixed_bfloat16")
        >>> dense.build((None, 3))
        >>> kernel = in_call(dense, lambda: dense.kernel.value, training=True)
        >>> keras.backend.standardize_dtype(kernel.dtype)
        'bfloat16'
    """
    context = _Context(name="again", dtype=OfWeights.like(layer))
    return context(function=lambda _: function(), training=training)
