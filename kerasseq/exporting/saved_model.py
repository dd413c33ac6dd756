"""A SavedModel of TensorFlow, in the folder `model`: for TensorFlow Serving and others.

TensorFlow reads it again, without the classes of Keras.
"""

import pathlib

import keras
import numpy as np

from kerasseq.exporting import inputs
from kerasseq.exporting.checks import largest_difference

FOLDER, ENDPOINT = "model", "serve"


def write(model: keras.Model, folder: pathlib.Path, length: int | None) -> None:
    """Writes a model, for any batch and `length` steps; any number if None."""
    keras.Model.export(
        model,
        str(folder / FOLDER),
        "tf_saved_model",
        False,
        input_signature=inputs.signature(model, length),
    )


def output_names(model: keras.Model, folder: pathlib.Path) -> list[str]:
    """Returns the names of the outputs, as TensorFlow numbers them."""
    return inputs.names_of_outputs(model, "output_0")


def check(model: keras.Model, folder: pathlib.Path, length: int | None) -> float:
    """Returns the largest difference of an output from the model's, relative to it."""
    layer = keras.layers.TFSMLayer(str(folder / FOLDER), call_endpoint=ENDPOINT)

    def run(arrays: list[np.ndarray]) -> list[np.ndarray]:
        tensors = [keras.ops.convert_to_tensor(x) for x in arrays]
        y = layer(keras.tree.pack_sequence_as(model.input, tensors))
        return [keras.ops.convert_to_numpy(each) for each in keras.tree.flatten(y)]

    return largest_difference(model, run, length)
