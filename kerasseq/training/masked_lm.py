"""Masked words: hide some tokens of a text, to learn to tell them from the others.

Of the tokens that are no special ones 15 % are chosen. Of these 80 % become `[MASK]`,
10 % another token, drawn evenly, and 10 % stay: a model that reads a text without masks
later must not have learned that every word it sees is right.

Devlin et al. 2019, appendix A.1, who choose at least one token in each text, of which
this is no copy: here short texts get none at times, and the rate is right for all
lengths. Course slides A, C.
"""

import math
from typing import NamedTuple

import numpy as np

from kerasseq.core import checks


class Masked(NamedTuple):
    """Texts with hidden tokens, and what was hidden; P places in each.

    Attributes:
        ids: int32, `(B, T)`: what the model reads.
        positions: int32, `(B, P)`: where it is asked, in order; 0 where weights are 0.
        labels: int32, `(B, P)`: what stood there; 0 where weights are 0.
        weights: float32, `(B, P)`: 1 where it is asked, 0 at places that are left over.
    """

    ids: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


class MaskedLMMaskGenerator:
    """Choose tokens and hide them, by a seed and the number of the batch alone.

    So a run that goes on after it was killed sees the very masks that it would have.
    It is NumPy, for the side of the data.

    Args:
        tokenizer: A fitted tokenizer with the special token `[MASK]`.
        vocabulary_size: Number of ids, if there is no tokenizer.
        mask_id: The id of `[MASK]`, if there is no tokenizer.
        special_ids: Ids that are never chosen nor drawn, if there is no tokenizer:
            padding and marks. `mask_id` is one of them.
        rate: Fraction of the other tokens that is chosen.
        mask: Fraction of the chosen that becomes `[MASK]`.
        random: Fraction of the chosen that becomes any token. The rest stays.
        seed: Seed of all draws.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If a fraction is out of range, mask and random are more than all,
            the tokenizer has no `[MASK]`, or an id is not in the vocabulary.

    Examples:
        >>> masking = MaskedLMMaskGenerator(
        ...     vocabulary_size=99, mask_id=4, special_ids=[0, 2, 3], rate=0.4
        ... )
        >>> masked = masking(np.array([[2, 11, 12, 13, 14, 15, 3, 0]]))
        >>> hidden = masked.positions[masked.weights == 1]
        >>> len(hidden), bool(np.all(masked.labels[0, :2] == hidden + 10))
        (2, True)
    """

    def __init__(
        self,
        tokenizer=None,
        *,
        vocabulary_size=None,
        mask_id=None,
        special_ids=(),
        rate=0.15,
        mask=0.8,
        random=0.1,
        seed=0,
    ):
        if (tokenizer is None) == (vocabulary_size is None or mask_id is None):
            raise ValueError(
                "give a fitted tokenizer, or vocabulary_size and mask_id; got "
                f"tokenizer={tokenizer!r}, vocabulary_size={vocabulary_size}, "
                f"mask_id={mask_id}"
            )
        if tokenizer is not None:
            vocabulary_size = tokenizer.vocabulary_size
            mask_id = special_id(tokenizer, "[MASK]")
            special_ids = [tokenizer.id_of(t) for t in tokenizer.special_tokens]
        self.vocabulary_size = checks.whole_number("vocabulary_size", vocabulary_size)
        self.mask_id = checks.whole_number("mask_id", mask_id, at_least=0)
        special_ids = checks.several("special_ids", special_ids, "ids")
        special_ids = [
            checks.whole_number("one of special_ids", i, -1) for i in special_ids
        ]
        self.special_ids = sorted({*special_ids, self.mask_id})
        self._ordinary = np.setdiff1d(np.arange(vocabulary_size), self.special_ids)
        if self.special_ids[0] < 0 or self.special_ids[-1] >= vocabulary_size:
            raise ValueError(
                f"special_ids and mask_id must be ids of the vocabulary, 0 to "
                f"{vocabulary_size - 1}; got {self.special_ids}"
            )
        if not len(self._ordinary):
            raise ValueError("special_ids are the whole vocabulary: nothing is to mask")
        self.rate = checks.fraction("rate", rate)
        self.mask = checks.fraction("mask", mask)
        self.random = checks.fraction("random", random)
        if self.mask + self.random > 1 + 1e-9:
            raise ValueError(
                f"mask={mask} and random={random} are fractions of the same tokens: "
                f"together they must be at most 1, not {mask + random}"
            )
        self.seed = checks.whole_number("seed", seed, at_least=0)

    def __call__(self, ids, number=0) -> Masked:
        """Hide tokens.

        Args:
            ids: Whole numbers `(B, T)`.
            number: Which batch of the run it is: with each, other tokens are hidden.

        Returns:
            A `Masked`, with P = rate × T, rounded up, places in each row.
        """
        ids = self._checked(ids)
        draw = np.random.default_rng([self.seed, number])
        T = ids.shape[1]
        real = ~np.isin(ids, self.special_ids)
        P = max(1, math.ceil(self.rate * T))
        # Rounded up or down at random, so that the mean is the rate.
        wanted = np.floor(self.rate * real.sum(axis=1) + draw.random(len(ids)))
        wanted = np.minimum(wanted, P)[:, None]
        lots = np.where(real, draw.random(ids.shape), 2.0)
        drawn = np.argsort(lots, axis=1)[:, :P]
        drawn = np.where(np.arange(drawn.shape[1]) < wanted, drawn, T)
        positions = np.sort(drawn, axis=1)
        asked = positions < T
        positions = np.where(asked, positions, 0)
        labels = np.where(asked, np.take_along_axis(ids, positions, axis=1), 0)
        hidden, (rows, places) = ids.copy(), np.nonzero(asked)
        hidden[rows, positions[rows, places]] = self._instead(labels[asked], draw)
        return Masked(
            hidden,
            positions.astype("int32"),
            labels.astype("int32"),
            asked.astype("float32"),
        )

    def _instead(self, tokens, draw):
        """What stands in place of the tokens that were chosen."""
        fate = draw.random(len(tokens))
        others = draw.choice(self._ordinary, len(tokens))
        tokens = np.where(fate < self.mask + self.random, others, tokens)
        return np.where(fate < self.mask, self.mask_id, tokens)

    def _checked(self, ids):
        ids = np.asarray(ids)
        if not np.issubdtype(ids.dtype, np.integer):
            raise TypeError(f"ids must be whole numbers, got an array of {ids.dtype}")
        if ids.ndim != 2 or not ids.shape[1]:
            raise ValueError(f"ids must be (rows, time), got the shape {ids.shape}")
        if ids.size and not 0 <= ids.min() <= ids.max() < self.vocabulary_size:
            raise ValueError(
                f"ids run from {ids.min()} to {ids.max()}, but the vocabulary from 0 "
                f"to {self.vocabulary_size - 1}"
            )
        return ids.astype("int32")


def special_id(tokenizer, token) -> int:
    """The id of a special token of BERT.

    Raises:
        ValueError: If the tokenizer has no such token.

    Examples:
        >>> from kerasseq.text import WordPieceTokenizer
        >>> special_id(WordPieceTokenizer(99).fit("to be"), "[SEP]")
        3
    """
    try:
        return tokenizer.id_of(token)
    except KeyError:
        raise ValueError(
            f"the tokenizer has no special token {token}: make it with "
            "special_tokens=['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'], as "
            "WordPieceTokenizer has them"
        ) from None
