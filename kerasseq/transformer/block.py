"""What encoder and decoder blocks share: their arguments and their sublayers."""

import functools
import inspect
import random
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import keras

from kerasseq import tracing
from kerasseq.attention.inputs import check_head_groups
from kerasseq.attention.multi_head import MultiHeadAttention
from kerasseq.attention.sparse.longformer import LongformerAttention
from kerasseq.core import checks, objects
from kerasseq.core.arguments import seed_generator
from kerasseq.core.carried_state import carries_state
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.shapes import check_mask, check_numbers
from kerasseq.core.types import Activation, Config, Identifier, Initializer, Tensor
from kerasseq.positions.base import AttentionPosition, check_position
from kerasseq.transformer import mixers, residual
from kerasseq.transformer.experts import MixtureOfExperts
from kerasseq.transformer.feed_forward import (
    NONE,
    check_feed_forward,
    make_feed_forward,
)
from kerasseq.transformer.initializers import ScaledInitializer
from kerasseq.transformer.norms import check_norm, make_norm

# Arguments of a call with which a block has one output, of the shape of its input.
OF_ONE_OUTPUT = frozenset(
    ("inputs", "padding_mask", "inputs_mask", "mask", "training", "use_causal_mask")
    + ("global_mask",)
    + ("decoder_sequence", "decoder_padding_mask", "decoder_sequence_mask")
    + ("encoder_sequence", "encoder_padding_mask", "encoder_sequence_mask")
)
Call = TypeVar("Call", bound=Callable[..., Any])
_declared: set[Callable[..., Any]] = set()  # by `one_output`


def one_output(call: Call) -> Call:
    """Declares that a `call` has one output if only `OF_ONE_OUTPUT` are given.

    It does not hold for another `call` in its place, as of a subclass.
    """
    _declared.add(call)
    return call


