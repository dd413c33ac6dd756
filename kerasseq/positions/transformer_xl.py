r"""Relative positions of Transformer-XL: scores by content and by distance.

$$
e_{ps} = \lambda \left[ (q_p + u)^T k_s + (q_p + v)^T W_R\, r_{p-s} \right], \qquad
r_d = [\sin \omega d;\; \cos \omega d]
$$

Dai et al. 2019; used by Gopher and Chinchilla. Course slides C.
"""

import types
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from kerasseq.core import checks
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import Identifier, Initializer, Shape, Tensor
from kerasseq.kernels import matmul
from kerasseq.positions.base import AttentionPosition
from kerasseq.positions.frequencies import angles, frequencies


@register
class TransformerXLBiases(Layer):
    """The biases u and v of Transformer-XL, which all its layers share.

    Args:
        initializer: Initializer of both; normal with a standard deviation of 0.02 if
            None.
        **kwargs: Arguments of `keras.layers.Layer`.

    Examples:
        >>> biases = TransformerXLBiases()
        >>> biases.build((None, None, 2, 3))
        >>> [tuple(w.shape) for w in biases.weights]
        [(2, 3), (2, 3)]
    """

    initializer: Initializer

    @passes_on(Layer)
    def __init__(self, initializer: Identifier = None, **kwargs: Any) -> None:
        self.initializer = self.initializer or _normal()

    def build(self, queries_shape: Shape) -> None:
        shape = tuple(queries_shape[-2:])  # (N, K)
        # One initializer object returns the same numbers each time.
        clone = getattr(self.initializer, "clone", lambda: self.initializer)
        self.u: keras.Variable = self.add_weight(
            name="u", shape=shape, initializer=clone()
        )
        self.v: keras.Variable = self.add_weight(
            name="v", shape=shape, initializer=clone()
        )
        self.built = True


