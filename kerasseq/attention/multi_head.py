r"""Multi-head attention, with the arguments and the weights of Keras' own.

$$
\mathrm{head}_n = \mathrm{softmax}\left(\lambda\, X W^Q_n (Y W^K_n)^T\right) Y W^V_n,
\qquad \mathrm{output} = \sum_n \mathrm{head}_n W^O_n
$$

with $\lambda = 1 / \sqrt K$. Vaswani et al. 2017; groups of heads that share keys and
values from Ainslie et al. 2023; gates from Qiu et al. 2025. Course slides A, D, E.
"""

import keras
from keras import ops

from kerasseq.attention import axes, heads
from kerasseq.attention import cache as caches
from kerasseq.attention.multi_head_arguments import MultiHeadArguments
from kerasseq.core import masks
from kerasseq.core.serialization import register
from kerasseq.kernels import dense
from kerasseq.tracing import recording


@register
class MultiHeadAttention(MultiHeadArguments):
    r"""Attend with several heads at once.

    Takes what `keras.layers.MultiHeadAttention` takes, has its weights, and gives its
    results, except that a query which may look nowhere gets zeros before the output
    projection, with scores and without. Nothing but the backend's fused attention runs
    unless somebody asks for the scores, looks inside, or drops weights.

    Args:
        num_heads: N.
        key_dim: K, the width of queries and keys in a head.
        value_dim: V, the width of values in a head; K if None.
        dropout: Fraction of the weights dropped in training.
        use_bias: Whether the projections have biases.
        output_shape: Width of the output, or several; that of the query if None.
        attention_axes: Axes to attend over; all between batch and features if None.
        sliding_window: A query sees what is fewer than this many places away.
        flash_attention: True takes flash attention or raises, False never does.
        kernel_initializer: Of the projections, like all that follow.
        bias_initializer: Of the biases.
        kernel_regularizer: Of the projections.
        bias_regularizer: Of the biases.
        activity_regularizer: Of the projections' outputs.
        kernel_constraint: Of the projections.
        bias_constraint: Of the biases.
        use_gate: Whether a sigmoid of the query scales what the heads give.
        seed: Seed of dropout.
        num_key_value_heads: Heads of keys and values, each shared by a group of query
            heads: 1 is multi-query attention. N if None.
        scale: λ; $1 / \sqrt K$ if None, 1 for the unscaled form.
        position: `RotaryEmbedding`, `AlibiBias`, `RelativePositionBias`,
            `TransformerXLPosition`, or an object with `rotate(x, positions)`, applied
            to queries and keys `(B, T, N, K)`, or with `bias(query_positions,
            key_positions)`, added to the scores, `(B, N, T, S)` or what broadcasts to
            it; positions are `(B, T)`. One with `build`, if not `built`, is built for
            the shape of the scores.
        value_initializer: Of the projections of values and of the output;
            `kernel_initializer` if None.
        use_query_key_value_bias: Whether the projections of queries, keys and values
            have biases; as `use_bias` if None. The output follows `use_bias`.
        query_key_norm: A normalization layer, of which one copy normalizes each head of
            the queries, and one each head of the keys, before positions apply.
        output_initializer: Of the projection of the output; as `value_initializer`
            says if None.
        **kwargs: As for any layer.

    Call arguments:
        query: X, `(B, T, D)`, or with more axes between.
        value: Y, `(B, S, D)`.
        key: Keys are made of it instead of `value`.
        query_mask: Boolean `(B, T)`, filled in by Keras, like the next two.
        value_mask: Boolean `(B, S)`.
        key_mask: Boolean `(B, S)`.
        attention_mask: Boolean `(B, T, S)`, True where a query may look.
        return_attention_scores: Whether to return the weights, too.
        training: Whether to drop weights.
        use_causal_mask: Whether a query sees no future.
        cache: Keys and values of steps before, as `make_cache` or `project_memory` give
            them.
        cache_update_index: Where in the cache the new keys and values go, one place or
            one per row `(B,)`; the query stands there and sees no future. None uses the
            cache as it is.
        query_positions: Whole numbers `(B, T)` or `(T,)`, the positions of the queries.
            If None, they are counted over `query_mask`, from `cache_update_index` on.
        key_positions: `(B, S)` or `(S,)`, those of the new keys; counted over
            `value_mask` if None.
        cached_mask: Boolean `(B, S)`, which places of the cache are real; positions are
            counted over them.
        causal_cache: False lets a query that is put into the cache see all of it.

    Returns:
        `(B, T, D)`; then the weights `(B, N, T, S)` if asked for; then the cache, if
        one was given.

    Raises:
        TypeError: If `query_key_norm` is not a layer.
        ValueError: If an argument is out of range, or the shapes do not fit.

    Examples:
        >>> layer = MultiHeadAttention(num_heads=2, key_dim=3)
        >>> x, y = np.ones((5, 7, 11)), np.ones((5, 13, 11))
        >>> output, alpha = layer(x, y, return_attention_scores=True)
        >>> keras.ops.shape(output), keras.ops.shape(alpha)
        ((5, 7, 11), (5, 2, 7, 13))
    """

    def call(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
        *,
        cache=None,
        cache_update_index=None,
        query_positions=None,
        key_positions=None,
        cached_mask=None,
        causal_cache=True,
    ):
        index = cache_update_index
        given = attention_mask, query_mask, value_mask, key_mask
        inputs, cached = (query, value, key), (cache, index, cached_mask)
        self._check_inputs(inputs, given, cached)
        T = ops.shape(query)[1]
        query, value, key = self._hide(inputs, given, cached)
        at = self._places(query_mask, T, index, query_positions, cached_mask)
        q = _normalized(dense(self.query_dense, query), self.query_norm)
        q = self._rotated(q, at)
        memory = cache
        if cache is None or index is not None:
            S = ops.shape(value)[1]
            new = self._places(value_mask, S, index, key_positions, cached_mask)
            memory = self._memory(value, key, new, cache, index)
        if cache is not None:
            value_mask, key_mask = cached_mask, None  # those given are of new places
        k, v = (heads.repeat_heads(memory[x], self.groups) for x in ("key", "value"))
        q, bias = self._biased(q, at, memory)
        shapes = None
        if len(q.shape) > 4:
            q, k, v, attention_mask, shapes = axes.fold_all(
                q, k, v, attention_mask, self.attended
            )
            query_mask = value_mask = key_mask = None  # those of Keras are for one axis
        mask, causal = self._mask(
            (attention_mask, query_mask, value_mask, key_mask),
            (ops.shape(q)[1], ops.shape(k)[1]),
            use_causal_mask or (index is not None and causal_cache),
            index,
        )
        weigh = return_attention_scores or (self.dropout and training)
        if weigh or recording.current_listener() is not None:
            out, alpha = self._by_weights(q, k, v, mask, bias, causal, training)
        else:
            flash = self.flash_attention
            out = heads.attend(
                q,
                k,
                v,
                scale=self.factor,
                mask=mask,
                bias=bias,
                causal=causal,
                flash=flash,
            )
            alpha = None
        if shapes is not None:
            out, alpha = axes.unfold_all(out, alpha, self.attended, shapes)
        if self.use_gate:
            out = out * dense(self.gate_dense, query)
        out = dense(self.output_dense, out, axes=2)
        results = [recording.record(self, "context", out)]
        results += [alpha] if return_attention_scores else []
        results += [] if cache is None else [memory]
        return results[0] if len(results) == 1 else tuple(results)

    def _hide(self, inputs, given, cached):
        """The inputs, with zeros at what the masks hide from all.

        Masks of several axes say which pairs are hidden, not which inputs.
        """
        query, value, key = inputs
        attention_mask, query_mask, value_mask, key_mask = given
        count = len(query.shape) - 2
        if count > 1:  # those of Keras are for one axis
            query_mask = value_mask = key_mask = None
            if self.attended != tuple(range(1, count + 1)):
                return inputs
        cache, index, cached_mask = cached
        if cache is not None:  # what the masks given are of is in the cache
            attention_mask = key_mask = query_mask = value_mask = None
            if index is not None:
                value_mask = caches.read_cache(cached_mask, ops.shape(value)[1], index)
                query_mask = value_mask if query is value else None
        queries, keys = masks.reachable(attention_mask, count)
        keys = masks.intersect(value_mask, key_mask, keys)
        hidden = masks.zero_masked(value, keys)
        if key is not None:
            key = hidden if key is value else masks.zero_masked(key, keys)
        one_mask = query_mask is value_mask and key_mask is None and queries is None
        if query is value and one_mask:  # a sequence that attends to itself
            return hidden, hidden, key
        return (
            masks.zero_masked(query, masks.intersect(query_mask, queries)),
            hidden,
            key,
        )

    def _memory(self, value, key, at, cache=None, index=None):
        """Keys and values, and where they stand if there is a bias.

        If there is a cache, it with the new ones from the index on.
        """
        k = dense(self.key_dense, value if key is None else key)
        k = _normalized(k, self.key_norm)
        new = {
            "key": self._rotated(k, at),
            "value": dense(self.value_dense, value),
        }
        if hasattr(self.position, "bias"):
            whole = ops.shape(value)[:2]
            new["position"] = at if cache is None else ops.broadcast_to(at, whole)
        if cache is None:
            return new
        return {
            name: caches.update_cache(old, new[name], index)
            for name, old in cache.items()
        }

    def _places(self, *where):
        """Positions, where something asks for them."""
        return None if self.position is None else caches.token_positions(*where)

    def _rotated(self, x, at):
        rotate = getattr(self.position, "rotate", None)
        return x if rotate is None else rotate(x, at)

    def _biased(self, q, at, memory):
        """Queries, and what is added to their scores; a query may have a say in it."""
        position = self.position
        if not hasattr(position, "bias"):
            return q, None
        if hasattr(position, "content"):
            content = position.content(q)
            bias = position.bias(at, memory["position"], q)
            return content, bias * ops.cast(self.factor, bias.dtype)
        bias = position.bias(at, memory["position"])
        if bias.shape[1] not in (1, self.num_heads):
            raise ValueError(
                f"position gives a bias for {bias.shape[1]} heads, but there are "
                f"{self.num_heads}: attentions that share one need as many heads"
            )
        return q, bias

    def _mask(self, given, sizes, causal, index):
        """One mask that broadcasts to `(B, N, T, S)` or None; whether to be causal."""
        alone = self.sliding_window is None and all(one is None for one in given)
        if causal and alone and index is None:
            return None, True  # the backend does this without a mask
        T, S = sizes
        start = 0 if index is None else index
        extra = [masks.causal(T, S, start)] if causal else []
        if self.sliding_window is not None:
            extra.append(masks.window(T, S, self.sliding_window, start))
        attention_mask, query_mask, value_mask, key_mask = given
        if key_mask is not None:
            extra.append(ops.cast(key_mask, "bool")[:, None])
        mask = masks.combine_masks(None, query_mask, value_mask, *extra)
        mask = None if mask is None else mask[:, None]
        if attention_mask is None:
            return mask, False
        attention_mask = ops.cast(attention_mask, "bool")
        if len(attention_mask.shape) == 2:
            attention_mask = attention_mask[None]
        if len(attention_mask.shape) == 3:
            attention_mask = attention_mask[:, None]
        if mask is not None:
            attention_mask = ops.logical_and(attention_mask, mask)
        return attention_mask, False

    def _by_weights(self, q, k, v, mask, bias, causal, training):
        """The heads by way of their weights, which are returned, too."""
        if causal:
            mask = masks.causal(ops.shape(q)[1], ops.shape(k)[1])[:, None]
        alpha = heads.weigh(q, k, scale=self.factor, mask=mask, bias=bias)
        alpha = recording.record(self, "alignment", alpha)
        used = alpha
        if self.dropout and training:
            used = keras.random.dropout(alpha, self.dropout, seed=self.seed_generator)
        return heads.combine(used, v), alpha

    def make_cache(self, batch, length):
        """Room for the keys and values of a text, to be filled step by step.

        Args:
            batch: B.
            length: S, the most places there can be.

        Returns:
            Dictionary of "key" `(B, S, N', K)` and "value" `(B, S, N', V)`, all zeros,
            with N' heads of keys and values; and "position" `(B, S)` if the position
            biases the scores.
        """
        shape, dtype = (batch, length, self.key_value_heads), self.compute_dtype
        cache = {
            "key": ops.zeros((*shape, self.key_dim), dtype),
            "value": ops.zeros((*shape, self.value_dim), dtype),
        }
        if hasattr(self.position, "bias"):
            cache["position"] = ops.zeros((batch, length), "int32")
        return cache

    def project_memory(self, value, key=None, value_mask=None):
        """The cache of a memory that does not change, as in cross-attention.

        Args:
            value: Y, `(B, S, D)`.
            key: Keys are made of it instead of `value`.
            value_mask: Boolean `(B, S)`, over which positions are counted.

        Returns:
            As `make_cache`, filled.
        """
        B, S = ops.shape(value)[:2]
        at = ops.broadcast_to(masks.positions(value_mask, S), (B, S))
        value = masks.zero_masked(value, value_mask)
        memory = self._memory(value, masks.zero_masked(key, value_mask), at)
        # Outside of a call nothing is cast to the compute type.
        return memory | {
            name: ops.cast(memory[name], self.compute_dtype)
            for name in ("key", "value")
        }

    def compute_output_shape(self, query_shape, value_shape, key_shape=None):
        width = self._given["output_shape"] or query_shape[-1]
        width = (width,) if isinstance(width, int) else tuple(width)
        return (*query_shape[:-1], *width)


def _normalized(x, norm):
    """Heads `(..., N, K)`, each normalized if there is a norm."""
    return x if norm is None else norm(x)