class TransformerBlock(Layer):
    """Base class of encoder and decoder blocks, which document the arguments."""

    stored_as: Mapping[str, str] = types.MappingProxyType(
        {"attention": "_attention_config"}
    )
    rematerialized: tuple[str, ...] = ("call",)
    causal: bool  # whether a step attends to earlier ones only
    alpha: float  # of DeepNorm, set by `build`
    input_spec: keras.layers.InputSpec
    activation: Activation
    kernel_initializer: Initializer
    bias_initializer: Initializer
    output_initializer: Initializer

    @passes_on(Layer)
    def __init__(
        self,
        intermediate_dim: int | None,
        num_heads: int,
        dropout: float = 0,
        activation: Identifier = "relu",
        layer_norm_epsilon: float = 1e-05,
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        normalize_first: bool = False,
        *,
        norm: str | keras.Layer = "layer",
        norm_placement: str | None = None,
        feed_forward: str | keras.Layer | None = None,
        use_bias: bool = True,
        position: AttentionPosition | None = None,
        num_key_value_heads: int | None = None,
        head_dim: int | None = None,
        scale: float | None = None,
        sliding_window: int | None = None,
        parallel: bool = False,
        depth: int | tuple[int, int] | None = None,
        seed: int | None = None,
        use_query_key_value_bias: bool | str | None = None,
        query_key_norm: str | keras.Layer | None = None,
        output_initializer: Identifier = None,
        attention: str | keras.Layer = "multi_head",
        max_length: int | None = None,
        max_global_tokens: int | None = None,
        residual: bool = True,
        **kwargs: Any,
    ) -> None:
        self.input_spec = keras.layers.InputSpec(ndim=3)
        optional, size = checks.optional, checks.size
        self.intermediate_dim: int | None = optional(
            size, "intermediate_dim", intermediate_dim, 1
        )
        self.num_heads: int = size("num_heads", num_heads)
        self.dropout: float = checks.rate("dropout", dropout)
        self.layer_norm_epsilon: float = checks.positive(
            "layer_norm_epsilon", layer_norm_epsilon
        )
        self.normalize_first: bool = checks.flag("normalize_first", normalize_first)
        self.norm: str | Config = check_norm("norm", norm)
        self.norm_placement = norm_placement
        if isinstance(feed_forward, dict):  # as in a file
            feed_forward = keras.saving.deserialize_keras_object(feed_forward)
        check_feed_forward(feed_forward, intermediate_dim, self.activation)
        self.feed_forward = feed_forward
        self.use_bias: bool = checks.flag("use_bias", use_bias)
        self.position: AttentionPosition | None = check_position(position)
        self.num_key_value_heads: int | None = optional(
            size, "num_key_value_heads", num_key_value_heads
        )
        check_head_groups(self.num_heads, self.num_key_value_heads or self.num_heads)
        self.head_dim: int | None = optional(size, "head_dim", head_dim, 1)
        self.scale: float | None = optional(checks.finite, "scale", scale)
        self.sliding_window: int | None = optional(
            size, "sliding_window", sliding_window
        )
        self.parallel: bool = checks.flag("parallel", parallel)
        self.depth: int | tuple[int, int] | None = optional(
            self._check_depth, "depth", depth
        )
        self.seed: int | None = optional(checks.seed, "seed", seed)
        self.use_query_key_value_bias = use_query_key_value_bias
        self.query_key_norm: str | Config | None = optional(
            check_norm, "query_key_norm", query_key_norm
        )
        self.attention: str | mixers.Template = mixers.check_attention(
            "attention", attention
        )
        self.max_length: int | None = optional(size, "max_length", max_length)
        self.max_global_tokens: int | None = optional(
            size, "max_global_tokens", max_global_tokens
        )
        self.residual: bool = checks.flag("residual", residual)
        self._check_attention_options()
        self._placement = self._check_norm_placement()
        # Each sublayer has a seed of its own, so that dropout differs between them.
        seeds = random.Random(seed)
        self._seeds = [
            None if seed is None else seeds.getrandbits(30) for _ in range(3)
        ]
        if self.dropout:
            self.seed_generator: keras.random.SeedGenerator = seed_generator(
                self._seeds[0]
            )

    @staticmethod
    def _check_depth(name, value):
        return checks.whole_number(name, value)

    def _check_norm_placement(self):
        """Returns the placement of the norms, from arguments that must agree."""
        given = self.norm_placement
        checks.one_of("norm_placement", given, (None, *residual.NORM_PLACEMENTS))
        if self.normalize_first and given not in (None, "pre"):
            raise ValueError(
                'norm_placement must be "pre" with normalize_first=True, received '
                f'norm_placement="{given}". Leave normalize_first out'
            )
        if self.parallel and self.feed_forward == NONE:
            raise ValueError(
                'feed_forward must not be "none" with parallel=True, which adds its '
                "output to that of attention. Leave parallel out"
            )
        if given == "deep" and self.parallel:
            raise ValueError(
                'norm_placement must be "pre" or "post" with parallel=True, received '
                'norm_placement="deep". Leave parallel out'
            )
        if given == "deep" and not self.residual:
            raise ValueError(
                'norm_placement must be "pre" or "post" with residual=False, received '
                'norm_placement="deep", which scales residual connections'
            )
        if given == "deep" and self.depth is None:
            raise ValueError(
                "depth must be the number of layers in the stack with norm_placement="
                '"deep", received None. Pass depth'
            )
        return given or ("pre" if self.normalize_first else "post")

    def _check_attention_options(self):
        """Raises if an option of multi-head attention is given without it."""
        if self.max_global_tokens is not None and self.attention != "longformer":
            raise ValueError(
                'max_global_tokens needs attention="longformer", received '
                f"max_global_tokens={self.max_global_tokens} and another attention. "
                "Leave it out, or pass a LongformerAttention that has it"
            )
        if self.attention in mixers.OF_PAIRS:
            return
        for name in (
            *("position", "num_key_value_heads", "scale", "sliding_window"),
            *("use_query_key_value_bias", "query_key_norm"),
        ):
            value = getattr(self, name)
            if value is not None:
                raise ValueError(
                    f'{name} is an option of attention="multi_head", received {name}='
                    f"{checks.short(value)} and another attention. Leave it out, or "
                    "pass a layer that has it"
                )

    def _build_self_attention(self, shape, alpha, beta):
        """Builds what comes first in both blocks: self-attention and its norm."""
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: shape[-1]})
        self.alpha = alpha
        self._self_attention_layer = self._make_self_attention(shape, beta)
        self._self_attention_layer_norm = self._build_norm(
            "self_attention_layer_norm", shape
        )

    def _make_self_attention(self, shape, beta):
        """Creates and builds self-attention, or the layer in its place."""
        if self.attention in mixers.OF_PAIRS:
            layer = self._make_attention(
                "self_attention",
                shape,
                shape,
                seed=self._seeds[1],
                beta=beta,
                make=mixers.OF_PAIRS[self.attention],
                position=self.position,
                **mixers.sizes_of(
                    self.attention,
                    self.sliding_window,
                    self.max_length or shape[1],
                    self.max_global_tokens,
                ),
            )
        else:
            layer = mixers.make_attention(
                self.attention,
                shape,
                num_heads=self.num_heads,
                head_dim=self.head_dim,
                causal=self.causal,
                dtype=self.dtype_policy,
            )
        if self.causal and (reason := getattr(layer, "never_causal", None)):
            raise ValueError(
                f"attention must be causal in a decoder, received a "
                f"{type(layer).__name__}, which {reason}. Use it in an encoder"
            )
        return layer

    @property
    def has_global_tokens(self) -> bool:
        """Whether the self-attention has projections for global tokens."""
        given = getattr(self.attention, "layer", self)  # of a template
        return getattr(given, "max_global_tokens", None) is not None

    @property
    def cache_follows_weights(self) -> bool:
        """Whether the size of a cache depends on weights, as that of learned spans."""
        return hasattr(self._self_attention_layer, "needed_length")

    def _global_options(self, global_mask):
        """Returns the argument of an attention that has global tokens, if given."""
        if global_mask is None:
            return {}
        if not isinstance(self._self_attention_layer, LongformerAttention):
            raise ValueError(
                "global_mask needs a LongformerAttention with max_global_tokens, "
                f"received a block with {self._self_attention_layer.name}. Leave it out"
            )
        return {"global_mask": global_mask}

    @property
    def _attends(self):
        """Whether the first sublayer is self-attention, not a layer in its place."""
        return isinstance(self._self_attention_layer, MultiHeadAttention)

    def _check_no_scores(self, **arguments):
        """Raises if something is given that only multi-head attention can do."""
        for name, value in arguments.items():
            if value is not None and value is not False:
                raise ValueError(
                    f'{name} needs attention="multi_head", received a block with '
                    f"{self._self_attention_layer.name}, which has no scores. Leave it "
                    "out"
                )

    def _make_attention(
        self,
        name,
        shape,
        value_shape,
        seed,
        beta,
        make=MultiHeadAttention,
        **options,
    ):
        """Creates and builds an attention whose weights are scaled for DeepNorm."""
        D, N = shape[-1], self.num_heads
        K = mixers.head_width(D, N, self.head_dim)
        # With a larger scale, queries and keys start smaller: the scores stay the same.
        gamma = max(1, (self.scale or 0) * K**0.5) ** -0.5
        norm = self.query_key_norm
        layer = make(
            N,
            K,
            dropout=self.dropout,
            use_bias=self.use_bias,
            num_key_value_heads=self.num_key_value_heads,
            scale=self.scale,
            seed=seed,
            value_initializer=_scaled(self.kernel_initializer, beta),
            output_initializer=_scaled(self.output_initializer, beta),
            use_query_key_value_bias=self.use_query_key_value_bias,
            query_key_norm=None if norm is None else self._make_norm("norm", norm),
            bias_initializer=objects.copy_initializer(self.bias_initializer),
            kernel_initializer=_scaled(self.kernel_initializer, gamma),
            name=name,
            dtype=self.dtype_policy,
            **options,
        )
        layer.build(shape, value_shape)
        return layer

    def _make_norm(self, name, norm):
        return make_norm(
            norm,
            epsilon=self.layer_norm_epsilon,
            use_bias=self.use_bias,
            dtype=self.dtype_policy,
            name=name,
        )

    def _build_norm(self, name, shape):
        norm = self._make_norm(name, self.norm)
        norm.build(shape)
        return norm

    def _build_feed_forward(self, shape, beta):
        """Builds the feed-forward network; a given layer is used as it is."""
        layer = self.feed_forward
        if layer == NONE:
            return None
        if not isinstance(layer, keras.Layer):
            layer = make_feed_forward(
                layer,
                self.intermediate_dim,
                self.activation,
                use_bias=self.use_bias,
                kernel_initializer=_scaled(self.kernel_initializer, beta),
                output_initializer=_scaled(self.output_initializer, beta),
                bias_initializer=objects.copy_initializer(self.bias_initializer),
                name="feed_forward",
                dtype=self.dtype_policy,
            )
        mixers.build(layer, shape)
        return layer

    def _pre_sublayer(self, x, norm, name):
        x = residual.pre_sublayer(x, norm, self._placement)
        return tracing.record(self, f"{name}_input", x)

    def _post_sublayer(self, x, f_x, norm, name):
        """Applies the residual connection, recorded before a norm that follows it."""
        x = x if self.residual else 0.0
        record = functools.partial(tracing.record, self, f"{name}_residual")
        y = residual.post_sublayer(
            x, f_x, lambda z: norm(record(z)), self._placement, self.alpha
        )
        return record(y) if self._placement == "pre" else y

    def _feed_forward_and_dropout(self, n, training, mask=None):
        layer = self._feedforward_sublayer
        reads_mask = carries_state(layer) or isinstance(layer, MixtureOfExperts)
        f_x = mixers.run(layer, n, mask) if reads_mask else layer(n)
        return self._drop(f_x, training)

    def _feed_forward_branch(self, x, training, mask=None):
        """Applies the feed-forward network, dropout, norm and residual connection."""
        if self._feedforward_sublayer is None:
            return x
        norm, name = self._feedforward_layer_norm, "feed_forward"
        n = self._pre_sublayer(x, norm, name)
        f_x = self._feed_forward_and_dropout(n, training, mask)
        return self._post_sublayer(x, f_x, norm, name)

    def _drop(self, x, training):
        if not (self.dropout and training):
            return x
        return keras.random.dropout(x, self.dropout, seed=self.seed_generator)

    # KerasHub's weight files use these names, and those of the other sublayers. Keras
    # visits attributes in alphabetical order, hence `_feedforward_sublayer` after them.
    @property
    def _feedforward_intermediate_dense(self):
        return self._feedforward_sublayer.intermediate_dense

    @property
    def _feedforward_output_dense(self):
        return self._feedforward_sublayer.output_dense

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(self.call).bind(*args, **kwargs).arguments
        given = {name for name, x in bound.items() if x is not None and x is not False}
        is_declared = getattr(self.call, "__func__", None) in _declared
        if not is_declared or not given <= OF_ONE_OUTPUT:
            # There may be several outputs: Keras infers them by a call, which takes
            # most of the time in which a model is built.
            return keras.Operation.compute_output_spec(self, *args, **kwargs)
        x = next(iter(bound.values()))
        self._check_masks(x, **bound)
        return keras.KerasTensor(x.shape, dtype=self.compute_dtype)

    def _check_masks(self, x, padding_mask=None, decoder_padding_mask=None, **others):
        """Raises unless the arguments `OF_ONE_OUTPUT` fit the sequence x."""
        prefix = "decoder_" if self.causal else ""
        mask = padding_mask if decoder_padding_mask is None else decoder_padding_mask
        check_self_attention_masks(x, mask, None, prefix)

    @property
    def _attention_config(self):
        return mixers.config_of(self.attention)


def _scaled(initializer, factor):
    """Returns a copy of an initializer, with its values scaled; None of None."""
    own = objects.copy_initializer(initializer)
    if initializer is None or factor == 1:
        return own
    return ScaledInitializer(own, factor)


def check_self_attention_masks(
    x: Tensor,
    padding_mask: Tensor | None,
    attention_mask: Tensor | None,
    prefix: str = "",
) -> None:
    """Raises unless the masks of a self-attention fit its inputs `(B, T, D)`."""
    check_numbers(f"{prefix}sequence" if prefix else "inputs", x)
    B, T, _ = x.shape
    check_mask(f"{prefix}padding_mask", padding_mask, ("batch", "time"), (B, T))
    if len(getattr(attention_mask, "shape", (0, 0, 0))) != 4:
        axes, sizes = ("batch", "query_time", "key_time"), (B, T, T)
        check_mask(f"{prefix}attention_mask", attention_mask, axes, sizes)
