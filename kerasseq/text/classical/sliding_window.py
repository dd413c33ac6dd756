r"""Sliding-window model of course D (v0): predicts a token from a bag of tokens.

$$
p(u \mid w) = \frac{N(w, u) + k}{N(w) + k V}
\qquad w = \{c_{t-N+1}, \ldots, c_{t-1}\}
$$

A window of $N$ tokens can be ordered, as in n-grams (`NGramModel`), or a bag, as in
CBOW and here: $w$ is the multiset of the last $N - 1$ tokens, without their order. Both
make the same Markov assumption of order $N - 1$. There are fewer bags than ordered
contexts, and each is seen more often: the model needs less text, but does not
distinguish "dog bites man" from "man bites dog".

Left out: embeddings. CBOW averages vectors; here bags are counted.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core.checks import one_of, whole_number
from kerasseq.core.schema import check
from kerasseq.text.counting import CountingModel, checked_size, rank_among
from kerasseq.text.files import Saved
from kerasseq.text.probabilities import log
from kerasseq.text.texts import id_array

SCHEMA = {
    "window": int,
    "k": float,
    "unseen": str,
    "vocabulary_size": int | None,
    "counts": [[[int]]],
}


class SlidingWindowModel(Saved, CountingModel):
    r"""Model of the next token given the bag of the $N - 1$ previous tokens.

    The first tokens of a sequence are predicted from smaller bags, with counts over the
    whole training text.

    Args:
        window: Size $N$ of the window including the predicted token, as `n` of
            `NGramModel`. 1 ignores the context.
        k: Added to every count. With 0 a token that never followed the bag has
            probability 0.
        unseen: The prediction for an unseen bag. `"narrow"`: drop the oldest tokens
            until the bag was seen. `"uniform"`: a uniform distribution, as in
            `NGramModel` with add-k smoothing.

    From: course D, "v0: sliding window"; Mikolov et al., "Efficient Estimation of Word
    Representations in Vector Space", 2013 (CBOW).

    Examples:
        >>> ids = [0, 1, 2, 1, 0, 2, 0, 1, 2]
        >>> model = SlidingWindowModel(3, k=0).fit(ids, vocabulary_size=3)
        >>> model.probabilities([1, 0])  # the same as after 0, 1
        array([0., 0., 1.])
        >>> round(model.perplexity([0, 1, 2]), 3)
        1.651
        >>> print(model)
        <SlidingWindowModel: window=3, k=0.0, vocabulary of 3, 3 distinct bags>
    """

    def __init__(self, window: int = 3, *, k: float = 1.0, unseen: str = "narrow"):
        super().__init__(k)
        self.window: int = whole_number("window", window, at_least=1)
        self.unseen: str = one_of("unseen", unseen, ["narrow", "uniform"])

    @property
    def _reach(self) -> int:
        return self.window - 1

    def fit(self, ids: ArrayLike, vocabulary_size: int) -> "SlidingWindowModel":
        """Counts the tokens after each bag.

        Args:
            ids: The training text, one sequence of at least `window` ids.
            vocabulary_size: Number of ids.

        Returns:
            The model itself. A second call replaces the first.

        Raises:
            TypeError: If the ids are not whole numbers.
            ValueError: If there are fewer than `window` ids, or one is out of range.
        """
        least = ("window", self.window)
        ids, size = self._training_ids(ids, vocabulary_size, at_least=least)
        tables = []
        for m in range(self.window):
            ends = np.arange(m, len(ids))
            rows = np.column_stack([_bags(ids, ends, m), ids[m:]])
            tables.append(_Table(rows, np.ones(len(rows), "int64"), size))
        self._tables = tables
        self.vocabulary_size: int | None = size
        return self

    def probabilities(self, context: ArrayLike = ()) -> np.ndarray:
        """Returns the distribution of the next token.

        Args:
            context: The previous tokens. The last `window - 1` are used, in any order.

        Returns:
            A float64 array of shape `(vocabulary_size,)` that sums to 1.

        Examples:
            >>> model = SlidingWindowModel(1).fit([0, 0, 1], vocabulary_size=2)
            >>> model.probabilities()
            array([0.6, 0.4])
        """
        size = self._fitted_size()
        context = id_array(context, size, name="context")
        longest = min(len(context), self._reach)
        end = np.array([len(context)])
        for m in range(longest, -1, -1):
            table = self._tables[m]
            rank = int(table.find(_bags(context, end, m))[0])
            if rank >= 0:
                total = np.full(size, table.totals[rank])
                return self._smooth(table.counts_after(rank), total)
            if self.unseen == "uniform":
                break
        return np.full(size, 1 / size)

    def log_probabilities(self, ids: ArrayLike) -> np.ndarray:
        """Returns the log-probability of each token, given those before it.

        Args:
            ids: One sequence of token ids.

        Returns:
            A float64 array, one value per token; `-inf` where the probability is 0.
        """
        size = self._fitted_size()
        ids = id_array(ids, size)
        p = np.full(len(ids), 1 / size)
        left = np.arange(len(ids))  # positions without a prediction
        for m in range(self._reach, -1, -1):
            widest = np.minimum(left, self._reach)
            here = left[widest == m] if self.unseen == "uniform" else left[left >= m]
            table = self._tables[m]
            rank = table.find(_bags(ids, here, m))
            here, rank = here[rank >= 0], rank[rank >= 0]
            counts = table.count(rank, ids[here])
            p[here] = self._smooth(counts, table.totals[rank])
            left = np.setdiff1d(left, here, assume_unique=True)
        return log(p)

    def get_config(self) -> dict[str, Any]:
        """Returns the configuration and the fitted model as plain JSON.

        `counts` has one list per size of the window: rows of the sorted bag, the token
        after it, and the count.
        """
        fitted = self.vocabulary_size is not None
        tables = self._tables if fitted else []
        return {
            "window": self.window,
            "k": self.k,
            "unseen": self.unseen,
            "vocabulary_size": self.vocabulary_size,
            "counts": [
                np.column_stack([table.rows, table.counts]).tolist() for table in tables
            ],
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "SlidingWindowModel":
        """Builds a model from the result of `get_config`.

        Args:
            config: The dictionary.

        Returns:
            An equal model.

        Raises:
            TypeError: If a value is not a number.
            ValueError: If a key is missing or unknown, an id is outside the
                vocabulary, or a count is below 1.
        """
        check(config, SCHEMA)
        model = cls(config["window"], k=config["k"], unseen=config["unseen"])
        if config["vocabulary_size"] is None:
            return model
        size = checked_size(config["vocabulary_size"])
        counts = config["counts"]
        if not isinstance(counts, list) or len(counts) != model.window:
            raise ValueError(f"`counts` must be a list of {model.window} tables.")
        model._tables = [
            _Table(*_checked(counts[m], m, size), size) for m in range(model.window)
        ]
        model.vocabulary_size = size
        return model

    def _check_fitted(self):
        self._fitted_size()

    def __repr__(self) -> str:
        head = f"window={self.window}, k={self.k}"
        if self.vocabulary_size is None:
            return f"<SlidingWindowModel: {head}, not fitted>"
        return (
            f"<SlidingWindowModel: {head}, vocabulary of {self.vocabulary_size}, "
            f"{len(self._tables[-1].totals)} distinct bags>"
        )


class _Table:
    """Counts of tokens after bags of m tokens.

    Args:
        rows: `(rows, m + 1)`: a sorted bag, and the token after it.
        counts: `(rows,)`: count of each row.
        size: Vocabulary size.
    """

    def __init__(self, rows: np.ndarray, counts: np.ndarray, size: int):
        self.size = size
        # As in `ngram_counts.py`, a bag is encoded as the rank of all but its last
        # token, times V, plus that token, so that no integer overflows.
        self.levels = []
        rank = np.zeros(len(rows), "int64")
        for tokens in rows.T[:-1]:
            keys, rank = np.unique(rank * size + tokens, return_inverse=True)
            self.levels.append(keys)
        self.keys, first, inverse = np.unique(
            rank * size + rows[:, -1], return_index=True, return_inverse=True
        )
        self.rows = rows[first]
        self.counts = np.bincount(inverse, counts).astype("int64")
        self.totals = np.bincount(self.keys // size, self.counts).astype("int64")

    def find(self, bags: np.ndarray) -> np.ndarray:
        """Returns the rank of each bag, -1 if unseen."""
        rank = np.zeros(len(bags), "int64")
        for keys, tokens in zip(self.levels, bags.T, strict=True):
            rank = rank_among(keys, np.where(rank < 0, -1, rank * self.size + tokens))
        return rank

    def count(self, rank: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Returns the count of each token after the bag of each rank."""
        place = rank_among(self.keys, rank * self.size + tokens)
        return np.where(place < 0, 0, self.counts[place])

    def counts_after(self, rank: int) -> np.ndarray:
        """Returns the counts of all tokens of the vocabulary after one bag."""
        start = rank * self.size
        first, last = np.searchsorted(self.keys, [start, start + self.size])
        counts = np.zeros(self.size)
        counts[self.keys[first:last] - start] = self.counts[first:last]
        return counts


def _bags(ids: np.ndarray, ends: np.ndarray, m: int) -> np.ndarray:
    """Returns the m tokens before each position, sorted: `(positions, m)`.

    Examples:
        >>> _bags(np.array([5, 3, 4]), np.array([2, 3]), 2)
        array([[3, 5],
               [3, 4]])
    """
    return np.sort(ids[ends[:, None] - m + np.arange(m)], axis=1)


def _checked(table, m: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows and counts of a table of an untrusted file."""
    name = f"counts[{m}]"
    try:
        array = np.array(table)
    except ValueError:  # rows of different lengths
        array = np.array(None)
    if array.dtype.kind != "i" or array.ndim != 2 or array.shape[1] != m + 2:
        raise ValueError(f"`{name}` must be rows of {m + 2} whole numbers.")
    rows, counts = array[:, :-1], array[:, -1]
    if (counts < 1).any():
        row = int((counts < 1).argmax())
        raise ValueError(
            f"`{name}` must have counts of at least 1, "
            f"received {counts[row]} in row {row}."
        )
    id_array(rows.ravel(), size, name=name)
    if (np.diff(rows[:, :-1], axis=1) < 0).any():
        raise ValueError(f"`{name}` has a bag that is not in sorted order.")
    return rows, counts
