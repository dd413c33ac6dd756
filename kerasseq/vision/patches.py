r"""An image as a sequence: cut into patches, each projected to a vector.

$$
Z = [x_{\mathrm{class}};\; x^1 E;\; x^2 E;\; \dots;\; x^N E] + E_{\mathrm{pos}},
\qquad N = H W / P^2
$$

With 224² = 50,176 pixels that is 14 × 14 = 196 patches of 16 × 16. Dosovitskiy et al.
2021, "An image is worth 16x16 words". Course slides A, B, C.
"""

import keras
from keras import ops

from kerasseq import kernels, tracing
from kerasseq.core import arguments, checks
from kerasseq.core.serialization import check_float64, register
from kerasseq.core.sublayers import WithSublayers
from kerasseq.kernels import matmul
from kerasseq.vision import grid as grids
from kerasseq.vision import sizes


def cut(x, patch_size):
    """The patches of images, row by row, the pixels of each in one vector.

    Args:
        x: `(B, H, W, C)`.
        patch_size: P and Q, height and width of a patch.

    Returns:
        `(B, N, P Q C)`.

    Examples:
        >>> x = np.arange(8).reshape(1, 2, 4, 1)
        >>> keras.ops.convert_to_numpy(cut(x, (2, 2)))[0].tolist()
        [[0, 1, 4, 5], [2, 3, 6, 7]]
    """
    (P, Q), C = patch_size, x.shape[-1]
    rows, columns = _rows_and_columns(x, patch_size)
    x = x[:, : rows * P, : columns * Q]  # no more than that, if Keras guessed the size
    x = ops.reshape(x, (-1, rows, P, columns, Q, C))
    x = ops.transpose(x, (0, 1, 3, 2, 4, 5))  # (B, rows, columns, P, Q, C)
    return ops.reshape(x, (-1, rows * columns, P * Q * C))


