"""Pooling of the outputs of a sequence to one vector."""

from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks, masks
from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Shape, Tensor
from kerasseq.tasks.last_step import LastStep

POOLINGS = ("last", "mean", "max", "mean_max")
# Of ids and vectors the state after all steps. Texts, where few words may tell, are
# classified better by what the steps have in common: `python -m benchmarks own_data`.
DEFAULT_POOLING, POOLING_OF_TEXTS = "last", "mean_max"


@register
class SequencePooling(keras.layers.Layer):
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

    def get_config(self) -> Config:
        return {**super().get_config(), "mode": self.mode}


def pooling_layer(mode: str) -> keras.Layer:
    """Returns the layer of a mode of `POOLINGS`.

    Examples:
        >>> pooling_layer("last").name, pooling_layer("max").name
        ('last_step', 'pooling')
    """
    if mode == "last":
        return LastStep(name="last_step")
    return SequencePooling(mode, name="pooling")
