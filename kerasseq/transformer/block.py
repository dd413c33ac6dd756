"""What encoder and decoder blocks have in common: arguments, checked, and parts."""

import numbers
import random

import keras

from kerasseq.attention.multi_head import MultiHeadAttention
from kerasseq.attention.multi_head_arguments import check_groups
from kerasseq.core import arguments, checks
from kerasseq.core.serialization import check_float64, shared_config
from kerasseq.core.shapes import check_mask, check_numbers
from kerasseq.core.sublayers import WithSublayers
from kerasseq.transformer import feed_forward as feed_forwards
from kerasseq.transformer import norms, residual
from kerasseq.transformer.initializers import Scaled

OBJECTS = ("feed_forward", "position")


class TransformerBlock(WithSublayers, keras.layers.Layer):
    """The constructor of both blocks, and the way from one part to the next."""

    def __init__(
        self,
        intermediate_dim,
        num_heads,
        dropout=0,
        activation="relu",
        layer_norm_epsilon=1e-05,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        normalize_first=False,
        *,
        norm="layer",
        norm_placement=None,
        feed_forward=None,
        use_bias=True,
        position=None,
        num_key_value_heads=None,
        head_dim=None,
        scale=None,
        sliding_window=None,
        parallel=False,
        depth=None,
        seed=None,
        use_query_key_value_bias=None,
        query_key_norm=None,
        output_initializer=None,
        **kwargs,
    ):
        given = arguments.own(locals())
        super().__init__(**kwargs)
        check_float64(self)
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3)
        self.norm = norms.checked(given.pop("norm"))
        given["query_key_norm"] = norms.checked_or_none(
            "query_key_norm", query_key_norm
        )
        for name, value in given.items():
            if name in OBJECTS and isinstance(value, dict):  # as a file has it
                value = keras.saving.deserialize_keras_object(value)
            setattr(self, name, arguments.revive(name, value))
        self._check_numbers()
        self._check_rules()
        feed_forwards.checked(self.feed_forward, intermediate_dim, self.activation)
        # Parts that draw do so from seeds of their own, or they would draw the same.
        draw = random.Random(seed)
        self._seeds = [None if seed is None else draw.getrandbits(30) for _ in range(3)]
        if self.dropout:
            self.seed_generator = arguments.seed_generator(self._seeds[0])

    def _check_numbers(self):
        checks.whole_number("num_heads", self.num_heads)
        for name in ("num_key_value_heads", "head_dim", "sliding_window"):
            if getattr(self, name) is not None:
                checks.whole_number(name, getattr(self, name))
        check_groups(self.num_heads, self.num_key_value_heads or self.num_heads)
        if self.scale is not None:
            checks.number("scale", self.scale)
        self.dropout = checks.rate("dropout", self.dropout)
        epsilon = self.layer_norm_epsilon
        if not isinstance(epsilon, numbers.Real) or not epsilon > 0:
            raise ValueError(
                f"layer_norm_epsilon must be a number above 0, got {epsilon!r}"
            )
        if self.position is not None and not (
            hasattr(self.position, "rotate") or hasattr(self.position, "bias")
        ):
            raise TypeError(
                "position must have rotate(x, positions) or bias(query_positions, "
                f"key_positions), got {self.position!r}"
            )

    def _check_rules(self):
        """Raise unless it is clear where the norms stand."""
        if self.depth is not None:
            self._check_depth()
        checks.one_of(
            "norm_placement", self.norm_placement, (None, *residual.NORM_PLACEMENTS)
        )
        if self.normalize_first and self.norm_placement not in (None, "pre"):
            raise ValueError(
                f'norm_placement="{self.norm_placement}" and normalize_first=True '
                "contradict each other: leave normalize_first out"
            )
        self.placed = self.norm_placement or ("pre" if self.normalize_first else "post")
        if self.placed != "deep":
            return
        if self.parallel:
            raise ValueError(
                'norm_placement="deep" is made for parts one behind the other: it does '
                "not go with parallel=True"
            )
        if self.depth is None:
            raise ValueError(
                'norm_placement="deep" needs depth, the number of layers of the whole '
                "stack"
            )

    def _make_attention(self, name, shape, value_shape, seed, beta, **own):
        """One attention, built."""
        D, N = shape[-1], self.num_heads
        if self.head_dim is None and D % N:
            raise ValueError(
                f"num_heads={N} must divide the width of the inputs, {D}; or say how "
                f"wide a head is, head_dim={max(D // N, 1)}"
            )
        K = self.head_dim or D // N
        # Scores begin no larger than those scaled by 1/√K: Q and K share the rest.
        gamma = max(1, (self.scale or 0) * K**0.5) ** -0.5
        layer = MultiHeadAttention(
            N,
            K,
            dropout=self.dropout,
            use_bias=self.use_bias,
            num_key_value_heads=self.num_key_value_heads,
            scale=self.scale,
            seed=seed,
            value_initializer=self._initializer(beta),
            output_initializer=self._output_initializer(beta),
            use_query_key_value_bias=self.use_query_key_value_bias,
            query_key_norm=self._make_query_key_norm(),
            bias_initializer=self._as_config("bias_initializer"),
            kernel_initializer=self._initializer(gamma),
            name=name,
            dtype=self.dtype_policy,
            **own,
        )
        layer.build(shape, value_shape)
        return layer

    def _make_norm(self, name, shape):
        norm = self._norm_of(self.norm, name)
        norm.build(shape)
        return norm

    def _make_query_key_norm(self):
        """The norm of which the attentions make copies, or None."""
        norm = self.query_key_norm
        return None if norm is None else self._norm_of(norm, "query_key_norm")

    def _norm_of(self, norm, name):
        return norms.make(
            norm,
            epsilon=self.layer_norm_epsilon,
            use_bias=self.use_bias,
            dtype=self.dtype_policy,
            name=name,
        )

    def _make_feed_forward(self, shape, beta):
        """The feed-forward part, built: a layer that was given is used as it is."""
        layer = self.feed_forward
        if not isinstance(layer, keras.Layer):
            layer = feed_forwards.make(
                layer,
                self.intermediate_dim,
                self.activation,
                use_bias=self.use_bias,
                kernel_initializer=self._initializer(beta),
                output_initializer=self._output_initializer(beta),
                bias_initializer=self._as_config("bias_initializer"),
                name="feed_forward",
                dtype=self.dtype_policy,
            )
        if not layer.built:
            layer.build(shape)
        return layer

    def _initializer(self, factor, name="kernel_initializer"):
        """The initializer of kernels, times a number."""
        config = self._as_config(name)
        return config if factor == 1 else Scaled(config, factor)

    def _output_initializer(self, factor):
        """That of what is added to the inputs, times a number; None if it has none."""
        if self.output_initializer is None:
            return None
        return self._initializer(factor, "output_initializer")

    def _start(self, shape):
        """Before anything is built: the width is fixed, α and β are 1."""
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: shape[-1]})
        self.alpha = 1.0
        return 1.0

    def _fed_forward(self, n, training):
        return self._drop(self._feedforward_sublayer(n), training)

    def _feed_forward(self, x, training):
        """The last part of the block, with its norm."""
        norm = self._feedforward_layer_norm
        return self._post_sublayer(
            x, self._fed_forward(self._pre_sublayer(x, norm), training), norm
        )

    def _pre_sublayer(self, x, norm):
        return residual.pre_sublayer(x, norm, self.placed)

    def _post_sublayer(self, x, f_x, norm):
        return residual.post_sublayer(x, f_x, norm, self.placed, self.alpha)

    def _drop(self, x, training):
        if not (self.dropout and training):
            return x
        return keras.random.dropout(x, self.dropout, seed=self.seed_generator)

    # Under these names, and those that encoder and decoder give to the other parts,
    # KerasHub's files of weights have them.
    @property
    def _feedforward_intermediate_dense(self):
        return self._feedforward_sublayer.intermediate_dense

    @property
    def _feedforward_output_dense(self):
        return self._feedforward_sublayer.output_dense

    def compute_output_spec(self, *args, **kwargs):
        # There may be scores and caches, too: Keras finds out by a call.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        names = arguments.names(TransformerBlock)
        return {**super().get_config(), **{n: self._as_config(n) for n in names}}

    def _as_config(self, name):
        value = getattr(self, name)
        if name in OBJECTS:
            return shared_config(value)
        return arguments.as_config(name, value)


def check_step_masks(x, padding_mask, attention_mask, prefix=""):
    """Raise unless the masks of a self-attention fit its inputs `(B, T, D)`."""
    check_numbers(f"{prefix}sequence" if prefix else "inputs", x)
    B, T, _ = x.shape
    axes = ("batch", "time")
    check_mask(f"{prefix}padding_mask", padding_mask, axes, (B, T))
    if len(getattr(attention_mask, "shape", (0, 0, 0))) != 4:
        axes, sizes = ("batch", "query_time", "key_time"), (B, T, T)
        check_mask(f"{prefix}attention_mask", attention_mask, axes, sizes)
