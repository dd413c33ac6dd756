r"""Patch embedding: an image as a sequence of projected patches.

$$
Z = [x_{\mathrm{class}};\; x^1 E;\; x^2 E;\; \dots;\; x^N E] + E_{\mathrm{pos}},
\qquad N = H W / P^2
$$

With 224² = 50,176 pixels that is 14 × 14 = 196 patches of 16 × 16. Dosovitskiy et al.
2021, "An image is worth 16x16 words". Course slides A, B, C.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from kerasseq import kernels, tracing
from kerasseq.core import checks, objects
from kerasseq.core.listed_config import ListedConfig
from kerasseq.core.serialization import check_float64, register
from kerasseq.core.shapes import as_floats
from kerasseq.core.sublayers import WithSublayers
from kerasseq.core.types import Identifier, Shape, Tensor
from kerasseq.kernels import matmul
from kerasseq.models.vit import grid as grids
from kerasseq.models.vit import sizes


def extract_patches(x: Tensor, patch_size: tuple[int, int]) -> Tensor:
    """Returns the patches of images, row by row, each flattened to a vector.

    Args:
        x: `(B, H, W, C)`.
        patch_size: P and Q, height and width of a patch.

    Returns:
        `(B, N, P Q C)`.

    Examples:
        >>> x = np.arange(8).reshape(1, 2, 4, 1)
        >>> keras.ops.convert_to_numpy(extract_patches(x, (2, 2)))[0].tolist()
        [[0, 1, 4, 5], [2, 3, 6, 7]]
    """
    (P, Q), C = patch_size, x.shape[-1]
    rows, columns = _rows_and_columns(x, patch_size)
    x = x[:, : rows * P, : columns * Q]  # in case Keras guessed the size
    x = ops.reshape(x, (-1, rows, P, columns, Q, C))
    x = ops.transpose(x, (0, 1, 3, 2, 4, 5))  # (B, rows, columns, P, Q, C)
    return ops.reshape(x, (-1, rows * columns, P * Q * C))


def _rows_and_columns(x, patch_size):
    """Returns integers, or tensors if the size of the image is unknown."""
    return [n // p for n, p in zip(ops.shape(x)[1:3], patch_size, strict=True)]


@register
class PatchEmbedding(ListedConfig, WithSublayers, keras.layers.Layer):
    r"""Embeds the patches of an image, with a class token and learned positions.

    The projection is a convolution whose stride is its kernel size. The position
    embeddings are learned for one image size and interpolated for others.

    Args:
        patch_size: P, or height and width of a patch.
        hidden_dim: D.
        class_token: Whether a learned vector comes before the patches.
        image_size: Side, or height and width, of the images that the positions are
            learned for; those of the first images if None.
        interpolation: Interpolation of the positions: "bicubic" or "bilinear".
        use_bias: Whether the projection has a bias.
        kernel_initializer: Initializer of the projection.
        bias_initializer: Initializer of the bias.
        position_initializer: Initializer of positions and class token; normal with a
            standard deviation of 0.02 if None.
        data_format: "channels_last" for images `(B, H, W, C)`, "channels_first" for
            `(B, C, H, W)`; `keras.config.image_data_format()` if None.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: `(B, H, W, C)`.

    Returns:
        `(B, 1 + N, D)`, or `(B, N, D)` without class token: the patches row by row.

    Raises:
        ValueError: If the patch size does not divide the image size.

    Examples:
        >>> layer = PatchEmbedding(16, hidden_dim=5)
        >>> keras.ops.shape(layer(np.zeros((1, 224, 224, 3))))
        (1, 197, 5)
        >>> keras.ops.shape(layer(np.zeros((1, 64, 32, 3))))
        (1, 9, 5)
    """

    def __init__(
        self,
        patch_size: int | tuple[int, int],
        hidden_dim: int,
        *,
        class_token: bool = True,
        image_size: int | tuple[int, int] | None = None,
        interpolation: str = "bicubic",
        use_bias: bool = True,
        kernel_initializer: Identifier = "lecun_normal",
        bias_initializer: Identifier = "zeros",
        position_initializer: Identifier = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_float64(self)
        self.input_spec = keras.InputSpec(ndim=4)
        self.patch_size: tuple[int, int] = sizes.pair("patch_size", patch_size)
        self.hidden_dim: int = checks.size("hidden_dim", hidden_dim)
        checks.fits_memory("hidden_dim", self.hidden_dim)
        self.class_token: bool = checks.one_of(
            "class_token", class_token, (True, False)
        )
        self.image_size: tuple[int, int] | None = checks.optional(
            sizes.pair, "image_size", image_size
        )
        if self.image_size is not None:
            sizes.grid(self.image_size, self.patch_size)
        self.interpolation: str = checks.one_of(
            "interpolation", interpolation, grids.KERNELS
        )
        self.use_bias: bool = checks.flag("use_bias", use_bias)
        get = objects.initializer
        self.kernel_initializer: Callable[..., Tensor] | None = get(
            "kernel_initializer", kernel_initializer
        )
        self.bias_initializer: Callable[..., Tensor] | None = get(
            "bias_initializer", bias_initializer
        )
        self.position_initializer: Callable[..., Tensor] | None = get(
            "position_initializer", position_initializer
        )
        self.data_format: str = check_data_format(data_format)

    def build(self, inputs_shape: Shape) -> None:
        height, width, C = self._sizes(inputs_shape)
        if self.image_size is None:
            if height is None or width is None:
                raise ValueError(
                    f"{self.name} learns positions for one image size and needs it, "
                    f"received inputs of unknown size {tuple(inputs_shape)}. Pass "
                    "image_size"
                )
            self.image_size = (height, width)
        self.grid: tuple[int | None, ...] = sizes.grid(self.image_size, self.patch_size)
        self._grid_of(inputs_shape)  # raises unless the patch size divides it
        rows, columns = self.grid
        D = self.hidden_dim
        self.kernel: keras.Variable = self.add_weight(
            name="kernel",
            shape=(*self.patch_size, C, D),
            initializer=self.kernel_initializer,
        )
        if self.use_bias:
            self.bias: keras.Variable = self.add_weight(
                name="bias", shape=(D,), initializer=self.bias_initializer
            )
        if self.class_token:
            self.token: keras.Variable = self._position_weight("class_token", 1)
        self.position_embeddings: keras.Variable = self._position_weight(
            "position_embeddings", self.class_token + rows * columns
        )
        axis = -1 if self.data_format == "channels_last" else 1
        self.input_spec: keras.InputSpec = keras.InputSpec(ndim=4, axes={axis: C})
        self.built = True

    def _position_weight(self, name, length):
        initializer = self.position_initializer
        if initializer is None:
            initializer = keras.initializers.RandomNormal(stddev=0.02)
        return self.add_weight(
            name=name, shape=(length, self.hidden_dim), initializer=initializer
        )

    def call(self, inputs: Tensor) -> Tensor:
        x = as_floats("inputs", inputs, self.compute_dtype)
        if not kernels.size_is_guessed(x):
            self._grid_of(x.shape)
        if self.data_format == "channels_first":
            x = ops.transpose(x, (0, 2, 3, 1))  # (B, H, W, C)
        E = ops.reshape(self.kernel, (-1, self.hidden_dim))  # (P Q C, D)
        z = matmul(extract_patches(x, self.patch_size), E)  # (B, N, D)
        if self.use_bias:
            z = z + ops.convert_to_tensor(self.bias)
        z = tracing.record(self, "patches", z)
        if self.class_token:
            token = ops.convert_to_tensor(self.token)[None]
            token = ops.broadcast_to(token, (ops.shape(z)[0], 1, self.hidden_dim))
            z = ops.concatenate([token, z], axis=1)  # (B, 1 + N, D)
        return z + self.positions(*_rows_and_columns(x, self.patch_size))

    def positions(self, rows: int | Tensor, columns: int | Tensor) -> Tensor:
        """Returns the position embeddings of a grid of patches, interpolated if needed.

        Args:
            rows: Number of rows of the grid.
            columns: Number of columns of the grid.

        Returns:
            `(1 + rows * columns, D)`; `(rows * columns, D)` without class token.
        """
        E_pos, D = ops.convert_to_tensor(self.position_embeddings), self.hidden_dim
        known = isinstance(rows, int) and isinstance(columns, int)
        if known and (rows, columns) == self.grid:
            return E_pos
        first = int(self.class_token)
        P = ops.reshape(E_pos[first:], (*self.grid, D))
        P = grids.resize(P, (rows, columns), self.interpolation)
        return ops.concatenate([E_pos[:first], ops.reshape(P, (-1, D))])

    def _sizes(self, shape):
        """Returns height, width and channels of a shape."""
        _, *sides = shape
        return sides if self.data_format == "channels_last" else (*sides[1:], sides[0])

    def _grid_of(self, shape):
        return sizes.grid(self._sizes(shape)[:2], self.patch_size)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        rows, columns = self._grid_of(inputs_shape)
        known = None not in (rows, columns)
        patches = rows * columns + self.class_token if known else None
        return (inputs_shape[0], patches, self.hidden_dim)


def check_data_format(data_format: str | None) -> str:
    """Returns `data_format`, or the default of Keras if it is None.

    Examples:
        >>> check_data_format("channels_first")
        'channels_first'
    """
    if data_format is None:
        return keras.config.image_data_format()
    return checks.one_of(
        "data_format", data_format, ("channels_last", "channels_first")
    )
