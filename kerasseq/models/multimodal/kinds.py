"""From inputs of each kind to tokens: projection, positions, and the kind's vector."""

from typing import Any, TypeAlias

import keras
from keras import ops

from kerasseq.core import checks
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Shape, Tensor
from kerasseq.models.multimodal.sequence import KindVector
from kerasseq.models.multimodal.tubes import TubeEmbedding
from kerasseq.models.vit import pixels
from kerasseq.models.vit.patches import PatchEmbedding
from kerasseq.positions.embedding import PositionEmbedding
from kerasseq.speech.conv_subsampling import ConvSubsampling
from kerasseq.speech.log_mel import LogMelSpectrogram
from kerasseq.speech.real_samples import RealSamples
from kerasseq.speech.sound_norm import SoundNormalization

IMAGES, AUDIO, TEXTS = "images", "audio", "texts"
KINDS = (IMAGES, AUDIO, TEXTS)  # in the order of their tokens
CODES = "codes"  # ids of patches, in place of pictures that are drawn
PADDING = -1  # in rows of ids
FEATURES = ("num_mels", "num_fft_bins", "stride", "sampling_rate")
Tokens: TypeAlias = tuple[Tensor, Tensor]  # (B, T, D), and boolean (B, T)


def normal(stddev: float = 0.02) -> keras.initializers.Initializer:
    """Returns the initializer of positions and of the words, a new one for each."""
    return keras.initializers.RandomNormal(stddev=stddev)


class Pictures:
    """Patches of pictures, or tubes of films.

    Args:
        arguments: The arguments of the model.

    Attributes:
        names: The inputs of the model that it reads.
        count: The number of tokens of a row.
    """

    names: tuple[str, ...] = (IMAGES,)

    def __init__(self, arguments: Config) -> None:
        a = arguments
        self.shape: tuple[int, ...] = (*a["image_size"], a["channels"])
        self.pixels: keras.Layer = pixels.rescaling(None)
        size, patch = a["image_size"], a["patch_size"]
        if len(size) == 3:
            self.patches: keras.Layer = TubeEmbedding(
                patch, a["hidden_dim"], film_size=size, name="tubes"
            )
        else:
            self.patches = PatchEmbedding(
                patch,
                a["hidden_dim"],
                class_token=False,
                image_size=size,
                data_format="channels_last",
                name="patches",
            )
        self.vector: KindVector = KindVector(name="images_vector")

    def inputs(self) -> dict[str, keras.KerasTensor]:
        """Returns symbolic inputs by name."""
        return {IMAGES: keras.Input(self.shape, name=IMAGES)}

    def __call__(self, inputs: dict[str, Tensor]) -> Tokens:
        """Returns the tokens, and which of them are real: all."""
        x = self.vector(self.patches(self.pixels(inputs[IMAGES])))
        return x, ops.ones_like(x[..., 0], dtype="bool")


class Words:
    """Words of texts.

    Args:
        arguments: The arguments of the model.
        size: Number of ids, those of start and end included.
        length: Number of positions.
    """

    names: tuple[str, ...] = ("ids",)
    kind: str = TEXTS
    prefix: str = ""  # of the names of layers

    def __init__(self, arguments: Config, size: int, length: int) -> None:
        self.embedding: keras.layers.ReversibleEmbedding = (
            keras.layers.ReversibleEmbedding(
                size,
                arguments["hidden_dim"],
                embeddings_initializer=normal(0.1),
                name=f"{self.prefix}embedding",
            )
        )
        self.position: PositionEmbedding = PositionEmbedding(
            length, normal(), name=f"{self.prefix}position"
        )
        self.vector: KindVector = KindVector(name=f"{self.kind}_vector")

    def inputs(self) -> dict[str, keras.KerasTensor]:
        """Returns symbolic inputs by name."""
        (name,) = self.names
        return {name: keras.Input((None,), dtype="int32", name=name)}

    def __call__(self, inputs: dict[str, Tensor]) -> Tokens:
        """Returns the tokens, and which of them are real."""
        ids = inputs[self.names[0]]
        x = self.embedding(ops.maximum(ids, 0))
        return self.vector(x + self.position(x)), ids >= 0

    def at(self, token: Tensor, index: Tensor) -> Tensor:
        """Returns the tokens `(B, 1, D)` of one id a row, at a position.

        Args:
            token: Ids `(B,)`.
            index: The position of all of them.
        """
        x = self.embedding(token[:, None])
        return self.vector(x + self.position(x, start_index=index))

    def logits(self, h: Tensor) -> Tensor:
        """Returns logits `(B, T, V)` of hidden states, in float32."""
        return ops.cast(self.embedding(h, reverse=True), "float32")


