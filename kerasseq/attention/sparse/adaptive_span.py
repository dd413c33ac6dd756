r"""Attention whose heads learn how far they read.

$$
\alpha_{ts} = \frac{m(t - s)\, e^{e_{ts}}}{\sum_u m(t - u)\, e^{e_{tu}}}, \qquad
m(d) = \mathrm{clip}\left(\frac{R + z - |d|}{R}, 0, 1\right)
$$

with a span z for each head, learned, and a ramp R. The loss $\lambda\,
\mathrm{mean}(z)$ makes the spans short. Sukhbaatar et al. 2019. Course slides E.
"""

import math
from typing import Any

import keras
from keras import ops

from kerasseq import tracing
from kerasseq.attention.cache import Cache, is_rolling
from kerasseq.attention.dot_product import record_heads
from kerasseq.attention.multi_head import MultiHeadAttention
from kerasseq.attention.sparse import rolling_cache as rolling
from kerasseq.attention.sparse.window import (
    attend_in_chunks,
    check_one_sequence,
    reads_chunks,
)
from kerasseq.core import checks, masks
from kerasseq.core.serialization import register
from kerasseq.core.types import Shape, Tensor
from kerasseq.kernels import is_concrete

ROUNDED = 16  # tokens of a cache are a multiple, as each length is compiled


@register
class FractionConstraint(keras.constraints.Constraint):
    """Keeps weights between 0 and 1.

    Examples:
        >>> w = FractionConstraint()(np.array([-1.0, 0.5, 2.0]))
        >>> keras.ops.convert_to_numpy(w).tolist()
        [0.0, 0.5, 1.0]
    """

    def __call__(self, w: Tensor) -> Tensor:
        return ops.clip(w, 0, 1)


