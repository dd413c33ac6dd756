"""Masking of tokens for masked language modeling.

Of the tokens that are not special, 15 % are selected. Of these 80 % become `[MASK]`,
10 % a random token, drawn uniformly, and 10 % stay unchanged: otherwise a model that
later reads texts without masks would have learned that unmasked tokens are correct.

Devlin et al. 2019, appendix A.1, who select at least one token in each text. Here a
short text may have none, so that the rate is exact on average for any length. Course
slides A.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kerasseq.core import checks
from kerasseq.core.ids import check_ids
from kerasseq.text.tokenizers.conversion import AnyTokenizer, fitted_tokenizer
from kerasseq.text.tokenizers.tokenizer import Tokenizer


class MaskedTokens(NamedTuple):
    """Texts with masked tokens, and the tokens to predict: P positions in each text.

    Attributes:
        ids: int32, `(B, T)`: the inputs of the model.
        positions: int32, `(B, P)`: the selected positions in order; 0 if the weight is
            0.
        labels: int32, `(B, P)`: the tokens at these positions; 0 if the weight is 0.
        weights: float32, `(B, P)`: 1 for a selected position, 0 for an unused one.
    """

    ids: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


class MaskedLMMaskGenerator:
    """Selects tokens and masks them, as `keras_hub.layers.MaskedLMMaskGenerator`.

    The masks depend on the seed and the number of the batch alone, so that a resumed
    run repeats them. It runs in NumPy, as part of the input pipeline.

    Args:
        tokenizer: A fitted tokenizer with the special token `[MASK]`.
        vocabulary_size: Number of ids, if there is no tokenizer.
        mask_token_id: The id of `[MASK]`, if there is no tokenizer.
        unselectable_token_ids: Ids that are never selected nor drawn, if there is no
            tokenizer, such as padding. `mask_token_id` is always one of them.
        mask_selection_rate: Fraction of the other tokens that is selected.
        mask_token_rate: Fraction of the selected tokens that becomes `[MASK]`.
        random_token_rate: Fraction of the selected tokens that becomes a random token.
            The rest is unchanged.
        seed: Random seed.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If a rate is out of range, `mask_token_rate` and `random_token_rate`
            add to more than 1, the tokenizer has no `[MASK]`, or an id is not in the
            vocabulary.

    Examples:
        >>> generator = MaskedLMMaskGenerator(
        ...     vocabulary_size=99,
        ...     mask_token_id=4,
        ...     unselectable_token_ids=[0, 2, 3],
        ...     mask_selection_rate=0.4,
        ... )
        >>> masked = generator(np.array([[2, 11, 12, 13, 14, 15, 3, 0]]))
        >>> selected = masked.positions[masked.weights == 1]
        >>> len(selected), bool(np.all(masked.labels[0, :2] == selected + 10))
        (2, True)
    """

    def __init__(
        self,
        tokenizer: AnyTokenizer | None = None,
        *,
        vocabulary_size: int | None = None,
        mask_token_id: int | None = None,
        unselectable_token_ids: Iterable[int] = (),
        mask_selection_rate: float = 0.15,
        mask_token_rate: float = 0.8,
        random_token_rate: float = 0.1,
        seed: int = 0,
    ) -> None:
        tokenizer = fitted_tokenizer(tokenizer)
        if (tokenizer is None) == (vocabulary_size is None or mask_token_id is None):
            raise ValueError(
                "expected a fitted tokenizer, or vocabulary_size and mask_token_id; "
                f"received tokenizer={tokenizer!r}, vocabulary_size={vocabulary_size}, "
                f"mask_token_id={mask_token_id}"
            )
        if tokenizer is not None:
            vocabulary_size = tokenizer.vocabulary_size
            mask_token_id = special_id(tokenizer, "[MASK]")
            unselectable_token_ids = [
                tokenizer.id_of(token) for token in tokenizer.special_tokens
            ]
        self.vocabulary_size: int = checks.whole_number(
            "vocabulary_size", vocabulary_size
        )
        self.mask_token_id: int = checks.whole_number("mask_token_id", mask_token_id, 0)
        ids = checks.several("unselectable_token_ids", unselectable_token_ids, "ids")
        name = "one of unselectable_token_ids"
        ids = {self.mask_token_id, *(checks.whole_number(name, i, -1) for i in ids)}
        self.unselectable_token_ids: list[int] = sorted(ids)
        name = "unselectable_token_ids and mask_token_id"
        unselectable = np.array(self.unselectable_token_ids)
        check_ids(unselectable, name, "vocabulary_size", self.vocabulary_size)
        self._selectable = np.setdiff1d(np.arange(vocabulary_size), unselectable)
        if not len(self._selectable):
            raise ValueError(
                "unselectable_token_ids must leave some ids of the vocabulary, "
                "received the whole vocabulary"
            )
        self.mask_selection_rate: float = checks.fraction(
            "mask_selection_rate", mask_selection_rate
        )
        self.mask_token_rate: float = checks.fraction(
            "mask_token_rate", mask_token_rate
        )
        self.random_token_rate: float = checks.fraction(
            "random_token_rate", random_token_rate
        )
        if self.mask_token_rate + self.random_token_rate > 1 + 1e-9:
            raise ValueError(
                "mask_token_rate and random_token_rate must add to at most 1, received "
                f"{mask_token_rate} and {random_token_rate}"
            )
        self.seed: int = checks.whole_number("seed", seed, at_least=0)

    def __call__(
        self, ids: np.ndarray | Sequence[Sequence[int]], number: int = 0
    ) -> MaskedTokens:
        """Masks tokens.

        Args:
            ids: Integers `(B, T)`.
            number: The number of the batch: each has other masks.

        Returns:
            A `MaskedTokens`, with P = mask_selection_rate × T, rounded up, positions in
            each row.
        """
        ids = self._checked(ids)
        draw = np.random.default_rng([self.seed, number])
        T = ids.shape[1]
        selectable = ~np.isin(ids, self.unselectable_token_ids)
        P = max(1, math.ceil(self.mask_selection_rate * T))
        # Rounded up or down at random, so that the mean is the rate.
        mean = self.mask_selection_rate * selectable.sum(axis=1)
        count = np.minimum(np.floor(mean + draw.random(len(ids))), P)[:, None]
        keys = np.where(selectable, draw.random(ids.shape), 2.0)
        positions = np.argsort(keys, axis=1)[:, :P]
        positions = np.where(np.arange(positions.shape[1]) < count, positions, T)
        positions = np.sort(positions, axis=1)
        selected = positions < T
        positions = np.where(selected, positions, 0)
        labels = np.where(selected, np.take_along_axis(ids, positions, axis=1), 0)
        inputs, (rows, columns) = ids.copy(), np.nonzero(selected)
        replaced = self._replace(labels[selected], draw)
        inputs[rows, positions[rows, columns]] = replaced
        return MaskedTokens(
            inputs,
            positions.astype("int32"),
            labels.astype("int32"),
            selected.astype("float32"),
        )

    def _replace(self, tokens: np.ndarray, draw: np.random.Generator) -> np.ndarray:
        """Returns the inputs at the selected positions."""
        choice = draw.random(len(tokens))
        others = draw.choice(self._selectable, len(tokens))
        replaced = choice < self.mask_token_rate + self.random_token_rate
        tokens = np.where(replaced, others, tokens)
        return np.where(choice < self.mask_token_rate, self.mask_token_id, tokens)

    def _checked(self, ids: np.ndarray | Sequence[Sequence[int]]) -> np.ndarray:
        ids = np.asarray(ids)
        check_ids(ids, "ids", "vocabulary_size", self.vocabulary_size)
        if ids.ndim != 2 or not ids.shape[1]:
            raise ValueError(
                f"expected ids of shape (rows, time), received shape {ids.shape}"
            )
        return ids.astype("int32")


def special_id(tokenizer: Tokenizer, token: str) -> int:
    """Returns the id of a special token of BERT.

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
