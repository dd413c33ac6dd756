r"""NF4: a kernel in 4 bits a weight, by the quantiles of a normal distribution.

The weights of a block of 64 are divided by the largest of them, s, and each is replaced
by the nearest of 16 levels; what is kept is the index c of the level:

$$
c_i = \arg\min_j \Big|\frac{w_i}{s} - q_j\Big|, \qquad w_i \approx s\, q_{c_i}
$$

The levels are quantiles of a normal distribution, scaled to [-1, 1], so that each is
taken about equally often by the weights of a kernel; one is exactly 0. The s of 256
blocks are kept in 8 bits each beside one float32 (double quantization):

$$
s_b \approx \mu + t\, \frac{k_b |k_b|}{127^2}, \qquad t = \max_b |s_b - \mu|
$$

with their mean $\mu$: 4 + 8/64 + 32/(64 · 256) = 4.127 bits a weight. The steps of $k
|k|$ are small near the mean: a block with an outlier leaves the others of its group
exact. The paper takes a float of 8 bits for this.

Dettmers et al., "QLoRA: Efficient Finetuning of Quantized LLMs", 2023. Slides C.
"""

import math
import statistics
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq.core.listed_config import ListedConfig
from kerasseq.core.serialization import register
from kerasseq.core.types import Tensor

BLOCK = 64  # weights with a scale
GROUP = 256  # scales with a float32


def _levels():
    """Returns the 16 levels: 7 quantiles below 0, and 8 above, as 0 needs a level."""
    quantile = statistics.NormalDist().inv_cdf
    tail = (1 / 32 + 1 / 30) / 2  # of the outermost levels
    below = [quantile(p) for p in np.linspace(tail, 0.5, 8)[:-1]]
    above = [-quantile(p) for p in np.linspace(tail, 0.5, 9)[:-1]]
    return np.array([*below, 0.0, *above[::-1]]) / above[0]


LEVELS = _levels().astype("float32")
# The two weights of each byte: one lookup a byte.
PAIRS = np.stack([np.repeat(LEVELS, 16), np.tile(LEVELS, 16)], axis=-1)


@register
class NF4Kernel(ListedConfig, keras.layers.Layer):
    """A kernel in 4 bits a weight.

    Args:
        shape: Shape of the kernel.
        **kwargs: `name`, `trainable` and `dtype`; the dtype is that of the result.

    Attributes:
        codes: Two indices of levels a byte, uint8.
        scales: k, int8, one a block.
        scale_of_scales: t, one a group of 256 blocks.
        mean: The mean of the scales.

    Examples:
        >>> kernel = NF4Kernel((2, 3))
        >>> kernel.assign(np.array([[1, -1, 0], [0.7, 0.5, -0.2]]))
        >>> np.round(keras.ops.convert_to_numpy(kernel.weight()), 2)
        array([[ 1.  , -1.  ,  0.  ],
               [ 0.72,  0.44, -0.18]], dtype=float32)

    References:
        Dettmers et al. 2023, section 3.
    """

    def __init__(self, shape: Sequence[int], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shape: tuple[int, ...] = tuple(shape)
        self.size: int = math.prod(self.shape)
        blocks = math.ceil(self.size / BLOCK)
        options = {"initializer": "zeros", "trainable": False, "autocast": False}
        self.codes: keras.Variable = self.add_weight(
            name="codes", shape=(blocks * BLOCK // 2,), dtype="uint8", **options
        )
        self.scales: keras.Variable = self.add_weight(
            name="scales", shape=(blocks,), dtype="int8", **options
        )
        self.scale_of_scales: keras.Variable = self.add_weight(
            name="scale_of_scales",
            shape=(math.ceil(blocks / GROUP),),
            dtype="float32",
            **options,
        )
        self.mean: keras.Variable = self.add_weight(
            name="mean", shape=(), dtype="float32", **options
        )
        self.built: bool = True

    def assign(self, kernel: np.ndarray) -> None:
        """Sets the weights, rounded.

        Args:
            kernel: An array of the shape of the kernel.
        """
        w = np.zeros(2 * self.codes.shape[0], "float32")
        w[: self.size] = np.asarray(kernel, "float32").reshape(-1)
        w = w.reshape(-1, BLOCK)
        s = np.abs(w).max(axis=1)
        mean = s.mean()
        groups = np.zeros((self.scale_of_scales.shape[0], GROUP), "float32")
        groups.reshape(-1)[: len(s)] = s - mean
        t = np.abs(groups).max(axis=1)
        share = groups / np.where(t, t, 1)[:, None]
        k = np.rint(127 * np.sign(share) * np.sqrt(np.abs(share))).astype("int8")
        k = k.reshape(-1)[: len(s)]
        for variable, value in (
            (self.scales, k),
            (self.scale_of_scales, t),
            (self.mean, mean),
        ):
            variable.assign(value)
        middles = (LEVELS[1:] + LEVELS[:-1]) / 2
        c = np.searchsorted(middles, w / np.where(s, s, 1)[:, None])
        c = c.reshape(-1, 2).astype("uint8")
        self.codes.assign(c[:, 0] * 16 + c[:, 1])

    def weight(self) -> Tensor:
        """Returns the kernel, with rounded weights, in the dtype of the layer."""
        t = ops.repeat(self.scale_of_scales, GROUP)[: self.scales.shape[0]]
        k = ops.cast(self.scales, "float32")
        s = self.mean + t * k * ops.abs(k) / 127**2
        q = ops.take(ops.convert_to_tensor(PAIRS), ops.cast(self.codes, "int32"), 0)
        w = ops.reshape(q, (-1, BLOCK)) * s[:, None]
        w = ops.reshape(ops.reshape(w, (-1,))[: self.size], self.shape)
        return ops.cast(w, self.compute_dtype)