@register
class AdaptiveSpanAttention(MultiHeadAttention):
    r"""Multi-head attention with a learned span for each head.

    A head reads keys at a distance below z + R, with less weight beyond z. Where all
    spans reach over the whole text, the results are those of `MultiHeadAttention`,
    whose arguments, masks and caches it has. Time and memory grow with the length times
    `max_span + ramp`, except in calls with a cache, an `attention_mask` or returned
    weights.

    Args:
        num_heads: As for `MultiHeadAttention`.
        key_dim: As for `MultiHeadAttention`.
        *args: As for `MultiHeadAttention`, without `sliding_window`.
        max_span: The longest span z.
        ramp: R, the width of the soft end of a span.
        span_loss: λ, the factor of the mean span in the loss.
        initial_span: z at the start.
        **kwargs: As for `MultiHeadAttention`.

    Call arguments:
        query: And all others: as for `MultiHeadAttention`.

    Returns:
        As `MultiHeadAttention`.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If an argument is out of range.

    Examples:
        >>> layer = AdaptiveSpanAttention(2, 3, max_span=5, ramp=2, initial_span=1)
        >>> x = np.ones((2, 13, 7))
        >>> _, alpha = layer(x, x, return_attention_scores=True)
        >>> alpha = keras.ops.convert_to_numpy(alpha)
        >>> alpha[0, 0, 6, 3:8].round(3).tolist()
        [0.0, 0.125, 0.25, 0.25, 0.25]

    References:
        Sukhbaatar et al., "Adaptive Attention Span in Transformers", ACL 2019. Slides
        E.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        *args: Any,
        max_span: int,
        ramp: int = 32,
        span_loss: float = 0.0,
        initial_span: float = 0.0,
        **kwargs: Any,
    ) -> None:
        window = kwargs.pop("sliding_window", None)
        super().__init__(num_heads, key_dim, *args, **kwargs)
        self.max_span: int = checks.size("max_span", max_span)
        self.ramp: int = checks.size("ramp", ramp)
        self.span_loss: float = checks.finite("span_loss", span_loss)
        self.initial_span: float = checks.finite("initial_span", initial_span)
        if not 0 <= initial_span <= max_span:
            raise ValueError(
                f"initial_span must lie between 0 and max_span={max_span}, received "
                f"{initial_span}. Choose one in between"
            )
        self.sliding_window: int | None = self.max_span + self.ramp
        if window not in (None, self.sliding_window):  # a config has its own
            raise ValueError(
                "AdaptiveSpanAttention learns its window: sliding_window must be None, "
                f"received {window}. Pass max_span"
            )
        own = ("max_span", "ramp", "span_loss", "initial_span")
        self.argument_names: tuple[str, ...] = (*self.argument_names, *own)

    @property
    def biases_scores(self) -> bool:
        """True: the spans are a bias."""
        return True

    @property
    def bias_is_constant(self) -> bool:
        """False: the spans are weights."""
        return False

    @property
    def spans(self) -> Tensor:
        """Z of each head, `(N,)`."""
        return self.max_span * ops.convert_to_tensor(self.span_fractions)

    def build(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> None:
        super().build(query_shape, value_shape, key_shape)
        start = self.initial_span / self.max_span
        self.span_fractions: keras.Variable = self.add_weight(
            name="span_fractions",
            shape=(self.num_heads,),
            initializer=keras.initializers.Constant(start),
            constraint=FractionConstraint(),
        )

    def needed_length(self, length: int) -> int:
        """Returns how many earlier tokens the spans reach, rounded up to a multiple.

        Args:
            length: The most tokens of a text.

        Examples:
            >>> layer = AdaptiveSpanAttention(2, 3, max_span=500, ramp=32)
            >>> layer.build((None, None, 7), (None, None, 7))
            >>> layer.needed_length(1000), layer.needed_length(20)
            (32, 20)
        """
        reach = self.max_span + self.ramp - 1
        z = ops.convert_to_tensor(self.spans)
        if is_concrete(z):  # not while a program is recorded: then the longest of all
            z = float(ops.convert_to_numpy(z).max())
            now = math.ceil(z + self.ramp) - 1
            reach = min(reach, -(-now // ROUNDED) * ROUNDED)
        return max(1, min(length, reach))

    def make_cache(self, batch: int, length: int) -> Cache:
        """Creates an empty cache of the tokens that the longest span reaches now.

        Args:
            batch: B.
            length: The most tokens of a text.

        Returns:
            As `MultiHeadAttention`, of at most `needed_length` tokens, whatever the
            length of the text; "real" and "count", see `rolling_cache.py`. If spans
            grow beyond it later, the outputs are NaN where tokens are missing.
        """
        return rolling.roll(super().make_cache(batch, self.needed_length(length)))

    def _run(self, given_inputs, given_masks, caching, positions, **options):
        check_one_sequence(self, *given_inputs[:2], caching[0])
        cache, index, cached_mask = caching
        if not is_rolling(cache):
            own = self.position is not None and self.position.has_bias
            given = (*given_masks, *positions, cache)
            options["regular"] = not own and all(x is None for x in given)
            return super()._run(
                given_inputs, given_masks, caching, positions, **options
            )
        given_inputs, longer, real = rolling.begin(
            self, given_inputs, given_masks, caching
        )
        caching = longer, index, cached_mask
        out, *weights, memory = super()._run(
            given_inputs, given_masks, caching, positions, **options
        )
        C, count = cache["key"].shape[1], cache["count"]
        reached = ops.max(self.spans) + self.ramp <= C + 1
        holds = ops.logical_or(reached, count <= C)
        holds = ops.logical_and(holds, ops.equal(count, index))
        after = rolling.drop_oldest(
            *(memory, ops.shape(given_inputs[0])[1]),
            length=C,
            index=index,
            overwritten=real if cached_mask is None else None,
            by_position=real is not None,
        )
        return (rolling.nan_unless(holds, out), *weights, after)

    def _project_key_value(self, value, key, positions, cache=None, index=None):
        if not is_rolling(cache):
            return super()._project_key_value(value, key, positions, cache, index)
        return rolling.append(cache, self._project_key_value(value, key, positions))

    def _attend(self, q, positions, memory, given_masks, *, regular=False, **options):
        if self.span_loss:
            self.add_loss(self.span_loss * ops.mean(self.spans))
        if is_rolling(memory):
            given_masks = None, given_masks[1], memory["real"], None
            options["start"] = ops.shape(memory["key"])[1] - ops.shape(q)[1]
        attention_mask, query_mask, *key_masks = given_masks
        if not reads_chunks(self, q, attention_mask, **options):
            return super()._attend(q, positions, memory, given_masks, **options)
        out = attend_in_chunks(
            *(self, q, positions, memory, masks.intersect(*key_masks)),
            causal=options["causal"],
            drop=options["drop"],
            regular=regular,
        )
        return record_heads(self, "heads", masks.zero_masked(out, query_mask)), None

    def _bias(self, q, positions, memory):
        """Returns the bias of the position encoding, and log m(d)."""
        bias = super()._bias(q, positions, memory)
        z = tracing.record(self, "span", self.spans)
        distance = ops.abs(positions[:, :, None] - memory["position"][:, None])
        d = ops.cast(distance, "float32")[:, None]  # (B, 1, T, S)
        inside = (self.ramp + ops.cast(z, "float32")[:, None, None] - d) / self.ramp
        read = inside > 0
        log_m = ops.log(ops.minimum(ops.where(read, inside, 1.0), 1.0))
        b = ops.where(read, log_m, masks.lowest(q.dtype) / 4)
        return b if bias is None else b + ops.cast(bias, b.dtype)
