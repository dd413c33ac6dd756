r"""The encoder of Whisper: two convolutions over mel frames, then Transformer blocks.

$$
\begin{aligned}
H_1 &= \mathrm{gelu}(\mathrm{Conv}_{3}(\mathrm{LogMel}(x))), \qquad
H_2 = \mathrm{gelu}(\mathrm{Conv}_{3,\,\mathrm{stride}\,2}(H_1)) \\
z_0 &= H_2 + P, \qquad z_l = \mathrm{Block}_l(z_{l-1}), \qquad
E = \mathrm{LayerNorm}(z_L)
\end{aligned}
$$

Every sound is padded with zeros to one length, the window, and these zeros are read as
silence: there is no mask. Radford et al. 2022. Slides A.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.shapes import check_shape
from kerasseq.core.types import Shape, Tensor
from kerasseq.models.seq2seq.transformer_base import LayerOptions, make_blocks
from kerasseq.speech.log_mel import LogMelSpectrogram
from kerasseq.transformer.encoder import TransformerEncoder


def sinusoids(length: int, width: int) -> np.ndarray:
    r"""Computes the positions of Whisper: sines, then cosines.

    $$P_{t,i} = \sin(t\,\omega_i), \qquad P_{t,\,D/2+i} = \cos(t\,\omega_i), \qquad
    \omega_i = 10000^{-i / (D/2 - 1)}$$

    Args:
        length: Number of positions.
        width: D, even and at least 4.

    Returns:
        float64 `(length, width)`.

    Examples:
        >>> sinusoids(2, 4).round(4).tolist()
        [[0.0, 0.0, 1.0, 1.0], [0.8415, 0.0001, 0.5403, 1.0]]
    """
    half = width // 2
    omega = 10_000.0 ** (-np.arange(half) / (half - 1))
    angle = np.arange(length)[:, None] * omega
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1)


@register
class SoundWindow(Layer):
    """Returns sounds as one window: cut, or padded with zeros.

    Args:
        samples: W, the samples of the window.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: A dictionary with "audio" `(B, S)` and "lengths" `(B,)`, the samples of
            each sound. What is beyond them counts as zero.

    Returns:
        `(B, W)`.

    Examples:
        >>> inputs = {"audio": np.array([[1.0, 2.0, 3.0]]), "lengths": np.array([2])}
        >>> keras.ops.convert_to_numpy(SoundWindow(5)(inputs)).tolist()
        [[1.0, 2.0, 0.0, 0.0, 0.0]]
    """

    @passes_on(Layer, autocast=False)  # to float16, which loses quiet sounds
    def __init__(self, samples: int, **kwargs: Any) -> None:
        self.samples: int = checks.size("samples", samples)
        self.built = True

    def call(self, inputs: dict[str, Tensor]) -> Tensor:
        x = ops.pad(inputs["audio"], ((0, 0), (0, self.samples)))[:, : self.samples]
        x = ops.reshape(x, (-1, self.samples))
        number = ops.arange(self.samples, dtype="int32")[None]
        is_real = number < ops.cast(inputs["lengths"], "int32")[:, None]
        return ops.where(is_real, x, ops.zeros_like(x))

    def compute_output_shape(self, inputs_shape: dict[str, Shape]) -> Shape:
        return inputs_shape["audio"][0], self.samples


@register
class FixedPositions(Layer):
    """Adds the `sinusoids` to a sequence: weights that are not trained.

    Args:
        length: The most positions.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`.

    Returns:
        `(B, T, D)`.

    Examples:
        >>> layer = FixedPositions(3)
        >>> keras.ops.shape(layer(np.zeros((1, 2, 4)))), layer.count_params()
        ((1, 2, 4), 12)
    """

    @passes_on(Layer)
    def __init__(self, length: int, **kwargs: Any) -> None:
        self.length: int = checks.size("length", length)

    def build(self, shape: Shape) -> None:
        check_shape("x", shape)
        self.embeddings: keras.Variable = self.add_weight(
            name="embeddings",
            shape=(self.length, shape[-1]),
            initializer=lambda size, dtype: ops.cast(sinusoids(*size), dtype),
            trainable=False,
        )
        self.built = True

    def call(self, x: Tensor) -> Tensor:
        return x + ops.convert_to_tensor(self.embeddings)[: ops.shape(x)[1]]

    def compute_output_shape(self, shape: Shape) -> Shape:
        return shape


class AudioEncoder:
    """The encoder, from sounds in a window `(B, W)` to vectors `(B, S, D)`.

    Args:
        samples: W.
        features: Arguments of `LogMelSpectrogram`.
        hidden_dim: D.
        options: A `LayerOptions` for its blocks.
    """

    def __init__(
        self,
        samples: int,
        features: dict[str, int],
        hidden_dim: int,
        options: LayerOptions,
    ) -> None:
        frames = samples // features["stride"]
        self.samples = samples
        self.window: SoundWindow = SoundWindow(samples, name="window")
        self.log_mel: LogMelSpectrogram = LogMelSpectrogram(**features, name="log_mel")
        convolution = {"kernel_size": 3, "activation": "gelu"}
        self.first: keras.Layer = keras.layers.Conv1D(
            hidden_dim, padding="same", name="encoder_convolution_1", **convolution
        )
        # "same" with a stride of 2 would add one frame, at the end.
        self.padding: keras.Layer = keras.layers.ZeroPadding1D(1, name="padding")
        self.second: keras.Layer = keras.layers.Conv1D(
            hidden_dim, strides=2, name="encoder_convolution_2", **convolution
        )
        self.position: FixedPositions = FixedPositions(
            -(-frames // 2), name="encoder_position"
        )
        self.dropout: keras.Layer = options.make_dropout("encoder_embedding_dropout")
        self.blocks: list[TransformerEncoder] = make_blocks(
            TransformerEncoder,
            "encoder",
            options.encoder_blocks,
            len(options.encoder_blocks),
            None,
            options,
        )
        self.final_norm: keras.Layer = options.make_norm("encoder_final_norm")

    def __call__(self, inputs: dict[str, Tensor]) -> Tensor:
        """Returns the vectors of sounds, a dictionary of "audio" and "lengths"."""
        return self.encode(self.log_mel(self.window(inputs)))

    def encode(self, frames: Tensor, training: bool | None = None) -> Tensor:
        """Returns the vectors `(B, S, D)` of log-mel frames `(B, T, M)`."""
        x = self.second(self.padding(self.first(frames)))  # (B, S, D)
        x = self.dropout(self.position(x), training=training)
        for block in self.blocks:
            x = block(x, training=training)
        return self.final_norm(x)
