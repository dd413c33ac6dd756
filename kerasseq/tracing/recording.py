"""`record` and `trace`: intermediate values of layers during an eager call.

A layer calls `record` for each value worth a look. The value goes to the innermost
listener of the current context, if there is one: a `Trace`, the probes of
`gradient_flow`, or, inside a time loop, a collector for a single step, since a value
can leave a compiled loop only as an output of the loop.
"""

import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias, TypeVar

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core.checks import nearest
from kerasseq.core.types import Tensor

# The array of a value; a list of arrays if its layer was called more than once.
Recorded: TypeAlias = np.ndarray | Any


class Listener(Protocol):
    """Receives each value that is recorded, and returns the value to continue with."""

    def receive(self, layer: keras.Layer, name: str, value: Tensor) -> Tensor: ...


AnyListener = TypeVar("AnyListener", bound=Listener)
_listeners = contextvars.ContextVar("kerasseq_listeners", default=())
_open: set[int] = set()  # ids of the listeners of all contexts: torch.compile reads it

# Methods that run compiled code, which executes no Python and so records nothing.
_COMPILED = (
    "fit",
    "evaluate",
    "predict",
    "train_on_batch",
    "test_on_batch",
    "predict_on_batch",
)
_ADVICE = "A trace records eager calls only: call the model itself inside it, model(x)."


def record(layer: keras.Layer, name: str, value: Tensor) -> Tensor:
    """Records a value under the path of `layer` and `name`, if a trace is open.

    Without a trace, the cost is one look-up.

    Args:
        layer: The layer that computed the value, usually `self`.
        name: Name of the value, such as `"forget_gate"`.
        value: A tensor.

    Returns:
        The value to continue with. It is `value` itself, except inside `gradient_flow`,
        which adds zeros to it in order to differentiate with respect to it.

    Examples:
        >>> record(keras.layers.Dense(3), "output", 5)
        5
    """
    listener = current_listener()
    return value if listener is None else listener.receive(layer, name, value)


def current_listener() -> Listener | None:
    """Returns the innermost listener of the current context, or None."""
    listeners = _listeners.get() if _open else ()
    return listeners[-1] if listeners else None


@contextlib.contextmanager
def listening(listener: AnyListener) -> Iterator[AnyListener]:
    """Sends everything that is recorded inside the block to `listener` alone."""
    _open.add(id(listener))
    _listeners.set((*_listeners.get(), listener))
    try:
        yield listener
    finally:  # not `reset`: blocks may close in another order than they opened
        _listeners.set(tuple(one for one in _listeners.get() if one is not listener))
        _open.discard(id(listener))


class Trace(Mapping[str, Recorded]):
    """Recorded values: NumPy arrays by path, such as `"lstm/forget_gate"`.

    Values of recurrent layers have shape `(batch, time, units)`, with time in the order
    of the input. A layer that is called more than once has a list with one array per
    call. At masked steps the states are those of the last real step, and all other
    values are zero.
    """

    def __init__(self, model: keras.Layer) -> None:
        self._model = model
        self._paths = paths(model)
        self._values = {}

    def receive(self, layer: keras.Layer, name: str, value: Tensor) -> Tensor:
        """Stores a value that a layer recorded, and returns it."""
        if not self._model.built:  # Keras runs the layers to infer shapes
            return value
        path = self._paths.get(id(layer))
        if path is None or not hasattr(value, "shape"):
            return value
        if not kernels.is_concrete(value):
            raise RuntimeError(
                f"{layer.name} ran inside compiled code, from which {name} cannot be "
                f"recorded. {_ADVICE} keras.layers.RNN compiles its loop: "
                "kerasseq.layers.RNN takes the same cell and can be traced."
            )
        key = f"{path}/{name}" if path else name
        self._values.setdefault(key, []).append(ops.convert_to_numpy(value))
        return value

    def __getitem__(self, key: str) -> Recorded:
        if not self._values:
            raise KeyError(f"nothing was recorded, so there is no {key!r}. {_ADVICE}")
        if key not in self._values:
            raise KeyError(
                f"no {key!r} was recorded.{nearest(key, self._values)} There is: "
                + ", ".join(self._values)
            )
        values = self._values[key]
        return values[0] if len(values) == 1 else list(values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}: {_shape(v)}" for k, v in self.items())
        return f"Trace({shown})"


def _shape(value: Recorded) -> Any:
    return [v.shape for v in value] if isinstance(value, list) else value.shape


