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

from kerasseq.attention.cache import Cache, is_rolling, update_cache
from kerasseq.attention.dot_product import (
    attention_scores,
    record_heads,
    repeat_heads,
    weighted_sum,
    weights_of_scores,
)
from kerasseq.attention.multi_head import MultiHeadAttention
from kerasseq.attention.projections import input_biases, input_projection
from kerasseq.attention.sparse import rolling_cache as rolling
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
    those of dense attention. A call with an `attention_mask`, and one that returns or
    records the weights, computes all pairs.

    A cache holds the last w - 1 tokens, whatever the length of the text, and with
    `max_global_tokens=1` the global token, which must be among those of the first call.
    With more of them it holds all tokens, as a global token reads all before it.

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
            global token reads earlier tokens, and later tokens read it. With a cache,
            the mask of the new tokens.

    Returns:
        As `MultiHeadAttention`. Weights are 0 at pairs that are not read.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If the window is below 1, a global token is at padding, there are
            more than `max_global_tokens`, query and value differ in length, or a call
            does not continue the text of its cache. Compiled code cannot raise: it
            returns NaN for such a sequence.

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
        kernel = self.kernel_initializer
        bias, key_bias = input_biases(self.use_query_key_value_bias, self.use_bias)

        def projection(name, heads, width, initializer=kernel, use_bias=bias):
            return input_projection(
                value_shape,
                heads,
                width,
                use_bias=use_bias,
                name=name,
                **self._projection_options(initializer),
            )

        self.global_query_dense = projection("global_query", self.num_heads, K)
        self.global_key_dense = projection("global_key", M, K, use_bias=key_bias)
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
        if attention_mask is not None:
            raise ValueError(
                "attention_mask must be None with a global_mask, received both. Call "
                "LongformerAttention with padding masks"
            )
        if cache is not None and not (is_rolling(cache) or "global" in cache):
            raise ValueError(
                "cache must have room for global tokens with a global_mask, received "
                f"{', '.join(map(repr, cache))}. Create it with make_cache"
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

    def make_cache(self, batch: int, length: int) -> Cache:
        """Creates an empty cache, of the length that the layer needs.

        Args:
            batch: B.
            length: The most tokens of a text.

        Returns:
            As `MultiHeadAttention`, of the window and the global token, with "real" and
            "count" of `rolling_cache.py`. With several global tokens, of `length`
            tokens, with "global_key", "global_value" and the mask "global".
        """
        G = self.max_global_tokens or 0
        if G <= 1:
            length = G + max(1, min(length, self.sliding_window - 1))
            return rolling.roll(super().make_cache(batch, length))
        cache = super().make_cache(batch, length)
        of_global = {f"global_{name}": cache[name] for name in ("key", "value")}
        return {**cache, **of_global, "global": ops.zeros((batch, length), "bool")}

    def _run(
        self, given_inputs, given_masks, caching, positions, global_mask=None, **options
    ):
        cache, index, cached_mask = caching
        real, rolls = given_masks[2], is_rolling(cache)
        if rolls:
            given_inputs, cache, real = rolling.begin(
                self, given_inputs, given_masks, caching
            )
        if cache is not None and self.max_global_tokens is not None:
            if global_mask is None:
                global_mask = ops.zeros(ops.shape(given_inputs[0])[:2], "bool")
            global_mask = masks.intersect(global_mask, real)
            if "global" in cache:
                known = update_cache(cache["global"], global_mask, index)
                cache = {**cache, "global": known}
        results = super()._run(
            given_inputs,
            given_masks,
            (cache, index, cached_mask),
            positions,
            global_mask=global_mask,
            **options,
        )
        if cache is None:
            return results
        out, *weights, memory = results
        memory = {name: memory[name] for name in cache}
        if not rolls:
            return (out, *weights, memory)
        holds = ops.equal(cache["count"], index)
        kept = {
            "index": index,
            "length": caching[0]["key"].shape[1],
            "overwritten": real if cached_mask is None else None,
        }
        after = self._roll(memory, global_mask, ops.shape(given_inputs[0])[1], kept)
        return (rolling.nan_unless(holds, out), *weights, after)

    def _roll(self, memory, global_mask, T, kept):
        """Updates the cache after a call: the global token, and the last others."""
        if self.max_global_tokens is None:
            return rolling.drop_oldest(memory, T, **kept)
        C = kept["length"]  # the global token, and C - 1 others
        at = ops.argmax(ops.cast(global_mask, "int32"), axis=1)[:, None]
        has_token = ops.any(global_mask, axis=1)
        first, others = {}, {"count": memory["count"]}
        for name in memory.keys() - {"count"}:
            x = memory[name]
            new = take_steps(x[:, C:], ops.cast(at, "int32"))
            shape = (-1, *[1] * (len(x.shape) - 1))
            first[name] = ops.where(ops.reshape(has_token, shape), new, x[:, :1])
            others[name] = x[:, 1:]
        local = ops.logical_not(global_mask)
        local = ops.concatenate([ops.ones_like(memory["real"][:, 1:C]), local], axis=1)
        others["real"] = masks.intersect(others["real"], local)
        after = rolling.drop_oldest(others, T, **{**kept, "length": C - 1})
        for name, x in first.items():
            after[name] = ops.concatenate([x, after[name]], axis=1)
        return after

    def _project_key_value(self, value, key, positions, cache=None, index=None):
        if is_rolling(cache) or (cache is not None and "global" in cache):
            new = self._project_key_value(value, key, positions)
            return self._join(cache, new, index)
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

    def _join(self, cache, new, index):
        """Returns the tokens of a cache, and the new ones."""
        if not is_rolling(cache):
            names = cache.keys() - {"global"}
            joined = {n: update_cache(cache[n], new[n], index) for n in names}
            return {**cache, **joined, "global_query": new["global_query"]}
        memory = rolling.append(cache, new)
        if self.max_global_tokens is None:
            return memory
        for name in ("key", "value"):  # no token of the cache is before a global one
            old, x = cache[name], new[f"global_{name}"]
            x = ops.cast(x, old.dtype)
            memory[f"global_{name}"] = ops.concatenate([ops.zeros_like(old), x], axis=1)
        return {**memory, "global_query": new["global_query"]}

    def _attend_to_cache(self, q, positions, memory, given_masks, rows, options):
        """Heads and weights of a call with a cache from `make_cache`."""
        _, query_mask, real, _ = given_masks
        if not is_rolling(memory):
            columns, holds = memory["global"], ops.ones_like(memory["global"][:, 0])
        else:
            real = memory["real"]
            start = ops.shape(real)[1] - ops.shape(q)[1]
            options = {**options, "start": start}
            if self.max_global_tokens is None:
                given_masks = None, query_mask, real, None
                return super()._attend(q, positions, memory, given_masks, **options)
            known = [real[:, :1], ops.zeros_like(real[:, 1:start])]
            columns = ops.concatenate([*known, rows], axis=1)
            no_rows = ops.logical_not(ops.any(rows, axis=1))
            holds = ops.logical_or(ops.equal(memory["count"], 0), no_rows)
        count = ops.sum(ops.cast(columns, "int32"), axis=1)
        excess = ops.logical_or(count > self.max_global_tokens, ops.logical_not(holds))
        given = (q, positions, memory), (real, query_mask)
        return self._attend_to_pairs(*given, (rows, columns, excess), options)

    def _attend(
        self, q, positions, memory, given_masks, *, global_mask=None, **options
    ):
        if is_rolling(memory) or "global" in memory:
            return self._attend_to_cache(
                q, positions, memory, given_masks, global_mask, options
            )
        attention_mask, query_mask, *key_masks = given_masks
        of_local = ("key", "value", "position")
        local = {name: memory[name] for name in of_local if name in memory}
        in_chunks = reads_chunks(self, q, attention_mask, **options)
        if global_mask is None and not in_chunks:
            return super()._attend(q, positions, local, given_masks, **options)
        real, chosen = masks.intersect(*key_masks), None
        if global_mask is not None:
            global_mask = masks.intersect(global_mask, real)
            chosen = _find(global_mask, local, self.max_global_tokens)
        if not in_chunks:
            given = (q, positions, memory), (real, query_mask)
            tokens = global_mask, global_mask, chosen["excess"]
            return self._attend_to_pairs(*given, tokens, options)
        others = real
        if global_mask is not None:
            others = masks.intersect(real, ops.logical_not(global_mask))
        causal, drop = options["causal"], options["drop"]
        out = attend_in_chunks(
            *(self, q, positions, local, others), causal=causal, drop=drop, extra=chosen
        )
        if chosen is not None:
            tokens = global_mask, chosen
            out = self._insert_global(out, positions, memory, real, tokens, options)
        return record_heads(self, "heads", masks.zero_masked(out, query_mask)), None

    def _attend_to_pairs(self, given, given_masks, tokens, options):
        """Returns the heads `(B, T, N, V)` and the weights, with all pairs of scores.

        Rows of global tokens have their scores and values by other projections. The
        tokens are the global queries `(B, T)`, the global keys `(B, S)`, and `(B,)`,
        True where they are wrong.
        """
        (q, positions, memory), (real, query_mask) = given, given_masks
        rows, columns, excess = tokens
        T, S = ops.shape(q)[1], ops.shape(memory["key"])[1]
        start = 0 if options["start"] is None else options["start"]
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
        e = ops.where(rows[:, None, :, None], e_global, e)
        near = masks.window(T, S, self.sliding_window, start)
        mask = ops.logical_or(near, columns[:, None])
        mask = ops.logical_or(mask, rows[:, :, None])
        if real is not None:
            mask = masks.intersect(mask, real[:, None])
        if options["causal"]:
            mask = masks.intersect(mask, masks.causal(T, S, start))
        alpha, _ = weights_of_scores(self, e, mask[:, None])
        dropped = alpha
        if options["drop"]:
            seed = self.seed_generator
            dropped = keras.random.dropout(alpha, self.dropout, seed=seed)
        out = ops.where(
            rows[..., None, None],
            weighted_sum(dropped, global_value),
            weighted_sum(dropped, v),
        )
        out = ops.where(excess[:, None, None, None], math.nan, out)
        out = record_heads(self, "heads", masks.zero_masked(out, query_mask))
        if query_mask is not None:
            shown = ops.cast(query_mask, "bool")[:, None, :, None]
            alpha = ops.where(shown, alpha, 0 * alpha)
        return out, alpha

    def _scores(self, q, k, positions, memory):
        """Scores `(B, N, T, S)` of all pairs."""
        content = q if self.position is None else self.position.content_queries(q)
        bias = self._bias(q, positions, memory)
        return attention_scores(content, k, scale=self.factor, bias=bias)

    def _insert_global(self, out, positions, memory, real, tokens, options):
        """Replaces the heads of global tokens, which read all tokens."""
        global_mask, chosen = tokens
        T = ops.shape(out)[1]
        q = take_steps(memory["global_query"], chosen["index"])  # (B, G, N, K)
        content = q if self.position is None else self.position.content_queries(q)
        k = repeat_heads(memory["global_key"], self.heads_per_group)
        v = repeat_heads(memory["global_value"], self.heads_per_group)
        memory = {"position": memory.get("position")}
        bias = self._bias(q, chosen.get("position"), memory)
        e = attention_scores(content, k, scale=self.factor, bias=bias)
        mask = chosen["real"][:, :, None]  # (B, G, 1)
        if real is not None:
            mask = masks.intersect(mask, real[:, None])
        steps = ops.arange(T, dtype="int32")
        if options["causal"]:
            mask = masks.intersect(mask, steps <= chosen["index"][..., None])
        a = masks.softmax(e, mask[:, None])  # (B, N, G, T)
        dropped = a
        if options["drop"]:
            seed = self.seed_generator
            dropped = keras.random.dropout(a, self.dropout, seed=seed)
        heads = weighted_sum(dropped, v)  # (B, G, N, V)
        at = ops.equal(steps[:, None], chosen["index"][:, None])  # (B, T, G)
        at = ops.cast(masks.intersect(at, chosen["real"][:, None]), heads.dtype)
        heads = ops.einsum("btg,bgnv->btnv", at, heads)
        out = ops.where(global_mask[..., None, None], heads, out)
        return ops.where(chosen["excess"][:, None, None, None], math.nan, out)


def _find(global_mask, memory, G):
    """Finds the global tokens: index, keys, values, and whether there is one."""
    T = ops.shape(global_mask)[1]
    steps = ops.arange(T, dtype="int32")[None]
    order = ops.sort(ops.where(global_mask, steps, T), axis=1)[:, :G]
    real = order < T
    index = ops.where(real, order, ops.zeros_like(order))
    count = ops.sum(ops.cast(global_mask, "int32"), axis=1)
    B = ops.shape(global_mask)[0]
    whole = {n: ops.broadcast_to(x, (B, *ops.shape(x)[1:])) for n, x in memory.items()}
    tokens = {name: take_steps(x, index) for name, x in whole.items()}
    return {**tokens, "index": index, "real": real, "excess": count > G}
