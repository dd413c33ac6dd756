r"""Reformer's attention: each token attends to tokens that hash to the same bucket.

Queries are keys as well, at unit length: $k_s = q_s / \|q_s\|$. In each of H rounds
random rotations $R_r$ hash them, so that similar ones often share a bucket:

$$
h_r(q) = \mathrm{argmax}\, [q R_r; -q R_r]
$$

The tokens are sorted by bucket, then by position, and split into chunks of L. A chunk
$\mathcal{C}$ attends to itself and to the chunk before it; with $e_{ts} = \lambda\,
q_t^T k_s$,

$$
l_{tr} = \log \sum_{s \in \mathcal{C}_r(t)} e^{e_{ts}}, \quad
o_{tr} = \sum_{s \in \mathcal{C}_r(t)} e^{e_{ts} - l_{tr}} v_s, \quad
\mathrm{head}_t = \sum_r \frac{e^{l_{tr}}}{\sum_j e^{l_{tj}}} o_{tr}
$$

A token attends to its own position only where there is no other. Time and memory grow
with H T L. Kitaev, Kaiser and Levskaya 2020. Course slides E. Reversible layers are
left out.

Axes: B batch, T steps, N heads, K width of queries, V width of values, H rounds, C
chunks, L steps of a chunk.
"""

import math
from typing import Any, NamedTuple

import keras
from keras import ops

from kerasseq import tracing
from kerasseq.attention.cache import WithoutCache
from kerasseq.attention.dot_product import (
    record_heads,
    recorded_attention,
    weighted_sum,
)
from kerasseq.attention.multi_head import MultiHeadAttention
from kerasseq.attention.sparse.window import check_one_sequence
from kerasseq.core import checks, masks
from kerasseq.core.serialization import register
from kerasseq.core.types import Shape, Tensor
from kerasseq.kernels import dense, is_float64, matmul, take_steps
from kerasseq.tracing import listeners

OWN = -1e5  # score of the own position: above that of padding, below all others
EPSILON = 1e-6  # added to the mean square of a query before it becomes a key


class Sorted(NamedTuple):
    """The steps of a text in the order of their buckets.

    Attributes:
        queries: Step of each query, `(B, N, H, C, L)`.
        keys: Steps of the keys that they read, `(B, N, H, C, 2 L)`.
        rank: Where each step stands in its round, `(B, N, H, C L)`.
    """

    queries: Tensor
    keys: Tensor
    rank: Tensor


