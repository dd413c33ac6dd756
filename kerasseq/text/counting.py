r"""Base class of models that predict the next token from counts.

A subclass counts how often each token followed a context. Smoothing, evaluation and
sampling are shared, so that models are comparable. The probability of a token $u$ after
a context $c$ is

$$
p(u \mid c) = \frac{N(c\,u) + k}{N(c) + k V}
$$

with the counts $N$, the vocabulary size $V$ and the smoothing constant $k$.
"""

import abc
import math

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core.checks import random_generator, whole_number
from kerasseq.text.probabilities import Seed, log, zero_or_more
from kerasseq.text.surprise import Surprise, token_texts
from kerasseq.text.texts import id_array


class CountingModel(abc.ABC):
    """Base class of count-based models of the next token.

    Args:
        k: Added to every count.
    """

    def __init__(self, k: float):
        self.k: float = zero_or_more("k", k)
        self.vocabulary_size: int | None = None

    @property
    @abc.abstractmethod
    def _reach(self) -> int:
        """Number of previous tokens that the model conditions on."""

    @abc.abstractmethod
    def probabilities(self, context: ArrayLike = ()) -> np.ndarray:
        """Returns the distribution of the next token."""

    @abc.abstractmethod
    def log_probabilities(self, ids: ArrayLike) -> np.ndarray:
        """Returns the log-probability of each token, given those before it."""

    def cross_entropy(self, ids: ArrayLike) -> float:
        """Computes the cross-entropy: the mean of −log p over the tokens, in nats.

        Args:
            ids: One sequence of token ids, not empty.

        Returns:
            The mean negative log-probability per token.

        Raises:
            ValueError: If there are no ids.

        Examples:
            >>> from kerasseq.text import NGramModel
            >>> model = NGramModel(1).fit(range(5), vocabulary_size=5)
            >>> round(model.cross_entropy([3, 1]), 4)  # -ln 0.2
            1.6094
        """
        log_p = self.log_probabilities(ids)
        if not len(log_p):
            raise ValueError("`ids` is empty. Pass at least one token id.")
        return float(-log_p.mean())

    def bits_per_token(self, ids: ArrayLike) -> float:
        """Computes the cross-entropy in bits per token.

        Args:
            ids: One sequence of token ids, not empty.

        Returns:
            The cross-entropy divided by ln 2.
        """
        return self.cross_entropy(ids) / math.log(2)

    def surprise(self, ids: ArrayLike) -> Surprise:
        """Computes the surprise of each token: −log₂ p, given those before it.

        Args:
            ids: One sequence of token ids, or a text if there is a tokenizer.

        Returns:
            A `Surprise` with the tokens and their bits.

        Examples:
            >>> from kerasseq.text import CharacterTokenizer, NGramModel
            >>> model = NGramModel(2, k=0, tokenizer=CharacterTokenizer())
            >>> surprise = model.fit("abab").surprise("aba")
            >>> surprise.tokens, surprise.bits.tolist()
            (['a', 'b', 'a'], [1.0, 0.0, 0.0])
        """
        bits = np.abs(self.log_probabilities(ids)) / math.log(2)
        tokenizer = getattr(self, "tokenizer", None)
        source = ids if isinstance(ids, str) else None
        return Surprise(token_texts(tokenizer, source, self._ids(ids)), bits)

    def perplexity(self, ids: ArrayLike) -> float:
        """Computes the perplexity: the effective number of choices per token.

        Args:
            ids: One sequence of token ids, not empty.

        Returns:
            The exponential of the cross-entropy, from 1 to infinity; `vocabulary_size`
        for a uniform model.
        """
        return float(np.exp(self.cross_entropy(ids)))

    def sample(
        self,
        length: int,
        *,
        prompt: ArrayLike = (),
        temperature: float = 1.0,
        seed: Seed = None,
    ) -> np.ndarray:
        """Samples a continuation, one token at a time.

        Args:
            length: How many tokens to sample.
            prompt: The ids to continue; not part of the result.
            temperature: Lower is more deterministic, higher more random; 0 always
                takes the most probable token.
            seed: Seed of the draws.

        Returns:
            The new ids, int32, of shape `(length,)`.
        """
        size = self._fitted_size()
        length = whole_number("length", length, at_least=0)
        temperature = zero_or_more("temperature", temperature)
        rng = random_generator(seed)
        text = self._ids(prompt, "prompt").tolist()
        start = len(text)
        for _ in range(length):
            context = text[max(0, len(text) - self._reach) :]
            p = _sharpen(self.probabilities(context), temperature)
            text.append(int(rng.choice(size, p=p)))
        return np.array(text[start:], "int32")

    def _ids(self, ids, name: str = "ids") -> np.ndarray:
        """Returns ids of a fitted model's vocabulary, int64."""
        return id_array(ids, self._fitted_size(), name=name)

    def _training_ids(self, ids, vocabulary_size, at_least: tuple[str, int]):
        """Returns the checked training ids as int64, and the vocabulary size."""
        size = checked_size(vocabulary_size)
        ids = id_array(ids, size)
        name, least = at_least
        if len(ids) < least:
            raise ValueError(
                f"`ids` has {len(ids)} tokens, fewer than {name} = {least}: pass a "
                f"longer text, or use a smaller `{name}`."
            )
        return ids, size

    def _fitted_size(self) -> int:
        if self.vocabulary_size is None:
            raise ValueError("The model is not fitted. Call `fit(ids, ...)` first.")
        return self.vocabulary_size

    def _smooth(self, counts: np.ndarray, totals: np.ndarray) -> np.ndarray:
        above, below = counts + self.k, totals + self.k * self.vocabulary_size
        uniform = np.full(len(below), 1 / self.vocabulary_size)
        return np.divide(above, below, out=uniform, where=below > 0)


def checked_size(vocabulary_size: int) -> int:
    """Returns the vocabulary size, small enough to pack n-grams into int64."""
    size = whole_number("vocabulary_size", vocabulary_size, at_least=1)
    if size > 2**31:
        raise ValueError(f"`vocabulary_size` must be at most 2**31, received {size}.")
    return size


def rank_among(keys: np.ndarray, wanted: ArrayLike) -> np.ndarray:
    """Returns the index of each number among sorted keys, or -1.

    Examples:
        >>> rank_among(np.array([2, 5, 7]), [5, 6, 2])
        array([ 1, -1,  0])
    """
    rank = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[rank] == wanted, rank, -1)


def _sharpen(p: np.ndarray, temperature: float) -> np.ndarray:
    """Raises probabilities to the power 1 / temperature, and normalizes them."""
    if temperature == 0:
        return np.eye(len(p))[p.argmax()]
    log_p = log(p)
    # Subtract the maximum: with a small temperature all powers would underflow.
    powers = np.exp((log_p - log_p.max()) / temperature)
    return powers / powers.sum()
