"""The cells of recurrent layers, one step at a time, as a decoder needs them."""

import contextlib

from keras import ops, tree

from kerasseq.rnn.loop import call_keras_cell, has_steps


def sizes(layer) -> list[int]:
    """Widths of the states of a recurrent layer.

    Examples:
        >>> import kerasseq
        >>> sizes(kerasseq.layers.LSTM(3))
        [3, 3]
    """
    return tree.flatten(layer.cell.state_size)


def width(layer) -> int:
    """Width of what a recurrent layer gives."""
    return getattr(layer.cell, "output_size", None) or sizes(layer)[0]


def split_states(flat, layers) -> list[list]:
    """One wide tensor `(B, ...)` as the states of each layer.

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
        for size in sizes(layer):
            states[-1].append(flat[:, start : start + size])
            start += size
    return states


def step(cell, x, states, training=False):
    """One step of any cell: its output and the list of its states."""
    if has_steps(cell):
        return cell.step(cell.project(x, training), states, training)
    return call_keras_cell(cell, x, states, training)


@contextlib.contextmanager
def drawn_before(layers, like, training):
    """Let cells draw what they drop before a loop, as JAX needs, and forget it after.

    Args:
        layers: Recurrent layers, from the bottom up.
        like: What the lowest reads, but for its width, `(B, ..., E)`.
        training: Whether they drop at all.
    """
    cells = [layer.cell for layer in layers if hasattr(layer.cell, "get_dropout_mask")]
    for cell in cells if training else ():
        batch = ops.shape(like)[0]
        inputs, units = cell.kernel.shape[0], cell.recurrent_kernel.shape[0]
        if cell.dropout:
            cell.get_dropout_mask(ops.ones((batch, inputs), like.dtype))
        if cell.recurrent_dropout:
            cell.get_recurrent_dropout_mask(ops.ones((batch, units), like.dtype))
    yield
    for cell in cells:
        cell.reset_dropout_mask()
        cell.reset_recurrent_dropout_mask()