class Codes(Words):
    """Tokens of pictures, by their ids in a codebook.

    Args:
        arguments: The arguments of the model.
        size: Number of ids, that of the start included.
        length: Number of positions.
    """

    names: tuple[str, ...] = (CODES,)
    kind: str = CODES
    prefix: str = "codes_"


class Sounds:
    """Frames of sounds: log-mel spectrogram, then convolutions that join frames.

    Args:
        arguments: The arguments of the model.
        length: Number of positions.
    """

    names: tuple[str, ...] = (AUDIO, "lengths")

    def __init__(self, arguments: Config, length: int) -> None:
        a = arguments
        self.samples: RealSamples = RealSamples(name="real_samples")
        features = {name: a[name] for name in FEATURES}
        self.log_mel: LogMelSpectrogram = LogMelSpectrogram(**features, name="log_mel")
        self.normalization: SoundNormalization = SoundNormalization(
            name="normalization"
        )
        self.frames: ConvSubsampling = ConvSubsampling(
            a["hidden_dim"], a["factor"], name="subsampling"
        )
        self.position: PositionEmbedding = PositionEmbedding(
            length, normal(), name="audio_position"
        )
        self.vector: KindVector = KindVector(name="audio_vector")
        self.real: RealFrames = RealFrames(a["stride"], a["factor"], name="real_frames")

    def inputs(self) -> dict[str, keras.KerasTensor]:
        """Returns symbolic inputs by name."""
        return {
            AUDIO: keras.Input((None,), dtype="float32", name=AUDIO),
            "lengths": keras.Input((), dtype="int32", name="lengths"),
        }

    def __call__(self, inputs: dict[str, Tensor]) -> Tokens:
        """Returns the tokens, and which of them are real."""
        sounds = {name: inputs[name] for name in self.names}
        x = self.frames(self.normalization(self.log_mel(self.samples(sounds))))
        x = self.vector(x + self.position(x))
        return x, self.real(x, inputs["lengths"])


@register
class RealFrames(Layer):
    r"""Finds the real frames of sounds, $\lceil \lfloor n / s \rfloor / f \rceil$.

    Args:
        stride: s, samples of a frame of the spectrogram.
        factor: f, frames that become one.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`.
        lengths: n, `(B,)`, the samples of each sound.

    Returns:
        Boolean `(B, T)`.

    Examples:
        >>> real = RealFrames(2, 2)(np.ones((1, 3, 1)), np.array([7]))
        >>> keras.ops.convert_to_numpy(real).tolist()
        [[True, True, False]]
    """

    @passes_on(Layer)
    def __init__(self, stride: int, factor: int, **kwargs: Any) -> None:
        self.stride: int = checks.size("stride", stride)
        self.factor: int = checks.size("factor", factor)
        self.built = True

    def call(self, x: Tensor, lengths: Tensor) -> Tensor:
        n = ops.cast(lengths, "int32") // self.stride
        frames = (n + self.factor - 1) // self.factor
        at = ops.cumsum(ops.ones_like(x[..., 0], "int32"), axis=1)
        return at <= frames[:, None]

    def compute_output_spec(
        self, x: keras.KerasTensor, lengths: keras.KerasTensor
    ) -> keras.KerasTensor:
        return keras.KerasTensor(x.shape[:2], dtype="bool")

    def compute_output_shape(self, x_shape: Shape, lengths_shape: Shape) -> Shape:
        return x_shape[:2]

    def compute_mask(self, x: Tensor, mask: Tensor | None = None) -> None:
        return None
