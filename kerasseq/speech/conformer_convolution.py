r"""The convolution of a Conformer block: gated, and each channel by itself.

$$
[a;\; b] = x W_1 + b_1, \qquad
h_{t,d} = \beta_d + \sum_{j=-p}^{p} \big(a \odot \sigma(b)\big)_{t+j,d}\, w_{j,d},
\qquad
y = \phi\big(\mathrm{Norm}(h)\big)\, W_2 + b_2
$$

with kernel size $2 p + 1$; Norm is batch or layer normalization. Gulati et al. 2020,
figure 2.
"""

from typing import Any

import keras
from keras import ops

from kerasseq import kernels, tracing
from kerasseq.core import checks, masks
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.shapes import as_floats, check_sequence, check_shape, check_width
from kerasseq.core.types import Activation, Identifier, Initializer, Shape, Tensor
from kerasseq.speech.batch_norm import BatchNormalization
from kerasseq.speech.conv_subsampling import odd_size
from kerasseq.transformer.norms import make_norm

NORMALIZATIONS = ("batch", "layer")
MOMENTUM = 0.9  # of the moving statistics, as in PyTorch


@register
class ConformerConvolution(Layer):
    r"""Convolution over time between two dense layers, the first with a gate.

    Masked steps are zeros for the convolution, and do not count in the statistics of
    batch normalization.

    Args:
        kernel_size: Number of steps that an output reads, odd.
        normalization: "batch" or "layer".
        activation: $\phi$.
        epsilon: ε of the norm.
        use_bias: Whether the dense layers and the convolution have biases.
        kernel_initializer: Initializer of the kernels of the dense layers. The kernel
            of the convolution is uniform within $\pm 1 / \sqrt k$.
        bias_initializer: Initializer of the biases.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`.
        mask: Boolean `(B, T)`, True at real steps. Keras passes it.
        training: Whether batch normalization uses the statistics of the batch.

    Returns:
        `(B, T, D)`.

    Examples:
        >>> layer = ConformerConvolution(3, normalization="layer")
        >>> tuple(layer(np.ones((2, 7, 5))).shape)
        (2, 7, 5)
    """

    activation: Activation
    kernel_initializer: Initializer
    bias_initializer: Initializer

    @passes_on(Layer)
    def __init__(
        self,
        kernel_size: int = 31,
        *,
        normalization: str = "batch",
        activation: Identifier = "silu",
        epsilon: float = 1e-5,
        use_bias: bool = True,
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        **kwargs: Any,
    ) -> None:
        self.kernel_size: int = odd_size("kernel_size", kernel_size)
        self.normalization: str = checks.one_of(
            "normalization", normalization, NORMALIZATIONS
        )
        self.epsilon: float = checks.positive("epsilon", epsilon)
        self.use_bias: bool = checks.flag("use_bias", use_bias)

    def build(self, shape: Shape) -> None:
        check_shape("x", shape)
        D, k = shape[-1], self.kernel_size
        checks.fits_memory("kernel_size", k, D)
        self.input_width: int = D
        self.gated_dense: keras.layers.Dense = self.built_dense("gated_dense", D, 2 * D)
        self.kernel: keras.Variable = self.add_weight(
            name="kernel",
            shape=(k, D),
            initializer=keras.initializers.VarianceScaling(
                1 / 3, mode="fan_in", distribution="uniform"
            ),
        )
        self.bias: keras.Variable | None = None
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias", shape=(D,), initializer=self.bias_initializer
            )
        self.norm: keras.layers.Layer = self._make_norm()
        self.norm.build(shape)
        self.output_dense: keras.layers.Dense = self.built_dense("output_dense", D, D)
        self.built = True

    def _make_norm(self):
        options = {"epsilon": self.epsilon, "name": "norm", "dtype": self.dtype_policy}
        if self.normalization == "batch":
            return BatchNormalization(momentum=MOMENTUM, **options)
        return make_norm("layer", use_bias=True, **options)

    def call(
        self, x: Tensor, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        check_sequence("x", x, mask)
        check_width("x", x.shape, self.input_width)
        x = masks.zero_masked(as_floats("x", x, self.compute_dtype), mask)
        a, b = ops.split(kernels.dense(self.gated_dense, x), 2, axis=-1)
        gate = tracing.record(self, "gate", ops.sigmoid(b))
        # Once more, as biases make numbers of zeros.
        h = self._convolve(masks.zero_masked(a * gate, mask))  # (B, T, D)
        if self.normalization == "batch":
            h = self.norm(h, mask=mask, training=training)
        else:
            h = self.norm(h)
        h = tracing.record(self, "hidden", kernels.precise(self.activation)(h))
        return tracing.record(self, "output", kernels.dense(self.output_dense, h))

    def _convolve(self, h):
        p = self.kernel_size // 2
        h = ops.pad(h, ((0, 0), (p, p), (0, 0)))
        h = kernels.depthwise_convolution(h, ops.convert_to_tensor(self.kernel))
        return h if self.bias is None else h + ops.convert_to_tensor(self.bias)

    def compute_output_shape(self, shape: Shape) -> Shape:
        return shape
