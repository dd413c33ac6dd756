r"""Shannon's Markov model of text: the next token from the last $n - 1$, by counting.

$$
p(u \mid c) = \frac{N(c\,u) + k}{N(c) + k V}
$$

where $c$ is the context, the last $n - 1$ tokens, $N$ counts what follows what in the
training text, $V$ is the size of the vocabulary and $k$ smooths: with $k = 0$ the
probabilities are the relative frequencies. Shannon's first order is $n = 1$, his second
is $n = 2$. This is the baseline that every language model is printed beside. Back-off,
interpolation and Kneser–Ney smoothing are left out.

From: Shannon, "A Mathematical Theory of Communication", 1948.
"""

import math

import numpy as np

from kerasseq.core.checks import whole_number
from kerasseq.text.ids import id_array


class NGramModel:
    r"""Predict the next token from the $n - 1$ before it.

    The first tokens of a sequence have fewer than $n - 1$ before them. They are
    predicted from what there is: the first from no context (the unigram counts), the
    second from one token, and so on, with counts taken over the whole training text.

    Args:
        n: Length of the n-grams, context and token together. 1 ignores the context.
        k: Added to every count. With 0 an n-gram that never occurred has probability
            0, and a text that holds it an infinite perplexity.

    A context that was never followed by anything is uniform, also with `k=0`.

    Examples:
        >>> model = NGramModel(2, k=0).fit([0, 1, 0, 1, 0, 2], vocabulary_size=3)
        >>> model.probabilities([0]).round(3)
        array([0.   , 0.667, 0.333])
        >>> model.sample(4, prompt=[2], seed=0).shape
        (4,)
        >>> print(model)
        <NGramModel: n=2, k=0.0, vocabulary of 3, 3 distinct 2-grams>
    """

    def __init__(self, n: int = 2, *, k: float = 1.0):
        self.n = whole_number("n", n, at_least=1)
        self.k = float(k)
        if not (self.k >= 0 and math.isfinite(self.k)):
            raise ValueError(f"`k` must be zero or a positive number, got {k}.")
        self.vocabulary_size: int | None = None

    def fit(self, ids, vocabulary_size: int) -> "NGramModel":
        """Count the n-grams of a text.

        Args:
            ids: The training text, one row of ids, at least `n` of them.
            vocabulary_size: How many ids there are; all are below it.

        Returns:
            The model itself. A second `fit` replaces the first.

        Raises:
            TypeError: If the ids are not whole numbers.
            ValueError: If there are fewer than `n` ids, or one is out of range.
        """
        size = whole_number("vocabulary_size", vocabulary_size, at_least=1)
        if size > 2**31:  # the packed grams below are int64
            raise ValueError(f"`vocabulary_size` must be at most 2**31, got {size}.")
        ids = id_array(ids, size)
        if len(ids) < self.n:
            raise ValueError(
                f"`ids` has {len(ids)} tokens, fewer than n = {self.n}: pass a longer "
                "text, or use a smaller `n`."
            )
        self.vocabulary_size = size
        self._grams, self._counts, self._totals = [], [], []
        # A gram of m + 1 tokens is written as one number: the rank of its first m
        # tokens among the grams of m tokens, times V, plus its last token. Ranks stay
        # below the length of the text, so nothing overflows, whatever V to the n is.
        rank, contexts = np.zeros(len(ids), "int64"), 1
        for m in range(self.n):
            grams, inverse, counts = np.unique(
                rank * size + ids[m:], return_inverse=True, return_counts=True
            )
            self._grams.append(grams)
            self._counts.append(counts)
            self._totals.append(np.bincount(grams // size, counts, minlength=contexts))
            rank, contexts = inverse[:-1], len(grams)
        return self

    def probabilities(self, context=()) -> np.ndarray:
        """Return the distribution of the next token.

        Args:
            context: The tokens before it. The last `n - 1` count; with fewer, the
                counts of that shorter context are used.

        Returns:
            A float64 array of shape `(vocabulary_size,)` that sums to 1.

        Examples:
            >>> NGramModel(1).fit([0, 0, 1], vocabulary_size=2).probabilities()
            array([0.6, 0.4])
        """
        size = self._fitted_size()
        context = id_array(context, size, name="context")
        context = context[max(0, len(context) - self.n + 1) :]
        m, rank = len(context), 0
        for shorter, token in enumerate(context):
            rank = int(self._find(shorter, np.array([rank * size + token]))[0])
            if rank < 0:
                return np.full(size, 1 / size)
        first, last = np.searchsorted(self._grams[m], [rank * size, (rank + 1) * size])
        counts = np.zeros(size)
        counts[self._grams[m][first:last] - rank * size] = self._counts[m][first:last]
        return self._smooth(counts, np.full(size, self._totals[m][rank]))

    def log_probabilities(self, ids) -> np.ndarray:
        """Return the natural log of each token's probability, given those before it.

        Args:
            ids: A text as one row of ids.

        Returns:
            A float64 array, one value per token; `-inf` where the probability is 0.
        """
        size = self._fitted_size()
        ids = id_array(ids, size)
        result = np.zeros(len(ids))
        rank = np.zeros(len(ids), "int64")  # of the m tokens before position m, m + 1…
        for m in range(min(self.n, len(ids))):
            found = self._find(m, np.where(rank < 0, -1, rank * size + ids[m:]))
            last = m == self.n - 1
            here = slice(None) if last else slice(1)  # shorter contexts: one token each
            counts = np.where(found < 0, 0, self._counts[m][found])[here]
            totals = np.where(rank < 0, 0, self._totals[m][rank])[here]
            result[m : m + len(counts)] = self._smooth(counts, totals)
            rank = found[:-1]
        with np.errstate(divide="ignore"):  # k = 0: log 0 is -inf, and meant
            return np.log(result)

    def cross_entropy(self, ids) -> float:
        """Return the mean of −log p over the tokens, in nats.

        Args:
            ids: A text as one row of ids, at least one.

        Returns:
            The mean surprise per token.

        Examples:
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
        """Return exp of the cross-entropy: among how many tokens the model hesitates.

        Args:
            ids: A text as one row of ids, at least one.

        Returns:
            A number from 1 to infinity; `vocabulary_size` for a uniform model.
        """
        return float(np.exp(self.cross_entropy(ids)))

    def sample(
        self, length: int, *, prompt=(), temperature: float = 1.0, seed=None
    ) -> np.ndarray:
        """Write text, one token at a time.

        Args:
            length: How many tokens to write.
            prompt: The ids to go on from; not part of the result.
            temperature: Below 1 bolder, above 1 more surprising; 0 always takes the
                most probable token.
            seed: Seed of the random choices.

        Returns:
            The new ids, int32, of shape `(length,)`.
        """
        size = self._fitted_size()
        length = whole_number("length", length, at_least=0)
        if not (temperature >= 0 and math.isfinite(temperature)):
            raise ValueError(
                f"`temperature` must be zero or a positive number, got {temperature}."
            )
        rng = np.random.default_rng(seed)
        text = id_array(prompt, size, name="prompt").tolist()
        start = len(text)
        for _ in range(length):
            context = text[max(0, len(text) - self.n + 1) :]
            p = _sharpen(self.probabilities(context), temperature)
            text.append(int(rng.choice(size, p=p)))
        return np.array(text[start:], "int32")

    def _fitted_size(self) -> int:
        if self.vocabulary_size is None:
            raise ValueError("The model has no counts yet: call `fit(ids, ...)` first.")
        return self.vocabulary_size

    def _find(self, m: int, keys: np.ndarray) -> np.ndarray:
        """Return the rank of each gram of `m + 1` tokens, -1 where it is unseen."""
        grams = self._grams[m]
        rank = np.minimum(np.searchsorted(grams, keys), len(grams) - 1)
        return np.where(grams[rank] == keys, rank, -1)

    def _smooth(self, counts: np.ndarray, totals: np.ndarray) -> np.ndarray:
        above, below = counts + self.k, totals + self.k * self.vocabulary_size
        uniform = np.full(len(below), 1 / self.vocabulary_size)
        return np.divide(above, below, out=uniform, where=below > 0)

    def __repr__(self):
        if self.vocabulary_size is None:
            return f"<NGramModel: n={self.n}, k={self.k}, not fitted>"
        return (
            f"<NGramModel: n={self.n}, k={self.k}, vocabulary of "
            f"{self.vocabulary_size}, {len(self._grams[-1])} distinct {self.n}-grams>"
        )


def _sharpen(p: np.ndarray, temperature: float) -> np.ndarray:
    """Raise probabilities to the power 1 / temperature and make them sum to 1 again."""
    if temperature == 0:
        return np.eye(len(p))[p.argmax()]
    with np.errstate(divide="ignore"):
        log_p = np.log(p)
    # Relative to the largest, or a small temperature would send every power to zero.
    powers = np.exp((log_p - log_p.max()) / temperature)
    return powers / powers.sum()
