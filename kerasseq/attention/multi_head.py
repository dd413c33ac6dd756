r"""Multi-head attention, with the arguments and weights of Keras' layer.

$$
\mathrm{head}_n = \mathrm{softmax}\left(\lambda\, X W^Q_n (Y W^K_n)^T\right) Y W^V_n,
\qquad \mathrm{output} = \sum_n \mathrm{head}_n W^O_n
$$

with $\lambda = 1 / \sqrt K$. Vaswani et al. 2017; grouped-query attention from Ainslie
et al. 2023; gates from Qiu et al. 2025. Course slides A, D, E.

Axes: B batch, T queries, S keys, N query heads, M key-value heads, K width of queries
and keys, V width of the values. The equation after the projections is in
`dot_product.py`, masks in `inputs.py` and `core/masks.py`, caches in `cache.py`.
"""

import math
import types
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from kerasseq import tracing
from kerasseq.attention import axes, inputs, projections
from kerasseq.attention.blocks import attend_in_blocks, prefers_blocks
from kerasseq.attention.cache import Cache, token_positions, update_cache
from kerasseq.attention.dot_product import recorded_attention, repeat_heads
from kerasseq.attention.projections import input_projection, output_projection
from kerasseq.core import checks, masks, objects
from kerasseq.core.arguments import seed_generator
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import (
    Config,
    Constraint,
    Identifier,
    Initializer,
    Regularizer,
    Shape,
    Tensor,
)
from kerasseq.kernels import dense
from kerasseq.positions.base import AttentionPosition, check_position


