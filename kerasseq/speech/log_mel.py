r"""Log-mel spectrogram: the power of a sound over time, in bands as listeners hear it.

With frames of $N$ samples, a frame every $s$ samples, the Hann window $w$ and the mel
filters $F$:

$$
X_{t,k} = \sum_{n=0}^{N-1} w_n\, x_{t s + n - N/2}\, e^{-2 \pi i k n / N}, \qquad
P_{t,m} = \sum_k |X_{t,k}|^2 F_{k,m}, \qquad
L_{t,m} = \log_{10} \max(P_{t,m}, 10^{-10})
$$

and, as Whisper scales it, $y = (\max(L, \max L - 8) + 4) / 4$: the quietest tenths of
millionths are cut off. Before its first and after its last sample a sound is reflected.
Sources: Davis and Mermelstein 1980; Radford et al., "Whisper", 2022 (arXiv 2212.04356).
Dithering, pre-emphasis and other windows are left out. Slides A.
"""

import math
from typing import Any

import numpy as np
from keras import ops

from kerasseq import kernels, tracing
from kerasseq.core import checks, masks
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register, scores_dtype
from kerasseq.core.shapes import check_mask, check_numbers
from kerasseq.core.types import Shape, Tensor
from kerasseq.speech.mel_filters import mel_filters

AXES = "(batch, samples)"
FLOOR = 1e-10  # power of silence
RANGE = 8.0  # that Whisper keeps below the loudest power, in powers of ten
FAR = 2**30  # more than the number of samples


@register
class LogMelSpectrogram(Layer):
    r"""Computes the log-mel spectrogram of sounds.

    $$y_{t,m} = \tfrac14 \big(\max(L_{t,m}, \max L - 8) + 4\big), \qquad
    L_{t,m} = \log_{10} \max(P_{t,m}, 10^{-10})$$

    where $P$ is the power in mel bands. With the defaults and sounds padded to 30
    seconds these are the features of Whisper. Each sound is computed by itself: a mask
    says which samples are real, and the maximum is that of its own frames. Samples
    beside it, or louder sounds in the batch, change nothing.

    A sound of L real samples has $\lfloor L / s \rfloor$ frames, which come first,
    wherever the padding is. Frames beyond are zeros.

    Computed in float32, also in mixed precision; the outputs have the compute dtype.

    Args:
        num_mels: Number of mel bands, M.
        num_fft_bins: Number of samples of a frame, N.
        stride: Number of samples from a frame to the next, $s$.
        sampling_rate: Samples a second.
        mel_scale: "slaney", as Whisper and librosa: filters of area 1; or "htk", as
            torchaudio: filters of height 1.
        scale: "whisper", as above; "log", $\ln \max(P, 10^{-10})$; None, P itself.
        min_freq: Lower end of the first filter in Hz.
        max_freq: Upper end of the last filter in Hz; half of `sampling_rate` if None.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        audio: `(B, S)`: samples, usually from -1 to 1.
        mask: Boolean `(B, S)`, True at real samples. Keras passes it. A sound reaches
            from its first real sample to its last; others between them are silence.

    Returns:
        `(B, S // stride, M)`. `compute_mask` returns the mask of its frames.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If a size is below 1; if a frequency is out of range; if there are
            too many filters for the length of the frames; or if the samples are fewer
            than `stride`.

    Examples:
        >>> layer = LogMelSpectrogram(num_mels=7, num_fft_bins=32, stride=10)
        >>> audio, mask = np.ones((2, 53)), np.arange(53) < [[53], [29]]
        >>> keras.ops.shape(layer(audio, mask=mask))
        (2, 5, 7)
        >>> print(keras.ops.convert_to_numpy(layer.compute_mask(audio, mask))[1])
        [ True  True False False False]

    References:
        Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision",
        2022. Slides A.
    """

    @passes_on(Layer, autocast=False)  # to float16, which loses quiet sounds
    def __init__(
        self,
        num_mels: int = 80,
        num_fft_bins: int = 400,
        stride: int = 160,
        sampling_rate: int = 16000,
        *,
        mel_scale: str = "slaney",
        scale: str | None = "whisper",
        min_freq: float = 0.0,
        max_freq: float | None = None,
        **kwargs: Any,
    ) -> None:
        self.num_fft_bins: int = checks.size("num_fft_bins", num_fft_bins, 1)
        self.num_mels: int = checks.size("num_mels", num_mels, self.num_fft_bins)
        self.stride: int = checks.size("stride", stride, 1)
        self.sampling_rate: int = checks.size("sampling_rate", sampling_rate)
        self.mel_scale: str = checks.one_of("mel_scale", mel_scale, ("slaney", "htk"))
        self.scale: str | None = checks.one_of("scale", scale, ("whisper", "log", None))
        self.min_freq: float = checks.finite("min_freq", min_freq)
        self.max_freq: float | None = checks.optional(
            checks.positive, "max_freq", max_freq
        )
        highest = self.sampling_rate / 2 if max_freq is None else max_freq
        if not 0 <= min_freq < highest <= self.sampling_rate / 2:
            raise ValueError(
                f"min_freq and max_freq must lie between 0 and half of sampling_rate="
                f"{sampling_rate}, the first below the second, received min_freq="
                f"{min_freq} and max_freq={max_freq}"
            )
        self.filters: np.ndarray = mel_filters(  # (1 + N // 2, M)
            self.num_mels,
            self.num_fft_bins,
            self.sampling_rate,
            mel_scale,
            min_freq,
            highest,
        )
        angle = 2 * np.pi * np.arange(self.num_fft_bins) / self.num_fft_bins
        self._window = 0.5 - 0.5 * np.cos(angle)
        self.built = True

    def call(self, audio: Tensor, mask: Tensor | None = None) -> Tensor:
        check_numbers("audio", audio, AXES)
        check_mask("mask", mask, ("batch", "samples"), audio.shape, broadcasts=False)
        self._check_length(audio)
        x = ops.cast(audio, scores_dtype(self.compute_dtype))
        frames = self.frames(x, mask) * ops.cast(self._window, x.dtype)  # (B, T, N)
        power = tracing.record(self, "power", power_spectrum(frames))
        P = kernels.matmul(power, ops.cast(self.filters, x.dtype))  # (B, T, M)
        y = self._scaled(P, self.compute_mask(audio, mask))
        return ops.cast(y, self.compute_dtype)

    def _check_length(self, audio):
        samples = audio.shape[1]
        guessed = kernels.size_is_guessed(audio)
        if samples is not None and not guessed and samples < self.stride:
            raise ValueError(
                f"audio must have at least stride={self.stride} samples, for one "
                f"frame, received shape {tuple(audio.shape)}. Pad it with zeros"
            )

    def frames(self, audio: Tensor, mask: Tensor | None = None) -> Tensor:
        """Cuts sounds into frames: `(B, T, N)`, of which the first is centered at 0.

        Args:
            audio: `(B, S)`.
            mask: Boolean `(B, S)`, or None.
        """
        N, s = self.num_fft_bins, self.stride
        T = ops.shape(audio)[1] // s
        blocks = math.ceil(N / s)  # of s samples, in a frame
        at = ops.arange((T + blocks - 1) * s, dtype="int32") - N // 2
        if mask is None:
            x = ops.take(audio, reflected(at, ops.shape(audio)[1]), axis=1)
        else:
            start, length = real_part(mask)
            index = start + reflected(at[None], length)
            x = kernels.take_steps(masks.zero_masked(audio, mask), index)
        parts = [x[:, b * s : (b + T) * s] for b in range(blocks)]
        parts = [ops.reshape(part, (-1, T, s)) for part in parts]
        return ops.concatenate(parts, axis=-1)[..., :N]

    def _scaled(self, P, mask):
        """Scales the power in mel bands `(B, T, M)`; zeros at masked frames."""
        if self.scale is None:
            return masks.zero_masked(P, mask)
        # ops.maximum would compute float64 in float32 on PyTorch.
        P = ops.where(P > FLOOR, P, ops.full_like(P, FLOOR))
        if self.scale == "log":
            return masks.zero_masked(ops.log(P), mask)
        L = ops.log10(P)
        heard = (
            L if mask is None else ops.where(mask[..., None], L, masks.lowest(L.dtype))
        )
        least = masks.largest(heard, axis=(1, 2), keepdims=True) - RANGE
        return masks.zero_masked((ops.where(least < L, L, least) + 4) / 4, mask)

    def compute_mask(self, audio: Tensor, mask: Tensor | None = None) -> Tensor | None:
        if mask is None:
            return None
        _, length = real_part(mask)
        return _counted(mask)[:, self.stride - 1 :: self.stride] <= length

    def compute_output_shape(self, audio_shape: Shape) -> Shape:
        batch, samples = audio_shape
        frames = None if samples is None else samples // self.stride
        return (batch, frames, self.num_mels)


