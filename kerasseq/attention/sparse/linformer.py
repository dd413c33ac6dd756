r"""Linformer's attention: keys and values projected along time to a fixed rank.

$$
\mathrm{head} = \mathrm{softmax}\left(\lambda\, Q (E K)^T\right) (F V), \qquad
E, F \in \mathbb{R}^{r \times S_{\max}}
$$

Time and memory grow with the length times r. Wang et al. 2020. Course slides E.
"""

from typing import Any

import keras
from keras import ops

from kerasseq.attention.cache import WithoutCache
from kerasseq.attention.dot_product import recorded_attention, repeat_heads
from kerasseq.attention.multi_head import MultiHeadAttention
from kerasseq.core import checks, masks
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Identifier, Initializer, Shape, Tensor
from kerasseq.kernels import size_is_guessed

SHARES = ("none", "heads", "key_value")


@register
class LinformerProjection(Layer):
    r"""The projections E and F along time, which several layers may share.

    Args:
        rank: r, number of rows.
        max_length: $S_{\max}$, number of columns: the longest text.
        share: "none" for one of each head; "heads" for one E and one F for all heads;
            "key_value" for one matrix for keys and values of all heads.
        initializer: Initializer of the matrices.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        keys: `(B, S, M, K)`.
        values: `(B, S, M, V)`.
        positions: Integers `(B, S)` or `(1, S)`: the column of each key.
        mask: Boolean `(B, S)`, True at real keys, or None.

    Returns:
        The projected keys `(B, r, M, K)` and values `(B, r, M, V)`; and a boolean
        `(B, r, M)`, or an axis of 1, that is False where a row of E is zero at all real
        keys, and its key is that of no text.

    Raises:
        ValueError: If an argument is out of range.

    Examples:
        >>> projection = LinformerProjection(3, 11, share="heads")
        >>> x = np.ones((2, 7, 5, 4))
        >>> keys, values, used = projection(x, x, np.arange(7)[None])
        >>> keras.ops.shape(keys)
        (2, 3, 5, 4)
    """

    initializer: Initializer

    @passes_on(Layer)
    def __init__(
        self,
        rank: int,
        max_length: int,
        share: str = "none",
        *,
        initializer: Identifier = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        self.rank: int = checks.size("rank", rank)
        self.max_length: int = checks.size("max_length", max_length, self.rank)
        self.share: str = checks.one_of("share", share, SHARES)

    def build(self, keys_shape: Shape, *more: Shape) -> None:
        self.num_heads: int = keys_shape[-2]
        heads = self.num_heads if self.share == "none" else 1
        shape = (self.max_length, self.rank, heads)

        def matrix(name: str) -> keras.Variable:
            return self.add_weight(name=name, shape=shape, initializer=self.initializer)

        self.E: keras.Variable = matrix("key_projection")
        self.F: keras.Variable | None = None
        if self.share != "key_value":
            self.F = matrix("value_projection")
        self.built = True

    def call(
        self,
        keys: Tensor,
        values: Tensor,
        positions: Tensor,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        E = ops.take(self.E, positions, axis=0)  # (B or 1, S, r, M or 1)
        F = E if self.F is None else ops.take(self.F, positions, axis=0)
        used = ops.not_equal(E, ops.zeros((), E.dtype))
        if mask is not None:
            used = ops.logical_and(used, ops.cast(mask, "bool")[:, :, None, None])
        k = _project(E, masks.zero_masked(keys, mask))
        v = _project(F, masks.zero_masked(values, mask))
        return k, v, ops.any(used, axis=1)

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        return None

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        return keras.Operation.compute_output_spec(self, *args, **kwargs)


def _project(E, x):
    """Sums `(B, S, M, K)` over the keys, weighted by E: `(B, r, M, K)`."""
    heads = max(E.shape[-1], x.shape[-2])
    E = ops.broadcast_to(E, (ops.shape(x)[0], *ops.shape(E)[1:-1], heads))
    return ops.einsum("bsrm,bsmk->brmk", E, x)


@register
class LinformerAttention(WithoutCache, MultiHeadAttention):
    r"""Multi-head attention to r projections of the keys and values.

    Each projection mixes all positions, so that the layer cannot be causal, and has no
    cache. Columns of E and F follow the positions of real tokens: padding changes
    nothing on either side. With E and F the identity the results are those of
    `MultiHeadAttention`, whose arguments it has, without `position` and
    `sliding_window`.

    Args:
        num_heads: As for `MultiHeadAttention`.
        key_dim: As for `MultiHeadAttention`.
        *args: As for `MultiHeadAttention`.
        rank: r, number of projected keys.
        max_length: The longest text.
        share: What shares a matrix: "none", "heads" or "key_value", see
            `LinformerProjection`.
        projection: A `LinformerProjection` that several layers share; one of its own if
            None. A Transformer block copies its attention, and the projection with it.
        **kwargs: As for `MultiHeadAttention`.

    Call arguments:
        query: And all others: as for `MultiHeadAttention`, without `attention_mask`,
            `use_causal_mask` and caches.

    Returns:
        `(B, T, D)`; and the attention weights `(B, N, T, r)`, if asked for.

    Raises:
        TypeError: If `projection` is of another type.
        ValueError: If an argument is out of range, `projection` has other sizes, a text
            is longer than `max_length`, or the call is causal or cached.

    Examples:
        >>> layer = LinformerAttention(2, 3, rank=5, max_length=17)
        >>> x = np.ones((2, 13, 7))
        >>> y, alpha = layer(x, x, return_attention_scores=True)
        >>> keras.ops.shape(alpha)
        (2, 2, 13, 5)

    References:
        Wang et al., "Linformer: Self-Attention with Linear Complexity", 2020. Slides E.
    """

    never_causal = "mixes all positions, later ones too"

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        *args: Any,
        rank: int,
        max_length: int,
        share: str = "none",
        projection: LinformerProjection | Config | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, *args, **kwargs)
        for name in ("position", "sliding_window"):
            if (value := getattr(self, name)) is not None:
                raise ValueError(
                    f"LinformerAttention has no {name}, received {value!r}: its keys "
                    "are mixtures of positions. Leave it out"
                )
        self.rank: int = checks.size("rank", rank)
        self.max_length: int = checks.size("max_length", max_length, self.rank)
        self.share: str = checks.one_of("share", share, SHARES)
        self.projection: LinformerProjection | None = self._check(projection)
        own = ("rank", "max_length", "share", "projection")
        self.argument_names: tuple[str, ...] = (*self.argument_names, *own)

    def _check(self, projection):
        """Returns `projection` if it has the sizes of this layer."""
        if isinstance(projection, dict):  # as in a file
            projection = keras.saving.deserialize_keras_object(projection)
        if projection is None:
            return None
        if not isinstance(projection, LinformerProjection):
            raise TypeError(
                "projection must be a LinformerProjection or None, received "
                f"{projection!r}. Create one for the layers that share it"
            )
        for name in ("rank", "max_length", "share"):
            own, given = getattr(self, name), getattr(projection, name)
            if own != given:
                raise ValueError(
                    f"projection must have the {name} of the layer, {own!r}, received "
                    f"{given!r}. Create one with {name}={own!r}"
                )
        return projection

    def build(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> None:
        super().build(query_shape, value_shape, key_shape)
        self._projection = self.projection or LinformerProjection(
            *(self.rank, self.max_length, self.share),
            name="projection",
            dtype=self.dtype_policy,
        )
        M = self.key_value_heads
        if not self._projection.built:
            self._projection.build((None, None, M, self.key_dim))
        elif self.share == "none" and self._projection.num_heads != M:
            raise ValueError(
                f"projection must be for {M} key-value heads, received one for "
                f'{self._projection.num_heads}. Pass share="heads", or one of its own'
            )

    def _run(self, given_inputs, given_masks, caching, positions, **options):
        self._check_call(given_inputs[1], given_masks[0], caching[0], options["causal"])
        return super()._run(given_inputs, given_masks, caching, positions, **options)

    def _check_call(self, value, attention_mask, cache, causal):
        """Raises if a call needs what the layer has not."""
        for name, given in (
            ("use_causal_mask", causal or None),
            ("attention_mask", attention_mask),
            ("cache", cache),
        ):
            if given is not None:
                raise ValueError(
                    f"LinformerAttention {self.never_causal}: it takes no {name}, "
                    "received one. Use BlockwiseAttention or LongformerAttention"
                )
        S = value.shape[1]
        if S is not None and self.max_length < S and not size_is_guessed(value):
            raise ValueError(
                f"value must have at most max_length={self.max_length} tokens, "
                f"received {S}. Pass a shorter text, or create the layer for longer "
                "ones"
            )

    def _attend(self, q, positions, memory, given_masks, **options):
        _, query_mask, value_mask, key_mask = given_masks
        real = masks.intersect(value_mask, key_mask)
        s = masks.positions(real, ops.shape(memory["key"])[1])
        k, v, used = self._projection(memory["key"], memory["value"], s, mask=real)
        used = ops.swapaxes(used, 1, 2)[:, :, None]  # (B, M or 1, 1, r)
        if self.heads_per_group > 1 and used.shape[1] > 1:
            used = ops.repeat(used, self.heads_per_group, axis=1)
        if query_mask is not None:
            query_mask = ops.cast(query_mask, "bool")[:, None, :, None]
        return recorded_attention(
            self,
            q,
            repeat_heads(k, self.heads_per_group),
            repeat_heads(v, self.heads_per_group),
            mask=masks.intersect(used, query_mask),
            bias=None,
            causal=False,
            drop=options["drop"],
            return_weights=options["return_weights"],
        )
