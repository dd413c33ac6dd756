"""kerasseq: sequence models for Keras 3, to learn with, to teach with, to build with.

Importing it is cheap: Keras loads with the first name that needs it.
"""

import contextlib
import importlib
import sys
from typing import TYPE_CHECKING

from kerasseq.core import backend as _backend

if TYPE_CHECKING:  # what an editor completes; at run time see __getattr__
    from kerasseq import (
        datasets,
        decoding,
        layers,
        models,
        text,
        tracing,
        training,
    )
    from kerasseq.core.loading import load_model

__version__ = "0.1.0"
__all__ = [
    "datasets",
    "decoding",
    "layers",
    "load_model",
    "models",
    "text",
    "tracing",
    "training",
]
_NEED_NO_KERAS = ("datasets", "text")


def __getattr__(name: str):
    if name not in __all__:
        raise AttributeError(f"module 'kerasseq' has no attribute '{name}'")
    if name not in _NEED_NO_KERAS:
        _backend.require()
    if name == "load_model":
        importlib.import_module("kerasseq.layers")  # registers every class
        return importlib.import_module("kerasseq.core.loading").load_model
    return importlib.import_module(f"kerasseq.{name}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]


_backend.choose()
if "keras" in sys.modules:
    # Then keras.saving.load_model must find every class of ours. On a backend that has
    # no training only kerasseq.text and the like work, and kerasseq.layers says so.
    with contextlib.suppress(_backend.BackendError):
        importlib.import_module("kerasseq.layers")
