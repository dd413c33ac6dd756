"""The attentions that have a name: `AlignmentAttention` with one score each."""

from kerasseq.attention.alignment import AlignmentAttention
from kerasseq.core import checks
from kerasseq.core.serialization import register

LUONG = ("dot", "general", "concat", "scaled_dot", "location")


class _Named(AlignmentAttention):
    """One whose score is given by its class."""

    fixed = ()  # arguments of `AlignmentAttention` that the class decides

    def get_config(self):
        config = super().get_config()
        return {name: v for name, v in config.items() if name not in self.fixed}


@register
class BahdanauAttention(_Named):
    r"""Additive attention, $e_{ij} = v^T \tanh(W_q s_i + W_k h_j)$.

    Two matrices and a vector, as in the paper; `keras.layers.AdditiveAttention` has the
    vector alone. Bahdanau et al. 2015; course slides B.

    Args:
        units: U, the width of the hidden layer.
        hard: As for `AlignmentAttention`, like all that follow.
        sampled: Whether places are drawn in training, with `hard`.
        dropout: Fraction of the weights dropped in training.
        seed: Seed of what is random.
        **kwargs: As for any layer.

    Examples:
        >>> layer = BahdanauAttention(7)
        >>> keras.ops.shape(layer(np.ones((2, 3, 4)), np.ones((2, 5, 6))))
        (2, 3, 6)
        >>> sorted(weight.name for weight in layer.weights)
        ['W_k', 'W_q', 'v']
    """

    fixed = ("score", "max_length")

    def __init__(
        self, units, *, hard=False, sampled=False, dropout=0.0, seed=None, **kwargs
    ):
        super().__init__(
            units,
            score="additive",
            hard=hard,
            sampled=sampled,
            dropout=dropout,
            seed=seed,
            **kwargs,
        )


@register
class LuongAttention(_Named):
    r"""Multiplicative attention and its kin.

    Luong et al. 2015; course slides B.

    Args:
        score: "dot" $s^T h$, "general" $s^T W h$, "concat" $v^T \tanh(W [s; h])$,
            "scaled_dot" or "location".
        units: For "concat".
        max_length: For "location".
        hard: As for `AlignmentAttention`, like all that follow.
        sampled: Whether places are drawn in training, with `hard`.
        dropout: Fraction of the weights dropped in training.
        seed: Seed of what is random.
        **kwargs: As for any layer.

    Examples:
        >>> layer = LuongAttention("general")
        >>> keras.ops.shape(layer(np.ones((2, 3, 4)), np.ones((2, 5, 6))))
        (2, 3, 6)
    """

    def __init__(
        self,
        score="general",
        *,
        units=None,
        max_length=None,
        hard=False,
        sampled=False,
        dropout=0.0,
        seed=None,
        **kwargs,
    ):
        super().__init__(
            units,
            score=checks.one_of("score", score, LUONG),
            max_length=max_length,
            hard=hard,
            sampled=sampled,
            dropout=dropout,
            seed=seed,
            **kwargs,
        )


@register
class LocationAttention(_Named):
    r"""$\alpha_i = \mathrm{softmax}(W s_i)$: where to look depends on the query alone.

    Luong et al. 2015; course slides B.

    Args:
        max_length: L, the longest memory it can look at.
        hard: As for `AlignmentAttention`, like all that follow.
        sampled: Whether places are drawn in training, with `hard`.
        dropout: Fraction of the weights dropped in training.
        seed: Seed of what is random.
        **kwargs: As for any layer.

    Examples:
        >>> layer = LocationAttention(11)
        >>> keras.ops.shape(layer(np.ones((2, 3, 4)), np.ones((2, 5, 6))))
        (2, 3, 6)
    """

    fixed = ("score", "units")

    def __init__(
        self, max_length, *, hard=False, sampled=False, dropout=0.0, seed=None, **kwargs
    ):
        super().__init__(
            score="location",
            max_length=max_length,
            hard=hard,
            sampled=sampled,
            dropout=dropout,
            seed=seed,
            **kwargs,
        )


@register
class CosineAttention(_Named):
    r"""$e_{ij} = \beta\, s_i^T h_j / |s_i|\,|h_j|$, with a learned sharpness $\beta$.

    Graves et al. 2014 (content-based addressing); course slides B.

    Args:
        hard: As for `AlignmentAttention`, like all that follow.
        sampled: Whether places are drawn in training, with `hard`.
        dropout: Fraction of the weights dropped in training.
        seed: Seed of what is random.
        **kwargs: As for any layer.

    Examples:
        >>> layer = CosineAttention()
        >>> keras.ops.shape(layer(np.ones((2, 3, 4)), np.ones((2, 5, 4))))
        (2, 3, 4)
    """

    fixed = ("score", "units", "max_length")

    def __init__(self, *, hard=False, sampled=False, dropout=0.0, seed=None, **kwargs):
        super().__init__(
            score="cosine",
            hard=hard,
            sampled=sampled,
            dropout=dropout,
            seed=seed,
            **kwargs,
        )
