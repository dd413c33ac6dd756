"""What goes on inside a decoder that runs step by step, for whoever looks into it."""

import contextlib

from keras import ops, tree

from kerasseq import kernels
from kerasseq.rnn.loop import named_states
from kerasseq.tracing import recording


def probes(decoder, listener) -> dict:
    """What `gradient_flow` adds to the states of each step, by path, `(B, T, H)`."""
    if not hasattr(listener, "probes"):
        return {}
    found = {
        _inside(layer) + name: probe
        for layer in decoder.recurrent
        for name, probe in listener.probes(layer).items()
    }
    return {"probes": found}


def probed(decoder, now):
    """A block in which the probes of one step are added, if there are any."""
    if "probes" not in now:
        return contextlib.nullcontext()
    return recording.add_probes(decoder, now["probes"])


def watch(decoder, step, carry, now):
    """Run all steps once more, so that recording changes nothing.

    Args:
        decoder: The `RecurrentDecoder`.
        step: The step of its loop.
        carry: What the loop starts from.
        now: What its steps read, `(T, B, ...)`.

    Returns:
        All that was recorded and all states, by path, `(B, T, ...)`.
    """

    def recorded_step(carry, now):
        with recording.collect_step(decoder) as values:
            after, _ = step(carry, now)
        for layer, states in zip(decoder.recurrent, after["cells"], strict=True):
            for name, state in named_states(layer.cell, states).items():
                values[_inside(layer) + name] = state
        return after, values

    _, values = kernels.scan(recorded_step, carry, now)
    return tree.map_structure(lambda x: ops.swapaxes(x, 0, 1), values)


def show(decoder, values):
    """Record what `watch` saw, each value under its layer."""
    for layer in decoder.recurrent:
        for path, value in values.items():
            if path.startswith(_inside(layer)):
                recording.record(layer, path.removeprefix(_inside(layer)), value)
    for path, value in values.items():
        layer, _, name = path.partition("/")
        if decoder.attention is not None and layer == decoder.attention.name:
            recording.record(decoder.attention, name, value[:, :, 0])  # of one query


def _inside(layer) -> str:
    """Where a decoder has what the cell of a layer records."""
    return f"{layer.name}/{layer.cell.name}/"
