r"""Attention as alignment: Bahdanau's and Luong's, and their relatives.

$$
e_{ij} = \mathrm{score}(s_i, h_j), \qquad \alpha_{ij} = \frac{\exp e_{ij}}{\sum_k \exp
e_{ik}}, \qquad c_i = \sum_j \alpha_{ij} v_j
$$

with queries $s$, keys $h$ and values $v$, which are the keys unless others are given.
Bahdanau et al. 2015; Luong et al. 2015; hard attention from Xu et al. 2015. Course
slides B.
"""

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from kerasseq import kernels, tracing
from kerasseq.attention import choices
from kerasseq.attention import scores as score_functions
from kerasseq.attention.base import SingleHeadAttention
from kerasseq.core import checks
from kerasseq.core.arguments import seed_generator
from kerasseq.core.constructors import passes_on
from kerasseq.core.serialization import register
from kerasseq.core.shapes import check_shape
from kerasseq.core.types import Shape, Tensor
from kerasseq.kernels import matmul

# The weights of each score and their shapes: widths of query Q, key K and both B, units
# U, maximum length L. v is a matrix of one column, so that glorot_uniform scales it as
# the matrix it is.
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
GRADIENTS = ("straight_through", "reinforce")  # of hard attention
LUONG = ("dot", "general", "concat", "scaled_dot", "location")


class ScoresAndWeights(NamedTuple):
    """Scores before the softmax and attention weights, `(B, T_q, T_k)`."""

    scores: np.ndarray
    weights: np.ndarray


