"""The layers of sequence models around those of the architecture, and their sizes."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks, masks
from kerasseq.core.listed_config import ListedConfig
from kerasseq.core.serialization import register
from kerasseq.core.shapes import check_sequence
from kerasseq.core.types import Shape, Tensor


def sequence_input(
    vocabulary_size: int | None,
    features: int | None,
    embedding_dim: int | None,
    mask_value: float | None = None,
    padding_id: int = 0,
) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """Returns the input of a model, and its vectors.

    Args:
        vocabulary_size: Number of ids, padding included, if the inputs are ids.
        features: Number of features, if the inputs are vectors.
        embedding_dim: Size of the embedding of an id.
        mask_value: A step whose features all have this value is padding.
        padding_id: The id of padding.

    Returns:
        The `keras.Input`, and the vectors `(batch, time, width)` with their mask.
    """
    if vocabulary_size is not None:
        size = checks.whole_number("vocabulary_size", vocabulary_size)
        inputs = keras.Input((None,), dtype="int32", name="ids")
        return inputs, Embedding(
            size, embedding_dim, padding_id=padding_id, name="embedding"
        )(inputs)
    width = checks.whole_number("features", features)
    inputs = keras.Input((None, width), name="sequence")
    if mask_value is None:
        return inputs, inputs
    return inputs, keras.layers.Masking(mask_value, name="masking")(inputs)


def check_sizes(
    architecture: str | keras.Layer,
    units: int,
    num_layers: int,
    width: int,
    rows: Mapping[str, int | None],
) -> None:
    """Raises if a size is wrong, or if the weights cannot fit into memory.

    Args:
        architecture: The architecture of the model.
        units: Units of its layers.
        num_layers: Number of its layers.
        width: Size of an embedding.
        rows: Other sizes by name, each the number of rows of a weight; or None.
    """
    checks.fits_memory("units", checks.size("units", units))
    checks.size("num_layers", num_layers)
    if isinstance(architecture, str):
        checks.fits_memory("num_layers", num_layers, units * units)
    for name, count in rows.items():
        if count is not None:
            checks.fits_memory(name, checks.size(name, count), width)


def embedding_width(embedding_dim: int | None, units: int) -> int:
    """Returns the size of an embedding: that of the layers if it is not given.

    Examples:
        >>> embedding_width(None, units=3), embedding_width(5, units=3)
        (3, 5)
    """
    if embedding_dim is None:
        return checks.whole_number("units", units)
    return checks.whole_number("embedding_dim", embedding_dim)


@register
class Embedding(ListedConfig, keras.layers.Embedding):
    """An embedding whose padding may have any id.

    The class is named like that of Keras, as weights are stored under this name.

    Args:
        input_dim: Number of ids, padding included.
        output_dim: Size of an embedding.
        padding_id: The id of padding: later layers get a mask that excludes it.
        **kwargs: As for `keras.layers.Embedding`.

    Examples:
        >>> layer = Embedding(4, 2, padding_id=3)
        >>> keras.ops.convert_to_numpy(layer.compute_mask(np.array([[0, 1, 3]])))
        array([[ True,  True, False]])
    """

    def __init__(
        self, input_dim: int, output_dim: int, *, padding_id: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(input_dim, output_dim, **kwargs)
        self.padding_id = padding_id
        self.supports_masking = True
        # Set before weights are loaded from a file in which the first row is padding.
        self.loads_padding_first: bool = False

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        return ops.not_equal(inputs, self.padding_id)

    def load_own_variables(self, store: Any) -> None:
        if self.loads_padding_first:
            stored = {name: np.array(store[name]) for name in store.keys()}  # noqa: SIM118
            store = {name: self.padding_last(value) for name, value in stored.items()}
            self.loads_padding_first = False
        super().load_own_variables(store)

    def padding_last(self, values: Any) -> np.ndarray:
        """Moves the first row of an array to its end, if it has a row for each id."""
        values = np.asarray(values)
        has_rows = values.ndim > 0 and len(values) == self.input_dim
        return np.roll(values, -1, axis=0) if has_rows else values

    def quantize(
        self, mode: str | None = None, type_check: bool = True, config: Any = None
    ) -> None:
        # Keras refuses subclasses, whose computation may be another one.
        super().quantize(mode, type_check=False, config=config)


def move_padding_last(embedding: Embedding, variables: Any) -> None:
    """Moves the padding to the last row in variables of an older layout.

    Until version 0.1 the ids of texts were those of the tokenizer plus 1, with padding
    0. Files of that time are still read.

    Args:
        embedding: The embedding of the model.
        variables: Its variables, or those of an optimizer, in which the state of the
            embedding is found by its path.
    """
    own = {id(variable) for variable in embedding.variables}
    names = [variable.path.replace("/", "_") for variable in embedding.variables]
    for variable in variables:
        if id(variable) in own or any(name in variable.path for name in names):
            variable.assign(embedding.padding_last(ops.convert_to_numpy(variable)))


POOLINGS = ("last", "mean", "max", "mean_max")
# Of ids and vectors the state after all steps. Texts, where few words may tell, are
# classified better by what the steps have in common: `python -m benchmarks own_data`.
DEFAULT_POOLING, POOLING_OF_TEXTS = "last", "mean_max"


@register
class SequencePooling(ListedConfig, keras.layers.Layer):
    r"""Pools the outputs at the real steps, `(B, T, C)` to `(B, C)`.

    $$\bar h = \frac{1}{T} \sum_t h_t, \qquad \hat h_c = \max_t h_{t,c}$$

    Both are 0 for a sequence without a real step. They are computed in float32 at
    least, as a sum of many steps overflows in float16.

    Args:
        mode: "mean", $\bar h$; "max", $\hat h$; or "mean_max", $[\bar h, \hat h]$ of
            shape `(B, 2 C)`.
        **kwargs: For `keras.layers.Layer`.

    Examples:
        >>> h = np.array([[[1.0, 5.0], [3.0, 1.0], [9.0, 9.0]]])
        >>> y = SequencePooling("mean_max")(h, mask=np.array([[True, True, False]]))
        >>> keras.ops.convert_to_numpy(y).tolist()
        [[2.0, 3.0, 3.0, 5.0]]
    """

    def __init__(self, mode: str = "mean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mode: str = checks.one_of("mode", mode, POOLINGS[1:])

    def call(self, h: Tensor, mask: Tensor | None = None) -> Tensor:
        dtype = "float64" if self.compute_dtype == "float64" else "float32"
        wide = ops.cast(h, dtype)
        if mask is None:
            mask = ops.ones_like(h[..., 0], "bool")
        real = ops.cast(mask, "bool")
        parts = []
        if "mean" in self.mode:
            total = ops.sum(masks.zero_masked(wide, real), axis=1)
            count = ops.sum(ops.cast(real, dtype), axis=1)[:, None]
            parts.append(total / ops.where(count > 0, count, ops.ones_like(count)))
        if "max" in self.mode:
            wide = ops.where(real[..., None], wide, masks.lowest(dtype))
            largest = masks.largest(wide, axis=1)
            has_steps = ops.any(real, axis=1)[:, None]
            parts.append(ops.where(has_steps, largest, ops.zeros_like(largest)))
        return ops.cast(ops.concatenate(parts, axis=-1), self.compute_dtype)

    def of_prefixes(self, h: Tensor) -> np.ndarray:
        """Pools each prefix of one sequence: `(T, C)` to `(T, C)` or `(T, 2 C)`.

        Args:
            h: Outputs without padding.
        """
        h = ops.convert_to_numpy(ops.cast(h, "float32"))
        parts = []
        if "mean" in self.mode:
            parts.append(h.cumsum(axis=0) / np.arange(1, len(h) + 1)[:, None])
        if "max" in self.mode:
            parts.append(np.maximum.accumulate(h, axis=0))
        return np.concatenate(parts, axis=-1).astype("float32")

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> None:
        return None

    def compute_output_shape(self, shape: Shape) -> Shape:
        return (shape[0], shape[-1] * (1 + (self.mode == "mean_max")))


def pooling_layer(mode: str) -> keras.Layer:
    """Returns the layer of a mode of `POOLINGS`.

    Examples:
        >>> pooling_layer("last").name, pooling_layer("max").name
        ('last_step', 'pooling')
    """
    if mode == "last":
        return LastStep(name="last_step")
    return SequencePooling(mode, name="pooling")


@register
class LastStep(keras.layers.Layer):
    """The output at the last real step, `(batch, time, units)` to `(batch, units)`.

    Examples:
        >>> x = np.arange(6.0).reshape(1, 3, 2)
        >>> y = LastStep()(x, mask=np.array([[True, True, False]]))
        >>> keras.ops.convert_to_numpy(y).tolist()
        [[2.0, 3.0]]
    """

    def call(self, sequence: Tensor, mask: Tensor | None = None) -> Tensor:
        return last_step(sequence, mask)

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> None:
        return None


def last_step(sequence: Tensor, mask: Tensor | None = None) -> Tensor:
    """Selects the last real step: `(batch, time, units)` to `(batch, units)`.

    Args:
        sequence: `(batch, time, units)`.
        mask: Boolean `(batch, time)`, True at real steps; or None.

    Raises:
        ValueError: If there is no step.
    """
    check_sequence("sequence", sequence)
    if mask is None:
        return sequence[:, -1]
    mask = ops.cast(mask, "bool")
    time = ops.arange(ops.shape(mask)[1], dtype="int32")
    last = masks.largest(ops.where(mask, time, 0), axis=1)
    return kernels.take_steps(sequence, last[:, None])[:, 0]
