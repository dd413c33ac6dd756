"""Cells of a recurrent decoder: states, single steps, dropout masks, recording.

A decoder that runs step by step calls the cells of its layers, not the layers. So it
also does what the layers would do: it draws dropout masks before the loop, and records
values for `tracing.trace` and `tracing.gradient_flow`.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import keras
from keras import ops, tree

from kerasseq import kernels
from kerasseq.core.types import Tensor
from kerasseq.rnn.loop import call_keras_cell, has_steps, named_states
from kerasseq.tracing import recording

if TYPE_CHECKING:
    from kerasseq.seq2seq.recurrent_decoder import RecurrentDecoder

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
    return states


def cell_step(
    cell: keras.Layer, x: Tensor, states: Sequence[Tensor], training: bool = False
) -> tuple[Tensor, list[Tensor]]:
    """Returns the output of one step of any cell, and the list of its new states."""
    if has_steps(cell):
        return cell.step(cell.project(x, training), states, training)
    return call_keras_cell(cell, x, states, training)


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
        features, units = cell.kernel.shape[0], cell.recurrent_kernel.shape[0]
        if cell.dropout:
            cell.get_dropout_mask(ops.ones((batch, features), inputs.dtype))
        if cell.recurrent_dropout:
            cell.get_recurrent_dropout_mask(ops.ones((batch, units), inputs.dtype))
    yield
    for cell in cells:
        cell.reset_dropout_mask()
        cell.reset_recurrent_dropout_mask()


def state_probes(decoder: "RecurrentDecoder", listener: object) -> dict[str, Any]:
    """The probes of `gradient_flow` for the states of each step, `(B, T, H)`."""
    if not hasattr(listener, "probes"):
        return {}
    probes = {
        _cell_path(layer) + name: probe
        for layer in decoder.recurrent_layers
        for name, probe in listener.probes(layer).items()
    }
    return {"probes": probes}


def added_probes(
    decoder: "RecurrentDecoder", inputs: dict[str, Any]
) -> contextlib.AbstractContextManager[Any]:
    """A context in which the probes of one step, if any, are added to the states."""
    if "probes" not in inputs:
        return contextlib.nullcontext()
    return recording.add_probes(decoder, inputs["probes"])


def collect(
    decoder: "RecurrentDecoder", step: Step, carry: State, inputs: dict[str, Any]
) -> dict[str, Tensor]:
    """Runs the loop once more; returns all recorded values by path, `(B, T, ...)`.

    A second run, so that recording does not change the result.
    """

    def collecting_step(carry, inputs):
        with recording.collect_step(decoder) as values:
            after, _ = step(carry, inputs)
        cell_states = after["cell_states"]
        for layer, states in zip(decoder.recurrent_layers, cell_states, strict=True):
            for name, state in named_states(layer.cell, states).items():
                values[_cell_path(layer) + name] = state
        return after, values

    _, values = kernels.scan(collecting_step, carry, inputs)
    return tree.map_structure(lambda x: ops.swapaxes(x, 0, 1), values)


def record(decoder: "RecurrentDecoder", values: dict[str, Tensor]) -> None:
    """Records the values of `collect`, each with the layer that computed it."""
    for layer in decoder.recurrent_layers:
        for path, value in values.items():
            if path.startswith(_cell_path(layer)):
                recording.record(layer, path.removeprefix(_cell_path(layer)), value)
    for path, value in values.items():
        layer, _, name = path.partition("/")
        if decoder.attention is not None and layer == decoder.attention.name:
            recording.record(decoder.attention, name, value[:, :, 0])  # of one query


def _cell_path(layer) -> str:
    return f"{layer.name}/{layer.cell.name}/"
