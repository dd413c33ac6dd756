"""The worker: the one thread of the app that loads Keras and computes with it.

A page asks `compute` and waits for the result. Results are cached by function and
arguments, so that a second visitor does not wait. One thread computes for all pages:
the backend of Keras is fixed in a process, and two computations at once take longer.
"""

import concurrent.futures
import contextlib
import functools
import gc
import importlib.util
import os
import pathlib
import sys
import threading
from collections.abc import Callable
from typing import Any

import streamlit as st

BACKENDS = ("tensorflow", "jax", "torch")
MAX_MODELS = 6  # in memory
DELAY = 2.0  # seconds after the first page is drawn


class Worker:
    """A thread, and the models that it has loaded."""

    def __init__(self) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(1, "kerasseq-worker")
        self._models: dict[tuple[str, float], Any] = {}
        self._asked = False
        self._modules = 0  # that are exempt from garbage collection
        self.backend = ""  # once it is loaded
        self._lock = threading.Lock()

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Computes in the thread, and returns the result or raises its error."""
        return self._pool.submit(self._compute, function, arguments).result()

    def load_soon(self) -> None:
        """Loads Keras after the page that is being drawn."""
        with self._lock:
            if self._asked:
                return
            self._asked = True
        timer = threading.Timer(DELAY, self._pool.submit, (self._load,))
        timer.daemon = True
        timer.start()

    def _load(self):
        self.backend = load()
        self._exempt_imports()

    def _compute(self, function, arguments):
        result = function(*arguments)
        self._exempt_imports()  # of what the function imported
        return result

    def _exempt_imports(self):
        """Exempts what was imported from garbage collection.

        Streamlit has Keras collect garbage after each page: half a second otherwise.
        """
        if len(sys.modules) > self._modules:
            self._modules = len(sys.modules)
            gc.collect()
            gc.freeze()

    def model(self, folder: str | os.PathLike[str]) -> Any:
        """Loads the model of a run, once; again if its file has changed."""
        import kerasseq

        file = pathlib.Path(folder, "model.keras")
        key = str(file), file.stat().st_mtime
        if key not in self._models:
            while len(self._models) >= MAX_MODELS:
                self._models.pop(next(iter(self._models)))
            self._models[key] = kerasseq.load_model(file)
        return self._models[key]


@st.cache_resource(show_spinner=False)
def worker() -> Worker:
    """Returns the worker of this server."""
    return Worker()


def load() -> str:
    """Loads Keras and the models, with one thread; returns the backend."""
    import keras

    import kerasseq

    kerasseq.models  # noqa: B018  # loads them
    return keras.config.backend()


def installed() -> list[str]:
    """Returns the installed backends, without loading them."""
    return [name for name in BACKENDS if _has_module(name)]


def _has_module(name):
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(name)
        return spec is not None and spec.origin is not None
    return False


def backend() -> str:
    """Returns the backend that the app computes on, without loading it."""
    named = worker().backend or os.environ.get("KERAS_BACKEND")
    return named or next(iter(installed()), "")


def compute(function: Callable[..., Any], *arguments: Any) -> Any:
    """Computes `function(*arguments)` in the worker, or finds it in the cache.

    Args:
        function: A function of a module. It imports what it needs from kerasseq.
        *arguments: Plain data, arrays or paths.

    Returns:
        A copy of the result: plain data or arrays.
    """
    name = f"{function.__code__.co_filename}:{function.__qualname__}"
    stamp = hash(function.__code__.co_code)
    return _computed(name, stamp, tuple(map(_stamped, arguments)), function, arguments)


@st.cache_data(max_entries=256, show_spinner=False)
def _computed(name, stamp, key, _function, _arguments):
    return worker().run(_function, *_arguments)


def _stamped(argument):
    """Adds to the path of a run the time of its model, so that a new model counts."""
    if isinstance(argument, list | tuple):
        return [_stamped(part) for part in argument]
    if isinstance(argument, dict):
        return {name: _stamped(part) for name, part in argument.items()}
    if isinstance(argument, pathlib.Path):
        with contextlib.suppress(OSError):
            return str(argument), (argument / "model.keras").stat().st_mtime
        return str(argument)
    return argument


def model(folder: str | os.PathLike[str]) -> Any:
    """Returns the model of a run; for functions that run in the worker."""
    return worker().model(folder)


@functools.cache
def one_thread() -> None:
    """Limits the libraries that are loaded later to one thread each."""
    for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