@register
class MultiHeadAttention(Layer):
    r"""Multi-head attention.

    Equivalent to `keras.layers.MultiHeadAttention`, with the same arguments, weights
    and results, except that a fully masked query gets zeros before the output
    projection, with and without returned scores. The backend's fused attention is used
    unless scores are returned or replaced, or dropout is active.

    On TensorFlow and JAX, where it makes the scores of all pairs, a call with more than
    2,048 queries and keys (`dense_length`) attends over blocks of keys, as
    `BlockwiseAttention` does: memory then grows with the length, not with its square.
    The lengths must be known when a graph is built, and a position encoding whose bias
    has weights, such as `RelativePositionBias`, still makes the bias of all pairs.

    Args:
        num_heads: N, number of query heads.
        key_dim: K, width of each query and key head.
        value_dim: V, width of each value head; K if None.
        dropout: Fraction of the attention weights to drop in training.
        use_bias: Whether the projections have biases.
        output_shape: Width of the output, or several; that of the query if None.
        attention_axes: Axes to attend over; all between batch and features if None.
        sliding_window: A query attends to keys at a distance below this only.
        flash_attention: True uses flash attention or raises, False never uses it.
        kernel_initializer: Initializer of the projections' kernels.
        bias_initializer: Initializer of the projections' biases.
        kernel_regularizer: Regularizer of the kernels.
        bias_regularizer: Regularizer of the biases.
        activity_regularizer: Regularizer of the projections' outputs.
        kernel_constraint: Constraint of the kernels.
        bias_constraint: Constraint of the biases.
        use_gate: Whether to multiply the heads by a sigmoid gate of the query.
        seed: Seed of dropout.
        num_key_value_heads: M, number of key-value heads, each shared by a group of
            query heads: 1 is multi-query attention. N if None.
        scale: λ; $1 / \sqrt K$ if None.
        position: Position encoding inside the attention, an `AttentionPosition` such as
            `RotaryEmbedding` or `AlibiBias`; see there for one of your own.
        value_initializer: Initializer of the value and output kernels;
            `kernel_initializer` if None.
        use_query_key_value_bias: Whether the query, key and value projections have
            biases; `use_bias` if None. "query_value", as in Whisper: not the key, whose
            bias cancels in the softmax. The output projection follows `use_bias`.
        query_key_norm: Normalization layer. One copy normalizes each query head, and
            one each key head, before the position encoding.
        output_initializer: Initializer of the output kernel; that of values if None.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        query: X, `(B, T, D)`, or with more axes between batch and features.
        value: Y, `(B, S, D)`.
        key: Input of the key projection, `(B, S, D)`; `value` if None.
        query_mask: Boolean `(B, T)`, set by Keras, as are the next two.
        value_mask: Boolean `(B, S)`.
        key_mask: Boolean `(B, S)`.
        attention_mask: Boolean `(B, T, S)`, `(T, S)` or `(B, N, T, S)`, True where a
            query may attend.
        return_attention_scores: Whether to return the attention weights as well.
        training: Whether to apply dropout.
        use_causal_mask: Whether a query attends to its own and earlier positions only.
        cache: Keys and values of earlier tokens, from `make_cache` or `project_memory`.
        cache_update_index: Where the new keys and values go in the cache: an integer,
            or one for each sequence, `(B,)`. Queries are then at these positions, with
            a causal mask. If None, the cache is used unchanged.
        query_positions: Integers `(B, T)` or `(T,)`. If None, they are counted over
            `query_mask`, from `cache_update_index` on.
        key_positions: The same for new keys, `(B, S)`; counted over `value_mask`.
        cached_mask: Boolean `(B, S)`, True at the real tokens of the cache. Positions
            are counted over it.
        causal_cache: Whether `cache_update_index` implies a causal mask.

    Returns:
        `(B, T, D)`; then the attention weights `(B, N, T, S)`, if asked for; then the
        updated cache, if one was given.

    Raises:
        TypeError: If `query_key_norm` or `position` is of another type.
        ValueError: If an argument is out of range, or the shapes do not match.

    Examples:
        >>> layer = MultiHeadAttention(num_heads=2, key_dim=3)
        >>> x, y = np.ones((5, 7, 11)), np.ones((5, 13, 11))
        >>> output, alpha = layer(x, y, return_attention_scores=True)
        >>> keras.ops.shape(output), keras.ops.shape(alpha)
        ((5, 7, 11), (5, 2, 7, 13))
    """

    stored_as: Mapping[str, str] = types.MappingProxyType(
        {
            "output_shape": "_output_shape",
            "activity_regularizer": "_activity_regularizer",
        }
    )
    dense_length: int = 2048  # queries and keys; longer texts are read in blocks
    query_key_norm: Config | None
    sliding_window: int | None
    attended_axes: tuple[int, ...]
    query_dense: keras.layers.EinsumDense
    key_dense: keras.layers.EinsumDense
    value_dense: keras.layers.EinsumDense
    gate_dense: keras.layers.EinsumDense
    output_dense: keras.layers.EinsumDense
    kernel_initializer: Initializer
    bias_initializer: Initializer
    value_initializer: Initializer
    output_initializer: Initializer
    kernel_regularizer: Regularizer
    bias_regularizer: Regularizer
    activity_regularizer: Regularizer
    kernel_constraint: Constraint
    bias_constraint: Constraint

    @passes_on(Layer)
    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: int | tuple[int, ...] | None = None,
        attention_axes: int | tuple[int, ...] | None = None,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        kernel_regularizer: Identifier = None,
        bias_regularizer: Identifier = None,
        activity_regularizer: Identifier = None,
        kernel_constraint: Identifier = None,
        bias_constraint: Identifier = None,
        use_gate: bool = False,
        seed: int | None = None,
        *,
        num_key_value_heads: int | None = None,
        scale: float | None = None,
        position: AttentionPosition | None = None,
        value_initializer: Identifier = None,
        use_query_key_value_bias: bool | str | None = None,
        query_key_norm: keras.Layer | None = None,
        output_initializer: Identifier = None,
        **kwargs: Any,
    ) -> None:
        optional, size = checks.optional, checks.size
        self.num_heads: int = size("num_heads", num_heads)
        self.key_dim: int = size("key_dim", key_dim)
        self.value_dim: int = optional(size, "value_dim", value_dim) or self.key_dim
        self.num_key_value_heads: int | None = optional(
            size, "num_key_value_heads", num_key_value_heads
        )
        inputs.check_head_groups(self.num_heads, self.key_value_heads)
        self.dropout: float = checks.rate("dropout", dropout)
        self.use_bias: bool = checks.flag("use_bias", use_bias)
        self.use_gate: bool = checks.flag("use_gate", use_gate)
        projections.check_input_biases(use_query_key_value_bias)
        self.use_query_key_value_bias: bool | str | None = use_query_key_value_bias
        # Layers have a property `output_shape`.
        self._output_shape = inputs.check_output_shape(output_shape)
        self.attention_axes = attention_axes
        self.sliding_window = optional(size, "sliding_window", sliding_window)
        self.flash_attention = flash_attention
        inputs.check_flash_attention(flash_attention, self.dropout)
        self.scale: float | None = optional(checks.finite, "scale", scale)
        # Keras regularizes the output of a layer that has an `activity_regularizer`.
        self._activity_regularizer = self.activity_regularizer
        self.activity_regularizer = None
        self.query_key_norm = objects.norm_config("query_key_norm", query_key_norm)
        self.query_norm: keras.Layer | None = None
        self.key_norm: keras.Layer | None = None
        # Keras tracks the position from `build` on, so that its weights are the last.
        self._untracked = types.SimpleNamespace(position=check_position(position))
        self.seed: int | None = optional(checks.seed, "seed", seed)
        if self.dropout:
            self.seed_generator: keras.random.SeedGenerator = seed_generator(seed)

    @property
    def position(self) -> AttentionPosition | None:
        """The position encoding inside the attention."""
        return self._untracked.position

    @property
    def key_value_heads(self) -> int:
        """M, number of key-value heads."""
        return self.num_key_value_heads or self.num_heads

    @property
    def heads_per_group(self) -> int:
        """Number of query heads that share a key-value head."""
        return self.num_heads // self.key_value_heads

    @property
    def factor(self) -> float:
        """λ, the factor of the scores."""
        if self.scale is not None:
            return self.scale
        terms = 1 if self.position is None else self.position.num_terms
        return 1 / math.sqrt(terms * self.key_dim)

    @property
    def biases_scores(self) -> bool:
        """Whether scores have a bias by position; caches then hold the positions."""
        return self.position is not None and self.position.has_bias

    @property
    def bias_is_constant(self) -> bool:
        """Whether that bias has no weights and depends on the positions alone."""
        return self.position is None or self.position.bias_is_constant

    def build(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> None:
        key_shape = key_shape or value_shape
        self.input_widths: tuple[int | None, ...] = inputs.check_build_shapes(
            query_shape, value_shape, key_shape, more=True
        )
        self.input_rank: int = len(query_shape)
        self.attended_axes = axes.attended(self.attention_axes, self.input_rank)
        N, M = self.num_heads, self.key_value_heads
        K, V = self.key_dim, self.value_dim
        checks.fits_memory("key_dim", K, N * query_shape[-1])
        checks.fits_memory("value_dim", V, M * value_shape[-1])
        given = self.use_query_key_value_bias
        use_bias, key_bias = projections.input_biases(given, self.use_bias)
        kernel = self.kernel_initializer
        value_kernel = self.value_initializer or kernel

        def options(initializer=kernel, bias=use_bias):
            return {"use_bias": bias, **self._projection_options(initializer)}

        query, key, value = options(), options(bias=key_bias), options(value_kernel)
        self.query_dense = input_projection(query_shape, N, K, name="query", **query)
        self.key_dense = self._make_key_dense(key_shape, **key)
        if self.use_gate:
            gate = {**options(bias=self.use_bias), "activation": "sigmoid"}
            self.gate_dense = input_projection(query_shape, N, V, name="gate", **gate)
        self.value_dense = input_projection(value_shape, M, V, name="value", **value)
        self.output_dense = output_projection(
            (*query_shape[:-1], N, V),
            self._output_widths(query_shape),
            name="attention_output",
            **options(self.output_initializer or value_kernel, self.use_bias),
        )
        if (norm := self.query_key_norm) is not None:
            self.query_norm = objects.copy_norm(norm, "query_norm", self.dtype_policy)
            self.query_norm.build((*query_shape[:-1], N, K))
            self.key_norm = objects.copy_norm(norm, "key_norm", self.dtype_policy)
            self.key_norm.build((*key_shape[:-1], M, K))
        if self.position is not None:
            self.position.build_in(self)
            self._tracked_position = self.position
        self.built = True

    def _make_key_dense(self, shape, **options):
        M, K = self.key_value_heads, self.key_dim
        return input_projection(shape, M, K, name="key", **options)

    def _output_widths(self, query_shape):
        widths = self._output_shape or query_shape[-1]
        return (widths,) if isinstance(widths, int) else tuple(widths)

    def _projection_options(self, kernel_initializer):
        """Arguments of a projection, with initializers of its own."""
        return {
            "kernel_initializer": objects.copy_initializer(kernel_initializer),
            "bias_initializer": objects.copy_initializer(self.bias_initializer),
            "kernel_regularizer": self.kernel_regularizer,
            "bias_regularizer": self.bias_regularizer,
            "activity_regularizer": self._activity_regularizer,
            "kernel_constraint": self.kernel_constraint,
            "bias_constraint": self.bias_constraint,
            "dtype": self.dtype_policy,
        }

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
        *,
        cache: Cache | None = None,
        cache_update_index: int | Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        cached_mask: Tensor | None = None,
        causal_cache: bool = True,
    ) -> Tensor | tuple[Tensor, ...]:
        index = cache_update_index
        return self._run(
            (query, value, key),
            (attention_mask, query_mask, value_mask, key_mask),
            (cache, index, cached_mask),
            (query_positions, key_positions),
            causal=use_causal_mask or (index is not None and causal_cache),
            drop=bool(self.dropout and training),
            return_weights=return_attention_scores,
        )

    def _run(self, given_inputs, given_masks, caching, given_positions, **options):
        """Computes a call; `options` are those of `_attend`."""
        cache, index, cached_mask = caching
        inputs.check_multi_head_inputs(self, given_inputs, given_masks, *caching)
        query, value, key = inputs.zero_masked_inputs(
            given_inputs, given_masks, *caching, self.attended_axes
        )
        attention_mask, query_mask, value_mask, key_mask = given_masks
        query_positions, key_positions = given_positions
        p = self._positions(query_mask, query, query_positions, index, cached_mask)
        q = self._project_query(query, p)  # (B, T, N, K)
        memory = cache
        if cache is None or index is not None:  # without an index it is complete
            s = self._positions(value_mask, value, key_positions, index, cached_mask)
            memory = self._project_key_value(value, key, s, cache, index)
        if cache is not None:
            value_mask, key_mask = cached_mask, None  # those given cover new tokens
        given_masks = attention_mask, query_mask, value_mask, key_mask
        out, alpha = self._attend(q, p, memory, given_masks, start=index, **options)
        if self.use_gate:
            out = out * dense(self.gate_dense, query)
        out = tracing.record(self, "context", dense(self.output_dense, out, axes=2))
        results = [out]
        if options["return_weights"]:
            results.append(alpha)
        if cache is not None:
            results.append(memory)
        return results[0] if len(results) == 1 else tuple(results)

    def _positions(self, mask, x, given, index, cached_mask):
        """Returns the positions of the tokens of x, if anything depends on them."""
        if self.position is None and not self.biases_scores:
            return None
        return token_positions(mask, ops.shape(x)[1], index, given, cached_mask)

    def _project_query(self, query, positions):
        """Queries `(B, T, N, K)`: projected, normalized and rotated."""
        q = dense(self.query_dense, query)
        q = q if self.query_norm is None else self.query_norm(q)
        return q if self.position is None else self.position.rotate(q, positions)

    def _project_key_value(self, value, key, positions, cache=None, index=None):
        """Keys `(B, S, M, K)` and values `(B, S, M, V)`, with those of the cache."""
        k = dense(self.key_dense, value if key is None else key)
        k = k if self.key_norm is None else self.key_norm(k)
        if self.position is not None:
            k = self.position.rotate(k, positions)
        new = {"key": k, "value": dense(self.value_dense, value)}
        if self.biases_scores:
            new["position"] = positions
        if cache is None:
            return new
        return {name: update_cache(cache[name], new[name], index) for name in cache}

    def _is_long(self, q, k):
        """Returns whether both lengths are known here and above `dense_length`.

        A length that is not known is None, and on JAX a symbol.
        """
        lengths = q.shape[1], k.shape[1]
        return all(isinstance(n, int) and n > self.dense_length for n in lengths)

    def _attend(
        self, q, positions, memory, given_masks, *, causal, start, drop, return_weights
    ):
        """Returns the heads `(B, T, N, V)`, and the attention weights or None."""
        given = {"drop": drop, "return_weights": return_weights}
        if self._is_long(q, memory["key"]) and prefers_blocks(self, q, **given):
            tensors, place = (q, positions, memory), {"causal": causal, "start": start}
            return attend_in_blocks(self, *tensors, given_masks, **place), None
        content = q if self.position is None else self.position.content_queries(q)
        bias, q = self._bias(q, positions, memory), content
        k = repeat_heads(memory["key"], self.heads_per_group)  # (B, S, N, K)
        v = repeat_heads(memory["value"], self.heads_per_group)  # (B, S, N, V)
        shapes = None
        if len(q.shape) > 4:  # the other masks, set by Keras, are for one axis
            q, k, v, mask, shapes = axes.fold_all(
                q, k, v, given_masks[0], self.attended_axes
            )
            given_masks = mask, None, None, None
        sizes = ops.shape(q)[1], ops.shape(k)[1]
        mask, causal = inputs.combine_masks(self, given_masks, sizes, causal, start)
        options = {"mask": mask, "bias": bias, "causal": causal, "drop": drop}
        out, alpha = recorded_attention(
            self, q, k, v, return_weights=return_weights, **options
        )
        if shapes is not None:
            out, alpha = axes.unfold_all(out, alpha, self.attended_axes, shapes)
        return out, alpha

    def _bias(self, q, positions, memory):
        """Returns the bias of the scores, or None."""
        if self.position is None or not self.position.has_bias:
            return None
        bias = self.position.attention_bias(self, positions, memory, q)
        inputs.check_bias(bias, self.num_heads)
        return bias

    def make_cache(self, batch: int, length: int) -> Cache:
        """Creates an empty cache for the keys and values of a sequence.

        Args:
            batch: B.
            length: S, the maximum number of tokens.

        Returns:
            Dictionary of zeros: "key" `(B, S, M, K)`, "value" `(B, S, M, V)`, and
            "position" `(B, S)` if the scores have a bias by position.
        """
        shape, dtype = (batch, length, self.key_value_heads), self.compute_dtype
        cache = {
            "key": ops.zeros((*shape, self.key_dim), dtype),
            "value": ops.zeros((*shape, self.value_dim), dtype),
        }
        if self.biases_scores:
            cache["position"] = ops.zeros((batch, length), "int32")
        return cache

    def project_memory(
        self, value: Tensor, key: Tensor | None = None, value_mask: Tensor | None = None
    ) -> Cache:
        """Computes the cache of a constant source, for cross-attention.

        Args:
            value: Y, `(B, S, D)`.
            key: Input of the key projection; `value` if None.
            value_mask: Boolean `(B, S)`, over which positions are counted.

        Returns:
            As `make_cache`, with the keys and values of the source.
        """
        B, S = ops.shape(value)[:2]
        p = ops.broadcast_to(masks.positions(value_mask, S), (B, S))
        value = masks.zero_masked(value, value_mask)
        key = masks.zero_masked(key, value_mask)
        memory = self._project_key_value(value, key, p)
        # Outside of `call` Keras does not cast to the compute type.
        for name in ("key", "value"):
            memory[name] = ops.cast(memory[name], self.compute_dtype)
        return memory

    def compute_output_shape(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> Shape:
        return (*query_shape[:-1], *self._output_widths(query_shape))

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        # There may be several outputs: Keras infers them by a call.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)
