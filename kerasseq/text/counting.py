r"""What the models of the next token that count have in common.

A model says how often each token followed a context, and how often anything did;
smoothing, scores and writing text are here, so that two models are compared by the same
yardstick. The probability of a token $u$ after a context $c$ is

$$
p(u \mid c) = \frac{N(c\,u) + k}{N(c) + k V}
$$

with $N$ the counts, $V$ the size of the vocabulary, $k$ what smooths.
"""

import abc
import math

import numpy as np

from kerasseq.core.checks import random_generator, whole_number
from kerasseq.text.ids import id_array
from kerasseq.text.probabilities import log, zero_or_more


class CountingModel(abc.ABC):
    """A model of the next token by counts: what every one of them can do.

    Args:
        k: Added to every count.
    """

    def __init__(self, k: float):
        self.k = zero_or_more("k", k)
        self.vocabulary_size: int | None = None

    @property
    @abc.abstractmethod
    def _reach(self) -> int:
        """How many tokens before the next one count."""

    @abc.abstractmethod
    def probabilities(self, context=()) -> np.ndarray:
        """Return the distribution of the next token."""

    @abc.abstractmethod
    def log_probabilities(self, ids) -> np.ndarray:
        """Return the natural log of each token's probability, given those before it."""

    def cross_entropy(self, ids) -> float:
        """Return the mean of −log p over the tokens, in nats.

        Args:
            ids: A text as one row of ids, at least one.

        Returns:
            The mean surprise per token.

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
            raise ValueError("`ids` is empty: there is nothing to score.")
        return float(-log_p.mean())

    def bits_per_token(self, ids) -> float:
        """Return the cross-entropy in bits: bits per character for characters.

        Args:
            ids: A text as one row of ids, at least one.

        Returns:
            The cross-entropy divided by ln 2.
        """
        return self.cross_entropy(ids) / math.log(2)

    def perplexity(self, ids) -> float:
        """Return exp of the cross-entropy: the effective number of choices per token.

        Args:
            ids: A text as one row of ids, at least one.

        Returns:
            A number from 1 to infinity; `vocabulary_size` for a uniform model.
        """
        return float(np.exp(self.cross_entropy(ids)))

    def sample(
        self, length: int, *, prompt=(), temperature: float = 1.0, seed=None
    ) -> np.ndarray:
        """Sample a continuation, one token at a time.

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
        """Return ids of a fitted model's vocabulary, int64."""
        return id_array(ids, self._fitted_size(), name=name)

    def _training_ids(self, ids, vocabulary_size, at_least: tuple[str, int]):
        """Return the ids to count as int64 and the vocabulary's size, both checked."""
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
            raise ValueError("The model has no counts yet: call `fit(ids, ...)` first.")
        return self.vocabulary_size

    def _smooth(self, counts: np.ndarray, totals: np.ndarray) -> np.ndarray:
        above, below = counts + self.k, totals + self.k * self.vocabulary_size
        uniform = np.full(len(below), 1 / self.vocabulary_size)
        return np.divide(above, below, out=uniform, where=below > 0)


def checked_size(vocabulary_size) -> int:
    """Return the vocabulary's size, small enough to pack grams into int64."""
    size = whole_number("vocabulary_size", vocabulary_size, at_least=1)
    if size > 2**31:
        raise ValueError(f"`vocabulary_size` must be at most 2**31, got {size}.")
    return size


def rank_among(keys: np.ndarray, wanted) -> np.ndarray:
    """Return where each wanted number stands among sorted keys, -1 where it does not.

    Examples:
        >>> rank_among(np.array([2, 5, 7]), [5, 6, 2])
        array([ 1, -1,  0])
    """
    rank = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[rank] == wanted, rank, -1)


def _sharpen(p: np.ndarray, temperature: float) -> np.ndarray:
    """Raise probabilities to the power 1 / temperature and make them sum to 1 again."""
    if temperature == 0:
        return np.eye(len(p))[p.argmax()]
    log_p = log(p)
    # Relative to the largest, or a small temperature would send every power to zero.
    powers = np.exp((log_p - log_p.max()) / temperature)
    return powers / powers.sum()
