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

import numpy as np

from kerasseq.core.checks import whole_number
from kerasseq.text.counting import CountingModel, rank_among
from kerasseq.text.ids import id_array
from kerasseq.text.probabilities import log


class NGramModel(CountingModel):
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
        super().__init__(k)
        self.n = whole_number("n", n, at_least=1)

    @property
    def _reach(self) -> int:
        return self.n - 1

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
        ids, size = self._training_ids(ids, vocabulary_size, at_least=("n", self.n))
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
            rank = int(rank_among(self._grams[shorter], rank * size + token))
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
            found = rank_among(
                self._grams[m], np.where(rank < 0, -1, rank * size + ids[m:])
            )
            last = m == self.n - 1
            here = slice(None) if last else slice(1)  # shorter contexts: one token each
            counts = np.where(found < 0, 0, self._counts[m][found])[here]
            totals = np.where(rank < 0, 0, self._totals[m][rank])[here]
            result[m : m + len(counts)] = self._smooth(counts, totals)
            rank = found[:-1]
        return log(result)

    def __repr__(self):
        if self.vocabulary_size is None:
            return f"<NGramModel: n={self.n}, k={self.k}, not fitted>"
        return (
            f"<NGramModel: n={self.n}, k={self.k}, vocabulary of "
            f"{self.vocabulary_size}, {len(self._grams[-1])} distinct {self.n}-grams>"
        )
