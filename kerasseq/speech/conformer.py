r"""Conformer block: attention and convolution between two feed-forward networks.

$$
\begin{aligned}
a &= x + \tfrac12\, \mathrm{FFN}_1(\mathrm{Norm}(x)) \\
b &= a + \mathrm{Attention}(\mathrm{Norm}(a)) \\
c &= b + \mathrm{Convolution}(\mathrm{Norm}(b)) \\
y &= \mathrm{Norm}\big(c + \tfrac12\, \mathrm{FFN}_2(\mathrm{Norm}(c))\big)
\end{aligned}
$$

Attention relates all frames, by the relative positions of Transformer-XL; the
convolution relates those nearby. Gulati et al. 2020 (arXiv 2005.08100). Course slides
A.
"""

import functools
import random
from typing import Any

import keras

from kerasseq import tracing
from kerasseq.attention.multi_head import MultiHeadAttention
from kerasseq.core import checks, masks, objects
from kerasseq.core.arguments import seed_generator
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.shapes import as_floats, check_sequence, check_shape, check_width
from kerasseq.core.types import Activation, Identifier, Initializer, Shape, Tensor
from kerasseq.positions.base import AttentionPosition, check_position
from kerasseq.positions.transformer_xl import TransformerXLPosition
from kerasseq.speech.conformer_convolution import ConformerConvolution
from kerasseq.transformer.feed_forward import FeedForward
from kerasseq.transformer.mixers import head_width
from kerasseq.transformer.norms import make_norm


