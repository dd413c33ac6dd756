"""The format of OpenVINO: `model.xml`, the operations, and `model.bin`, the weights."""

import pathlib

import keras
import numpy as np

from kerasseq import kernels
from kerasseq.exporting import inputs
from kerasseq.exporting.checks import largest_difference

FILE = "model.xml"


def write(model: keras.Model, folder: pathlib.Path, length: int | None) -> None:
    """See `formats`."""
    with kernels.convertible_loops():
        keras.Model.export(
            model,
            str(folder / FILE),
            "openvino",
            False,
            input_signature=inputs.signature(model, length),
        )


def check(model: keras.Model, folder: pathlib.Path, length: int | None) -> float:
    """See `formats`."""
    import openvino

    precise = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(str(folder / FILE), "CPU", precise)

    def run(arrays: list[np.ndarray]) -> list[np.ndarray]:
        return list(compiled(arrays).values())

    return largest_difference(model, run, length)
