"""Finds the module of the backend in use: `tensorflow/`, `jax/` or `torch/`."""

import importlib
from types import ModuleType

import keras


def backend_module(name: str) -> ModuleType:
    """Imports the module of this name from the folder of the backend in use."""
    return importlib.import_module(f"kerasseq.kernels.{keras.backend.backend()}.{name}")
