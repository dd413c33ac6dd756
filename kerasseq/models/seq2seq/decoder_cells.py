"""Cells of a recurrent decoder: states, single steps, dropout masks, recording.

A decoder that runs step by step calls the cells of its layers, not the layers. So it
also does what the layers would do: it draws dropout masks before the loop, and records
values for `tracing.trace`, `intervene` and `gradient_flow`.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import keras
from keras import ops, tree

from kerasseq.core.types import Tensor
from kerasseq.rnn.cell import ProjectingCell
from kerasseq.rnn.loop import (
    call_keras_cell,
    has_steps,
    named_states,
    record_states,
)
from kerasseq.tracing import loops

if TYPE_CHECKING:
    from kerasseq.models.seq2seq.recurrent_decoder import RecurrentDecoder

State: TypeAlias = dict[str, Any]
Step: TypeAlias = Callable[[State, dict[str, Any]], tuple[State, dict[str, Tensor]]]


def state_sizes(layer: keras.layers.RNN) -> list[int]:
    """Returns the sizes of the states of a recurrent layer.

    Examples:
        >>> import kerasseq
        >>> state_sizes(kerasseq.layers.LSTM(3))
        [3, 3]
    """
    return tree.flatten(layer.cell.state_size)


def output_size(layer: keras.layers.RNN) -> int:
    """Returns the number of features of the output of a recurrent layer."""
    return getattr(layer.cell, "output_size", None) or state_sizes(layer)[0]


def split_states(
    flat: Tensor, layers: Sequence[keras.layers.RNN]
) -> list[list[Tensor]]:
    """Splits the features of one tensor into the states of each layer.

    Examples:
        >>> import kerasseq
        >>> layers = [kerasseq.layers.LSTM(2), kerasseq.layers.GRU(3)]
        >>> parts = split_states(np.arange(7.0)[None], layers)
        >>> [[x.tolist() for x in states] for states in parts]
        [[[[0.0, 1.0]], [[2.0, 3.0]]], [[[4.0, 5.0, 6.0]]]]
    """
    states, start = [], 0
    for layer in layers:
        states.append([])
        for size in state_sizes(layer):
            states[-1].append(flat[:, start : start + size])
            start += size
        if isinstance(layer.cell, ProjectingCell):
            states[-1] = layer.cell.states_from(states[-1])
    return states


def cell_step(
    cell: keras.Layer, x: Tensor, states: Sequence[Tensor], training: bool = False
) -> tuple[Tensor, list[Tensor]]:
    """Returns the output of one step of any cell, and the list of its new states."""
    if has_steps(cell):
        output, after = cell.step(cell.project(x, training), states, training)
        # In mixed precision linear cells compute float32; the carry keeps its dtype.
        pairs = zip(after, states, strict=True)
        return output, [ops.cast(new, old.dtype) for new, old in pairs]
    return record_states(cell, *call_keras_cell(cell, x, states, training))


@contextlib.contextmanager
def dropout_masks(
    layers: Sequence[keras.layers.RNN], inputs: Tensor, training: bool
) -> Iterator[None]:
    """Draws the dropout masks of cells before a loop, and resets them after it.

    JAX cannot draw them inside the loop.

    Args:
        layers: Recurrent layers, from the inputs to the outputs.
        inputs: A tensor `(B, ...)` of the batch size and dtype of the inputs.
        training: Whether dropout is applied.
    """
    cells = [layer.cell for layer in layers if hasattr(layer.cell, "get_dropout_mask")]
    for cell in cells if training else ():
        batch = ops.shape(inputs)[0]
        if cell.dropout:
            features = cell.kernel.shape[0]
            cell.get_dropout_mask(ops.ones((batch, features), inputs.dtype))
        if cell.recurrent_dropout:
            units = cell.recurrent_kernel.shape[0]
            cell.get_recurrent_dropout_mask(ops.ones((batch, units), inputs.dtype))
    try:
        yield
    finally:
        for cell in cells:
            cell.reset_dropout_mask()
            cell.reset_recurrent_dropout_mask()


def observe(decoder: "RecurrentDecoder") -> loops.ObservedLoop | None:
    """Returns the listeners of the loop of the decoder, see `tracing.loops`."""
    owners = [loops.Owner(layer, layer.cell) for layer in decoder.recurrent_layers]
    if decoder.attention is not None:
        owners.append(loops.Owner(decoder.attention, decoder.attention, True))
    return loops.observe(*owners)


def run_observed(
    decoder: "RecurrentDecoder",
    observed: loops.ObservedLoop,
    step: Step,
    carry: State,
    inputs: dict[str, Any],
) -> tuple[State, dict[str, Tensor]]:
    """Runs the loop of the decoder, and records and changes values of its layers.

    Args:
        decoder: The decoder.
        observed: The listeners of the loop.
        step: As for `kernels.scan`.
        carry: As for `kernels.scan`.
        inputs: As for `kernels.scan`.
    """

    def complete(values, after, inputs):
        values = dict(values)
        layers = zip(decoder.recurrent_layers, after["cell_states"], strict=True)
        for n, (layer, states) in enumerate(layers):
            for name, state in named_states(layer.cell, states).items():
                values[observed.key(n, name)] = state
        return values

    return observed.run(step, carry, inputs, complete)
