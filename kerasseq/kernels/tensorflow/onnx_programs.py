"""Functions of TensorFlow as ONNX programs, by the package tf2onnx.

tf2onnx logs the operations that it does not know, and writes a program that no runtime
loads: here they are errors. `onnx_operations.py` adds some of them.
"""

import contextlib
import logging
import pathlib
from collections.abc import Callable, Iterator, Sequence

import keras
import tensorflow as tf

from kerasseq.core import packages
from kerasseq.core.types import Tensor
from kerasseq.kernels.tensorflow.onnx_operations import HANDLERS

OPSET = 18  # the newest that tf2onnx 1.17 writes


def write_onnx(
    function: Callable[..., dict[str, Tensor]],
    inputs: Sequence[keras.KerasTensor],
    path: pathlib.Path,
) -> dict[str, keras.KerasTensor]:
    """See `kerasseq.kernels.write_onnx`."""
    need = "the format onnx needs"
    onnx = packages.load("onnx", "onnx", need)
    convert = packages.load("tf2onnx.convert", "tf2onnx", need)
    specs = [tf.TensorSpec(x.shape, x.dtype, name=x.name) for x in inputs]
    traced = tf.function(function, autograph=False, jit_compile=False)
    found = traced.get_concrete_function(*specs).structured_outputs
    with _errors() as errors:
        program, _ = convert.from_function(
            traced, input_signature=specs, opset=OPSET, custom_op_handlers=HANDLERS
        )
    if errors:
        raise ValueError(f"tf2onnx cannot convert it: {errors[0]}")
    onnx.save_model(program, path)
    return {
        name: keras.KerasTensor(tuple(x.shape), x.dtype.name, name=name)
        for name, x in found.items()
    }


@contextlib.contextmanager
def _errors() -> Iterator[list[str]]:
    """Yields a list of the errors that tf2onnx logs, which it then does not print."""
    messages: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage().splitlines()[0])

    handler, logger = Collect(logging.ERROR), logging.getLogger("tf2onnx")
    propagates = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
