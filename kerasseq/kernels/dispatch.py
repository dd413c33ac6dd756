"""Finds the module of the backend in use: `tensorflow/`, `jax/` or `torch/`."""

import importlib
from types import ModuleType

import keras

_modules: dict[str, ModuleType] = {}  # torch.compile can trace a look-up, no import


def backend_module(name: str) -> ModuleType:
    """Imports the module of this name from the folder of the backend in use."""
    if name not in _modules:
        folder = f"kerasseq.kernels.{keras.backend.backend()}"
        _modules[name] = importlib.import_module(f"{folder}.{name}")
    return _modules[name]
