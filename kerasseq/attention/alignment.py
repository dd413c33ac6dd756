r"""Attention as alignment: each query weighs the places of a memory.

$$
e_{ij} = \mathrm{score}(s_i, h_j), \qquad \alpha_{ij} = \frac{\exp e_{ij}}{\sum_k \exp
e_{ik}}, \qquad c_i = \sum_j \alpha_{ij} v_j
$$

with queries $s$, keys $h$ and values $v$, which are the keys unless others are given.
Bahdanau et al. 2015; Luong et al. 2015; hard attention from Xu et al. 2015. Course
slides B.
"""

import keras
from keras import ops

from kerasseq import kernels
from kerasseq.attention import scores
from kerasseq.attention.memory import MemoryAttention
from kerasseq.core import arguments, checks
from kerasseq.core.serialization import check_float64, register
from kerasseq.kernels import matmul

# The weights of each score and their shapes: widths of query Q, key K and both B, units
# U, places L. v is a matrix of one column, so that its scale is that of a matrix.
WEIGHTS = {
    "additive": {"W_q": "QU", "W_k": "KU", "v": "U1"},
    "concat": {"W": "BU", "v": "U1"},
    "general": {"W": "QK"},
    "dot": {},
    "scaled_dot": {},
    "cosine": {"beta": ""},
    "location": {"W": "QL"},
}
SCORES = tuple(WEIGHTS)
WITH_UNITS = ("additive", "concat")
EQUAL_WIDTHS = ("dot", "scaled_dot", "cosine")


