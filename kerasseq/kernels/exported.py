"""Programs that a backend writes for its own runtime, and the options of converters."""

import pathlib
from collections.abc import Callable
from typing import Any

import keras

from kerasseq.core.types import Nested
from kerasseq.kernels.operations import backend_module


def write_program(model: keras.Model, file: pathlib.Path, specs: Nested) -> None:
    """Writes a program of `torch.export`, on PyTorch.

    Args:
        model: A functional model.
        file: The file, which ends in ".pt2".
        specs: Structure of `keras.InputSpec`, as the model takes it. A size of None is
            free.

    Raises:
        ValueError: If PyTorch cannot record the model.
    """
    backend_module("exported").write_program(model, file, specs)


def read_program(file: pathlib.Path) -> Callable[[Nested], Nested]:
    """Returns the function in a file of `write_program`.

    Args:
        file: The file.
    """
    return backend_module("exported").read_program(file)


def lite_options(int8: bool) -> dict[str, Any]:
    """Returns the options of the converter to LiteRT, on TensorFlow.

    Args:
        int8: Whether the weights of matrix products have 8 bits.
    """
    return backend_module("exported").lite_options(int8)
