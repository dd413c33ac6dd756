"""Functions as ONNX programs, which onnxruntime and others run without Keras."""

import contextlib
import logging
import pathlib
from collections.abc import Callable, Iterator, Sequence

import keras

from kerasseq.core.types import Tensor
from kerasseq.kernels.functions import convertible_loops
from kerasseq.kernels.operations import backend_module


@contextlib.contextmanager
def to_onnx() -> Iterator[None]:
    """Lets a backend write programs that can be converted inside the block.

    On TensorFlow tf2onnx also gets the operations that it does not know.

    Raises:
        ValueError: At the end, with the first error that tf2onnx has logged: it writes
            a file all the same, which no runtime reads.
    """
    is_tensorflow = keras.backend.backend() == "tensorflow"
    known = backend_module("onnx_programs").converted if is_tensorflow else None
    with (
        convertible_loops(),
        known() if known else contextlib.nullcontext(),
        _errors_of_tf2onnx(),
    ):
        yield


class _Errors(logging.Handler):
    """Keeps the errors that tf2onnx logs, and goes on after."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextlib.contextmanager
def _errors_of_tf2onnx():
    logger, handler = logging.getLogger("tf2onnx"), _Errors()
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
        logger.setLevel(level)
    if handler.messages:
        raise ValueError(f"tf2onnx: {handler.messages[0]}")


def write_onnx(
    function: Callable[..., dict[str, Tensor]],
    inputs: Sequence[keras.KerasTensor],
    file: pathlib.Path,
) -> dict[str, keras.KerasTensor]:
    """Writes a function of tensors as an ONNX program; on TensorFlow only.

    It is to be called inside `to_onnx`.

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
