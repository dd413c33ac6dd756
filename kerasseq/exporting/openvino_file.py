"""The format of OpenVINO: `model.xml`, the operations, and `model.bin`, the weights."""

import pathlib

import keras
import numpy as np

from kerasseq import kernels
from kerasseq.exporting import inputs
from kerasseq.exporting.checks import largest_difference

FILE, CONVERTED = "model.xml", "converted.xml"
PRECISE = {"INFERENCE_PRECISION_HINT": "f32"}  # as OpenVINO may choose bfloat16
NOTES = (
    "It was compared in float32, with INFERENCE_PRECISION_HINT=f32: without it "
    "OpenVINO rounds to bfloat16 on processors that have it, and answers differ by "
    "about 1e-3.",
)


def write(model: keras.Model, folder: pathlib.Path, length: int | None) -> None:
    """Writes a model, for any batch and `length` steps; any number if None."""
    with kernels.convertible_loops():
        keras.Model.export(
            model,
            str(folder / CONVERTED),
            "openvino",
            False,
            input_signature=inputs.signature(model, length),
        )
    _keep_outputs(folder, inputs.names_of_outputs(model))


def _keep_outputs(folder, names):
    """Writes the file again, without what the converter takes for outputs.

    These are values that training would need, of which no output depends.
    """
    import openvino

    file = folder / CONVERTED
    weights = file.with_suffix(".bin").read_bytes()
    program = openvino.Core().read_model(file.read_bytes(), weights)
    for result in program.get_results()[len(names) :]:
        program.remove_result(result)
    for output, name in zip(program.outputs, names, strict=True):
        output.get_tensor().set_names({name})
    openvino.serialize(program, str(folder / FILE))
    for part in (file, file.with_suffix(".bin")):
        part.unlink()


def check(model: keras.Model, folder: pathlib.Path, length: int | None) -> float:
    """Returns the largest difference of an output from the model's, relative to it."""
    import openvino

    compiled = openvino.Core().compile_model(str(folder / FILE), "CPU", PRECISE)

    def run(arrays: list[np.ndarray]) -> list[np.ndarray]:
        return list(compiled(arrays).values())

    return largest_difference(model, run, length)
