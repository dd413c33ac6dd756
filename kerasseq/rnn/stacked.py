"""Several recurrent layers as one: deep, in both directions, residual, one to many."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

import keras
from keras import ops, tree

from kerasseq.core import arguments, checks
from kerasseq.core.serialization import register
from kerasseq.core.shapes import STEPS, as_floats, check_shape
from kerasseq.core.sublayers import WithSublayers
from kerasseq.core.types import Config, Shape, Tensor
from kerasseq.rnn.cell import DropoutRNNCell
from kerasseq.rnn.layer import RNN
from kerasseq.rnn.loop import call_keras_cell


class FedBackCell(keras.layers.Layer):
    r"""Cells on top of each other whose output is their next input.

    $y_t = f(y_{t-1})$: the first state is the last output, and the input is ignored.
    `StackedRNN` runs it with `feed_back=True`.

    Args:
        cells: The cells, from the bottom up.
        width: Size of $y$.
        residual: Whether each cell adds its input to its output.

    Examples:
        >>> cell = FedBackCell([keras.layers.GRUCell(3)], width=3)
        >>> cell.state_size
        [3, 3]
    """

    def __init__(
        self, cells: Iterable[keras.layers.Layer], width: int, residual: bool = False
    ) -> None:
        super().__init__(name="fed_back")
        self.cells: list[keras.layers.Layer] = list(cells)
        self.width = width
        self.residual = residual
        sizes = tree.flatten([cell.state_size for cell in self.cells])
        self.state_size: list[int] = [width, *sizes]
        self.output_size = width

    def build(self, input_shape: Shape) -> None:
        for cell in self.cells:
            if not cell.built:
                cell.build((None, self.width))

    def get_initial_state(self, batch_size: int | Tensor | None = None) -> list[Tensor]:
        """Returns zeros for y, and the first states of the cells.

        Args:
            batch_size: Number of sequences.
        """
        first = [ops.zeros((batch_size, self.width), self.compute_dtype)]
        for cell in self.cells:
            if hasattr(cell, "get_initial_state"):
                first += tree.flatten(cell.get_initial_state(batch_size=batch_size))
            else:
                sizes = tree.flatten(cell.state_size)
                first += [ops.zeros((batch_size, n), self.compute_dtype) for n in sizes]
        return first

    def call(
        self, inputs: Tensor, states: Sequence[Tensor], training: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        y, *rest = states
        new_states = []
        for cell in self.cells:
            count = len(tree.flatten(cell.state_size))
            output, new = call_keras_cell(cell, y, rest[:count], training)
            y = output + y if self.residual else output
            new_states, rest = new_states + new, rest[count:]
        return y, [y, *new_states]


@register
class StackedRNN(WithSublayers, keras.layers.Layer):
    r"""Recurrent layers on top of each other, from any cells.

    $$y^{(l)} = \mathrm{RNN}^{(l)}(y^{(l-1)}) \quad\text{or, residual,}\quad
    y^{(l)} = y^{(l-1)} + \mathrm{RNN}^{(l)}(y^{(l-1)})$$

    Many to one by default; many to many with `return_sequences`; one to many with
    `steps`, where one vector is repeated, or fed back: each output is the next input.

    Args:
        cells: List of cells from the bottom up, of kerasseq, of Keras, or your own.
        bidirectional: Whether each layer reads in both directions and joins the two
            results, which doubles its width.
        residual: Whether a layer adds its input to its output. This happens in every
            layer that returns a sequence as wide as its input; from the second layer on
            the widths must agree.
        return_sequences: Whether to return all outputs, not only the last.
        return_state: Whether to return the last states of all layers, too.
        steps: For one to many: how many steps to make from one `(batch, features)`.
        feed_back: With `steps`: the input is given at the first step only, and each
            output is the next input. Otherwise the input is repeated at each step.
        **kwargs: For `keras.layers.Layer`.

    Call arguments:
        sequences: `(batch, time, features)`, or `(batch, features)` with `steps`.
        initial_state: Flat list of states from the bottom up, as `return_state` gives.
        mask: Boolean, `(batch, time)`, True where a step is real.
        training: Whether dropout is on.

    Raises:
        ValueError: If there are no cells, if widths do not allow `residual` or
            `feed_back`, or if `feed_back` is asked for without `steps` or in both
            directions.

    Examples:
        >>> import kerasseq
        >>> cells = [kerasseq.layers.LSTMCell(3), kerasseq.layers.GRUCell(3)]
        >>> layer = StackedRNN(cells, bidirectional=True, residual=True)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 6)

    References:
        Slides A, B, C, D: stacked, bidirectional, many to one, one to many.
    """

    def __init__(
        self,
        cells: keras.layers.Layer | list[keras.layers.Layer],
        *,
        bidirectional: bool = False,
        residual: bool = False,
        return_sequences: bool = False,
        return_state: bool = False,
        steps: int | None = None,
        feed_back: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.cells: list[keras.layers.Layer] = (
            list(cells) if isinstance(cells, (list, tuple)) else [cells]
        )
        if not self.cells:
            raise ValueError(
                "cells is empty: give at least one cell, as [LSTMCell(32)]"
            )
        self.bidirectional: bool = checks.flag("bidirectional", bidirectional)
        self.residual: bool = checks.flag("residual", residual)
        self.return_sequences: bool = checks.flag("return_sequences", return_sequences)
        self.return_state: bool = checks.flag("return_state", return_state)
        self.steps: int | None = checks.optional(checks.size, "steps", steps)
        self.feed_back: bool = checks.flag("feed_back", feed_back)
        if feed_back and (steps is None or bidirectional):
            raise ValueError(
                "feed_back=True needs steps= and one direction, as each output is the "
                f"next input; received steps={steps}, bidirectional={bidirectional}"
            )
        self.supports_masking = True
        # Masks of dropout are drawn before its loop: only the whole can be run again.
        self.rematerialized: tuple[str, ...] | None = ("call",) if feed_back else None
        self.rnns: list[keras.layers.Layer] | None = (
            None if feed_back else self._stack()
        )

    def _stack(self):
        rnns = []
        for n, cell in enumerate(self.cells, 1):
            own = {"name": f"layer_{n}", "dtype": self.dtype_policy}
            sequences = self.return_sequences or n < len(self.cells)
            rnn = RNN(cell, sequences, self.return_state, **own)
            if self.bidirectional:
                rnn = keras.layers.Bidirectional(rnn, **own)
            rnns.append(rnn)
        return rnns

    def build(self, input_shape: Shape) -> None:
        steps = STEPS if self.steps is None else "(batch, features)"
        check_shape("sequences", input_shape, steps, more=self.steps is None)
        width = input_shape[-1]
        if self.feed_back:
            last = self.cells[-1].output_size
            if last != width:
                raise ValueError(
                    f"feed_back=True makes each output the next input: the last cell "
                    f"has {last} units, but the input has {width} features"
                )
            cell = FedBackCell(self.cells, width, self.residual)
            own = {"name": "fed_back", "dtype": self.dtype_policy}
            self.fed_back: RNN = RNN(
                cell, self.return_sequences, self.return_state, **own
            )
            self.fed_back.build((None, None, 1))
            return
        for n, rnn in enumerate(self.rnns):
            rnn.build((input_shape[0], None, width))
            after = self._width(n)
            if self.residual and n and after != width:
                raise ValueError(
                    f"residual=True adds what goes into layer {n + 1}, {width} wide, "
                    f"to what comes out, {after} wide: give all cells the same units"
                )
            width = after

    def _width(self, n):
        cell = self.cells[n]
        size = getattr(cell, "output_size", None) or tree.flatten(cell.state_size)[0]
        return size * 2 if self.bidirectional else size

    def call(
        self,
        sequences: Tensor,
        initial_state: Sequence[Tensor] | None = None,
        mask: Tensor | None = None,
        training: bool = False,
    ) -> Tensor | tuple[Tensor, ...]:
        if self.feed_back:
            sequences = as_floats("sequences", sequences, self.compute_dtype)
            return self._fed_back(sequences, initial_state, training)
        if self.steps is not None:
            sequences = ops.repeat(sequences[:, None], self.steps, axis=1)
        x, states = sequences, []
        for rnn, start in zip(self.rnns, self._per_layer(initial_state), strict=True):
            y = rnn(x, initial_state=start, mask=mask, training=training)
            if self.return_state:
                y, *new = y
                states += new
            same = len(y.shape) == 3 and y.shape[-1] == x.shape[-1]
            x = x + y if self.residual and same else y
        return (x, *states) if self.return_state else x

    def _fed_back(self, x, initial_state, training):
        # The loop needs the dropout masks before it begins, as `keras.layers.RNN` does.
        cells = [c for c in self.cells if isinstance(c, DropoutRNNCell)]
        width = x.shape[-1]
        for cell in cells if training else []:
            first = ops.ones((ops.shape(x)[0], width), dtype=self.compute_dtype)
            cell.get_dropout_mask(first)
            cell.get_recurrent_dropout_mask(cell.get_initial_state(ops.shape(x)[0])[0])
            width = cell.output_size
        start = initial_state or self.fed_back.get_initial_state(ops.shape(x)[0])[1:]
        ticks = ops.zeros((ops.shape(x)[0], self.steps, 1), dtype=self.compute_dtype)
        y = self.fed_back(ticks, initial_state=[x, *start], training=training)
        for cell in cells:
            cell.reset_dropout_mask()
            cell.reset_recurrent_dropout_mask()
        if self.return_state:
            y, _, *states = y  # the first state is the last output
            return y, *states
        return y

    def _per_layer(self, states):
        """Cuts the flat list of all states into one list for each layer."""
        if states is None:
            return [None] * len(self.cells)
        counts = [len(sizes) for sizes in self._state_sizes()]
        if len(states) != sum(counts):
            raise ValueError(
                f"initial_state has {len(states)} tensors, but the layers keep "
                f"{sum(counts)}: {counts} from the bottom up"
            )
        states = iter(states)
        return [[next(states) for _ in range(n)] for n in counts]

    def compute_mask(
        self, inputs: Tensor, mask: Tensor | None = None
    ) -> Tensor | list[Tensor | None] | None:
        mask = mask if self.return_sequences and self.steps is None else None
        if not self.return_state:
            return mask
        return [mask, *(None for _ in tree.flatten(self._state_sizes()))]

    def compute_output_shape(
        self, sequences_shape: Shape, initial_state_shape: Sequence[Shape] | None = None
    ) -> Shape | tuple[Shape, ...]:
        batch = sequences_shape[0]
        time = self.steps or sequences_shape[1]
        width = self._width(-1)
        output = (batch, time, width) if self.return_sequences else (batch, width)
        if not self.return_state:
            return output
        return output, *((batch, size) for size in tree.flatten(self._state_sizes()))

    def _state_sizes(self):
        """Returns the sizes of the states of each layer, of both directions."""
        directions = 2 if self.bidirectional else 1
        return [tree.flatten(c.state_size) * directions for c in self.cells]

    def get_config(self) -> Config:
        own = {name: getattr(self, name) for name in arguments.names(StackedRNN)}
        own["cells"] = [keras.saving.serialize_keras_object(c) for c in self.cells]
        return {**super().get_config(), **own}

    @classmethod
    def from_config(cls, config: Config) -> Self:
        cells = [keras.saving.deserialize_keras_object(c) for c in config.pop("cells")]
        return cls(cells, **config)
