"""`trace`: records what the layers of a model compute during eager calls."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import keras
import numpy as np
from keras import ops

from kerasseq.core.table import Table
from kerasseq.core.types import Tensor
from kerasseq.tracing.compiled_calls import check_eager, listening_to
from kerasseq.tracing.listeners import About, ModelListener
from kerasseq.tracing.unrecorded import missing_value

# The array of a value; a list of arrays if its layer was called more than once.
Recorded: TypeAlias = np.ndarray | Any


class Trace(ModelListener, Mapping[str, Recorded]):
    """Recorded values: NumPy arrays by path, such as `"lstm/forget_gate"`.

    Values of recurrent layers have shape `(batch, time, units)`, with time in the order
    of the input. A layer that is called more than once has a list with one array per
    call. At masked steps the states are those of the last real step, and all other
    values are zero.

    Attributes:
        model: The model or layer that is traced.
    """

    records: bool = True

    def __init__(self, model: keras.Layer) -> None:
        super().__init__(model)
        self._values = {}
        self._axes = {}

    def receive(
        self, layer: keras.Layer, name: str, value: Tensor, about: About
    ) -> Tensor:
        """Stores a value that a layer recorded, and returns it."""
        key = self.key(layer, name, value)
        if key is None:
            return value
        check_eager(layer, name, value)
        self._values.setdefault(key, []).append(ops.convert_to_numpy(value))
        self._axes[key] = about.axes
        return value

    def axes(self, key: str) -> tuple[str, ...]:
        """Returns the names of the axes of a value.

        `tracing.at` selects along "rows", "heads", "steps" and "units".

        Args:
            key: The key of the value.

        Raises:
            KeyError: If no value was recorded under the key.

        Examples:
            >>> import kerasseq
            >>> layer = kerasseq.layers.Mamba(3)
            >>> with trace(layer) as inside:
            ...     _ = layer(np.ones((2, 7, 5)))
            >>> inside.axes("decay")
            ('rows', 'steps', 'units', 'state')
        """
        self[key]
        return self._axes[key]

    def __getitem__(self, key: str) -> Recorded:
        if key not in self._values:
            raise KeyError(missing_value(key, self._values, self.model))
        values = self._values[key]
        return values[0] if len(values) == 1 else list(values)

    def __getattr__(self, name: str) -> Any:
        # Not before the values are there, as in a copy.
        keys = [key for key in vars(self).get("_values", ()) if key.endswith(name)]
        hint = f'. Values have keys: trace["{keys[0]}"]' if keys else ""
        if name == "plot":
            hint = ". kerasseq.tracing.plots draws: plot_gates(trace), for example"
        raise AttributeError(f"a Trace has no attribute {name!r}{hint}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}: {_shape(v)}" for k, v in self.items())
        return f"Trace({shown})"

    def _repr_html_(self) -> str:
        rows = [(key, str(_shape(value))) for key, value in self.items()]
        return Table(rows, ("value", "shape")).html()


def _shape(value: Recorded) -> Any:
    return [v.shape for v in value] if isinstance(value, list) else value.shape


@contextlib.contextmanager
def trace(model: keras.Layer) -> Iterator[Trace]:
    """Records what the layers of `model` compute.

    While the block is open, `fit`, `evaluate`, `predict` and their `_on_batch` forms
    raise an error in the thread that opened it; other threads can use them. `generate`
    and `translate` run without compilation, and record each step; so do `classify`,
    `tag` and `answers`, and record each batch.

    Args:
        model: A Keras model, or one layer.

    Yields:
        A `Trace`, filled by each eager call of the model inside the block.

    Raises:
        RuntimeError: If `fit`, `predict` or another compiled call runs inside the
            block, since nothing can be recorded there.

    Examples:
        >>> import kerasseq
        >>> layer = kerasseq.layers.LSTM(3)
        >>> with trace(layer) as inside:
        ...     _ = layer(np.ones((2, 7, 5)))
        >>> inside["forget_gate"].shape
        (2, 7, 3)
    """
    with listening_to(model, Trace(model)) as recorded:
        yield recorded
