r"""Course D's v0: a window slides over the text and predicts the token after it.

$$
p(u \mid w) = \frac{N(w, u) + k}{N(w) + k V}
\qquad w = \{c_{t-N+1}, \ldots, c_{t-1}\}
$$

The slide gives the window a size of $N$ and two ways to read it: as n-grams do, in
order, or as CBOW does, as a bag. The ordered one is `NGramModel`; this is the other.
$w$ is the bag of the last $N - 1$ tokens: how often each of them is there, and not in
which order. Both make the same Markov assumption of order $N - 1$, nothing before the
window counts, and with the same $N$ they see the same tokens. A bag stands for all the
orders of its tokens, so there are fewer bags than contexts, each seen more often: the
model needs less text, and cannot tell "dog bites man" from "man bites dog".

Left out: embeddings. CBOW averages vectors, here the bags are counted as they are.
"""

import numpy as np

from kerasseq.core.checks import one_of, whole_number
from kerasseq.core.schema import check
from kerasseq.text.counting import CountingModel, checked_size, rank_among
from kerasseq.text.ids import id_array
from kerasseq.text.probabilities import log
from kerasseq.text.saved import Saved

SCHEMA = {
    "window": int,
    "k": float,
    "unseen": str,
    "vocabulary_size": int | None,
    "counts": [[[int]]],
}


class SlidingWindowModel(Saved, CountingModel):
    r"""Predict the next token from the bag of the $N - 1$ before it.

    The first tokens of a sequence have fewer than $N - 1$ before them. They are
    predicted from the bag of those, with counts taken over the whole training text.

    Args:
        window: The size $N$ of the window, the predicted token included, as the `n` of
            `NGramModel`. 1 ignores the context; 2 leaves nothing to reorder.
        k: Added to every count. With 0 a token that never followed the bag has
            probability 0.
        unseen: What a bag predicts that was never followed by anything. `"narrow"`: the
            window loses its oldest token until what is left was seen; the empty window
            always was. `"uniform"`: all tokens alike, as `NGramModel` does, so that in
            a comparison of the two nothing but the order differs.

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
        self.window = whole_number("window", window, at_least=1)
        self.unseen = one_of("unseen", unseen, ["narrow", "uniform"])

    @property
    def _reach(self) -> int:
        return self.window - 1

    def fit(self, ids, vocabulary_size: int) -> "SlidingWindowModel":
        """Count what follows each bag.

        Args:
            ids: The training text, one row of ids, at least `window` of them.
            vocabulary_size: How many ids there are; all are below it.

        Returns:
            The model itself. A second `fit` replaces the first.

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
        self._tables, self.vocabulary_size = tables, size
        return self

    def probabilities(self, context=()) -> np.ndarray:
        """Return the distribution of the next token.

        Args:
            context: The tokens before it. The last `window - 1` count, in any order.

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

    def log_probabilities(self, ids) -> np.ndarray:
        """Return the natural log of each token's probability, given those before it.

        Args:
            ids: A text as one row of ids.

        Returns:
            A float64 array, one value per token; `-inf` where the probability is 0.
        """
        size = self._fitted_size()
        ids = id_array(ids, size)
        p = np.full(len(ids), 1 / size)
        left = np.arange(len(ids))  # positions that have no prediction yet
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

    def get_config(self) -> dict:
        """Return what `from_config` needs to build an equal model: plain JSON.

        Under `counts` there is one list per length of the window: rows of the bag in
        sorted order, the token after it, and how often that was seen.
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
    def from_config(cls, config: dict) -> "SlidingWindowModel":
        """Build a model from what `get_config` gave.

        Args:
            config: The dictionary.

        Returns:
            An equal model.

        Raises:
            TypeError: If a number is none.
            ValueError: If a key is missing or strange, an id is outside the
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

    def __repr__(self):
        head = f"window={self.window}, k={self.k}"
        if self.vocabulary_size is None:
            return f"<SlidingWindowModel: {head}, not fitted>"
        return (
            f"<SlidingWindowModel: {head}, vocabulary of {self.vocabulary_size}, "
            f"{len(self._tables[-1].totals)} distinct bags>"
        )


class _Table:
    """How often each token followed each bag of m tokens.

    Args:
        rows: `(rows, m + 1)`: a bag in sorted order, and the token after it.
        counts: `(rows,)`: how often each row was seen.
        size: The vocabulary's size.
    """

    def __init__(self, rows: np.ndarray, counts: np.ndarray, size: int):
        self.size = size
        # As in NGramModel: a bag is written as the rank of all but its last token,
        # times V, plus that token. Nothing overflows, whatever V to the m is.
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
        """Return the rank of each bag, -1 where it is unseen."""
        rank = np.zeros(len(bags), "int64")
        for keys, tokens in zip(self.levels, bags.T, strict=True):
            rank = rank_among(keys, np.where(rank < 0, -1, rank * self.size + tokens))
        return rank

    def count(self, rank: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Return how often each token followed the bag of that rank."""
        found = rank_among(self.keys, rank * self.size + tokens)
        return np.where(found < 0, 0, self.counts[found])

    def counts_after(self, rank: int) -> np.ndarray:
        """Return how often every token of the vocabulary followed one bag."""
        start = rank * self.size
        first, last = np.searchsorted(self.keys, [start, start + self.size])
        counts = np.zeros(self.size)
        counts[self.keys[first:last] - start] = self.counts[first:last]
        return counts


def _bags(ids: np.ndarray, ends: np.ndarray, m: int) -> np.ndarray:
    """Return the m tokens before each position, sorted: `(positions, m)`.

    Examples:
        >>> _bags(np.array([5, 3, 4]), np.array([2, 3]), 2)
        array([[3, 5],
               [3, 4]])
    """
    return np.sort(ids[ends[:, None] - m + np.arange(m)], axis=1)


def _checked(table, m: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and the counts of a table that may come from anywhere."""
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
            f"`{name}` has the count {counts[row]} in row {row}: a count is 1 or more."
        )
    id_array(rows.ravel(), size, name=name)
    if (np.diff(rows[:, :-1], axis=1) < 0).any():
        raise ValueError(f"`{name}` has a bag that is not in sorted order.")
    return rows, counts