@contextlib.contextmanager
def trace(model: keras.Layer) -> Iterator[Trace]:
    """Records what the layers of `model` compute.

    While the block is open, `fit`, `evaluate`, `predict` and their `_on_batch` forms
    raise an error in the thread that opened it; other threads can use them.

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
    recorded = Trace(model)
    guard = _CompiledCallGuard.acquire(model)
    try:
        with listening(recorded):
            yield recorded
    finally:
        guard.release()


class _CompiledCallGuard:
    """Makes the compiled methods of a model raise inside a trace of that model.

    The methods are replaced on the model when its first trace opens and restored when
    its last one closes, in whichever order and in whichever thread that happens. In a
    context without an open trace of the model the original method runs.
    """

    _guards = {}  # by id of the model, while it has open traces
    _lock = threading.Lock()

    def __init__(self, model: keras.Layer) -> None:
        self.model = model
        self.open_traces = 0
        self.replaced = {}  # name: the attribute of the instance before, and ours

    @classmethod
    def acquire(cls, model: keras.Layer) -> "_CompiledCallGuard":
        """Returns the guard of a model with one more open trace."""
        with cls._lock:
            guard = cls._guards.setdefault(id(model), cls(model))
            guard.open_traces += 1
            if guard.open_traces == 1:
                guard.replace_methods()
        return guard

    def release(self) -> None:
        """Counts one open trace less, and restores the methods after the last one."""
        with self._lock:
            self.open_traces -= 1
            if self.open_traces == 0:
                del self._guards[id(self.model)]
                self.restore_methods()

    def replace_methods(self) -> None:
        for name in _COMPILED:
            if hasattr(self.model, name):
                guarded = self.guarded(name, getattr(self.model, name))
                self.replaced[name] = vars(self.model).get(name), guarded
                setattr(self.model, name, guarded)

    def restore_methods(self) -> None:
        for name, (before, guarded) in self.replaced.items():
            if vars(self.model).get(name) is not guarded:  # replaced by the user since
                continue
            delattr(self.model, name)
            if before is not None:
                setattr(self.model, name, before)

    def guarded(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a method that raises if the current context traces the model."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if any(_records(listener, self.model) for listener in _listeners.get()):
                raise RuntimeError(
                    f"{name} runs compiled code, in which nothing can be recorded. "
                    f"{_ADVICE}"
                )
            return method(*args, **kwargs)

        return call


def _records(listener: Listener, model: keras.Layer) -> bool:
    return isinstance(listener, Trace) and listener._model is model


def paths(root: keras.Layer) -> dict[int, str]:
    """Returns the path of each layer inside `root`, by the layer's `id`.

    Examples:
        >>> lstm = keras.layers.LSTM(3, name="lstm")
        >>> model = keras.Sequential([keras.layers.Bidirectional(lstm, name="both")])
        >>> sorted(paths(model).values())[:3]
        ['', 'both', 'both/backward_lstm']
    """
    found = {}

    def walk(layer: keras.Layer, path: str) -> None:
        found.setdefault(id(layer), path)
        children = getattr(layer, "layers", None)
        if children is None:
            # Any layer may have sublayers; Keras has no public list of them.
            children = layer._flatten_layers(include_self=False, recursive=False)
        for child in children:
            walk(child, f"{path}/{child.name}" if path else child.name)

    walk(root, "")
    return found


class _StepListener:
    """Names what one cell and its sublayers record in one step."""

    def __init__(self, cell: object) -> None:
        self.paths = paths(cell) if hasattr(cell, "_flatten_layers") else {}

    def key(self, layer: keras.Layer, name: str) -> str:
        path = self.paths.get(id(layer), "")
        return f"{path}/{name}" if path else name


class _Collector(_StepListener):
    def __init__(self, cell: object) -> None:
        super().__init__(cell)
        self.values = {}

    def receive(self, layer: keras.Layer, name: str, value: Tensor) -> Tensor:
        self.values[self.key(layer, name)] = value
        return value


class _Injector(_StepListener):
    def __init__(self, cell: object, probes: dict[str, Tensor]) -> None:
        super().__init__(cell)
        self.probes = probes

    def receive(self, layer: keras.Layer, name: str, value: Tensor) -> Tensor:
        key = self.key(layer, name)
        return value + self.probes[key] if key in self.probes else value


class _Discard:
    def receive(self, layer: keras.Layer, name: str, value: Tensor) -> Tensor:
        return value


@contextlib.contextmanager
def collect_step(cell: object) -> Iterator[dict[str, Tensor]]:
    """Collects what one step of `cell` records, as a dictionary by name."""
    with listening(_Collector(cell)) as collector:
        yield collector.values


def add_probes(
    cell: object, probes: dict[str, Tensor]
) -> AbstractContextManager[Listener]:
    """Adds `probes[name]` to the recorded value `name`, in one step of `cell`."""
    return listening(_Injector(cell, probes))


def pause() -> AbstractContextManager[Listener | None]:
    """Discards everything that is recorded inside the block."""
    if current_listener() is None:  # torch.compile cannot trace `listening`
        return contextlib.nullcontext()
    return listening(_Discard())
