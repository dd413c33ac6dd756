"""`record`: the one line with which a layer shows a value to whoever is listening.

Listeners form a stack. The outermost is a `trace` or a `gradient_flow`; inside a time
loop there is one more, which catches what a single step records, since a value may
leave a compiled loop only as an output of the loop.
"""

import contextlib
import contextvars

_listeners = contextvars.ContextVar("kerasseq_listeners", default=())


def record(layer, name: str, value):
    """Show `value` to an open trace, under the path of `layer` and `name`.

    Costs a look at an empty tuple when nobody listens.

    Args:
        layer: The layer that computed the value, usually `self`.
        name: What it is, such as `"forget_gate"`.
        value: A tensor.

    Returns:
        The value to go on with: `value` itself, except while `gradient_flow` adds its
        zeros to it, to differentiate with respect to it.

    Examples:
        >>> record(keras.layers.Dense(3), "output", 5)
        5
    """
    listeners = _listeners.get()
    return listeners[-1].receive(layer, name, value) if listeners else value


def listener():
    """Whoever listens now, or None."""
    listeners = _listeners.get()
    return listeners[-1] if listeners else None


@contextlib.contextmanager
def listening(new_listener):
    """Let `new_listener` receive what is recorded in this block, and nobody else."""
    token = _listeners.set((*_listeners.get(), new_listener))
    try:
        yield new_listener
    finally:
        _listeners.reset(token)


def paths(root) -> dict[int, str]:
    """The path of each layer inside `root`, by the layer's `id`.

    Examples:
        >>> lstm = keras.layers.LSTM(3, name="lstm")
        >>> model = keras.Sequential([keras.layers.Bidirectional(lstm, name="both")])
        >>> sorted(paths(model).values())[:3]
        ['', 'both', 'both/backward_lstm']
    """
    found = {}

    def walk(layer, path):
        found.setdefault(id(layer), path)
        children = getattr(layer, "layers", None)
        if children is None:
            # Any layer may hold others; Keras has no public list of them.
            children = layer._flatten_layers(include_self=False, recursive=False)
        for child in children:
            walk(child, f"{path}/{child.name}" if path else child.name)

    walk(root, "")
    return found


class _StepListener:
    """Knows the names of what one cell records in one step, cells inside it too."""

    def __init__(self, cell):
        self.paths = paths(cell) if hasattr(cell, "_flatten_layers") else {}

    def key(self, layer, name):
        path = self.paths.get(id(layer), "")
        return f"{path}/{name}" if path else name


class _Collector(_StepListener):
    def __init__(self, cell):
        super().__init__(cell)
        self.values = {}

    def receive(self, layer, name, value):
        self.values[self.key(layer, name)] = value
        return value


class _Injector(_StepListener):
    def __init__(self, cell, probes):
        super().__init__(cell)
        self.probes = probes

    def receive(self, layer, name, value):
        key = self.key(layer, name)
        return value + self.probes[key] if key in self.probes else value


@contextlib.contextmanager
def collecting(cell):
    """Catch what one step of `cell` records, as a dictionary by name."""
    with listening(_Collector(cell)) as collector:
        yield collector.values


def injecting(cell, probes: dict):
    """Add `probes[name]` to the value of that name, in one step of `cell`."""
    return listening(_Injector(cell, probes))


class _Deaf:
    def receive(self, layer, name, value):
        return value


def muted():
    """Let nothing in this block be recorded."""
    return listening(_Deaf())
