"""Errors of `fit`, `predict` and other compiled calls inside a trace or intervention.

Compiled code executes no Python, so nothing in it can be recorded or replaced. Our own
compiled functions, such as those of `generate`, run step by step in Python instead, see
`kernels.uncompiled`.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import keras

from kerasseq import kernels
from kerasseq.tracing.listeners import AnyListener, listening, opened

COMPILED = (
    "fit",
    "evaluate",
    "predict",
    "train_on_batch",
    "test_on_batch",
    "predict_on_batch",
)
ADVICE = (
    "Inside trace and intervene, values are recorded and replaced in eager calls only: "
    "call the model itself, model(x), or classify, tag, answers, generate or translate."
)


@contextlib.contextmanager
def listening_to(model: keras.Layer, listener: AnyListener) -> Iterator[AnyListener]:
    """Opens a listener, inside which compiled calls of the model raise an error."""
    guard = _CompiledCallGuard.acquire(model)
    try:
        with kernels.uncompiled(), listening(listener):
            yield listener
    finally:
        guard.release()


class _CompiledCallGuard:
    """Makes the compiled methods of a model raise while a listener to it is open.

    The methods are replaced on the model when its first listener opens and restored
    when its last one closes, in whichever order and in whichever thread that happens.
    In a context without an open listener to the model the original method runs.
    """

    _guards = {}  # by id of the model, while it has open listeners
    _lock = threading.Lock()

    def __init__(self, model: keras.Layer) -> None:
        self.model = model
        self.open_listeners = 0
        self.replaced = {}  # name: the attribute of the instance before, and ours

    @classmethod
    def acquire(cls, model: keras.Layer) -> "_CompiledCallGuard":
        """Returns the guard of a model with one more open listener."""
        with cls._lock:
            guard = cls._guards.setdefault(id(model), cls(model))
            guard.open_listeners += 1
            if guard.open_listeners == 1:
                guard.replace_methods()
        return guard

    def release(self) -> None:
        """Counts one open listener less, and restores the methods after the last."""
        with self._lock:
            self.open_listeners -= 1
            if self.open_listeners == 0:
                del self._guards[id(self.model)]
                self.restore_methods()

    def replace_methods(self) -> None:
        for name in COMPILED:
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
        """Returns a method that raises if a listener to the model is open here."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if any(listener.is_open_for(self.model) for listener in opened()):
                raise RuntimeError(
                    f"{name} runs compiled code, in which nothing can be recorded or "
                    f"replaced. {ADVICE}"
                )
            return method(*args, **kwargs)

        return call


def check_eager(layer: keras.Layer, name: str, value: Any) -> None:
    """Raises unless a value that a layer recorded holds numbers.

    Args:
        layer: The layer.
        name: The name of the value.
        value: The value.

    Raises:
        RuntimeError: If the layer runs inside compiled code.
    """
    if not kernels.is_concrete(value):
        raise RuntimeError(
            f"{layer.name} ran inside compiled code, from which {name} cannot be "
            f"recorded. {ADVICE} keras.layers.RNN compiles its loop: "
            "kerasseq.layers.RNN takes the same cell and can be traced."
        )
