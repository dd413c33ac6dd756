r"""Longformer's attention: a sliding window, and global tokens that read everything.

A local query t attends to $\{s : |t - s| < w\}$ and to every global token; a global
query g attends to all tokens, with projections of its own:

$$
\alpha_g = \mathrm{softmax}\left(\lambda\, (x_g W^{Q_g}) (X W^{K_g})^T\right), \qquad
\mathrm{head}_g = \alpha_g\, X W^{V_g}
$$

Time and memory grow with the length times w. Beltagy, Peters and Cohan 2020. Course
slides E. Hugging Face's window is 2 (w − 1).
"""

import math
from typing import Any

import keras
from keras import ops

from kerasseq.attention.cache import Cache
from kerasseq.attention.dot_product import (
    attention_scores,
    record_heads,
    repeat_heads,
    weighted_sum,
    weights_of_scores,
)
from kerasseq.attention.multi_head import MultiHeadAttention
from kerasseq.attention.projections import input_projection
from kerasseq.attention.sparse.window import (
    attend_in_chunks,
    check_one_sequence,
    reads_chunks,
)
from kerasseq.core import checks, masks
from kerasseq.core.serialization import register
from kerasseq.core.shapes import check_mask
from kerasseq.core.types import Shape, Tensor
from kerasseq.kernels import dense, is_concrete, take_steps


