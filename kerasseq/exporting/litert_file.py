"""LiteRT, formerly TensorFlow Lite: `model.tflite`, for one row of a fixed length.

The interpreter of the package ai-edge-litert reads it, which has the operations of
LiteRT alone. With 8 bits, the weights of matrix products are rounded, and their inputs
at each call.
"""

import pathlib

import keras
import numpy as np

from kerasseq import kernels
from kerasseq.exporting import inputs
from kerasseq.exporting.checks import Run, largest_difference

FILES = ("model.tflite", "model.int8.tflite")
BATCH = 1  # sizes are fixed in the file, and devices answer one request at a time


def write(
    model: keras.Model,
    folder: pathlib.Path,
    length: int | None,
    name: str = FILES[0],
    int8: bool = False,
) -> None:
    """Writes a model, for one row of `length` steps.

    Args:
        model: The model.
        folder: The folder.
        length: The number of steps.
        name: The name of the file.
        int8: Whether the weights have 8 bits.
    """
    with kernels.convertible_loops():
        keras.Model.export(
            model,
            str(folder / name),
            "litert",
            False,
            input_signature=inputs.signature(model, length, BATCH),
            **kernels.lite_options(int8),
        )


def output_names(model: keras.Model, folder: pathlib.Path) -> list[str]:
    """Returns the names of the outputs, as TensorFlow numbers them."""
    return inputs.names_of_outputs(model, "output_0")


def check(model: keras.Model, folder: pathlib.Path, length: int | None) -> float:
    """Returns the largest difference of an output from the model's, relative to it."""
    return largest_difference(model, load(model, folder / FILES[0]), length)


def load(model: keras.Model, file: pathlib.Path) -> Run:
    """Returns the function that runs a file, row by row.

    Args:
        model: The model, whose inputs have the names of those of the file.
        file: The file.
    """
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(file), num_threads=1)
    interpreter.allocate_tensors()
    runner = interpreter.get_signature_runner()
    names = [each.name for each in inputs.inputs_of(model)]
    taken = {*runner.get_input_details()}
    made = [*runner.get_output_details()]
    if len(names) == 1:  # the only one may have any name
        names = [*taken]

    def run(arrays: list[np.ndarray]) -> list[np.ndarray]:
        given = dict(zip(names, arrays, strict=True))
        rows = [
            runner(**{name: given[name][n : n + 1] for name in taken})
            for n in range(len(arrays[0]))
        ]
        return [np.concatenate([row[name] for row in rows]) for name in sorted(made)]

    return run


def quantize(model: keras.Model, folder: pathlib.Path, length: int | None) -> None:
    """Writes the file with weights of 8 bits. See `formats`."""
    write(model, folder, length, FILES[1], int8=True)