@register
class ConformerBlock(Layer):
    r"""Feed-forward network, self-attention, convolution, feed-forward network.

    The norms come before each sublayer, and one more at the end of the block, so that a
    stack of blocks needs none after it. Padding does not change the results of real
    steps, also in training, where batch normalization counts real steps only.

    A trace has the inputs of the sublayers and the sums after them, such as
    `"conformer_block/convolution_input"` and `"conformer_block/convolution_residual"`.

    Args:
        intermediate_dim: F, the width of the hidden layer of both feed-forward
            networks.
        num_heads: N, number of attention heads.
        kernel_size: Number of steps that the convolution reads for each one, odd.
        dropout: Fraction to drop in training, of the attention weights, of the hidden
            layers of the feed-forward networks, and of the output of each sublayer.
        normalization: Of the convolution: "batch", or "layer", which depends on no
            other row of the batch.
        activation: Activation function of the feed-forward networks and the
            convolution.
        position: Position encoding inside the self-attention, as in
            `MultiHeadAttention`; a `TransformerXLPosition` if None. For none at all,
            pass `AttentionPosition()`.
        head_dim: K, the width of a head; D / N if None.
        use_bias: Whether the feed-forward networks and the projections of the attention
            have biases.
        use_convolution_bias: The same for the convolution and its dense layers;
            `use_bias` if None.
        layer_norm_epsilon: ε of all norms.
        kernel_initializer: Initializer of all kernels but that of the convolution.
        bias_initializer: Initializer of all biases.
        seed: Seed of dropout.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`.
        mask: Boolean `(B, T)`, True at real steps. Keras passes it.
        training: Whether to apply dropout, and to use the statistics of the batch.

    Returns:
        `(B, T, D)`.

    Raises:
        TypeError: If a size is not a whole number, or `position` is of another type.
        ValueError: If an argument is out of range, the kernel size is even, or N does
            not divide D.

    Examples:
        >>> layer = ConformerBlock(11, num_heads=2, kernel_size=3)
        >>> tuple(layer(np.ones((3, 7, 4))).shape)
        (3, 7, 4)

    References:
        Gulati et al., "Conformer: Convolution-augmented Transformer for Speech
        Recognition", 2020. Slides A.
    """

    activation: Activation
    kernel_initializer: Initializer
    bias_initializer: Initializer

    rematerialized: tuple[str, ...] = ("call",)

    @passes_on(Layer)
    def __init__(
        self,
        intermediate_dim: int,
        num_heads: int,
        kernel_size: int = 31,
        *,
        dropout: float = 0.0,
        normalization: str = "batch",
        activation: Identifier = "silu",
        position: AttentionPosition | None = None,
        head_dim: int | None = None,
        use_bias: bool = True,
        use_convolution_bias: bool | None = None,
        layer_norm_epsilon: float = 1e-5,
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        size, optional = checks.size, checks.optional
        self.intermediate_dim: int = size("intermediate_dim", intermediate_dim, 1)
        self.num_heads: int = size("num_heads", num_heads)
        self.kernel_size = kernel_size
        self.dropout: float = checks.rate("dropout", dropout)
        self.normalization = normalization
        self.position: AttentionPosition | None = check_position(position)
        self.head_dim: int | None = optional(size, "head_dim", head_dim, 1)
        self.use_bias: bool = checks.flag("use_bias", use_bias)
        self.use_convolution_bias: bool | None = checks.one_of(
            "use_convolution_bias", use_convolution_bias, (None, True, False)
        )
        self.layer_norm_epsilon: float = checks.positive(
            "layer_norm_epsilon", layer_norm_epsilon
        )
        self.seed: int | None = optional(checks.seed, "seed", seed)
        # Each sublayer has a seed of its own, so that dropout differs between them.
        draw = random.Random(self.seed)
        self._seeds = [None if seed is None else draw.getrandbits(30) for _ in range(4)]
        if self.dropout:
            self.seed_generator: keras.random.SeedGenerator = seed_generator(
                self._seeds[3]
            )
        self.feed_forward_1: FeedForward = self._make_feed_forward("feed_forward_1", 0)
        self.convolution: ConformerConvolution = self._make_convolution()
        self.feed_forward_2: FeedForward = self._make_feed_forward("feed_forward_2", 1)

    def _options(self, name):
        """Returns the arguments that all sublayers have, with own initializers."""
        copy = objects.copy_initializer
        return {
            "kernel_initializer": copy(self.kernel_initializer),
            "bias_initializer": copy(self.bias_initializer),
            "name": name,
            "dtype": self.dtype_policy,
        }

    def _make_feed_forward(self, name, n):
        return FeedForward(
            self.intermediate_dim,
            activation=self.activation,
            use_bias=self.use_bias,
            dropout=self.dropout,
            seed=self._seeds[n],
            **self._options(name),
        )

    def _make_convolution(self):
        own = self.use_convolution_bias
        return ConformerConvolution(
            self.kernel_size,
            normalization=self.normalization,
            activation=self.activation,
            epsilon=self.layer_norm_epsilon,
            use_bias=self.use_bias if own is None else own,
            **self._options("convolution"),
        )

    def _make_attention(self, D):
        N, K = self.num_heads, head_width(D, self.num_heads, self.head_dim)
        position = self.position
        if position is None:
            position = TransformerXLPosition(
                N * K + N * K % 2,  # sine and cosine are a pair
                initializer=objects.copy_initializer(self.kernel_initializer),
                name="position",
                dtype=self.dtype_policy,
            )
        return MultiHeadAttention(
            N,
            K,
            dropout=self.dropout,
            use_bias=self.use_bias,
            position=position,
            seed=self._seeds[2],
            **self._options("self_attention"),
        )

    def build(self, shape: Shape) -> None:
        check_shape("x", shape)
        self.input_width: int = shape[-1]
        self.self_attention: MultiHeadAttention = self._make_attention(shape[-1])
        self.self_attention.build(shape, shape)
        for layer in (self.feed_forward_1, self.convolution, self.feed_forward_2):
            layer.build(shape)
        norm = functools.partial(self._build_norm, shape)
        self.feed_forward_1_norm: keras.layers.Layer = norm("feed_forward_1_norm")
        self.self_attention_norm: keras.layers.Layer = norm("self_attention_norm")
        self.convolution_norm: keras.layers.Layer = norm("convolution_norm")
        self.feed_forward_2_norm: keras.layers.Layer = norm("feed_forward_2_norm")
        self.output_norm: keras.layers.Layer = norm("output_norm")
        self.built = True

    def _build_norm(self, shape, name):
        options = {"epsilon": self.layer_norm_epsilon, "dtype": self.dtype_policy}
        norm = make_norm("layer", use_bias=True, name=name, **options)
        norm.build(shape)
        return norm

    def call(
        self, x: Tensor, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        check_sequence("x", x, mask)
        check_width("x", x.shape, self.input_width)
        x = masks.zero_masked(as_floats("x", x, self.compute_dtype), mask)
        x = tracing.record(self, "input", x)

        n = self._normalized(x, "feed_forward_1", self.feed_forward_1_norm)
        f_x = 0.5 * self.feed_forward_1(n, training=training)
        x = self._add(x, f_x, "feed_forward_1", training)

        n = self._normalized(x, "self_attention", self.self_attention_norm)
        real = {"query_mask": mask, "value_mask": mask}
        f_x = self.self_attention(n, n, **real, training=training)
        x = self._add(x, f_x, "self_attention", training)

        n = self._normalized(x, "convolution", self.convolution_norm)
        f_x = self.convolution(n, mask=mask, training=training)
        x = self._add(x, f_x, "convolution", training)

        n = self._normalized(x, "feed_forward_2", self.feed_forward_2_norm)
        f_x = 0.5 * self.feed_forward_2(n, training=training)
        x = self._add(x, f_x, "feed_forward_2", training)
        return tracing.record(self, "output", self.output_norm(x))

    def _normalized(self, x, name, norm):
        return tracing.record(self, f"{name}_input", norm(x))

    def _add(self, x, f_x, name, training):
        """Adds the output of a sublayer, after dropout, to its input."""
        if self.dropout and training:
            f_x = keras.random.dropout(f_x, self.dropout, seed=self.seed_generator)
        return tracing.record(self, f"{name}_residual", x + f_x)

    def compute_output_shape(self, shape: Shape) -> Shape:
        return shape