@register
class LongformerAttention(MultiHeadAttention):
    r"""Self-attention to a window of tokens and to global tokens.

    The window is `sliding_window` of `MultiHeadAttention`, read in chunks: time and
    memory grow with the length. With a window as long as the text the results are
    those of dense attention. A call with a cache or an `attention_mask`, and one that
    returns or records the weights, computes all pairs.

    Args:
        num_heads: As for `MultiHeadAttention`.
        key_dim: As for `MultiHeadAttention`.
        *args: As for `MultiHeadAttention`.
        sliding_window: w. A query attends to keys at a distance below this.
        max_global_tokens: G, the most global tokens that a sequence may have. None if
            the layer has no projections for global tokens, and takes no `global_mask`.
        **kwargs: As for `MultiHeadAttention`.

    Call arguments:
        query: And all others: as for `MultiHeadAttention`; query and value are one
            sequence.
        global_mask: Boolean `(B, T)`, True at global tokens, or None. If causal, a
            global token reads earlier tokens, and later tokens read it.

    Returns:
        As `MultiHeadAttention`. Weights are 0 at pairs that are not read.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If the window is below 1, a global token is at padding, there are
            more than `max_global_tokens`, or query and value differ in length. Compiled
            code cannot raise: it returns NaN for such a sequence.

    Examples:
        >>> layer = LongformerAttention(2, 3, sliding_window=4, max_global_tokens=1)
        >>> x, first = np.ones((2, 37, 7)), np.arange(37)[None] < 1
        >>> keras.ops.shape(layer(x, x, global_mask=np.repeat(first, 2, axis=0)))
        (2, 37, 7)

    References:
        Beltagy, Peters and Cohan, "Longformer: The Long-Document Transformer", 2020.
        Slides E.
    """

    global_query_dense: keras.layers.EinsumDense
    global_key_dense: keras.layers.EinsumDense
    global_value_dense: keras.layers.EinsumDense

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        *args: Any,
        sliding_window: int = 256,
        max_global_tokens: int | None = None,
        **kwargs: Any,
    ) -> None:
        window = checks.size("sliding_window", sliding_window)
        super().__init__(num_heads, key_dim, *args, sliding_window=window, **kwargs)
        self.max_global_tokens: int | None = checks.optional(
            checks.size, "max_global_tokens", max_global_tokens
        )
        self.argument_names: tuple[str, ...] = (
            *self.argument_names,
            "max_global_tokens",
        )

    def build(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> None:
        super().build(query_shape, value_shape, key_shape)
        if self.max_global_tokens is None:
            return
        M, K, V = self.key_value_heads, self.key_dim, self.value_dim
        kernel, bias = self.kernel_initializer, self.use_query_key_value_bias

        def projection(name, heads, width, initializer=kernel):
            return input_projection(
                value_shape,
                heads,
                width,
                use_bias=self.use_bias if bias is None else bias,
                name=name,
                **self._projection_options(initializer),
            )

        self.global_query_dense = projection("global_query", self.num_heads, K)
        self.global_key_dense = projection("global_key", M, K)
        value_kernel = self.value_initializer or kernel
        self.global_value_dense = projection("global_value", M, V, value_kernel)

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
        global_mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        index = cache_update_index
        check_one_sequence(self, query, value, cache)
        if global_mask is not None:
            self._check_global(global_mask, query, value_mask, attention_mask, cache)
        return self._run(
            (query, value, key),
            (attention_mask, query_mask, value_mask, key_mask),
            (cache, index, cached_mask),
            (query_positions, key_positions),
            causal=use_causal_mask or (index is not None and causal_cache),
            drop=bool(self.dropout and training),
            return_weights=return_attention_scores,
            global_mask=global_mask,
        )

    def _check_global(self, global_mask, query, value_mask, attention_mask, cache):
        """Raises unless the global tokens are those of a whole, real sequence."""
        check_mask("global_mask", global_mask, ("batch", "time"), query.shape[:2])
        if self.max_global_tokens is None:
            raise ValueError(
                f"global_mask needs projections for global tokens, received a layer "
                f"{self.name} without. Create it with max_global_tokens"
            )
        for name, value in (("attention_mask", attention_mask), ("cache", cache)):
            if value is not None:
                raise ValueError(
                    f"{name} must be None with a global_mask, received both. Call "
                    "LongformerAttention on whole sequences, with padding masks"
                )
        if not is_concrete(global_mask):
            return
        chosen = ops.convert_to_numpy(global_mask).astype("bool")
        if (largest := int(chosen.sum(axis=1).max(initial=0))) > self.max_global_tokens:
            raise ValueError(
                f"global_mask must have at most max_global_tokens="
                f"{self.max_global_tokens} tokens in a sequence, received {largest}. "
                "Create the layer with more"
            )
        if value_mask is None or not is_concrete(value_mask):
            return
        hidden = chosen & ~ops.convert_to_numpy(value_mask).astype("bool")
        if hidden.any():
            row, column = (int(n[0]) for n in hidden.nonzero())
            raise ValueError(
                f"global_mask must be True at real tokens only, received True at "
                f"padding, position {column} of sequence {row}. Set it to False there"
            )

    def _project_key_value(self, value, key, positions, cache=None, index=None):
        memory = super()._project_key_value(value, key, positions, cache, index)
        if cache is not None or self.max_global_tokens is None:
            return memory
        q = dense(self.global_query_dense, value)
        k = dense(self.global_key_dense, value if key is None else key)
        q = q if self.query_norm is None else self.query_norm(q)
        k = k if self.key_norm is None else self.key_norm(k)
        if self.position is not None:
            q, k = (self.position.rotate(x, positions) for x in (q, k))
        v = dense(self.global_value_dense, value)
        return {**memory, "global_query": q, "global_key": k, "global_value": v}

    def _attend(
        self, q, positions, memory, given_masks, *, global_mask=None, **options
    ):
        attention_mask, query_mask, *key_masks = given_masks
        of_local = ("key", "value", "position")
        local = {name: memory[name] for name in of_local if name in memory}
        in_chunks = reads_chunks(self, q, attention_mask, **options)
        if global_mask is None and not in_chunks:
            return super()._attend(q, positions, local, given_masks, **options)
        real, found = masks.intersect(*key_masks), None
        if global_mask is not None:
            global_mask = masks.intersect(global_mask, real)
            found = _find(global_mask, local, self.max_global_tokens)
        if not in_chunks:
            given = (q, positions, memory), (real, query_mask)
            return self._attend_to_pairs(*given, (global_mask, found), options)
        others = real
        if global_mask is not None:
            others = masks.intersect(real, ops.logical_not(global_mask))
        causal, drop = options["causal"], options["drop"]
        out = attend_in_chunks(
            *(self, q, positions, local, others), causal=causal, drop=drop, extra=found
        )
        if found is not None:
            tokens = global_mask, found
            out = self._insert_global(out, positions, memory, real, tokens, options)
        return record_heads(self, "heads", masks.zero_masked(out, query_mask)), None

    def _attend_to_pairs(self, given, given_masks, tokens, options):
        """Returns the heads `(B, T, N, V)` and the weights, with all pairs of scores.

        Rows of global tokens have their scores and values by other projections.
        """
        (q, positions, memory), (real, query_mask) = given, given_masks
        global_mask, found = tokens
        T = ops.shape(q)[1]
        heads = [record_heads(self, "query", q)]
        for name in ("key", "value"):
            x = repeat_heads(memory[name], self.heads_per_group)
            heads.append(record_heads(self, name, x))
        q, k, v = heads
        e = self._scores(q, k, positions, memory)
        global_key, global_value = (
            repeat_heads(memory[f"global_{name}"], self.heads_per_group)
            for name in ("key", "value")
        )
        e_global = self._scores(memory["global_query"], global_key, positions, memory)
        e = ops.where(global_mask[:, None, :, None], e_global, e)
        mask = ops.logical_or(
            masks.window(T, T, self.sliding_window), global_mask[:, None]
        )
        mask = ops.logical_or(mask, global_mask[:, :, None])
        if real is not None:
            mask = masks.intersect(mask, real[:, None])
        if options["causal"]:
            mask = masks.intersect(mask, masks.causal(T, T))
        alpha, _ = weights_of_scores(self, e, mask[:, None])
        dropped = alpha
        if options["drop"]:
            seed = self.seed_generator
            dropped = keras.random.dropout(alpha, self.dropout, seed=seed)
        out = ops.where(
            global_mask[..., None, None],
            weighted_sum(dropped, global_value),
            weighted_sum(dropped, v),
        )
        out = ops.where(found["excess"][:, None, None, None], math.nan, out)
        out = record_heads(self, "heads", masks.zero_masked(out, query_mask))
        if query_mask is not None:
            shown = ops.cast(query_mask, "bool")[:, None, :, None]
            alpha = ops.where(shown, alpha, 0 * alpha)
        return out, alpha

    def _scores(self, q, k, positions, memory):
        """Scores `(B, N, T, T)` of all pairs."""
        content = q if self.position is None else self.position.content_queries(q)
        bias = self._bias(q, positions, memory)
        return attention_scores(content, k, scale=self.factor, bias=bias)

    def _insert_global(self, out, positions, memory, real, tokens, options):
        """Replaces the heads of global tokens, which read all tokens."""
        global_mask, found = tokens
        T = ops.shape(out)[1]
        q = take_steps(memory["global_query"], found["index"])  # (B, G, N, K)
        content = q if self.position is None else self.position.content_queries(q)
        k = repeat_heads(memory["global_key"], self.heads_per_group)
        v = repeat_heads(memory["global_value"], self.heads_per_group)
        memory = {"position": memory.get("position")}
        bias = self._bias(q, found.get("position"), memory)
        e = attention_scores(content, k, scale=self.factor, bias=bias)
        mask = found["real"][:, :, None]  # (B, G, 1)
        if real is not None:
            mask = masks.intersect(mask, real[:, None])
        steps = ops.arange(T, dtype="int32")
        if options["causal"]:
            mask = masks.intersect(mask, steps <= found["index"][..., None])
        a = masks.softmax(e, mask[:, None])  # (B, N, G, T)
        dropped = a
        if options["drop"]:
            seed = self.seed_generator
            dropped = keras.random.dropout(a, self.dropout, seed=seed)
        heads = weighted_sum(dropped, v)  # (B, G, N, V)
        at = ops.equal(steps[:, None], found["index"][:, None])  # (B, T, G)
        at = ops.cast(masks.intersect(at, found["real"][:, None]), heads.dtype)
        heads = ops.einsum("btg,bgnv->btnv", at, heads)
        out = ops.where(global_mask[..., None, None], heads, out)
        return ops.where(found["excess"][:, None, None, None], math.nan, out)


def _find(global_mask, memory, G):
    """The global tokens: their index, keys, values, and whether there is one."""
    T = ops.shape(global_mask)[1]
    steps = ops.arange(T, dtype="int32")[None]
    found = ops.sort(ops.where(global_mask, steps, T), axis=1)[:, :G]
    real = found < T
    index = ops.where(real, found, ops.zeros_like(found))
    count = ops.sum(ops.cast(global_mask, "int32"), axis=1)
    B = ops.shape(global_mask)[0]
    whole = {n: ops.broadcast_to(x, (B, *ops.shape(x)[1:])) for n, x in memory.items()}
    tokens = {name: take_steps(x, index) for name, x in whole.items()}
    return {**tokens, "index": index, "real": real, "excess": count > G}