def _rows_and_columns(x, patch_size):
    """Numbers, or tensors where the size of the image is not known yet."""
    return [n // p for n, p in zip(ops.shape(x)[1:3], patch_size, strict=True)]


@register
class PatchEmbedding(WithSublayers, keras.layers.Layer):
    r"""Vectors of the patches of an image, with a class token and learned positions.

    Cutting and projecting is one convolution whose stride is its width. The positions
    are learned for images of one size; those of another size get them interpolated, the
    grid of patches laid over the same picture.

    Args:
        patch_size: P, or height and width of a patch.
        hidden_dim: D.
        class_token: Whether a learned vector comes before the patches.
        image_size: Side, or height and width, of the images that the positions are for;
            those of the first images if None.
        interpolation: Of positions: "bicubic" or "bilinear".
        use_bias: Whether the projection has a bias.
        kernel_initializer: Of the projection.
        bias_initializer: Of the bias.
        position_initializer: Of positions and class token; normal with a deviation of
            0.02 if None.
        data_format: "channels_last" for images `(B, H, W, C)`, "channels_first" for
            `(B, C, H, W)`; as `keras.config.image_data_format()` says if None.
        **kwargs: As for any layer.

    Call arguments:
        inputs: `(B, H, W, C)`.

    Returns:
        `(B, 1 + N, D)`, or `(B, N, D)` without class token: the patches row by row.

    Raises:
        ValueError: If the patches do not fill the image.

    Examples:
        >>> layer = PatchEmbedding(16, hidden_dim=5)
        >>> keras.ops.shape(layer(np.zeros((1, 224, 224, 3))))
        (1, 197, 5)
        >>> keras.ops.shape(layer(np.zeros((1, 64, 32, 3))))
        (1, 9, 5)
    """

    def __init__(
        self,
        patch_size,
        hidden_dim,
        *,
        class_token=True,
        image_size=None,
        interpolation="bicubic",
        use_bias=True,
        kernel_initializer="lecun_normal",
        bias_initializer="zeros",
        position_initializer=None,
        data_format=None,
        **kwargs,
    ):
        given = arguments.own(locals())
        super().__init__(**kwargs)
        check_float64(self)
        for name, value in given.items():
            setattr(self, name, arguments.revive(name, value))
        self.input_spec = keras.InputSpec(ndim=4)
        self.patch_size = sizes.pair("patch_size", patch_size)
        checks.whole_number("hidden_dim", hidden_dim)
        checks.one_of("class_token", class_token, (True, False))
        checks.one_of("interpolation", interpolation, grids.KERNELS)
        self.data_format = checked_format(data_format)
        if image_size is not None:
            self.image_size = sizes.pair("image_size", image_size)
            sizes.grid(self.image_size, self.patch_size)

    def build(self, inputs_shape):
        height, width, C = self._sizes(inputs_shape)
        if self.image_size is None:
            if height is None or width is None:
                raise ValueError(
                    f"{self.name} learns positions for images of one size, and its "
                    f"inputs {tuple(inputs_shape)} have none: say image_size"
                )
            self.image_size = (height, width)
        self.grid = sizes.grid(self.image_size, self.patch_size)
        self._grid_of(inputs_shape)  # raises if the patches do not fill these images
        rows, columns = self.grid
        D = self.hidden_dim
        self.kernel = self.add_weight(
            name="kernel",
            shape=(*self.patch_size, C, D),
            initializer=self.kernel_initializer,
        )
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias", shape=(D,), initializer=self.bias_initializer
            )
        if self.class_token:
            self.token = self._position_weight("class_token", 1)
        self.position_embeddings = self._position_weight(
            "position_embeddings", self.class_token + rows * columns
        )
        axis = -1 if self.data_format == "channels_last" else 1
        self.input_spec = keras.InputSpec(ndim=4, axes={axis: C})
        self.built = True

    def _position_weight(self, name, length):
        initializer = self.position_initializer
        if initializer is None:
            initializer = keras.initializers.RandomNormal(stddev=0.02)
        return self.add_weight(
            name=name, shape=(length, self.hidden_dim), initializer=initializer
        )

    def call(self, inputs):
        x = ops.cast(inputs, self.compute_dtype)
        if not kernels.size_is_guessed(x):
            self._grid_of(x.shape)
        if self.data_format == "channels_first":
            x = ops.transpose(x, (0, 2, 3, 1))  # (B, H, W, C)
        E = ops.reshape(self.kernel, (-1, self.hidden_dim))  # (P Q C, D)
        z = matmul(cut(x, self.patch_size), E)  # (B, N, D)
        if self.use_bias:
            z = z + ops.convert_to_tensor(self.bias)
        z = tracing.record(self, "patches", z)
        if self.class_token:
            token = ops.convert_to_tensor(self.token)[None]
            token = ops.broadcast_to(token, (ops.shape(z)[0], 1, self.hidden_dim))
            z = ops.concatenate([token, z], axis=1)  # (B, 1 + N, D)
        return z + self.positions(*_rows_and_columns(x, self.patch_size))

    def positions(self, rows, columns):
        """The positions for so many patches, interpolated if need be.

        Args:
            rows: Of the grid of patches.
            columns: Of the grid of patches.

        Returns:
            `(1 + rows * columns, D)`; without the first, if there is no class token.
        """
        E_pos, D = ops.convert_to_tensor(self.position_embeddings), self.hidden_dim
        known = isinstance(rows, int) and isinstance(columns, int)
        if known and (rows, columns) == self.grid:
            return E_pos
        first = int(self.class_token)
        P = ops.reshape(E_pos[first:], (*self.grid, D))
        P = grids.resized(P, (rows, columns), self.interpolation)
        return ops.concatenate([E_pos[:first], ops.reshape(P, (-1, D))])

    def _sizes(self, shape):
        """Height, width and channels of images of that shape."""
        _, *sides = shape
        return sides if self.data_format == "channels_last" else (*sides[1:], sides[0])

    def _grid_of(self, shape):
        return sizes.grid(self._sizes(shape)[:2], self.patch_size)

    def compute_output_shape(self, inputs_shape):
        rows, columns = self._grid_of(inputs_shape)
        known = None not in (rows, columns)
        patches = rows * columns + self.class_token if known else None
        return (inputs_shape[0], patches, self.hidden_dim)

    def get_config(self):
        config = {
            name: arguments.as_config(name, getattr(self, name))
            for name in arguments.names(PatchEmbedding)
        }
        return {**super().get_config(), **config}


def checked_format(data_format):
    """Where the channels stand: as given, or as Keras is set up.

    Examples:
        >>> checked_format("channels_first")
        'channels_first'
    """
    if data_format is None:
        return keras.config.image_data_format()
    return checks.one_of(
        "data_format", data_format, ("channels_last", "channels_first")
    )