@register
class TransformerXLPosition(AttentionPosition):
    r"""Relative positions of Transformer-XL, for `MultiHeadAttention`.

    Used as `MultiHeadAttention(..., position=TransformerXLPosition())`. It adds the
    weights $W_R$, u and v to those of the attention. The sequence length is unbounded.

    $r_{p-s}$ is $r_s$ rotated by p. So queries are multiplied by $W_R$, rotated as in
    `RotaryEmbedding`, and compared with $r_s$. Positions may have gaps, and a decoding
    step costs no more than the scores of the contents.

    Args:
        code_dim: D, the width of $r_d$; that of all heads together if None.
        biases: `TransformerXLBiases` to share; new ones if None.
        max_wavelength: λ of $\omega_i = \lambda^{-2i/D}$.
        initializer: Initializer of $W_R$; normal with a standard deviation of 0.02 if
            None.
        **kwargs: Arguments of `keras.layers.Layer`.

    Raises:
        TypeError: If `biases` is not a `TransformerXLBiases`.
        ValueError: If a number is out of range, D is odd, or the heads are not those
            that the layer was built for.

    Examples:
        >>> import kerasseq
        >>> position = TransformerXLPosition()
        >>> layer = kerasseq.layers.MultiHeadAttention(2, 3, position=position)
        >>> x = np.ones((1, 5, 6), "float32")
        >>> keras.ops.shape(layer(x, x))
        (1, 5, 6)
        >>> tuple(position.kernel.shape)
        (6, 2, 3)

    References:
        Dai et al. 2019, section 3.3. Slides C: Gopher, Chinchilla.
    """

    stored_as: Mapping[str, str] = types.MappingProxyType({"biases": "_shared_biases"})
    initializer: Initializer

    @passes_on(AttentionPosition)
    def __init__(
        self,
        code_dim: int | None = None,
        biases: TransformerXLBiases | None = None,
        max_wavelength: float = 10000,
        *,
        initializer: Identifier = None,
        **kwargs: Any,
    ) -> None:
        self.initializer = self.initializer or _normal()
        self.code_dim: int | None = checks.optional(_even_size, "code_dim", code_dim)
        if isinstance(biases, dict):  # as in a file
            biases = keras.saving.deserialize_keras_object(biases)
        if biases is not None and not isinstance(biases, TransformerXLBiases):
            raise TypeError(
                "biases must be TransformerXLBiases or None, received "
                f"{biases!r}. Pass the object that other layers use"
            )
        self.biases = biases
        self.shares_biases: bool = biases is not None
        self.max_wavelength: float = checks.positive("max_wavelength", max_wavelength)

    def build_for(self, num_heads: int, key_dim: int) -> None:
        """Builds the weights for the queries of an attention, unless they are built."""
        if not self.built:
            self.build((None, None, num_heads, key_dim))

    def build(self, queries_shape: Shape) -> None:
        N, K = queries_shape[-2:]
        D = self.code_dim or _even_size("code_dim", N * K)
        if self.biases is None:
            self.biases = TransformerXLBiases(dtype=self.dtype_policy, name="biases")
        if not self.biases.built:
            self.biases.build(queries_shape)
        self.kernel: keras.Variable = self.add_weight(
            name="kernel", shape=(D, N, K), initializer=self.initializer
        )
        self.built = True

    def content_queries(self, queries: Tensor) -> Tensor:
        """Computes $q + u$, which is compared with the keys.

        Args:
            queries: q, `(B, T, N, K)`.
        """
        N, K = self.kernel.shape[1:]
        if tuple(queries.shape[-2:]) != (N, K) or len(queries.shape) != 4:
            raise ValueError(
                f"queries must have shape (batch, time, {N}, {K}), received shape "
                f"{tuple(queries.shape)}. Create a TransformerXLPosition for each "
                "attention, and share its biases"
            )
        return queries + self._weight(self.biases.u, queries)

    def bias(
        self,
        query_positions: Tensor,
        key_positions: Tensor,
        queries: Tensor | None = None,
        scale: float = 1.0,
    ) -> Tensor:
        r"""Returns the scores by distance, $\lambda (q + v)^T W_R\, r_{p-s}$.

        Args:
            query_positions: p, `(B, T)` or `(1, T)`.
            key_positions: s, `(B, S)` or `(1, S)`.
            queries: q, `(B, T, N, K)`; zeros if None.
            scale: λ.

        Returns:
            `(B, N, T, S)`.
        """
        v = self._weight(self.biases.v, queries)
        q = v[None, None] if queries is None else queries + v
        W = ops.transpose(self._weight(self.kernel, q), (1, 2, 0))  # (N, K, D)
        a = matmul(ops.transpose(q, (0, 2, 1, 3)), W)  # (B, N, T, D)
        D = W.shape[-1]
        a_sin, a_cos = a[..., : D // 2], a[..., D // 2 :]
        sin, cos = (x[:, None] for x in self._sin_cos(query_positions, D, q.dtype))
        rotated = [a_sin * sin + a_cos * cos, a_cos * sin - a_sin * cos]
        sin, cos = self._sin_cos(key_positions, D, q.dtype)
        r = ops.transpose(ops.concatenate([cos, sin], -1), (0, 2, 1))  # (B, D, S)
        scores = matmul(ops.concatenate(rotated, -1), r[:, None])
        return scores * ops.cast(scale, scores.dtype)

    def _sin_cos(self, positions, D, dtype):
        theta = angles(positions, frequencies(D, self.max_wavelength))
        return ops.cast(ops.sin(theta), dtype), ops.cast(ops.cos(theta), dtype)

    def _weight(self, weight, like):
        dtype = self.compute_dtype if like is None else like.dtype
        return ops.cast(ops.convert_to_tensor(weight), dtype)

    @property
    def _shared_biases(self):
        return self.biases if self.shares_biases else None


def _normal():
    return keras.initializers.RandomNormal(stddev=0.02)


def _even_size(name, D):
    if checks.size(name, D) % 2:
        raise ValueError(
            f"{name} must be even, as sine and cosine are a pair, received {D}. Choose "
            f"{D + 1}"
        )
    return D
