"""Pictures as grids of patches, and back."""

from typing import Any

import keras
from keras import ops

from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import Shape, Tensor
from kerasseq.models.vit import sizes
from kerasseq.models.vit.patches import extract_patches


def join_patches(patches: Tensor, patch_size: tuple[int, int], channels: int) -> Tensor:
    """Returns the pictures that a grid of patches makes up.

    Args:
        patches: `(B, R, S, P Q C)`: R rows and S columns of patches.
        patch_size: P and Q, height and width of a patch.
        channels: C.

    Returns:
        `(B, R P, S Q, C)`.

    Examples:
        >>> patches = np.array([[0, 1, 4, 5], [2, 3, 6, 7]]).reshape(1, 1, 2, 4)
        >>> x = join_patches(patches, (2, 2), 1)
        >>> keras.ops.convert_to_numpy(x)[0, :, :, 0].tolist()
        [[0, 1, 2, 3], [4, 5, 6, 7]]
    """
    (P, Q), C = patch_size, channels
    B, R, S, _ = ops.shape(patches)
    x = ops.reshape(patches, (B, R, S, P, Q, C))
    x = ops.transpose(x, (0, 1, 3, 2, 4, 5))  # (B, R, P, S, Q, C)
    return ops.reshape(x, (B, R * P, S * Q, C))


@register
class ToPatches(Layer):
    """Cuts pictures into a grid of patches, each flattened to a vector.

    Args:
        patch_size: P, or height and width of a patch.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `(B, H, W, C)`.

    Returns:
        `(B, H / P, W / P, P P C)`.

    Examples:
        >>> keras.ops.shape(ToPatches(3)(np.ones((2, 6, 9, 1))))
        (2, 2, 3, 9)
    """

    @passes_on(Layer)
    def __init__(self, patch_size: int | tuple[int, int], **kwargs: Any) -> None:
        self.patch_size: tuple[int, int] = sizes.pair("patch_size", patch_size)
        self.built = True

    def call(self, x: Tensor) -> Tensor:
        (P, Q), (_, H, W, C) = self.patch_size, ops.shape(x)
        grid = (-1, H // P, W // Q, P * Q * C)
        return ops.reshape(extract_patches(x, self.patch_size), grid)

    def compute_output_shape(self, shape: Shape) -> Shape:
        B, H, W, C = shape
        P, Q = self.patch_size
        return B, *sizes.grid((H, W), self.patch_size), P * Q * C


@register
class FromPatches(Layer):
    """Joins a grid of patches to pictures, with pixels from 0 to 1.

    Args:
        patch_size: P, or height and width of a patch.
        channels: C.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        patches: `(B, R, S, P P C)`, with black at -1 and white at 1.
        training: Whether to return what is blacker than black and whiter than white;
            cut off, a pixel would have no gradient.

    Returns:
        `(B, R P, S P, C)`.

    Examples:
        >>> images = FromPatches(1, 1)(np.array([-1.0, 0.0, 2.0]).reshape(1, 1, 3, 1))
        >>> keras.ops.convert_to_numpy(images).ravel().tolist()
        [0.0, 0.5, 1.0]
    """

    @passes_on(Layer)
    def __init__(
        self, patch_size: int | tuple[int, int], channels: int, **kwargs: Any
    ) -> None:
        self.patch_size: tuple[int, int] = sizes.pair("patch_size", patch_size)
        self.channels: int = channels
        self.built = True

    def call(self, patches: Tensor, training: bool = False) -> Tensor:
        x = (join_patches(patches, self.patch_size, self.channels) + 1) / 2
        return x if training else ops.clip(x, 0, 1)

    def compute_output_shape(self, shape: Shape) -> Shape:
        B, R, S, _ = shape
        P, Q = self.patch_size
        height = None if R is None else R * P
        return B, height, None if S is None else S * Q, self.channels


@register
class PixelLoss(keras.losses.Loss):
    r"""Computes the mean of $(y - \hat y)^2$ of each picture, with black at -1.

    Args:
        reduction: As for `keras.losses.Loss`.
        name: As for `keras.losses.Loss`.
        dtype: As for `keras.losses.Loss`.

    Examples:
        >>> float(PixelLoss()(np.zeros((2, 3, 3, 1)), np.full((2, 3, 3, 1), 0.5)))
        1.0
    """

    per_row: bool = True  # for the mean over batches

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Returns the loss of each picture.

        Args:
            y_true: `(B, H, W, C)`, pixels from 0 to 1.
            y_pred: The same.
        """
        return 4 * ops.mean(ops.square(y_true - y_pred), axis=(1, 2, 3))
