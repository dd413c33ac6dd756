r"""Transformer-XL's positions: each query looks for distances as it looks for contents.

$$
e_{ps} = \lambda \left[ (q_p + u)^T k_s + (q_p + v)^T W_R\, r_{p-s} \right], \qquad
r_d = [\sin \omega d;\; \cos \omega d]
$$

Dai et al. 2019. Gopher and Chinchilla have them: course slides C.
"""

import keras
from keras import ops

from kerasseq.core import arguments, checks
from kerasseq.core.serialization import check_float64, register, shared_config
from kerasseq.kernels import matmul
from kerasseq.positions.frequencies import angles, check_wavelength, frequencies


class Initialized(keras.layers.Layer):
    """What both layers have: an initializer, of their paper's size if none is given."""

    def __init__(self, initializer=None, **kwargs):
        arguments.check(locals())
        super().__init__(**kwargs)
        check_float64(self)
        if initializer is None:
            initializer = keras.initializers.RandomNormal(stddev=0.02)
        self.initializer = arguments.revive("initializer", initializer)

    def get_config(self):
        initializer = arguments.as_config("initializer", self.initializer)
        return {**super().get_config(), "initializer": initializer}


@register
class TransformerXLBiases(Initialized):
    """u and v: what all queries look for, in contents and in distances.

    Several `TransformerXLPosition` may share them, as all layers of a Transformer-XL
    do.

    Args:
        initializer: Of both; normal of deviation 0.02 if None.
        **kwargs: As for any layer.

    Examples:
        >>> biases = TransformerXLBiases()
        >>> biases.build((None, None, 2, 3))
        >>> [tuple(w.shape) for w in biases.weights]
        [(2, 3), (2, 3)]
    """

    def build(self, queries_shape):
        make, heads = self.add_weight, tuple(queries_shape[-2:])
        # One initializer gives the same numbers each time.
        fresh = getattr(self.initializer, "clone", lambda: self.initializer)
        self.u = make(name="u", shape=heads, initializer=fresh())
        self.v = make(name="v", shape=heads, initializer=fresh())
        self.built = True


@register
class TransformerXLPosition(Initialized):
    r"""Let scores see the distance of query and key by a product with each query.

    It belongs into an attention, `MultiHeadAttention(...,
    position=TransformerXLPosition())`, and has its weights $W_R$, u and v beside those
    of the attention. No position is the last.

    As $r_{p-s}$ is $r_s$ turned by p, as in `RotaryEmbedding`, queries are multiplied
    by $W_R$, turned, and compared with $r_s$. So positions may have gaps, and a token
    that is written costs no more than the contents of those before it; all scores of a
    text cost as many products as those of the contents by the number of heads.

    Args:
        code_dim: D, the width of $r_d$; that of all heads together if None.
        biases: A `TransformerXLBiases` to share; one of its own if None.
        max_wavelength: λ of $\omega_i = \lambda^{-2i/D}$.
        initializer: Of $W_R$; normal of deviation 0.02 if None.
        **kwargs: As for any layer.

    Raises:
        TypeError: If `biases` are none.
        ValueError: If a number is out of range, D is odd, or the heads are others than
            those it was built for.

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

    def __init__(
        self,
        code_dim=None,
        biases=None,
        max_wavelength=10000,
        *,
        initializer=None,
        **kwargs,
    ):
        arguments.check(locals())
        super().__init__(initializer, **kwargs)
        if code_dim is not None:
            _even(checks.whole_number("code_dim", code_dim))
        if isinstance(biases, dict):  # as a file has it
            biases = keras.saving.deserialize_keras_object(biases)
        if biases is not None and not isinstance(biases, TransformerXLBiases):
            raise TypeError(f"biases must be TransformerXLBiases, got {biases!r}")
        self.code_dim, self.biases = code_dim, biases
        self.shares = biases is not None
        self.max_wavelength = check_wavelength(max_wavelength)

    def build(self, queries_shape):
        heads = tuple(queries_shape[-2:])
        D = _even(self.code_dim or heads[0] * heads[1])
        if self.biases is None:
            self.biases = TransformerXLBiases(dtype=self.dtype_policy, name="biases")
        if not self.biases.built:
            self.biases.build(queries_shape)
        self.kernel = self.add_weight(
            name="kernel", shape=(D, *heads), initializer=self.initializer
        )
        self.built = True

    def content(self, queries):
        """What `MultiHeadAttention` compares with keys: $q + u$.

        Args:
            queries: q, `(B, T, N, K)`.
        """
        heads, own = tuple(queries.shape[-2:]), tuple(self.kernel.shape[1:])
        if heads != own or len(queries.shape) != 4:
            raise ValueError(
                f"position is for {own[0]} heads of width {own[1]} over one axis, got "
                f"queries of shape {tuple(queries.shape)}"
            )
        return queries + self._weight(self.biases.u, queries)

    def bias(self, query_positions, key_positions, queries=None):
        r"""What `MultiHeadAttention` adds to its scores: $(q + v)^T W_R\, r_{p-s}$.

        Args:
            query_positions: p, `(B, T)` or `(1, T)`.
            key_positions: s, `(B, S)` or `(1, S)`.
            queries: q, `(B, T, N, K)`; zeros if None.

        Returns:
            `(B, N, T, S)`, which λ scales like the scores.
        """
        v = self._weight(self.biases.v, queries)
        q = v[None, None] if queries is None else queries + v
        W = ops.transpose(self._weight(self.kernel, q), (1, 2, 0))  # (N, K, D)
        a = matmul(ops.transpose(q, (0, 2, 1, 3)), W)  # (B, N, T, D)
        D = W.shape[-1]
        a_sin, a_cos = a[..., : D // 2], a[..., D // 2 :]
        sin, cos = (part[:, None] for part in self._waves(query_positions, D, q.dtype))
        turned = [a_sin * sin + a_cos * cos, a_cos * sin - a_sin * cos]
        sin, cos = self._waves(key_positions, D, q.dtype)
        r = ops.transpose(ops.concatenate([cos, sin], -1), (0, 2, 1))  # (B, D, S)
        return matmul(ops.concatenate(turned, -1), r[:, None])

    def _waves(self, positions, D, dtype):
        at = angles(positions, frequencies(D, self.max_wavelength))
        return ops.cast(ops.sin(at), dtype), ops.cast(ops.cos(at), dtype)

    def _weight(self, weight, like):
        dtype = self.compute_dtype if like is None else like.dtype
        return ops.cast(ops.convert_to_tensor(weight), dtype)

    def get_config(self):
        config = {
            "code_dim": self.code_dim,
            "biases": shared_config(self.biases) if self.shares else None,
            "max_wavelength": self.max_wavelength,
        }
        return {**super().get_config(), **config}


def _even(D):
    if D % 2:
        raise ValueError(
            f"a sine and a cosine make a pair: code_dim must be even, got {D}"
        )
    return D
