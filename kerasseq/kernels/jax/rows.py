"""Row updates on JAX: a scatter into a donated array."""

from collections.abc import Callable
from typing import Any

import jax
import keras

from kerasseq.core.types import Nested, Tensor

State = tuple[list[Tensor], ...]


def add_to_rows(table: keras.Variable, rows: Tensor, values: Tensor) -> None:
    """See `kerasseq.kernels.add_to_rows`."""
    table.assign(table.value.at[rows].add(values))


def train_steps(
    model: keras.Model, step: Callable[[Nested], None], state: State, data: Nested
) -> tuple[Any, State]:
    """See `kerasseq.kernels.train_steps`.

    The loop carries the values of all variables, which XLA updates in place.
    """
    groups = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )

    def scope_of(state: State) -> keras.StatelessScope:
        pairs = zip(groups, state, strict=True)
        mapping = [
            p for group, values in pairs for p in zip(group, values, strict=True)
        ]
        return keras.StatelessScope(state_mapping=mapping)

    def body(state: State, part: Nested) -> tuple[State, None]:
        with scope_of(state) as scope:
            step(part)
        return tuple(
            [scope.get_current_value(v) for v in group] for group in groups
        ), None

    state, _ = jax.lax.scan(body, tuple(map(list, state)), data)
    with scope_of(state):
        return model.get_metrics_result(), state
