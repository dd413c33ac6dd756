"""The inputs of a model: their shapes in a file, and examples to compare with."""

import dataclasses
from typing import Any

import keras
import numpy as np

from kerasseq.core.sublayers import flatten
from kerasseq.models.multimodal.kinds import PADDING
from kerasseq.models.multimodal.preprocessor import MultimodalPreprocessor
from kerasseq.speech.audio_inputs import AudioPreprocessor

LENGTH = 128  # steps of a file whose length is fixed, unless the model takes fewer
IMAGES, AUDIO = "images", "audio"
PADDED = 2  # steps at the end of the first example


@dataclasses.dataclass(frozen=True)
class Input:
    """An input of a model.

    Attributes:
        name: Its name, also in the files.
        shape: Its shape; None for what is free.
        dtype: Its dtype.
        values: Number of ids, for an input of ids.
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: str
    values: int | None = None


def inputs_of(model: keras.Model) -> list[Input]:
    """Returns the inputs of a functional model, in the order of its structure.

    Raises:
        ValueError: If the model has no inputs that Keras knows.
    """
    try:
        tensors = keras.tree.flatten(model.input)
    except AttributeError as error:
        raise ValueError(
            "expected a functional or a built sequential model, received a "
            f"{type(model).__name__} without inputs. Call it inside a "
            "keras.Model(inputs, outputs)"
        ) from error
    return [
        Input(
            tensor.name,
            _with_sizes(model, tensor),
            keras.backend.standardize_dtype(tensor.dtype),
            _number_of_ids(model, tensor),
        )
        for tensor in tensors
    ]


def _with_sizes(model, tensor):
    """Returns the shape of an input; images have the size of the model."""
    shape = tuple(tensor.shape)
    size = model.get_config().get("image_size") if tensor.name == IMAGES else None
    if size is None:
        return shape
    sides = iter((size, size) if isinstance(size, int) else size)
    return tuple(
        next(sides) if axis and side is None else side
        for axis, side in enumerate(shape)
    )


def _number_of_ids(model, tensor):
    """Returns the number of ids of an input: the rows of the embedding that reads it.

    If no embedding reads it directly, the smallest of all is what any id is below.
    """
    if keras.backend.is_float_dtype(tensor.dtype):
        return None
    sizes = {}
    for layer in model.layers:
        for inside in flatten(layer):
            for name in ("input_dim", "num_segments"):
                rows = getattr(inside, name, None)
                if isinstance(rows, int):
                    sizes.setdefault(_reads(layer, tensor), []).append(rows)
    return min(sizes.get(True) or sizes.get(False) or [2])


def _reads(layer, tensor):
    try:
        return any(each is tensor for each in keras.tree.flatten(layer.input))
    except AttributeError:  # a layer that is called several times, or never
        return False


def has_free_length(model: keras.Model) -> bool:
    """Returns whether an axis other than the batch is free."""
    return any(None in each.shape[1:] for each in inputs_of(model))


def longest(model: keras.Model) -> int | None:
    """Returns the most steps that a model takes; None if there is no limit."""
    for owner in (getattr(model, "preprocessor", None), model):
        for name in ("longest", "context_length", "max_sequence_length"):
            length = getattr(owner, name, None)
            if isinstance(length, int):
                return length
    return None


def fixed_length(model: keras.Model) -> int:
    """Returns the number of steps of a file that cannot leave it free.

    It is that of the training of a `Forecaster`, which was fitted to a table.
    """
    config = model.get_config()
    fitted = config.get("fitted")
    if isinstance(fitted, dict) and isinstance(fitted.get("length"), int):
        ahead = config["known"] or config["calendar"]
        return fitted["length"] + (config["horizon"] if ahead else 0)
    most = longest(model)
    return LENGTH * samples_of_step(model) if most is None else min(LENGTH, most)


def signature(
    model: keras.Model, length: int | None, batch: int | None = None
) -> list[Any]:
    """Returns shapes and dtypes of the inputs, in the structure that the model takes.

    Args:
        model: The model.
        length: The number of steps; None if it is free.
        batch: The number of rows; None if it is free.
    """
    specs = [
        keras.InputSpec(
            shape=(batch, *_with_steps(model, each, length)),
            dtype=each.dtype,
            name=each.name,
        )
        for each in inputs_of(model)
    ]
    return [keras.tree.pack_sequence_as(model.input, specs)]


def _with_steps(model, each, steps):
    """Returns the sizes of an input after the batch: of a sound several for a step."""
    if steps is not None and each.name != AUDIO:
        steps = max(steps // samples_of_step(model), 1)
    return [steps if size is None else size for size in each.shape[1:]]


def examples(
    model: keras.Model, batch: int, steps: int, seed: int = 0
) -> list[np.ndarray]:
    """Returns random inputs; ids of the first row end with padding.

    Args:
        model: The model.
        batch: The number of rows.
        steps: The number of steps.
        seed: Seed of the numbers.
    """
    rng = np.random.default_rng(seed)
    padding = padding_of(model)
    arrays = []
    for each in inputs_of(model):
        shape = (batch, *_with_steps(model, each, steps))
        if each.values is None:
            x = rng.random(shape) if each.name == IMAGES else rng.normal(size=shape)
        elif len(shape) == 1:  # a number for each row, such as its length
            x = np.maximum(steps - np.arange(batch) * samples_of_step(model), 1)
        else:
            x = rng.integers(0, each.values, shape)
            if padding is not None and padding < each.values and steps > PADDED:
                x[x == padding] = (padding + 1) % each.values
                x[0, -PADDED:] = padding
        arrays.append(x.astype(each.dtype))
    return arrays


def has_ids(model: keras.Model) -> bool:
    """Returns whether an input has ids; the lengths of rows are none."""
    inputs = inputs_of(model)
    return any(each.values is not None and len(each.shape) > 1 for each in inputs)


def samples_of_step(model: keras.Model) -> int:
    """Returns the samples of a sound that are a step of a model; 1 without sounds."""
    preprocessor = getattr(model, "preprocessor", None)
    names = [each.name for each in inputs_of(model)]
    if AUDIO not in names or not isinstance(preprocessor, AudioPreprocessor):
        return 1
    return preprocessor.stride * preprocessor.factor


def padding_of(model: keras.Model) -> int | None:
    """Returns the id of padding, or None."""
    if isinstance(getattr(model, "preprocessor", None), MultimodalPreprocessor):
        return PADDING  # after the ids of a caption
    padding = getattr(model, "padding_id", None)
    return padding if isinstance(padding, int) else None


def padded(
    model: keras.Model, arrays: list[np.ndarray], length: int
) -> list[np.ndarray]:
    """Returns inputs of ids padded, or cut, to a number of steps.

    Args:
        model: The model.
        arrays: Its inputs.
        length: The number of steps.
    """
    fill, made = padding_of(model) or 0, []
    for each, x in zip(inputs_of(model), arrays, strict=True):
        if len(each.shape) > 1 and each.shape[1] is None and x.shape[1] != length:
            x = x[:, :length]
            widths = [(0, 0), (0, length - x.shape[1])] + [(0, 0)] * (x.ndim - 2)
            first = each.name == inputs_of(model)[0].name
            x = np.pad(x, widths, constant_values=fill if first else 0)
        made.append(x)
    return made


def outputs_of(model: keras.Model, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Returns the outputs of a model, in the order of their structure."""
    tensors = [keras.ops.convert_to_tensor(x) for x in arrays]
    y = model(keras.tree.pack_sequence_as(model.input, tensors), training=False)
    return [keras.ops.convert_to_numpy(each) for each in keras.tree.flatten(y)]


def names_of_outputs(model: keras.Model, only: str = "output") -> list[str]:
    """Returns the names of the outputs, in the order of their structure.

    Args:
        model: The model.
        only: The name of the output of a model that has one.
    """
    if isinstance(model.output, dict):
        return sorted(model.output)
    count = len(keras.tree.flatten(model.output))
    return [only] if count == 1 else [f"output_{n}" for n in range(count)]
