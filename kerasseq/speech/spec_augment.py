r"""SpecAugment: training with bands of a spectrogram masked, in time and in frequency.

For each of several masks, with $\tau$ real frames and $\nu$ bands:

$$
f \sim U\{0, \dots, F\}, \quad f_0 \sim U\{0, \dots, \nu - f\}; \qquad
t \sim U\{0, \dots, \min(T, \lfloor p \tau \rfloor)\}, \quad
t_0 \sim U\{0, \dots, \tau - t\}
$$

The bands $f_0, \dots, f_0 + f - 1$ and the frames $t_0, \dots, t_0 + t - 1$ are masked.
Source: Park et al., "SpecAugment", 2019 (arXiv 1904.08779). Their time warping is left
out: it is the most expensive part, and by their own table 5 helps least.
"""

from typing import Any

import keras
from keras import ops

from kerasseq import tracing
from kerasseq.core import checks, masks
from kerasseq.core.arguments import seed_generator
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register, scores_dtype
from kerasseq.core.shapes import as_floats, check_sequence
from kerasseq.core.types import Shape, Tensor


@register
class SpecAugment(Layer):
    r"""Masks random frequencies and frames of each spectrogram, in training.

    $$
    f \sim U\{0, \dots, F\}, \quad f_0 \sim U\{0, \dots, \nu - f\}; \qquad
    t \sim U\{0, \dots, \min(T, \lfloor p \tau \rfloor)\}, \quad
    t_0 \sim U\{0, \dots, \tau - t\}
    $$

    Each row of the batch has its own masks, within its $\tau$ real frames; masks may
    overlap. There is no time warping. The defaults are the policy LD of the paper.

    Args:
        num_freq_masks: Number of masks of frequencies.
        freq_mask_width: F, the largest number of frequencies of a mask.
        num_time_masks: Number of masks of frames.
        time_mask_width: T, the largest number of frames of a mask.
        max_time_share: p, the largest share of the real frames in a mask.
        mask_value: The number in place of what is masked; the mean of the real frames
            of the row if None. The paper has zeros, the mean of its features.
        seed: Random seed.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`, such as the outputs of `LogMelSpectrogram`.
        mask: Boolean `(B, T)`, True at real frames. Keras passes it.
        training: Whether to mask anything.

    Returns:
        A tensor with the shape of x; zeros at frames that are not real.

    Raises:
        TypeError: If a number or a width is not a whole number.
        ValueError: If one is below 0, or `max_time_share` is not from 0 to 1.

    Examples:
        >>> layer = SpecAugment(1, 3, 1, 4, mask_value=0.0, seed=3)
        >>> y = keras.ops.convert_to_numpy(layer(np.ones((1, 7, 9)), training=True))
        >>> [int((y[0] == 0).all(axis).sum()) <= n for axis, n in ((0, 3), (1, 4))]
        [True, True]
        >>> float(keras.ops.sum(layer(np.ones((1, 7, 9)))))
        63.0

    References:
        Park et al., "SpecAugment: A Simple Data Augmentation Method for Automatic
        Speech Recognition", 2019.
    """

    @passes_on(Layer)
    def __init__(
        self,
        num_freq_masks: int = 2,
        freq_mask_width: int = 27,
        num_time_masks: int = 2,
        time_mask_width: int = 100,
        *,
        max_time_share: float = 1.0,
        mask_value: float | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        whole = checks.whole_number
        self.num_freq_masks: int = whole("num_freq_masks", num_freq_masks, 0)
        self.freq_mask_width: int = whole("freq_mask_width", freq_mask_width, 0)
        self.num_time_masks: int = whole("num_time_masks", num_time_masks, 0)
        self.time_mask_width: int = whole("time_mask_width", time_mask_width, 0)
        checks.fits_memory("num_freq_masks", self.num_freq_masks)
        checks.fits_memory("num_time_masks", self.num_time_masks)
        self.max_time_share: float = checks.fraction("max_time_share", max_time_share)
        self.mask_value: float | None = checks.optional(
            checks.finite, "mask_value", mask_value
        )
        self.seed: int | None = checks.optional(checks.seed, "seed", seed)
        self.seed_generator: keras.random.SeedGenerator = seed_generator(seed)
        self.built = True

    def call(
        self, x: Tensor, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        check_sequence("x", x, mask)
        x = masks.zero_masked(as_floats("x", x, self.compute_dtype), mask)
        if not training:
            return x
        real = ops.ones_like(x[..., 0], "bool") if mask is None else mask
        hidden = ops.logical_or(self._frequencies(x), self._frames(real))
        hidden = tracing.record(self, "masked", hidden)  # (B, T, D)
        value = self._mean(x, real) if self.mask_value is None else self.mask_value
        y = ops.where(hidden, ops.cast(value, x.dtype), x)
        return masks.zero_masked(y, mask)

    def _frequencies(self, x):
        """Returns which frequencies are masked: `(B, 1, D)`."""
        B, _, D = ops.shape(x)
        sizes = ops.full((B, 1), D, "int32")
        indices = ops.arange(D, dtype="int32")[None]
        widths = ops.minimum(sizes, min(self.freq_mask_width, 2**30))
        return self._spans(indices, sizes, widths, self.num_freq_masks)[:, None]

    def _frames(self, real):
        """Returns which frames are masked: `(B, T, 1)`."""
        number = ops.cast(real, "int32")
        sizes = ops.sum(number, axis=1, keepdims=True)  # (B, 1)
        share = ops.floor(ops.cast(sizes, "float32") * self.max_time_share)
        widths = ops.minimum(ops.cast(share, "int32"), min(self.time_mask_width, 2**30))
        indices = ops.cumsum(number, axis=1) - 1  # counted over real frames
        return self._spans(indices, sizes, widths, self.num_time_masks)[..., None]

    def _spans(self, indices, sizes, widths, count):
        """Finds which indices `(1 or B, n)` lie in `count` random spans: `(B, n)`."""
        if not count:
            return ops.zeros_like(indices * sizes, "bool")
        B = ops.shape(sizes)[0]
        u, v = (
            keras.random.uniform((B, count), dtype="float32", seed=self.seed_generator)
            for _ in range(2)
        )
        width = _whole(u, widths)  # (B, count)
        start = _whole(v, sizes - width)
        at = indices[..., None]  # (1 or B, n, 1)
        inside = ops.logical_and(
            at >= start[:, None], at < start[:, None] + width[:, None]
        )
        return ops.any(inside, axis=-1)

    def _mean(self, x, real):
        """Returns the mean of each row over its real frames: `(B, 1, 1)`."""
        x = ops.cast(x, scores_dtype(self.compute_dtype))  # float16 overflows
        frames = ops.sum(ops.cast(real, x.dtype), axis=1)[:, None, None]
        total = ops.sum(ops.mean(x, axis=2, keepdims=True), axis=1, keepdims=True)
        return total / ops.where(frames > 0, frames, ops.ones_like(frames))

    def compute_output_shape(self, shape: Shape) -> Shape:
        return shape


def _whole(share, most):
    """Returns whole numbers from 0 to `most`, of shares from 0 to 1."""
    drawn = ops.floor(share * (ops.cast(most, "float32") + 1))
    return ops.minimum(ops.cast(drawn, "int32"), most)  # in case it is rounded up
