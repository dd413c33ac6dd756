r"""Position-wise feed-forward network, with or without a gate.

$$
\mathrm{FFN}(x) = \phi(x W_1 + b_1)\, W_2 + b_2, \qquad
\mathrm{GLU}(x) = \left(\phi(x W) \odot x V\right) W_2
$$

Vaswani et al. 2017; the gated form, whose biases are optional as well, from Shazeer
2020; GELU from Hendrycks and Gimpel 2016. Course slides A, B, C; the table of C.
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras

from kerasseq import tracing
from kerasseq.core import checks, masks
from kerasseq.core.arguments import seed_generator
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.shapes import (
    check_mask,
    check_numbers,
    check_shape,
    check_width,
)
from kerasseq.core.types import (
    Activation,
    Identifier,
    Initializer,
    Shape,
    Tensor,
)
from kerasseq.kernels import dense, precise


@register
def gelu_tanh(x: Tensor) -> Tensor:
    r"""Computes GELU by tanh, the form of GPT-2, BERT and T5 1.1.

    $\frac x2 \left(1 + \tanh(\sqrt{2 / \pi}\,(x + 0.044715\,x^3))\right)$.

    Examples:
        >>> y = gelu_tanh(keras.ops.convert_to_tensor([1.0]))
        >>> round(float(y[0]), 4)  # 0.8413 without the approximation
        0.8412
    """
    return keras.activations.gelu(x, approximate=True)


# By name: the activation, and whether it is that of a gate.
FEED_FORWARDS = {
    "relu": ("relu", False),
    "gelu": ("gelu", False),
    "gelu_tanh": (gelu_tanh, False),
    "silu": ("silu", False),
    "glu": ("sigmoid", True),
    "bilinear": ("linear", True),
    "reglu": ("relu", True),
    "geglu": ("gelu", True),
    "geglu_tanh": (gelu_tanh, True),
    "swiglu": ("silu", True),
}
NONE = "none"  # a block without a feed-forward network, as in Mamba


@register
class FeedForward(Layer):
    r"""Two dense layers with an activation between them, or three with a gate.

    Args:
        intermediate_dim: F, the width of the hidden layer: $W_1$ is `(D, F)`. With a
            gate both $W$ and $V$ are `(D, F)`, which makes one and a half times as many
            weights; two thirds of the width make up for it.
        activation: $\phi$.
        gated: Whether $\phi(x W)$ is a gate of $x V$. With "relu" this is ReGLU, with
            "gelu" GEGLU, with "silu" SwiGLU.
        use_bias: Whether the dense layers have biases.
        dropout: Fraction of the hidden layer to drop in training.
        kernel_initializer: Initializer of the kernels.
        bias_initializer: Initializer of the biases.
        seed: Seed of dropout.
        output_initializer: Initializer of the last kernel; `kernel_initializer` if
            None.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`, or with any axes before the last.
        training: Whether to apply dropout.
        mask: Boolean `(B, T)`, set by Keras. Masked steps are computed as zeros.

    Returns:
        A tensor with the shape of x.

    Raises:
        ValueError: If a size or rate is out of range, or the activation is unknown.

    Examples:
        >>> layer = FeedForward(11, activation="silu", gated=True, use_bias=False)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 5)
        >>> [tuple(weight.shape) for weight in layer.weights]
        [(5, 11), (5, 11), (11, 5)]
    """

    gate_dense: keras.layers.Dense
    intermediate_dense: keras.layers.Dense
    output_dense: keras.layers.Dense
    activation: Activation
    kernel_initializer: Initializer
    bias_initializer: Initializer
    output_initializer: Initializer

    @passes_on(Layer)
    def __init__(
        self,
        intermediate_dim: int,
        *,
        activation: Identifier = "relu",
        gated: bool = False,
        use_bias: bool = True,
        dropout: float = 0.0,
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        seed: int | None = None,
        output_initializer: Identifier = None,
        **kwargs: Any,
    ) -> None:
        self.intermediate_dim: int = checks.size(
            "intermediate_dim", intermediate_dim, 1
        )
        self.gated: bool = checks.flag("gated", gated)
        self.use_bias: bool = checks.flag("use_bias", use_bias)
        self.dropout: float = checks.rate("dropout", dropout)
        self.seed: int | None = checks.optional(checks.seed, "seed", seed)
        if self.dropout:
            self.seed_generator: keras.random.SeedGenerator = seed_generator(seed)

    def build(self, shape: Shape) -> None:
        check_shape("x", shape, "(batch, features)", more=True)
        D, F = shape[-1], self.intermediate_dim
        checks.fits_memory("intermediate_dim", F, D)
        self.input_width = D
        if self.gated:
            self.gate_dense = self.built_dense("gate_dense", D, F)
        self.intermediate_dense = self.built_dense("intermediate_dense", D, F)
        last = self.output_initializer or self.kernel_initializer
        self.output_dense = self.built_dense(
            "output_dense", F, D, kernel_initializer=last
        )
        self.built = True

    def call(
        self, x: Tensor, training: bool = False, *, mask: Tensor | None = None
    ) -> Tensor:
        x = real_inputs(x, mask, self.input_width)
        phi = precise(self.activation)
        if self.gated:
            gate = tracing.record(self, "gate", phi(dense(self.gate_dense, x)))
            h = gate * dense(self.intermediate_dense, x)
        else:
            h = phi(dense(self.intermediate_dense, x))
        h = tracing.record(self, "hidden", h)  # (B, T, F)
        if self.dropout and training:
            h = keras.random.dropout(h, self.dropout, seed=self.seed_generator)
        return tracing.record(self, "output", dense(self.output_dense, h))

    def compute_output_shape(self, shape: Shape) -> Shape:
        return shape


def real_inputs(x: Tensor, mask: Tensor | None, width: int) -> Tensor:
    """Returns the inputs of a feed-forward network, with zeros at padding.

    Args:
        x: `(B, T, D)`, or with any axes before the last.
        mask: Boolean `(B, T)`, True at real steps, or None.
        width: D.

    Raises:
        TypeError: If x are no numbers.
        ValueError: If a shape is another one.
    """
    check_numbers("x", x, "(batch, features)", more=True)
    check_width("x", x.shape, width)
    if len(x.shape) > 2:
        check_mask("mask", mask, ("batch", "time"), x.shape[:2])
    return masks.zero_masked(x, mask)


def check_feed_forward(
    feed_forward: str | keras.Layer | None,
    intermediate_dim: int | None,
    activation: Callable[[Tensor], Tensor],
) -> None:
    """Raises unless the three arguments of a block fit each other.

    Args:
        feed_forward: A name, a layer, or None.
        intermediate_dim: Width of the hidden layer; None with a layer.
        activation: Activation function of the block.
    """
    if isinstance(feed_forward, keras.Layer) or feed_forward == NONE:
        if intermediate_dim is not None:
            kind = '"none"' if feed_forward == NONE else "a layer"
            raise ValueError(
                f"intermediate_dim must be None where feed_forward is {kind}, received "
                f"{intermediate_dim}. Pass None"
            )
        return
    checks.whole_number("intermediate_dim", intermediate_dim)
    if feed_forward is None:
        return
    if not isinstance(feed_forward, str):
        raise TypeError(
            "feed_forward must be a name, a layer or None, received "
            f"{checks.short(feed_forward)}. The names are "
            f"{', '.join((*FEED_FORWARDS, NONE))}"
        )
    checks.one_of("feed_forward", feed_forward, (*FEED_FORWARDS, NONE))
    if activation is not keras.activations.relu:
        raise ValueError(
            "activation must be the default where feed_forward names its own, received "
            f"activation={getattr(activation, '__name__', activation)} and "
            f'feed_forward="{feed_forward}". Leave activation out'
        )


def widths_of_blocks(
    networks: Sequence[Any], intermediate_dim: int | None, default: int
) -> list[int | None]:
    """Returns `intermediate_dim` of each block: None where that must be left out.

    Args:
        networks: The feed-forward network of each block: a name, a layer, or None.
        intermediate_dim: Width of the networks by name, or None.
        default: The width if that is None.

    Raises:
        ValueError: If a width is given, but no block has a network by name.

    Examples:
        >>> widths_of_blocks(["relu", FeedForward(7), "none"], None, 20)
        [20, None, None]
    """
    named = [f != NONE and not isinstance(f, keras.Layer) for f in networks]
    if intermediate_dim is not None and not any(named):
        raise ValueError(
            'intermediate_dim must be None where feed_forward is a layer or "none" in '
            f"every block, received intermediate_dim={intermediate_dim}. Leave it out: "
            "a layer has its own width"
        )
    width = default if intermediate_dim is None else intermediate_dim
    return [width if by_name else None for by_name in named]


def make_feed_forward(
    feed_forward: str | None,
    intermediate_dim: int,
    activation: Identifier,
    **options: Any,
) -> FeedForward:
    """Creates the feed-forward network by name, or by activation if that is None.

    Examples:
        >>> make_feed_forward("swiglu", 11, None).gated
        True
        >>> make_feed_forward(None, 11, "gelu").gated
        False
    """
    gated = False
    if feed_forward is not None:
        activation, gated = FEED_FORWARDS[feed_forward]
    return FeedForward(intermediate_dim, activation=activation, gated=gated, **options)
