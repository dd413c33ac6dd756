"""kerasseq: sequence models for Keras 3, for learning, teaching and building.

The namespaces are imported at the first access, and Keras with the first that needs it.
"""

import contextlib
import importlib
import sys
from typing import TYPE_CHECKING, Any

from kerasseq.core import backend as _backend
from kerasseq.core.namespace import missing_name as _missing_name

if TYPE_CHECKING:  # for editors and type checkers; at run time, __getattr__
    from kerasseq import (
        datasets,
        decoding,
        exercises,
        exporting,
        layers,
        models,
        runs,
        text,
        tracing,
        training,
    )
    from kerasseq import sklearn as sklearn
    from kerasseq.core.loading import load_model

__version__ = "0.1.0"
__all__ = [
    "datasets",
    "decoding",
    "exercises",
    "exporting",
    "layers",
    "load_model",
    "models",
    "runs",
    "text",
    "tracing",
    "training",
]
_WITHOUT_KERAS = ("datasets", "exercises", "exporting", "runs", "text")
# Not in __all__: `from kerasseq import *` does not need scikit-learn.
_OPTIONAL = ("sklearn",)


def __getattr__(name: str) -> Any:
    if name not in (*__all__, *_OPTIONAL):
        _missing_name(__name__)(name)
    if name not in _WITHOUT_KERAS:
        _backend.require()
    if name == "load_model":
        importlib.import_module("kerasseq.layers")  # registers every class
        return importlib.import_module("kerasseq.core.loading").load_model
    return importlib.import_module(f"kerasseq.{name}")


def __dir__() -> list[str]:
    return [*globals(), *__all__, *_OPTIONAL]


_backend.choose()
if "keras" in sys.modules:
    # Register every class for keras.saving.load_model. On an unsupported backend only
    # kerasseq.text and kerasseq.datasets work; kerasseq.layers raises an error later.
    with contextlib.suppress(_backend.BackendError):
        importlib.import_module("kerasseq.layers")