@register
class ReformerAttention(WithoutCache, MultiHeadAttention):
    r"""Multi-head self-attention to tokens that hash to the same bucket.

    Queries are keys as well, at unit length. The sort by bucket depends on later
    tokens, so that the layer cannot be causal, and has no cache. A text of one chunk is
    dense attention. Any length is padded to whole chunks inside. Padding changes
    nothing on either side. The rotations are weights that are not trained: a saved
    layer gives the same answers on every backend.

    It takes the arguments of `MultiHeadAttention` except `num_key_value_heads`,
    `sliding_window`, `query_key_norm`, `flash_attention`, `attention_axes`, and
    positions that bias the scores.

    Args:
        num_heads: As for `MultiHeadAttention`.
        key_dim: As for `MultiHeadAttention`.
        *args: As for `MultiHeadAttention`.
        num_buckets: Number of buckets, even. 2 T / L is a good choice.
        num_hashes: H, number of rounds.
        chunk_length: L, number of tokens in a chunk.
        seed: Seed of the rotations and of dropout.
        **kwargs: As for `MultiHeadAttention`. `scale` is λ, 1 if None.

    Call arguments:
        query: X, `(B, T, D)`, from which queries and keys are computed.
        value: Y, `(B, T, D)`, the same sequence.
        query_mask: Boolean `(B, T)`, as `value_mask` and `key_mask`. A step that one of
            them masks is not read, and its heads are zeros.
        return_attention_scores: And `training`: as for `MultiHeadAttention`. Others are
            refused.

    Returns:
        `(B, T, D)`; and the attention weights `(B, N, T, T)`, if asked for, which are 0
        at pairs that are not read.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If an argument is out of range or not taken, the call is causal or
            cached, or query and value differ in length.

    Examples:
        >>> layer = ReformerAttention(2, 3, num_buckets=4, chunk_length=5, seed=0)
        >>> x = np.ones((2, 13, 7))
        >>> y, alpha = layer(x, x, return_attention_scores=True)
        >>> keras.ops.shape(y), keras.ops.shape(alpha)
        ((2, 13, 7), (2, 2, 13, 13))

    References:
        Kitaev, Kaiser and Levskaya, "Reformer: The Efficient Transformer", ICLR 2020.
        Slides E.
    """

    never_causal = "sorts all positions, later ones too"

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        *args: Any,
        num_buckets: int,
        num_hashes: int = 2,
        chunk_length: int = 64,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, *args, **kwargs)
        self.num_buckets: int = checks.size("num_buckets", num_buckets)
        if num_buckets % 2:
            raise ValueError(
                "num_buckets must be even, as a rotation and its opposite are buckets, "
                f"received {num_buckets}. Pass {num_buckets + 1}"
            )
        self.num_hashes: int = checks.size("num_hashes", num_hashes)
        self.chunk_length: int = checks.size("chunk_length", chunk_length)
        self._check_not_taken()
        own = ("num_buckets", "num_hashes", "chunk_length")
        self.argument_names: tuple[str, ...] = (*self.argument_names, *own)

    def _check_not_taken(self):
        """Raises if an option is given that needs keys of their own, or all pairs."""
        biased = self.position is not None and self.position.has_bias
        for name, given, reason in (
            ("position", biased, "does not bias scores. Pass RotaryEmbedding or None"),
            (
                "num_key_value_heads",
                self.key_value_heads != self.num_heads,
                "computes keys from its queries, one for each head. Leave it out",
            ),
            (
                "query_key_norm",
                self.query_key_norm is not None,
                "normalizes its keys to unit length. Leave it out",
            ),
            (
                "sliding_window",
                self.sliding_window is not None,
                "reads buckets. Use LongformerAttention for windows",
            ),
            ("flash_attention", bool(self.flash_attention), "sorts. Leave it out"),
            (
                "attention_axes",
                self.attention_axes not in (None, 1, (1,), [1]),
                "reads sequences. Leave it out",
            ),
        ):
            if given:
                raise ValueError(
                    f"ReformerAttention takes no {name}={getattr(self, name)!r}: it "
                    f"{reason}"
                )

    @property
    def factor(self) -> float:
        """λ, the factor of the scores."""
        return 1.0 if self.scale is None else self.scale

    def build(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> None:
        if len(query_shape) != 3:
            raise ValueError(
                "query must have shape (batch, time, features) in ReformerAttention, "
                f"received shape {tuple(query_shape)}. Merge its other axes"
            )
        super().build(query_shape, value_shape)
        shape = (self.num_heads, self.key_dim, self.num_hashes, self.num_buckets // 2)
        self.rotations: keras.Variable = self.add_weight(
            name="rotations",
            shape=shape,
            initializer=keras.initializers.RandomNormal(stddev=1.0, seed=self.seed),
            trainable=False,
            autocast=False,
        )

    def _make_key_dense(self, shape, **options):
        return self.query_dense

    def _run(self, given_inputs, given_masks, caching, positions, **options):
        query, value, key = given_inputs
        for name, given in (
            ("use_causal_mask", options["causal"] or None),
            ("attention_mask", given_masks[0]),
            ("cache", caching[0]),
        ):
            if given is not None:
                raise ValueError(
                    f"ReformerAttention {self.never_causal}: it takes no {name}, "
                    "received one. Use BlockwiseAttention or LongformerAttention"
                )
        if key is not None:
            raise ValueError(
                "ReformerAttention computes its keys from the query: it takes no key, "
                "received one. Leave it out"
            )
        check_one_sequence(self, query, value, None)
        real = masks.intersect(*given_masks[1:])
        given_masks = None, real, real, None
        return super()._run(given_inputs, given_masks, caching, positions, **options)

    def _project_key_value(self, value, key, positions, cache=None, index=None):
        return {"value": dense(self.value_dense, value)}  # keys are computed from q

    def _attend(self, q, positions, memory, given_masks, **options):
        real, T = given_masks[1], q.shape[1]
        k, v = unit_keys(q), memory["value"]
        if not isinstance(T, int) or self.chunk_length < T:  # or it is not known here
            return self._attend_in_chunks(q, k, v, real, **options)
        return recorded_attention(
            *(self, q, k, v),
            mask=mask_own_position(real, T)[:, None],
            bias=None,
            causal=False,
            drop=options["drop"],
            return_weights=options["return_weights"],
        )

    def _attend_in_chunks(self, q, k, v, real, *, drop, return_weights, **options):
        """Returns the heads `(B, T, N, V)`, and the attention weights or None."""
        B, T, N = ops.shape(q)[:3]
        order = self._sort(self._buckets(q), real, T)
        length = ops.shape(order.rank)[-1]
        real = ops.ones((B, T), "bool") if real is None else ops.cast(real, "bool")
        read = ops.broadcast_to(real[:, :, None], (B, T, N))
        padded = (ops.swapaxes(_pad(x, length), 1, 2) for x in (q, k, v, read))
        q, k, values, read = padded  # (B, N, C L, ...)
        alpha, log_sum = self._weights_of_rounds(q, k, read, order)
        log_sum = _take(log_sum, order.rank, 3)
        # Not by a logarithm: that of a row with no other token is too far below 0.
        rounds = ops.softmax(log_sum, axis=2)[..., None]
        dropped = alpha
        if drop:
            seed = self.seed_generator
            dropped = keras.random.dropout(alpha, self.dropout, seed=seed)
        out = matmul(ops.cast(dropped, v.dtype), _take(values, order.keys))
        out = ops.swapaxes(_sum_of_rounds(out, rounds, order), 1, 2)[:, :T]
        out = masks.zero_masked(out, real)
        if not (return_weights or listeners.active()):
            return out, None
        at = ops.one_hot(order.keys, length, dtype=alpha.dtype)
        pairs = _sum_of_rounds(matmul(alpha, at), rounds, order)[:, :, :T, :T]
        pairs = ops.where(real[:, None, :, None], pairs, ops.zeros((), pairs.dtype))
        pairs = ops.cast(pairs, v.dtype)
        recorded = tracing.record(self, "alignment", pairs, axes=listeners.HEAD_AXES)
        if recorded is not pairs:  # an intervention
            out = weighted_sum(recorded, v)
        return record_heads(self, "heads", out), recorded

    def _buckets(self, q):
        """Returns the bucket of each query in each round, `(B, N, H, T)`."""
        dtype = "float64" if is_float64(q) else "float32"
        q = ops.cast(ops.stop_gradient(q), dtype)
        R = ops.cast(self.rotations, dtype)
        rotated = ops.einsum("btnk,nkhr->bnhtr", q, R)
        h = ops.argmax(ops.concatenate([rotated, -rotated], axis=-1), axis=-1)
        axes = ("rows", "heads", "rounds", "steps")
        return tracing.record(self, "buckets", ops.cast(h, "int32"), axes=axes)

    def _sort(self, h, real, T):
        """Sorts the steps by bucket and position, with padding at the end."""
        L = self.chunk_length
        C = (T + L - 1) // L
        B, N, H = ops.shape(h)[:3]
        if real is not None:
            h = ops.where(ops.cast(real, "bool")[:, None, None], h, self.num_buckets)
        filled = ops.full((B, N, H, C * L - T), self.num_buckets, dtype="int32")
        h = ops.concatenate([h, filled], axis=-1)
        order = ops.argsort(h * (C * L) + ops.arange(C * L, dtype="int32"), axis=-1)
        order = ops.cast(order, "int32")
        rank = ops.cast(ops.argsort(order, axis=-1), "int32")
        t = ops.reshape(order, (B, N, H, C, L))
        if real is None:
            last = t[:, :, :, -1]
        else:  # the last chunk that has a real step
            count = ops.sum(ops.cast(real, "int32"), axis=1, keepdims=True)
            at = ops.maximum((count - 1) // L, 0)
            last = take_steps(ops.transpose(t, (0, 3, 1, 2, 4)), at)[:, 0]
        # Before the first chunk of a round is the last of the round before.
        first = ops.roll(last, 1, axis=2)[:, :, :, None]
        before = ops.concatenate([first, t[:, :, :, :-1]], axis=3)
        return Sorted(t, ops.concatenate([before, t], axis=-1), rank)

    def _weights_of_rounds(self, q, k, real, order):
        """Weights `(B, N, H, C, L, 2 L)` in each round, and log-sums `(B, N, H, C L)`.

        The weights of padded queries mean nothing.
        """
        q, k = _take(q, order.queries), _take(k, order.keys)
        dtype = "float64" if is_float64(q) else "float32"
        q = q * ops.cast(self.factor, q.dtype)
        e = ops.cast(matmul(q, ops.swapaxes(k, -1, -2)), dtype)
        own = ops.equal(order.queries[..., None], order.keys[..., None, :])
        e = ops.where(own, ops.cast(OWN, dtype), e)
        read = _take(real, order.keys)[..., None, :]
        e = ops.where(read, e, masks.lowest(dtype))
        m = ops.stop_gradient(masks.largest(e, axis=-1, keepdims=True))
        powers = ops.exp(e - m)
        total = ops.sum(powers, axis=-1, keepdims=True)
        log_sum = ops.reshape(m + ops.log(total), ops.shape(order.rank))
        return powers / total, log_sum


def unit_keys(q: Tensor) -> Tensor:
    """Returns queries `(..., K)` at unit length, computed in float32 at least.

    Examples:
        >>> k = unit_keys(np.array([[3.0, 4.0]], "float32"))
        >>> keras.ops.convert_to_numpy(k).round(3).tolist()
        [[0.6000000238418579, 0.800000011920929]]
    """
    wide = q if is_float64(q) else ops.cast(q, "float32")
    K = q.shape[-1]  # sums, as `ops.mean` computes in float32 on PyTorch
    square = ops.sum(ops.square(wide), axis=-1, keepdims=True)
    k = wide * ops.rsqrt(square + K * EPSILON)
    return ops.cast(k, q.dtype)


def mask_own_position(real: Tensor | None, T: int | Tensor) -> Tensor:
    """Returns a mask without the own position, except where there is no other.

    Args:
        real: Boolean `(B, T)`, or None.
        T: Number of steps.

    Returns:
        Boolean `(B or 1, T, T)`.

    Examples:
        >>> mask = mask_own_position(np.array([[True, True, False]]), 3)
        >>> keras.ops.convert_to_numpy(mask)[0].astype(int).tolist()
        [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    """
    steps = ops.arange(T, dtype="int32")
    own = ops.equal(steps[:, None], steps)[None]
    other = ops.logical_not(own)
    if real is not None:
        real = ops.cast(real, "bool")
        other = masks.intersect(other, real[:, None])
    alone = ops.logical_not(ops.any(other, axis=-1, keepdims=True))
    mask = ops.logical_or(other, ops.logical_and(own, alone))
    return mask if real is None else masks.intersect(mask, real[:, :, None])


def _pad(x, length):
    """Fills `(B, T, ...)` with zeros up to a length."""
    B, T, *rest = ops.shape(x)
    return ops.concatenate([x, ops.zeros((B, length - T, *rest), x.dtype)], axis=1)


def _take(x, steps, lead=2):
    """Selects steps `(B, N, ...)` of `(B, N, T, ...)`; `lead` counts the first axes."""
    *sizes, T = ops.shape(x)[: lead + 1]
    rows = math.prod(sizes[1:]) * sizes[0]
    first = ops.arange(rows, dtype="int32") * T
    first = ops.reshape(first, (*sizes, *[1] * (len(steps.shape) - lead)))
    rest = ops.shape(x)[lead + 1 :]
    x = ops.take(ops.reshape(x, (rows * T, *rest)), steps + first, axis=0)
    return ops.reshape(x, (*ops.shape(steps), *rest))  # JAX takes none of no rows


def _sum_of_rounds(x, weights, order):
    """Sums `(B, N, H, C, L, ...)` over the rounds, in the order of the text."""
    x = ops.reshape(x, (*ops.shape(order.rank), ops.shape(x)[-1]))
    x = _take(x, order.rank, 3)
    return ops.sum(ops.cast(weights, x.dtype) * x, axis=2)
