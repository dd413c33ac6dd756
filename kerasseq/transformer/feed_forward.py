r"""The feed-forward part of a block: what is done with each position by itself.

$$
\mathrm{FFN}(x) = \phi(x W_1 + b_1)\, W_2 + b_2, \qquad
\mathrm{GLU}(x) = \left(\phi(x W) \odot x V\right) W_2
$$

Vaswani et al. 2017; the gated form, which has biases too if there are any, from Shazeer
2020. Course slides A, B; the table of C.
"""

import keras

from kerasseq import tracing
from kerasseq.core import arguments, checks, masks
from kerasseq.core.serialization import check_float64, register
from kerasseq.core.shapes import (
    check_mask,
    check_numbers,
    check_shape,
    check_width,
)
from kerasseq.core.sublayers import WithSublayers
from kerasseq.kernels import dense, precise
from kerasseq.transformer.gelu import gelu_by_tanh

# By name: the activation, and whether it is that of a gate.
FEED_FORWARDS = {
    "relu": ("relu", False),
    "gelu": ("gelu", False),
    "gelu_tanh": (gelu_by_tanh, False),
    "silu": ("silu", False),
    "glu": ("sigmoid", True),
    "bilinear": ("linear", True),
    "reglu": ("relu", True),
    "geglu": ("gelu", True),
    "geglu_tanh": (gelu_by_tanh, True),
    "swiglu": ("silu", True),
}

OUTPUT = "output_initializer"


@register
class FeedForward(WithSublayers, keras.layers.Layer):
    r"""Two dense layers with an activation between them, or three with a gate.

    Args:
        intermediate_dim: F, the width in between: $W_1$ is `(D, F)`. With a gate both
            $W$ and $V$ are `(D, F)`, so that the layer has half as many weights again;
            two thirds of the width give it as many as without.
        activation: $\phi$.
        gated: Whether $\phi(x W)$ is a gate of $x V$. With "relu" this is ReGLU, with
            "gelu" GEGLU, with "silu" SwiGLU.
        use_bias: Whether there are biases.
        dropout: Fraction of what is between the layers dropped in training.
        kernel_initializer: Of the kernels.
        bias_initializer: Of the biases.
        seed: Seed of dropout.
        output_initializer: Of the kernel of the last layer; as `kernel_initializer`
            says if None.
        **kwargs: As for any layer.

    Call arguments:
        x: `(B, T, D)`, or with any axes before the last.
        training: Whether dropout is on.
        mask: Boolean `(B, T)`, filled in by Keras: what stands at hidden steps is not
            read.

    Returns:
        A tensor of the shape of x.

    Raises:
        ValueError: If a width or rate is out of range, or the activation unknown.

    Examples:
        >>> layer = FeedForward(11, activation="silu", gated=True, use_bias=False)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 5)
        >>> [tuple(weight.shape) for weight in layer.weights]
        [(5, 11), (5, 11), (11, 5)]
    """

    def __init__(
        self,
        intermediate_dim,
        *,
        activation="relu",
        gated=False,
        use_bias=True,
        dropout=0.0,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        seed=None,
        output_initializer=None,
        **kwargs,
    ):
        given = arguments.own(locals())
        super().__init__(**kwargs)
        check_float64(self)
        for name, value in given.items():
            setattr(self, name, arguments.revive(name, value))
        self.intermediate_dim = checks.whole_number(
            "intermediate_dim", intermediate_dim
        )
        self.dropout = checks.rate("dropout", dropout)
        if self.dropout:
            self.seed_generator = arguments.seed_generator(seed)
        self.supports_masking = True

    def build(self, shape):
        check_shape("x", shape, "(batch, features)", more=True)
        self._width = shape[-1]
        D, F = shape[-1], self.intermediate_dim
        checks.fits_memory("intermediate_dim", F, D)
        if self.gated:
            self.gate_dense = self._dense("gate_dense", D, F)
        self.intermediate_dense = self._dense("intermediate_dense", D, F)
        own = "kernel_initializer" if self.output_initializer is None else OUTPUT
        self.output_dense = self._dense("output_dense", F, D, own)
        self.built = True

    def _dense(self, name, width, units, initializer="kernel_initializer"):
        layer = keras.layers.Dense(
            units,
            use_bias=self.use_bias,
            name=name,
            dtype=self.dtype_policy,
            kernel_initializer=self._as_config(initializer),
            bias_initializer=self._as_config("bias_initializer"),
        )
        layer.build((None, width))
        return layer

    def call(self, x, training=False, *, mask=None):
        check_numbers("x", x, "(batch, features)", more=True)
        check_width("x", x.shape, self._width)
        if len(x.shape) > 2:
            check_mask("mask", mask, ("batch", "time"), x.shape[:2])
        x = masks.zero_masked(x, mask)
        phi = precise(self.activation)
        if self.gated:
            gate = tracing.record(self, "gate", phi(dense(self.gate_dense, x)))
            h = gate * dense(self.intermediate_dense, x)
        else:
            h = phi(dense(self.intermediate_dense, x))
        h = tracing.record(self, "hidden", h)  # (B, T, F)
        if self.dropout and training:
            h = keras.random.dropout(h, self.dropout, seed=self.seed_generator)
        return dense(self.output_dense, h)

    def compute_output_shape(self, shape):
        return shape

    def get_config(self):
        names = arguments.names(FeedForward)
        return {**super().get_config(), **{n: self._as_config(n) for n in names}}

    def _as_config(self, name):
        return arguments.as_config(name, getattr(self, name))


def checked(feed_forward, intermediate_dim, activation):
    """Raise unless the three arguments of a block say one thing together."""
    if feed_forward is None or isinstance(feed_forward, str):
        checks.whole_number("intermediate_dim", intermediate_dim)
    if feed_forward is None:
        return
    if isinstance(feed_forward, str):
        checks.one_of("feed_forward", feed_forward, FEED_FORWARDS)
        given = keras.activations.get(activation)
        if given is not keras.activations.relu:
            raise ValueError(
                f'feed_forward="{feed_forward}" names its activation: leave '
                f"activation={getattr(given, '__name__', given)} out"
            )
    elif not isinstance(feed_forward, keras.Layer):
        raise TypeError(f"feed_forward must be a name or a layer, got {feed_forward!r}")
    elif intermediate_dim is not None:
        raise ValueError(
            f"intermediate_dim={intermediate_dim} says nothing where feed_forward is a "
            "layer: pass None"
        )


def make(feed_forward, intermediate_dim, activation, **options):
    """The feed-forward part by its name, or by its activation where that is None.

    Examples:
        >>> make("swiglu", 11, None).gated, make(None, 11, "gelu").gated
        (True, False)
    """
    gated = False
    if feed_forward is not None:
        activation, gated = FEED_FORWARDS[feed_forward]
    return FeedForward(intermediate_dim, activation=activation, gated=gated, **options)