@register
class AlignmentAttention(SingleHeadAttention):
    r"""Attention over source positions, with one of seven scores.

    Args:
        units: U, the width of the hidden layer of the scores "additive" and "concat".
        score: The score $e_{ij}$:
            "additive" $v^T \tanh(W_q s + W_k h)$; "concat" $v^T \tanh(W [s; h])$, the
            same with one matrix; "general" $s^T W h$; "dot" $s^T h$; "scaled_dot"
            $s^T h / \sqrt D$; "cosine" $\beta\,s^T h / |s||h|$ with a learned
            $\beta$; "location" $W s$, one row for each source position.
        max_length: Maximum source length of the score "location".
        hard: Whether each query attends to one position only, the one with the highest
            score.
        sampled: With `hard`, whether that position is sampled from the weights in
            training.
        dropout: Fraction of the weights to drop in training.
        seed: Seed of dropout and sampling.
        gradient: Of `hard`. "straight_through": the gradient of the soft weights.
            "reinforce": the position is sampled in training, and the scores learn from
            a reward, see `models.ReinforcedModel`.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        query: $s$, `(B, T_q, D_q)`; or the list [query, value, key] of Keras' layer.
        value: $v$, `(B, T_k, D_v)`.
        key: $h$, `(B, T_k, D_k)`; the values if None. With `projected=True`, the output
            of `project_keys`.
        mask: Boolean, `(B, T_k)` or `(B, T_q, T_k)`, True where a query may attend.
        return_attention_scores: Whether to return the weights as well.
        use_causal_mask: Whether query i attends to positions up to i only.
        query_mask: Boolean, `(B, T_q)`. Masked queries get zeros.
        value_mask: Boolean, `(B, T_k)`, set by Keras; the same as `mask`.
        projected: Whether `key` comes from `project_keys`.
        training: Whether to apply dropout and sampling.

    Returns:
        The context vectors $c$, `(B, T_q, D_v)`, and the weights $\alpha$,
        `(B, T_q, T_k)`, if asked for. Both are 0 for a fully masked query.

    Raises:
        ValueError: If an argument or a width is wrong, or the source is too long.

    Examples:
        >>> layer = AlignmentAttention(7, score="additive")
        >>> s, h = np.ones((2, 3, 4)), np.ones((2, 5, 6))
        >>> c, alpha = layer(s, h, return_attention_scores=True)
        >>> keras.ops.shape(c), keras.ops.shape(alpha)
        ((2, 3, 6), (2, 3, 5))
    """

    known_scores: tuple[str, ...] = SCORES  # of `score`

    @passes_on(SingleHeadAttention)
    def __init__(
        self,
        units: int | None = None,
        *,
        score: str = "additive",
        max_length: int | None = None,
        hard: bool = False,
        sampled: bool = False,
        dropout: float = 0.0,
        seed: int | None = None,
        gradient: str = "straight_through",
        **kwargs: Any,
    ) -> None:
        self.score: str = checks.one_of("score", score, self.known_scores)
        self.units: int | None = _size_of_scores("units", units, score, WITH_UNITS)
        self.max_length: int | None = _size_of_scores(
            "max_length", max_length, score, ("location",)
        )
        self.hard: bool = checks.flag("hard", hard)
        self.sampled: bool = checks.flag("sampled", sampled)
        if self.sampled and not self.hard:
            raise ValueError(
                "sampled=True needs hard=True, as it samples one position, received "
                f"hard={hard!r}. Pass both"
            )
        self.gradient: str = checks.one_of("gradient", gradient, GRADIENTS)
        self.reinforced: bool = self.gradient == "reinforce"
        if self.reinforced and not self.hard:
            raise ValueError(
                'gradient="reinforce" needs hard=True, as it samples one position, '
                f"received hard={hard!r}. Pass both"
            )
        self.dropout: float = checks.rate("dropout", dropout)
        self.seed: int | None = checks.optional(checks.seed, "seed", seed)
        if self.dropout or self.sampled or self.reinforced:
            self.seed_generator: keras.random.SeedGenerator = seed_generator(seed)

    def build(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> None:
        self.check_shapes(query_shape, value_shape, key_shape)
        Q, K = query_shape[-1], (key_shape or value_shape)[-1]
        if self.score in EQUAL_WIDTHS and Q != K:
            raise ValueError(
                f'queries and keys must have equal widths with score="{self.score}", '
                f"received widths {Q} and {K}. "
                'Choose score="general" or "additive" for different widths'
            )
        sizes = {"Q": Q, "K": K, "B": Q + K, "1": 1}
        sizes |= {"U": self.units, "L": self.max_length}
        for name, letters in WEIGHTS[self.score].items():
            shape = [sizes[letter] for letter in letters]
            initializer = "glorot_uniform" if shape else "ones"
            weight = self.add_weight(name=name, shape=shape, initializer=initializer)
            setattr(self, name, weight)
        self.built = True

    @classmethod
    def compare(
        cls, query: Tensor, value: Tensor, *, units: int = 8, seed: int = 0
    ) -> dict[str, ScoresAndWeights]:
        """Computes every score of the same queries and keys, with random weights.

        Args:
            query: $s$, `(B, T_q, D_q)`.
            value: $h$, `(B, T_k, D_k)`. If its width is another than that of the
                queries, "dot", "scaled_dot" and "cosine" are left out.
            units: U, for "additive" and "concat".
            seed: Seed of the weights, drawn from normal distributions with variance
                1 / rows, so that scores are comparable.

        Returns:
            `ScoresAndWeights` by the name of the score: arrays `(B, T_q, T_k)`.

        Raises:
            ValueError: If a shape is wrong.

        Examples:
            >>> s, h = np.array([[[1.0, 0.0]]]), np.array([[[2.0, 0.0], [0.0, 2.0]]])
            >>> alignments = AlignmentAttention.compare(s, h)
            >>> len(alignments), alignments["dot"].scores.tolist()
            (7, [[[2.0, 0.0]]])
        """
        rng = np.random.default_rng(checks.seed("seed", seed))
        query, value = ops.convert_to_tensor(query), ops.convert_to_tensor(value)
        check_shape("query", query.shape)
        check_shape("value", value.shape)
        by_score = {}
        for score in SCORES:
            if score in EQUAL_WIDTHS and query.shape[-1] != value.shape[-1]:
                continue
            layer = AlignmentAttention(
                units if score in WITH_UNITS else None,
                score=score,
                max_length=value.shape[1] if score == "location" else None,
            )
            layer.build(query.shape, value.shape)
            for weight in layer.weights if score != "cosine" else ():
                rows = weight.shape[0]
                weight.assign(rng.normal(size=weight.shape) / rows**0.5)
            with tracing.trace(layer) as inside:
                layer(query, value)
            by_score[score] = ScoresAndWeights(inside["scores"], inside["alignment"])
        return by_score

    def check_length(self, value: Tensor) -> None:
        S = value.shape[1]
        known = isinstance(S, int) and not kernels.size_is_guessed(value)
        if self.score == "location" and known and self.max_length < S:
            raise ValueError(
                f"the source must have at most max_length={self.max_length} positions, "
                f"received {S}. Choose max_length={S} or more"
            )

    def project_keys(self, key: Tensor) -> Tensor:
        """Returns the part of the scores that depends on the keys only, computed once.

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

    def scores(
        self,
        query: Tensor,
        key: Tensor,
        key_time: int | Tensor,
        projected: bool = False,
    ) -> Tensor:
        """Returns the scores $e$, `(B, T_q, T_k)`."""
        if self.score in WITH_UNITS:
            W_q = self.W_q if self.score == "additive" else self.W
            W_q = ops.convert_to_tensor(W_q)[: query.shape[-1]]
            k = key if projected else self.project_keys(key)
            v = ops.convert_to_tensor(self.v)[:, 0]
            return score_functions.additive_projected(matmul(query, W_q), k, v)
        if self.score == "general":
            W = ops.convert_to_tensor(self.W)
            return score_functions.general(query, key, W)
        if self.score == "location":
            W = ops.convert_to_tensor(self.W)
            return score_functions.location(query, W, key_time)
        if self.score == "cosine":
            beta = ops.convert_to_tensor(self.beta)
            return score_functions.cosine(query, key, beta)
        if self.score == "scaled_dot":
            return score_functions.scaled_dot(query, key)
        return score_functions.dot(query, key)

    def select(self, alpha: Tensor, training: bool) -> Tensor:
        """Selects one position for each query: hard attention."""
        if not self.hard:
            return alpha
        one = self._position(alpha, training and (self.sampled or self.reinforced))
        if not self.reinforced:
            return alpha + ops.stop_gradient(one - alpha)
        if not training:
            return one
        wide = ops.cast(alpha, keras.backend.result_type(alpha.dtype, "float32"))
        log_alpha = ops.log(ops.where(wide > 0, wide, ops.ones_like(wide)))
        # 0 for a fully masked query, which chooses nothing.
        log_p = ops.sum(ops.cast(one, wide.dtype) * log_alpha, axis=-1)
        entropy = -ops.sum(wide * log_alpha, axis=-1)
        collected = choices.current()
        if collected is not None and collected.soft is not None:
            log_p = ops.where(collected.soft[:, None], ops.zeros_like(log_p), log_p)
            one = ops.where(collected.soft[:, None, None], alpha, one)
        log_p = tracing.record(self, "log_probability", log_p)
        choices.add(self.name, log_p, entropy)
        return one

    def _position(self, alpha, sampled):
        """Makes a row with one 1 of each query's chosen position, without gradient."""
        alpha = ops.stop_gradient(alpha)
        logits = alpha
        if sampled:  # the argmax of log α + Gumbel noise samples α
            collected = choices.current()
            gumbel = None if collected is None else collected.noise
            if gumbel is None:
                gumbel = self.gumbel_noise(ops.shape(alpha))
            gumbel = ops.cast(gumbel, alpha.dtype)
            logits = ops.log(ops.maximum(alpha, 1e-20)) + gumbel
        position = ops.argmax(logits, axis=-1)
        one = ops.one_hot(position, ops.shape(alpha)[-1], dtype=alpha.dtype)
        return ops.where(ops.any(alpha > 0, axis=-1, keepdims=True), one, 0 * one)

    def gumbel_noise(self, shape: Shape) -> Tensor:
        """Draws the noise that samples one position, for weights of this shape."""
        # Both logarithms are finite from 1e-6 to 1 - 1e-6 in float32.
        u = keras.random.uniform(
            shape, 1e-6, 1 - 1e-6, dtype="float32", seed=self.seed_generator
        )
        return -ops.log(-ops.log(u))

    def drop(self, alpha: Tensor, training: bool) -> Tensor:
        if not (self.dropout and training):
            return alpha
        return keras.random.dropout(alpha, self.dropout, seed=self.seed_generator)


def _size_of_scores(name, value, score, scores):
    """Returns a size that some scores need and the others do not take."""
    if score in scores:
        if value is None:
            raise ValueError(
                f'{name} must be a whole number for score="{score}", received None. '
                f"Pass {name}"
            )
        value = checks.size(name, value, 1)
    elif value is not None:
        raise ValueError(
            f'{name} is not used by score="{score}", received {name}={value}. Leave it '
            f"out, or choose score={' or '.join(scores)}"
        )
    return value


@register
class BahdanauAttention(AlignmentAttention):
    r"""Additive attention, $e_{ij} = v^T \tanh(W_q s_i + W_k h_j)$.

    Two matrices and a vector, as in the paper; `keras.layers.AdditiveAttention` has
    only the vector. Bahdanau et al. 2015; course slides B.

    Args:
        units: U, the width of the hidden layer.
        hard: Whether each query attends to one position only; see `AlignmentAttention`,
            also for the arguments below.
        sampled: Whether that position is sampled in training.
        dropout: Fraction of the weights to drop in training.
        seed: Seed of dropout and sampling.
        gradient: Of `hard`: "straight_through" or "reinforce".
        **kwargs: Arguments of `keras.layers.Layer`.

    Examples:
        >>> layer = BahdanauAttention(7)
        >>> keras.ops.shape(layer(np.ones((2, 3, 4)), np.ones((2, 5, 6))))
        (2, 3, 6)
        >>> sorted(weight.name for weight in layer.weights)
        ['W_k', 'W_q', 'v']
    """

    @passes_on(AlignmentAttention, score="additive")
    def __init__(
        self,
        units: int,
        *,
        hard: bool = False,
        sampled: bool = False,
        dropout: float = 0.0,
        seed: int | None = None,
        gradient: str = "straight_through",
        **kwargs: Any,
    ) -> None:
        pass  # the base class has all of them


@register
class LuongAttention(AlignmentAttention):
    r"""Multiplicative attention and the other scores of Luong et al. 2015.

    Course slides B.

    Args:
        score: "dot" $s^T h$, "general" $s^T W h$, "concat" $v^T \tanh(W [s; h])$,
            "scaled_dot" or "location".
        units: Width of the hidden layer of "concat".
        max_length: Maximum source length of "location".
        hard: Whether each query attends to one position only; see `AlignmentAttention`,
            also for the arguments below.
        sampled: Whether that position is sampled in training.
        dropout: Fraction of the weights to drop in training.
        seed: Seed of dropout and sampling.
        gradient: Of `hard`: "straight_through" or "reinforce".
        **kwargs: Arguments of `keras.layers.Layer`.

    Examples:
        >>> layer = LuongAttention("general")
        >>> keras.ops.shape(layer(np.ones((2, 3, 4)), np.ones((2, 5, 6))))
        (2, 3, 6)
    """

    known_scores: tuple[str, ...] = LUONG

    @passes_on(AlignmentAttention)
    def __init__(
        self,
        score: str = "general",
        *,
        units: int | None = None,
        max_length: int | None = None,
        hard: bool = False,
        sampled: bool = False,
        dropout: float = 0.0,
        seed: int | None = None,
        gradient: str = "straight_through",
        **kwargs: Any,
    ) -> None:
        pass  # the base class has all of them


@register
class LocationAttention(AlignmentAttention):
    r"""Location-based attention, $\alpha_i = \mathrm{softmax}(W s_i)$.

    The weights depend on the query only, not on the source. Luong et al. 2015; course
    slides B.

    Args:
        max_length: L, the maximum source length.
        hard: Whether each query attends to one position only; see `AlignmentAttention`,
            also for the arguments below.
        sampled: Whether that position is sampled in training.
        dropout: Fraction of the weights to drop in training.
        seed: Seed of dropout and sampling.
        gradient: Of `hard`: "straight_through" or "reinforce".
        **kwargs: Arguments of `keras.layers.Layer`.

    Examples:
        >>> layer = LocationAttention(11)
        >>> keras.ops.shape(layer(np.ones((2, 3, 4)), np.ones((2, 5, 6))))
        (2, 3, 6)
    """

    @passes_on(AlignmentAttention, score="location")
    def __init__(
        self,
        max_length: int,
        *,
        hard: bool = False,
        sampled: bool = False,
        dropout: float = 0.0,
        seed: int | None = None,
        gradient: str = "straight_through",
        **kwargs: Any,
    ) -> None:
        pass  # the base class has all of them


@register
class CosineAttention(AlignmentAttention):
    r"""Content-based attention, $e_{ij} = \beta\, s_i^T h_j / |s_i|\,|h_j|$.

    $\beta$ is learned. Graves et al. 2014 (content-based addressing); course slides B.

    Args:
        hard: Whether each query attends to one position only; see `AlignmentAttention`,
            also for the arguments below.
        sampled: Whether that position is sampled in training.
        dropout: Fraction of the weights to drop in training.
        seed: Seed of dropout and sampling.
        gradient: Of `hard`: "straight_through" or "reinforce".
        **kwargs: Arguments of `keras.layers.Layer`.

    Examples:
        >>> layer = CosineAttention()
        >>> keras.ops.shape(layer(np.ones((2, 3, 4)), np.ones((2, 5, 4))))
        (2, 3, 4)
    """

    @passes_on(AlignmentAttention, score="cosine")
    def __init__(
        self,
        *,
        hard: bool = False,
        sampled: bool = False,
        dropout: float = 0.0,
        seed: int | None = None,
        gradient: str = "straight_through",
        **kwargs: Any,
    ) -> None:
        pass  # the base class has all of them
