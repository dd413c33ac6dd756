"""A program of PyTorch, `model.pt2`, which `torch.export.load` reads."""

import pathlib

import keras
import numpy as np

from kerasseq import kernels
from kerasseq.exporting import inputs
from kerasseq.exporting.checks import largest_difference

FILE = "model.pt2"


def write(model: keras.Model, folder: pathlib.Path, length: int | None) -> None:
    """Writes a model, for any batch and `length` steps; any number if None."""
    (specs,) = inputs.signature(model, length)
    kernels.write_program(model, folder / FILE, specs)


def check(model: keras.Model, folder: pathlib.Path, length: int | None) -> float:
    """Returns the largest difference of an output from the model's, relative to it."""
    program = kernels.read_program(folder / FILE)

    def run(arrays: list[np.ndarray]) -> list[np.ndarray]:
        tensors = [keras.ops.convert_to_tensor(x) for x in arrays]
        y = program(keras.tree.pack_sequence_as(model.input, tensors))
        return [keras.ops.convert_to_numpy(each) for each in keras.tree.flatten(y)]

    return largest_difference(model, run, length)