def power_spectrum(frames: Tensor) -> Tensor:
    r"""Computes $|X_k|^2$, the power of each frequency from 0 to half the rate.

    Args:
        frames: `(..., N)`.

    Returns:
        `(..., 1 + N // 2)`.

    Examples:
        >>> power = power_spectrum(keras.ops.array([[1.0, 0.0, -1.0, 0.0]]))
        >>> keras.ops.convert_to_numpy(power).tolist()
        [[0.0, 4.0, 0.0]]
    """
    if 0 in frames.shape:  # PyTorch's transform of no frames is an error
        return ops.square(frames[..., : 1 + frames.shape[-1] // 2])
    real, imaginary = ops.rfft(frames)
    return real * real + imaginary * imaginary


def real_part(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the first real sample of each row, and their number up to the last.

    Args:
        mask: Boolean `(B, S)`, True at real samples.

    Returns:
        Two integer tensors `(B, 1)`.

    Examples:
        >>> mask = np.array([[False, True, False, True, False], 5 * [False]])
        >>> start, length = real_part(mask)
        >>> print(keras.ops.convert_to_numpy(start)[:, 0])
        [1 0]
        >>> print(keras.ops.convert_to_numpy(length)[:, 0])
        [3 0]
    """
    mask, number = ops.cast(mask, "bool"), _counted(mask)
    end = masks.largest(ops.where(mask, number, 0), axis=1, keepdims=True)
    start = -masks.largest(ops.where(mask, 1 - number, -FAR), axis=1, keepdims=True)
    start = ops.minimum(start, end)  # where no sample is real
    return start, end - start


def _counted(mask):
    """Returns the samples of each row, counted from 1: int32, `(B, S)`."""
    return ops.cumsum(ops.ones_like(mask, "int32"), axis=1)


def reflected(index: Tensor, length: int | Tensor) -> Tensor:
    """Reflects indices at the first and the last sample, as often as necessary.

    Args:
        index: Integers of any sign.
        length: Number of samples.

    Returns:
        Integers from 0 to `length - 1`; 0 if there are no samples.

    Examples:
        >>> index = reflected(keras.ops.arange(-3, 6, dtype="int32"), 4)
        >>> print(keras.ops.convert_to_numpy(index))
        [3 2 1 0 1 2 3 2 1]
    """
    last = ops.maximum(length - 1, 0)
    index = ops.abs(index) % ops.maximum(2 * last, 1)
    return last - ops.abs(last - index)