@register
class AlignmentAttention(MemoryAttention):
    r"""Weigh the places of a memory by how well they fit a query.

    Args:
        units: Width U of the hidden layer of the scores "additive" and "concat".
        score: Which score $e_{ij}$ is:
            "additive" $v^T \tanh(W_q s + W_k h)$; "concat" $v^T \tanh(W [s; h])$, the
            same with one matrix; "general" $s^T W h$; "dot" $s^T h$; "scaled_dot"
            $s^T h / \sqrt D$; "cosine" $\beta\,s^T h / |s||h|$ with a learned
            $\beta$; "location" $W s$, one row per place.
        max_length: Longest memory that "location" can look at.
        hard: Whether each query looks at one place alone, the one with the highest
            score. Gradients are those of the soft weights (straight through).
        sampled: With `hard`, whether that place is drawn from the weights in training.
        dropout: Fraction of the weights dropped in training.
        seed: Seed of dropout and of the draw.
        **kwargs: As for any layer.

    Call arguments:
        query: $s$, `(B, T_q, D_q)`.
        value: $v$, `(B, T_k, D_v)`.
        key: $h$, `(B, T_k, D_k)`; the values if None. What `project_keys` gave may
            stand here with `projected=True`.
        mask: Boolean, `(B, T_k)` or `(B, T_q, T_k)`, True where a query may look.
        return_attention_scores: Whether to return the weights, too.
        use_causal_mask: Whether query i sees the places up to i only.
        query_mask: Boolean, `(B, T_q)`. Masked queries get zeros.
        value_mask: Boolean, `(B, T_k)`; the same as `mask`, filled in by Keras.
        projected: Whether `key` comes from `project_keys`.

    Returns:
        The contexts $c$, `(B, T_q, D_v)`; with the weights $\alpha$,
        `(B, T_q, T_k)`, if asked for. Where a query may look nowhere, both are 0.

    Raises:
        ValueError: If a name or width is wrong, or the memory is too long.

    Examples:
        >>> layer = AlignmentAttention(7, score="additive")
        >>> s, h = np.ones((2, 3, 4)), np.ones((2, 5, 6))
        >>> c, alpha = layer(s, h, return_attention_scores=True)
        >>> keras.ops.shape(c), keras.ops.shape(alpha)
        ((2, 3, 6), (2, 3, 5))
    """

    def __init__(
        self,
        units=None,
        *,
        score="additive",
        max_length=None,
        hard=False,
        sampled=False,
        dropout=0.0,
        seed=None,
        **kwargs,
    ):
        arguments.check(locals())
        super().__init__(**kwargs)
        check_float64(self)
        self.score = checks.one_of("score", score, SCORES)
        self.units = _needed("units", units, score, WITH_UNITS)
        self.max_length = _needed("max_length", max_length, score, ("location",))
        self.hard, self.sampled = bool(hard), bool(sampled)
        if self.sampled and not self.hard:
            raise ValueError(
                f"sampled={sampled!r} draws one place: it needs hard=True, got {hard!r}"
            )
        self.dropout = checks.rate("dropout", dropout)
        self.seed = seed
        if self.dropout or self.sampled:
            self.seed_generator = arguments.seed_generator(seed)
        self.supports_masking = True

    def build(self, query_shape, value_shape, key_shape=None):
        self.check_shapes(query_shape, value_shape, key_shape)
        Q, K = query_shape[-1], (key_shape or value_shape)[-1]
        if self.score in EQUAL_WIDTHS and Q != K:
            raise ValueError(
                f'score="{self.score}" compares queries and keys directly, so their '
                f"widths must be equal, got {Q} and {K}. "
                'score="general" or "additive" takes different ones'
            )
        sizes = {"Q": Q, "K": K, "B": Q + K, "1": 1}
        sizes |= {"U": self.units, "L": self.max_length}
        for name, letters in WEIGHTS[self.score].items():
            shape = [sizes[letter] for letter in letters]
            initializer = "glorot_uniform" if shape else "ones"
            weight = self.add_weight(name=name, shape=shape, initializer=initializer)
            setattr(self, name, weight)
        self.built = True

    def _check(self, query, value, key, projected):
        super()._check(query, value, key, projected)
        S = value.shape[1]
        known = isinstance(S, int) and not kernels.size_is_guessed(value)
        if self.score == "location" and known and self.max_length < S:
            raise ValueError(
                f"the memory has {S} places, more than max_length={self.max_length}. "
                f"Choose max_length={S} or more"
            )

    def project_keys(self, key):
        """What of the keys does not depend on the query, computed once for all steps.

        Args:
            key: $h$, `(B, T_k, D_k)`.

        Returns:
            `(B, T_k, U)` for "additive" and "concat", else the keys themselves.
        """
        if self.score == "additive":
            return matmul(key, ops.convert_to_tensor(self.W_k))
        if self.score == "concat":
            return matmul(key, ops.convert_to_tensor(self.W)[-key.shape[-1] :])
        return key

    def energies(self, query, key, key_time, projected=False):
        """The scores $e$, `(B, T_q, T_k)`."""
        if self.score in WITH_UNITS:
            W_q = self.W_q if self.score == "additive" else self.W
            W_q = ops.convert_to_tensor(W_q)[: query.shape[-1]]
            k = key if projected else self.project_keys(key)
            v = ops.convert_to_tensor(self.v)[:, 0]
            return scores.additive_projected(matmul(query, W_q), k, v)
        if self.score == "general":
            return scores.general(query, key, ops.convert_to_tensor(self.W))
        if self.score == "location":
            return scores.location(query, ops.convert_to_tensor(self.W), key_time)
        if self.score == "cosine":
            return scores.cosine(query, key, ops.convert_to_tensor(self.beta))
        return getattr(scores, self.score)(query, key)

    def chosen(self, alpha, training):
        return self._harden(alpha, training) if self.hard else alpha

    def dropped(self, alpha, training):
        if not (self.dropout and training):
            return alpha
        return keras.random.dropout(alpha, self.dropout, seed=self.seed_generator)

    def _harden(self, alpha, training):
        """One place per query; its gradient is that of the soft weights."""
        drawn = alpha
        if self.sampled and training:  # the largest of log α + Gumbel is a draw from α
            u = keras.random.uniform(
                ops.shape(alpha), 1e-6, 1 - 1e-6, seed=self.seed_generator
            )
            gumbel = ops.cast(-ops.log(-ops.log(u)), alpha.dtype)
            drawn = ops.log(ops.maximum(alpha, 1e-20)) + gumbel
        place = ops.argmax(drawn, axis=-1)
        one = ops.one_hot(place, ops.shape(alpha)[-1], dtype=alpha.dtype)
        one = ops.where(ops.any(alpha > 0, axis=-1, keepdims=True), one, 0 * one)
        return alpha + ops.stop_gradient(one - alpha)

    def get_config(self):
        names = ("units", "score", "max_length", "hard", "sampled", "dropout", "seed")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def _needed(name, value, score, by):
    """A size that some scores need and the others do not take."""
    if score in by:
        if value is None:
            raise ValueError(f'score="{score}" needs {name}, a whole number, got None')
        return checks.whole_number(name, value)
    if value is not None:
        raise ValueError(
            f'{name}={value} says nothing to score="{score}": leave it out, or choose '
            f"{' or '.join(by)}"
        )
    return None
