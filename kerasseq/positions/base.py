"""Base classes of position encodings: added to the embeddings, or inside attention."""

from typing import Any

import keras
from keras import ops

from kerasseq import kernels
from kerasseq.core import masks
from kerasseq.core.constructors import Layer
from kerasseq.core.serialization import register
from kerasseq.core.shapes import check_mask, check_numbers
from kerasseq.core.types import Config, Shape, Tensor


class PositionEncoding(Layer):
    """Base class of absolute position encodings, which are added to the embeddings.

    The layer returns the encoding in the shape of its inputs, and does not add it. A
    subclass overrides `encode`, and `max_positions` if it has a last position.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: `(B, T, D)`, or with more axes between batch and time. Only the shape is
            used.
        start_index: Position of the first token, for decoding step by step.
        positions: Integers `(B, T)` or `(T,)` to use instead of counting.
        mask: Boolean `(B, T)`, set by Keras. Positions are counted over real tokens, so
            that padding on the left shifts no position.
    """

    def call(
        self,
        inputs: Tensor,
        start_index: int | Tensor = 0,
        positions: Tensor | None = None,
        *,
        mask: Tensor | None = None,
    ) -> Tensor:
        check_numbers("inputs", inputs, more=True)
        sizes = inputs.shape[0], inputs.shape[-2]
        check_mask("mask", mask, ("batch", "time"), sizes)
        if positions is None and not kernels.size_is_guessed(inputs):
            self._check_length(*inputs.shape[-2:], start_index)
        p = masks.positions(mask, ops.shape(inputs)[-2], start_index, positions)
        encoding = self.encode(p, inputs.shape[-1])  # (B, T, D) or (1, T, D)
        encoding = ops.cast(encoding, self.compute_dtype)
        for _ in inputs.shape[1:-2]:
            encoding = ops.expand_dims(encoding, 1)
        return ops.broadcast_to(encoding, ops.shape(inputs))

    def encode(self, p: Tensor, D: int) -> Tensor:
        """Returns the encoding of the positions p.

        Args:
            p: Integers `(B, T)` or `(1, T)`.
            D: Width of the encoding.

        Returns:
            `(B, T, D)` or `(1, T, D)`.
        """
        raise NotImplementedError

    def max_positions(self, D: int) -> tuple[int, str] | None:
        """Returns the number of positions and its limit; None without a limit.

        Args:
            D: Width of the encoding.
        """
        return None

    def _check_length(self, T, D, start):
        limit = self.max_positions(D)
        known = isinstance(T, int) and isinstance(start, int)
        if limit is None or not known or start + T <= limit[0]:
            return
        offset = f" from start_index={start} on" if start else ""
        raise ValueError(
            f"{type(self).__name__} encodes {limit[0]} positions, {limit[1]}, received "
            f"a sequence of {T} tokens{offset}. Pass a shorter one, or create a layer "
            "for more positions"
        )

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape


