"""Functions of TensorFlow as ONNX programs, by the package tf2onnx."""

import contextlib
import importlib
import pathlib
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from kerasseq.core import packages
from kerasseq.core.types import Tensor

OPSET = 18  # the newest that tf2onnx 1.17 writes


def converted() -> contextlib.AbstractContextManager[None]:
    """Lets tf2onnx convert more operations inside the block."""
    # Imported here, as tf2onnx is optional.
    operations = importlib.import_module("kerasseq.kernels.tensorflow.onnx_operations")
    return operations.converted()


def write_onnx(
    function: Callable[..., dict[str, Tensor]],
    inputs: Sequence[keras.KerasTensor],
    file: pathlib.Path,
) -> dict[str, keras.KerasTensor]:
    """Writes a function as ONNX, and returns its outputs, with shape, by name."""
    convert = packages.load("tf2onnx.convert", "tf2onnx", "the format onnx needs")
    specs = [tf.TensorSpec(x.shape, x.dtype, name=x.name) for x in inputs]
    traced = tf.function(function, autograph=False, jit_compile=False)
    outputs = traced.get_concrete_function(*specs).structured_outputs
    convert.from_function(
        traced, input_signature=specs, opset=OPSET, output_path=str(file)
    )
    return {
        name: keras.KerasTensor(tuple(x.shape), x.dtype.name, name=name)
        for name, x in outputs.items()
    }
