"""ONNX: by tf2onnx from TensorFlow, by PyTorch's exporter from PyTorch.

onnxruntime reads it. With 8 bits, the weights of matrix products are rounded, and their
inputs at each call, from the largest value in them.
"""

import pathlib

import keras
import numpy as np

from kerasseq import kernels
from kerasseq.exporting import inputs
from kerasseq.exporting.checks import Run, largest_difference

FILES = ("model.onnx", "model.int8.onnx")


def write(model: keras.Model, folder: pathlib.Path, length: int | None) -> None:
    """Writes a model, for any batch and `length` steps; any number if None."""
    specs = inputs.signature(model, length)
    with kernels.to_onnx():
        _call_once(model, specs)
        keras.Model.export(
            model, str(folder / FILES[0]), "onnx", False, input_signature=specs
        )


def _call_once(model, specs):
    """Calls a model, which Keras wants to know before it exports it."""
    steps = inputs.PADDED * inputs.samples_of_step(model)

    def ones(spec):
        shape = [steps if size is None else size for size in spec.shape]
        shape[0] = inputs.PADDED
        return keras.ops.ones(shape, spec.dtype)

    x = keras.tree.map_structure(ones, specs)
    model(*x, training=False)


def check(model: keras.Model, folder: pathlib.Path, length: int | None) -> float:
    """Returns the largest difference of an output from the model's, relative to it."""
    return largest_difference(model, load(model, folder / FILES[0]), length)


def output_names(model: keras.Model, folder: pathlib.Path) -> list[str]:
    """Returns the names of the outputs, which the converters choose."""
    import onnx

    program = onnx.load(folder / FILES[0], load_external_data=False)
    return [each.name for each in program.graph.output]


def load(model: keras.Model, file: pathlib.Path) -> Run:
    """Returns the function that runs a file.

    Args:
        model: The model, whose inputs have the names of those of the file.
        file: The file.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        file.read_bytes(), options, providers=["CPUExecutionProvider"]
    )
    names = [each.name for each in inputs.inputs_of(model)]
    taken = {each.name for each in session.get_inputs()}  # unused ones are left out

    def run(arrays: list[np.ndarray]) -> list[np.ndarray]:
        given = dict(zip(names, arrays, strict=True))
        return session.run(None, {name: given[name] for name in taken})

    return run


def quantize(model: keras.Model, folder: pathlib.Path, length: int | None) -> None:
    """Writes the file with weights of 8 bits. See `formats`."""
    from onnxruntime import quantization

    # Loops have their products in graphs of their own.
    quantization.quantize_dynamic(
        folder / FILES[0],
        folder / FILES[1],
        weight_type=quantization.QuantType.QInt8,
        extra_options={"EnableSubgraph": True},
    )