@register
class AttentionPosition(Layer):
    r"""Base class of position encodings inside `MultiHeadAttention`.

    $$
    e_{ps} = \lambda\, \mathrm{content}(\mathrm{rotate}(q_p, p))^T\,
    \mathrm{rotate}(k_s, s) + \mathrm{bias}(p, s)
    $$

    A subclass overrides `rotate`, as `RotaryEmbedding` does, or `bias`, as `AlibiBias`
    does. This class itself changes nothing: the attention has no positions.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`.

    Examples:
        >>> class LinearBias(AttentionPosition):
        ...     def bias(self, query_positions, key_positions, queries=None, scale=1.0):
        ...         p, s = query_positions[:, :, None], key_positions[:, None, :]
        ...         return -keras.ops.cast(abs(p - s), "float32")[:, None]
        >>> import kerasseq
        >>> position = LinearBias()
        >>> p = np.arange(3)[None]
        >>> keras.ops.convert_to_numpy(position.bias(p, p))[0, 0].tolist()
        [[-0.0, -1.0, -2.0], [-1.0, -0.0, -1.0], [-2.0, -1.0, -0.0]]
        >>> layer = kerasseq.layers.MultiHeadAttention(2, 4, position=position)
    """

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    @property
    def constant_length(self) -> int | None:
        """Longest sequence whose rotated keys stay valid in a cache; None for any."""
        return None

    def build_for(self, num_heads: int, key_dim: int) -> None:
        """Builds the weights for an attention, unless they are built.

        By default the layer is built for scores `(B, N, T, S)`.

        Args:
            num_heads: N, number of query heads.
            key_dim: K, width of a head.
        """
        if not self.built:
            self.build((None, num_heads, None, None))

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Encodes the positions in queries or keys; by default x is unchanged.

        Args:
            x: Queries `(B, T, N, K)` or keys `(B, S, N, K)`.
            positions: Integers `(B, T)` or `(1, T)`.

        Returns:
            A tensor with the shape of x.
        """
        return x

    def content_queries(self, queries: Tensor) -> Tensor:
        """Returns the queries that are compared with the keys; unchanged by default.

        Args:
            queries: Rotated queries, `(B, T, N, K)`.
        """
        return queries

    def build_in(self, attention: Any) -> None:
        """Builds the weights for an attention, by default as `build_for`.

        Args:
            attention: A `MultiHeadAttention`, whose dense layers are built.
        """
        self.build_for(attention.num_heads, attention.key_dim)

    @property
    def num_terms(self) -> int:
        """Number of terms of a score: λ is 1 / √K, divided by the root of it."""
        return 1

    @property
    def has_bias(self) -> bool:
        """Whether `bias` is overridden; caches then hold the positions of keys."""
        return type(self).bias is not AttentionPosition.bias

    @property
    def needs_contents(self) -> bool:
        """Whether the bias is that of contents, which positions alone do not have."""
        return False

    @property
    def bias_is_constant(self) -> bool:
        """Whether `bias` depends on the positions alone, not on weights or queries."""
        return False

    def bias(
        self,
        query_positions: Tensor,
        key_positions: Tensor,
        queries: Tensor | None = None,
        scale: float = 1.0,
    ) -> Tensor | None:
        """Returns the bias that is added to the scores; by default None, no bias.

        Args:
            query_positions: p, integers `(B, T)` or `(1, T)`.
            key_positions: s, integers `(B, S)` or `(1, S)`.
            queries: Rotated queries `(B, T, N, K)`, for a bias that depends on them.
            scale: λ, the factor of the scores, for a bias that is scaled as they are.

        Returns:
            `(B, N, T, S)`, or a shape that broadcasts to it.
        """

    def attention_bias(
        self,
        attention: Any,
        query_positions: Tensor,
        memory: dict[str, Tensor],
        queries: Tensor,
    ) -> Tensor | None:
        """Returns the bias of a call; by default `bias`, without the keys.

        Args:
            attention: The `MultiHeadAttention`.
            query_positions: p, integers `(B, T)` or `(1, T)`.
            memory: "key" `(B, S, M, K)` and "position", s, `(B, S)` or `(1, S)`.
            queries: Rotated queries `(B, T, N, K)`.

        Returns:
            `(B, N, T, S)`, or a shape that broadcasts to it.
        """
        positions = query_positions, memory["position"]
        return self.bias(*positions, queries, attention.factor)


def check_position(
    position: AttentionPosition | Config | None,
) -> AttentionPosition | None:
    """Returns `position` if it can be used inside an attention.

    Args:
        position: An `AttentionPosition`, its config as in a file, or None.

    Raises:
        TypeError: If it is of another type.
    """
    if isinstance(position, dict):
        position = keras.saving.deserialize_keras_object(position)
    if position is None or isinstance(position, AttentionPosition):
        return position
    raise TypeError(
        "position must be a position encoding inside attention, such as "
        f"RotaryEmbedding() or AlibiBias(), or None, received {position!r}. Subclass "
        "kerasseq.layers.AttentionPosition for one of your own"
    )
