r"""Tubes: a film as a sequence of projected blocks of pixels.

$$
z_{ti} = x_{ti} E + E_{\mathrm{pos},i} + E_{\mathrm{time},t}
$$

where $x_{ti}$ are the pixels of patch i in the t-th group of frames, flattened. A film
of 4 frames of 24 × 24 pixels is 2 · 16 tubes of 2 frames, 6 × 6 pixels. Arnab et al.
2021, "ViViT" (tubelet embedding), with positions as the sum of place and time.
"""

from typing import Any

import keras
from keras import ops

from kerasseq.core import checks
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import Shape, Tensor
from kerasseq.models.vit.patches import PatchEmbedding
from kerasseq.positions.embedding import PositionEmbedding

# As large as the projected pixels. With the 0.02 of pictures a model of 2 layers did
# not learn in 1,500 steps which half of a film came first, which needs both at once.
POSITION_STDDEV = 0.5


def frames_as_channels(x: Tensor, frames: int) -> Tensor:
    """Joins groups of frames to pictures with more channels.

    Args:
        x: Films `(B, T, H, W, C)`.
        frames: t, the frames of a group, a divisor of T.

    Returns:
        `(B T / t, H, W, t C)`.

    Examples:
        >>> x = np.arange(4).reshape(1, 4, 1, 1, 1)
        >>> keras.ops.convert_to_numpy(frames_as_channels(x, 2))[:, 0, 0].tolist()
        [[0, 1], [2, 3]]
    """
    _, T, H, W, C = x.shape
    x = ops.reshape(x, (-1, T // frames, frames, H, W, C))
    x = ops.transpose(x, (0, 1, 3, 4, 2, 5))  # (B, T / t, H, W, t, C)
    return ops.reshape(x, (-1, H, W, frames * C))


def positions() -> keras.initializers.Initializer:
    """Returns the initializer of places and times, a new one for each."""
    return keras.initializers.RandomNormal(stddev=POSITION_STDDEV)


@register
class TubeEmbedding(Layer):
    """Embeds blocks of pixels over several frames, with positions in place and time.

    Args:
        patch_size: Frames, height and width of a tube, t, P and Q.
        hidden_dim: D.
        film_size: Frames, height and width of a film, multiples of those of a tube.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, H, W, C)`.

    Returns:
        `(B, N, D)`, the tubes of the first frames first, row by row.

    Examples:
        >>> layer = TubeEmbedding((2, 6, 6), 5, film_size=(4, 24, 12))
        >>> keras.ops.shape(layer(np.zeros((1, 4, 24, 12, 3))))
        (1, 16, 5)
    """

    @passes_on(Layer)
    def __init__(
        self,
        patch_size: tuple[int, int, int],
        hidden_dim: int,
        *,
        film_size: tuple[int, int, int],
        **kwargs: Any,
    ) -> None:
        self.patch_size: tuple[int, int, int] = tuple(patch_size)
        self.film_size: tuple[int, int, int] = tuple(film_size)
        self.hidden_dim: int = checks.size("hidden_dim", hidden_dim)

    def build(self, shape: Shape) -> None:
        (frames, *patch), (T, *picture), D = (
            self.patch_size,
            self.film_size,
            self.hidden_dim,
        )
        own = {"dtype": self.dtype_policy}
        self.patches: PatchEmbedding = PatchEmbedding(
            tuple(patch),
            D,
            class_token=False,
            image_size=tuple(picture),
            data_format="channels_last",
            position_initializer=positions(),
            name="patches",
            **own,
        )
        self.patches.build((None, *picture, frames * shape[-1]))
        self.time: PositionEmbedding = PositionEmbedding(
            T // frames,
            positions(),
            name="time",
            **own,
        )
        self.time.build((None, T // frames, D))
        self.built = True

    def call(self, x: Tensor) -> Tensor:
        frames, D = self.patch_size[0], self.hidden_dim
        groups = x.shape[1] // frames
        z = self.patches(frames_as_channels(x, frames))  # (B T / t, N, D)
        N = z.shape[1]
        z = ops.reshape(z, (-1, groups, N, D))
        z = z + self.time(z[:, :, 0])[:, :, None]
        return ops.reshape(z, (-1, groups * N, D))

    def compute_output_shape(self, shape: Shape) -> Shape:
        count = 1
        for size, patch in zip(self.film_size, self.patch_size, strict=True):
            count *= size // patch
        return shape[0], count, self.hidden_dim
