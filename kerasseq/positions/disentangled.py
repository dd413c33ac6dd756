r"""DeBERTa's disentangled attention: relative positions have queries and keys, too.

$$
e_{ps} = \lambda \left[ q_p^T k_s + q_p^T k^r_{\delta(p, s)} + k_s^T q^r_{\delta(p, s)}
\right], \qquad \delta(p, s) = \mathrm{clip}(b(p - s) + R,\ 0,\ 2R - 1)
$$

The keys $k^r_\delta = W_K^r\, r_\delta$ and queries $q^r_\delta = W_Q^r\, r_\delta$
come from a table $r$ of $2R$ rows, which all layers share. He et al. 2021 (DeBERTa);
versions 2 and 3 (He et al. 2023) use the kernels of the contents for the positions as
well, and put distances into buckets, $b$. Left out: dropout of the table. Course slides
A.
"""

import types
from collections.abc import Iterable, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks, objects
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import Identifier, Initializer, Shape, Tensor
from kerasseq.kernels import dense, matmul
from kerasseq.positions.base import AttentionPosition

KINDS = ("c2p", "p2c")


@register
class DisentangledTable(Layer):
    """The vectors of relative positions that all layers of a DeBERTa share.

    Args:
        max_distance: R, or with buckets the distance from which on all are in the last.
        num_buckets: R, the number of buckets for each direction: half of them hold one
            distance each, the others ranges that grow geometrically; None for a row for
            each distance.
        use_norm: Whether layer normalization follows the table.
        layer_norm_epsilon: Epsilon of the norm.
        initializer: Initializer of the table; normal with a standard deviation of 0.02
            if None.
        **kwargs: Arguments of `keras.layers.Layer`.

    Raises:
        ValueError: If a number is out of range, or the buckets reach as far as
            `max_distance`.

    Examples:
        >>> table = DisentangledTable(3)
        >>> table.build((None, None, 5))
        >>> tuple(table.embeddings.shape)
        (6, 5)
        >>> p = np.arange(4)[None]
        >>> keras.ops.convert_to_numpy(table.rows_of(p, p))[0].tolist()
        [[3, 2, 1, 0], [4, 3, 2, 1], [5, 4, 3, 2], [5, 5, 4, 3]]
    """

    initializer: Initializer

    @passes_on(Layer)
    def __init__(
        self,
        max_distance: int = 512,
        num_buckets: int | None = None,
        *,
        use_norm: bool = False,
        layer_norm_epsilon: float = 1e-7,
        initializer: Identifier = None,
        **kwargs: Any,
    ) -> None:
        self.initializer = self.initializer or _normal()
        self.max_distance: int = checks.size("max_distance", max_distance, 2, 8)
        self.num_buckets: int | None = checks.optional(
            checks.size, "num_buckets", num_buckets
        )
        if num_buckets is not None and not 4 <= self.num_buckets < 2 * max_distance - 2:
            raise ValueError(
                "num_buckets must be from 4 to below 2 * max_distance - 2 = "
                f"{2 * max_distance - 2}, received {num_buckets}"
            )
        self.use_norm: bool = checks.flag("use_norm", use_norm)
        self.layer_norm_epsilon: float = checks.positive(
            "layer_norm_epsilon", layer_norm_epsilon
        )
        self.half: int = self.num_buckets or self.max_distance

    def build(self, inputs_shape: Shape) -> None:
        D = inputs_shape[-1]
        name = "max_distance" if self.num_buckets is None else "num_buckets"
        checks.fits_memory(name, self.half, 2 * D)
        self.embeddings: keras.Variable = self.add_weight(
            name="embeddings", shape=(2 * self.half, D), initializer=self.initializer
        )
        if self.use_norm:
            self.norm: keras.Layer = keras.layers.LayerNormalization(
                epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name="norm"
            )
            self.norm.build((None, D))
        self.built = True

    def vectors(self, dtype: str) -> Tensor:
        """Returns r, `(1, 2R, D)`."""
        r = ops.convert_to_tensor(self.embeddings)[None]
        return ops.cast(self.norm(r) if self.use_norm else r, dtype)

    def rows_of(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        r"""Returns $\delta$, the rows of pairs of positions.

        Args:
            query_positions: p, integers `(B, T)` or `(1, T)`.
            key_positions: s, integers `(B, S)` or `(1, S)`.

        Returns:
            Integers `(B, T, S)` or `(1, T, S)`.
        """
        p, s = query_positions[:, :, None], key_positions[:, None, :]
        R, limit = self.half, self.max_distance
        distance = ops.clip(ops.cast(p - s, "int32"), -limit, limit)
        if self.num_buckets is not None:
            table = log_buckets(np.arange(-limit, limit + 1), R, limit)
            table = kernels.constant(table, like=distance)
            distance = ops.take(table, distance + limit, axis=0)
        return ops.clip(distance + R, 0, 2 * R - 1)


@register
class DisentangledPosition(AttentionPosition):
    r"""Relative positions of DeBERTa, for `MultiHeadAttention`.

    Used as `MultiHeadAttention(..., position=DisentangledPosition())`. The factor of
    the scores is $\lambda = 1 / \sqrt{3 K}$, as there are three terms with both kinds,
    unless the attention has a `scale`.

    Args:
        table: The `DisentangledTable` to share; a new one if None.
        kinds: "c2p", contents to positions, $q_p^T k^r$; "p2c", positions to contents,
            $k_s^T q^r$; or both.
        share_kernels: Whether keys and queries of positions are computed by the dense
            layers of the attention, as in DeBERTa v2 and v3; if not, the layer has
            kernels of its own.
        initializer: Initializer of these kernels; normal with a standard deviation of
            0.02 if None.
        **kwargs: Arguments of `keras.layers.Layer`.

    Raises:
        TypeError: If `table` is not a `DisentangledTable`.
        ValueError: If `kinds` has others, or none.

    Examples:
        >>> import kerasseq
        >>> table = DisentangledTable(512, num_buckets=256, use_norm=True)
        >>> position = DisentangledPosition(table, share_kernels=True)
        >>> layer = kerasseq.layers.MultiHeadAttention(2, 3, position=position)
        >>> x = np.ones((1, 5, 6), "float32")
        >>> keras.ops.shape(layer(x, x))
        (1, 5, 6)
        >>> tuple(table.embeddings.shape)
        (512, 6)

    References:
        He et al. 2021, section 3.1. Slides D.
    """

    stored_as: Mapping[str, str] = types.MappingProxyType({"table": "_shared_table"})
    initializer: Initializer

    @passes_on(AttentionPosition)
    def __init__(
        self,
        table: DisentangledTable | None = None,
        *,
        kinds: str | Iterable[str] = KINDS,
        share_kernels: bool = False,
        initializer: Identifier = None,
        **kwargs: Any,
    ) -> None:
        self.initializer = self.initializer or _normal()
        if isinstance(table, dict):  # as in a file
            table = keras.saving.deserialize_keras_object(table)
        if table is not None and not isinstance(table, DisentangledTable):
            raise TypeError(
                f"table must be a DisentangledTable or None, received {table!r}. Pass "
                "the object that other layers use"
            )
        self.table = table
        self.shares_table: bool = table is not None
        self.kinds: list[str] = _checked_kinds(kinds)
        self.share_kernels: bool = checks.flag("share_kernels", share_kernels)

    def for_layer(self, **options: Any) -> "DisentangledPosition":
        """Returns one for another attention, with the same table.

        Args:
            **options: Arguments of `keras.layers.Layer`.
        """
        if self.table is None:
            self.table = DisentangledTable(dtype=self.dtype_policy, name="table")
        return DisentangledPosition(
            self.table,
            kinds=self.kinds,
            share_kernels=self.share_kernels,
            initializer=objects.copy_initializer(self.initializer),
            **options,
        )

    @property
    def num_terms(self) -> int:
        return 1 + len(self.kinds)

    @property
    def has_bias(self) -> bool:
        return True

    @property
    def needs_contents(self) -> bool:
        return True

    def build_in(self, attention: Any) -> None:
        """Builds the weights for an attention, unless they are built.

        Args:
            attention: A `MultiHeadAttention`, whose dense layers are built.

        Raises:
            ValueError: If the table has another width than the inputs.
        """
        D = width = attention.query_dense.kernel.shape[0]
        if self.table is not None and self.table.built:
            width = self.table.embeddings.shape[-1]
        if self.share_kernels and {D, attention.key_dense.kernel.shape[0]} != {width}:
            raise ValueError(
                f"inputs must have the width of table, {width}, as share_kernels=True "
                f"has one kernel for both, received the width {D}"
            )
        if not self.built:
            self.build((width, attention.num_heads, attention.key_dim))

    def build(self, kernel_shape: Shape) -> None:
        D, N, K = kernel_shape
        if self.table is None:
            self.table = DisentangledTable(dtype=self.dtype_policy, name="table")
        if not self.table.built:
            self.table.build((None, None, D))
        if not self.share_kernels and "c2p" in self.kinds:
            self.key_kernel: keras.Variable = self.add_weight(
                name="key_kernel", shape=(D, N, K), initializer=self.initializer
            )
        if not self.share_kernels and "p2c" in self.kinds:
            self.query_kernel: keras.Variable = self.add_weight(
                name="query_kernel",
                shape=(D, N, K),
                initializer=objects.copy_initializer(self.initializer),
            )
            self.query_bias: keras.Variable = self.add_weight(
                name="query_bias", shape=(N, K), initializer="zeros"
            )
        self.built = True

    def attention_bias(
        self,
        attention: Any,
        query_positions: Tensor,
        memory: dict[str, Tensor],
        queries: Tensor,
    ) -> Tensor:
        r"""Returns $\lambda\,(q_p^T k^r_\delta + k_s^T q^r_\delta)$.

        Args:
            attention: The `MultiHeadAttention`.
            query_positions: p, `(B, T)` or `(1, T)`.
            memory: "key" `(B, S, M, K)` and "position" `(B, S)`.
            queries: q, `(B, T, N, K)`.

        Returns:
            `(B, N, T, S)`.
        """
        k = memory["key"]
        k = ops.repeat(k, attention.heads_per_group, axis=2)  # (B, S, N, K)
        r = self.table.vectors(queries.dtype)
        row = self.table.rows_of(query_positions, memory["position"])  # (B, T, S)
        b = 0.0
        if "c2p" in self.kinds:
            b = b + _at(_products(queries, self._keys(attention, r)), row)
        if "p2c" in self.kinds:
            row = ops.swapaxes(row, 1, 2)  # (B, S, T)
            p2c = _at(_products(k, self._queries(attention, r)), row)  # (B, N, S, T)
            b = b + ops.swapaxes(p2c, 2, 3)
        return b * ops.cast(attention.factor, b.dtype)

    def _keys(self, attention, r):
        """Returns the keys of positions, `(1, 2R, N, K)`."""
        if self.share_kernels:
            k = dense(attention.key_dense, r)
            return ops.repeat(k, attention.heads_per_group, axis=2)
        return _project(r, self.key_kernel)

    def _queries(self, attention, r):
        """Returns the queries of positions, `(1, 2R, N, K)`."""
        if self.share_kernels:
            return dense(attention.query_dense, r)
        bias = ops.cast(ops.convert_to_tensor(self.query_bias), r.dtype)
        return _project(r, self.query_kernel) + bias

    @property
    def _shared_table(self):
        return self.table if self.shares_table else None


def log_buckets(
    distance: np.ndarray, num_buckets: int, max_distance: int
) -> np.ndarray:
    r"""Returns the buckets of distances, as in DeBERTa v2.

    $$b(d) = \mathrm{sign}(d)\left(m + \left\lceil \frac{\ln(|d| / m)}
    {\ln((M - 1) / m)}\,(m - 1) \right\rceil\right) \quad \mathrm{for}\ |d| > m$$

    Args:
        distance: d, integers.
        num_buckets: 2 m, the number of buckets for each sign.
        max_distance: M.

    Returns:
        Array of int32; d itself up to m.

    Examples:
        >>> log_buckets(np.array([-9, -5, -4, 0, 3, 4, 5, 15, 16]), 8, 16).tolist()
        [-6, -5, -4, 0, 3, 4, 5, 7, 8]
    """
    m = num_buckets // 2
    size = np.maximum(np.abs(distance), m).astype("float32") / np.float32(m)
    steps = np.log(size) / np.log(np.float32((max_distance - 1) / m)) * (m - 1)
    far = np.sign(distance) * (np.ceil(steps) + m)
    return np.where(np.abs(distance) <= m, distance, far).astype("int32")


def _products(x, r):
    """Products of `(B, T, N, K)` with `(1, 2R, N, K)`: `(B, N, T, 2R)`."""
    return matmul(ops.transpose(x, (0, 2, 1, 3)), ops.transpose(r, (0, 2, 3, 1)))


def _at(scores, row):
    """Picks of `(B, N, T, 2R)` the entries in the rows `(B, T, S)`: `(B, N, T, S)`."""
    B, N, T = ops.shape(scores)[:3]
    row = ops.broadcast_to(row[:, None], (B, N, T, ops.shape(row)[-1]))
    if scores.shape[2] == 0:  # TensorFlow gathers of one row at least
        return ops.cast(row, scores.dtype)
    return ops.take_along_axis(scores, row, axis=-1)


def _project(r, kernel):
    """Multiplies `(1, 2R, D)` by `(D, N, K)`."""
    D, N, K = kernel.shape
    kernel = ops.cast(ops.convert_to_tensor(kernel), r.dtype)
    return ops.reshape(matmul(r, ops.reshape(kernel, (D, N * K))), (1, -1, N, K))


def _checked_kinds(kinds: str | Iterable[str]) -> list[str]:
    kinds = [kinds] if isinstance(kinds, str) else checks.several("kinds", kinds)
    for kind in kinds:
        checks.one_of("kinds", kind, KINDS)
    if not kinds or len(set(kinds)) < len(kinds):
        raise ValueError(
            f'kinds must be "c2p", "p2c" or both, each once, received {kinds}'
        )
    return kinds


def _normal():
    return keras.initializers.RandomNormal(stddev=0.02)
