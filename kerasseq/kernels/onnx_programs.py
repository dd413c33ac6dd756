"""Functions as ONNX programs, which onnxruntime and others run without Keras."""

import pathlib
from collections.abc import Callable, Sequence

import keras

from kerasseq.core.types import Tensor
from kerasseq.kernels.operations import backend_module


def write_onnx(
    function: Callable[..., dict[str, Tensor]],
    inputs: Sequence[keras.KerasTensor],
    file: pathlib.Path,
) -> dict[str, keras.KerasTensor]:
    """Writes a function of tensors as an ONNX program; on TensorFlow only.

    tf2onnx logs what it cannot convert, and writes a file that no runtime reads.

    Args:
        function: Function of the inputs, in order, to a dictionary of outputs by name.
        inputs: Shape, dtype and name of each input; sizes that are None are free.
        file: The file.

    Returns:
        Shape, dtype and name of each output, by name.

    Raises:
        ImportError: If tf2onnx is not installed.
    """
    return backend_module("onnx_programs").write_onnx(function, inputs, file)
