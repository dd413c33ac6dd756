r"""N-gram language model: predicts the next token from counts of the last $n - 1$.

$$
p(u \mid c) = \frac{N(c\,u) + k}{N(c) + k V}
$$

where $c$ is the context, the last $n - 1$ tokens, $N$ counts occurrences in the
training text, $V$ is the vocabulary size and $k$ the smoothing constant: with $k = 0$
the probabilities are relative frequencies. Shannon's first-order model is $n = 1$, his
second-order model $n = 2$. It is the baseline for every language model. Back-off and
Kneser–Ney, which estimate unseen n-grams better, are in `smoothing.py`.

From: Shannon, "A Mathematical Theory of Communication", 1948.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core.checks import one_of, whole_number
from kerasseq.core.schema import Maybe, check
from kerasseq.text.classical.ngram_counts import NGramCounts
from kerasseq.text.classical.smoothing import AddK, Discounted
from kerasseq.text.counting import CountingModel, checked_size
from kerasseq.text.files import Saved
from kerasseq.text.probabilities import log, zero_or_more
from kerasseq.text.tokenizers.with_tokenizer import (
    TextModel,
    TextTokenizer,
    tokenizer_config,
    tokenizer_from_config,
)

SMOOTHING = ("add_k", "backoff", "kneser_ney")

SCHEMA = {
    "n": int,
    "k": float,
    "smoothing": str,
    "discount": float | None,
    "tokenizer": Maybe(object),
    "vocabulary_size": int | None,
    "counts": [str],
    "end": [int],
}


class NGramModel(TextModel, Saved, CountingModel):
    r"""N-gram model, which predicts the next token from the $n - 1$ before it.

    The first tokens of a sequence are predicted from shorter contexts: the first from
    unigram counts, the second from one token, and so on, with counts over the whole
    training text.

    With a tokenizer, every method that takes ids also takes a string.

    Args:
        n: Length of the n-grams, context and token together. 1 ignores the context.
        k: For `"add_k"`: added to every count. With 0, unseen n-grams have
            probability 0, and a text with one of them has infinite perplexity.
        smoothing: `"add_k"`; `"backoff"`, which uses a shorter context for tokens that
            were not seen after the longer one; or `"kneser_ney"` (modified,
            interpolated), which always interpolates with the shorter context and uses
            continuation counts there. The last has the lowest perplexity.
        discount: For the other two: subtracted from each count, between 0 and 1. None
            estimates it from the text, as described in `smoothing.py`.
        tokenizer: A tokenizer such as `CharacterTokenizer()`. If it has no vocabulary,
            `fit` fits it.

    After an unseen context, `"add_k"` is uniform, also with `k=0`; the others use the
    shorter context.

    From: Shannon, 1948; Katz, 1987; Kneser and Ney, 1995; Chen and Goodman, 1999.

    Examples:
        >>> model = NGramModel(2, k=0).fit([0, 1, 0, 1, 0, 2], vocabulary_size=3)
        >>> model.probabilities([0]).round(3)
        array([0.   , 0.667, 0.333])
        >>> model.sample(4, prompt=[2], seed=0).shape
        (4,)
        >>> print(model)
        <NGramModel: n=2, k=0.0, vocabulary of 3, 3 distinct 2-grams>
        >>> from kerasseq.text import CharacterTokenizer
        >>> model = NGramModel(
        ...     3, smoothing="kneser_ney", tokenizer=CharacterTokenizer()
        ... )
        >>> model.fit("to be or not to be").generate("no", 7, temperature=0)
        'not to be'
    """

    def __init__(
        self,
        n: int = 2,
        *,
        k: float = 1.0,
        smoothing: str = "add_k",
        discount: float | None = None,
        tokenizer: TextTokenizer | None = None,
    ):
        super().__init__(k, tokenizer=tokenizer)
        self.n: int = whole_number("n", n, at_least=1)
        self.smoothing: str = one_of("smoothing", smoothing, SMOOTHING)
        self.discount: float | None = _checked_discount(discount)
        if smoothing == "add_k" and discount is not None:
            raise ValueError(
                f'`discount` is not used by smoothing="add_k", '
                f"received {discount}. Use "
                '"backoff" or "kneser_ney", or set `k`.'
            )
        if smoothing != "add_k" and k != 1:
            raise ValueError(
                f'`k` is not used by smoothing="{smoothing}", received {k}. Leave it '
                "out, or set `discount`."
            )

    @property
    def _reach(self) -> int:
        return self.n - 1

    def fit(self, ids: ArrayLike, vocabulary_size: int | None = None) -> "NGramModel":
        """Counts the n-grams of a text.

        Args:
            ids: The training text: a string if there is a tokenizer, or one row of
                ids; at least `n` tokens.
            vocabulary_size: Number of ids. Not required with a tokenizer.

        Returns:
            The model itself. A second call replaces the first.

        Raises:
            TypeError: If the ids are not whole numbers, or a string without tokenizer.
            ValueError: If there are fewer than `n` tokens, an id is out of range, or
                the vocabulary size is unknown.

        Examples:
            >>> from kerasseq.text import CharacterTokenizer
            >>> model = NGramModel(2, k=0, tokenizer=CharacterTokenizer())
            >>> round(model.fit("abracadabra").perplexity("abra"), 3)
            1.448
        """
        ids, size = self._training_text(ids, vocabulary_size)
        ids, size = self._training_ids(ids, size, at_least=("n", self.n))
        self._set_counts(NGramCounts(self.n, size, ids))
        return self

    def _set_counts(self, counts: NGramCounts):
        self._counts = counts
        self.vocabulary_size: int | None = counts.size
        if self.smoothing == "add_k":
            self._p = AddK(counts, self._smooth)
        else:
            self._p = Discounted(counts, self.smoothing, self.discount)

    def probabilities(self, context: ArrayLike = ()) -> np.ndarray:
        """Returns the distribution of the next token.

        Args:
            context: The previous tokens. Only the last `n - 1` are used.

        Returns:
            A float64 array of shape `(vocabulary_size,)` that sums to 1.

        Examples:
            >>> NGramModel(1).fit([0, 0, 1], vocabulary_size=2).probabilities()
            array([0.6, 0.4])
        """
        context = self._ids(context, "context")
        return self._p.after(context[max(0, len(context) - self.n + 1) :])

    def log_probabilities(self, ids: ArrayLike) -> np.ndarray:
        """Returns the log-probability of each token, given those before it.

        Args:
            ids: One sequence of token ids.

        Returns:
            A float64 array, one value per token; `-inf` where the probability is 0.
        """
        ids = self._ids(ids)
        return log(self._p.of(ids))

    def transition_matrix(self) -> np.ndarray:
        """Returns the transition probabilities of a bigram model.

        Returns:
            Float64, `(vocabulary_size, vocabulary_size)`: row i is the distribution
            after token i.

        Raises:
            ValueError: If `n` is not 2.

        Examples:
            >>> NGramModel(2, k=0).fit([0, 1, 0, 0, 1], 2).transition_matrix().round(3)
            array([[0.333, 0.667],
                   [1.   , 0.   ]])
        """
        size = self._fitted_size()
        if self.n != 2:
            raise ValueError(
                f"transition_matrix needs n = 2, received n = {self.n}. Use "
                "`probabilities(context)`."
            )
        return np.stack([self._p.after(np.array([i])) for i in range(size)])

    @property
    def discounts(self) -> np.ndarray:
        """Discounts of counts 1, 2, and 3 or more, for n-grams of 1 to n tokens.

        Float64, `(n, 3)`. With `"kneser_ney"` the last row applies to counts, the
        others to continuation counts. With `"add_k"` all are zero.
        """
        self._fitted_size()
        if self.smoothing == "add_k":
            return np.zeros((self.n, 3))
        levels = [*self._p.lower[: self.n - 1], self._p.top[-1]]
        return np.stack([level.D[1:] for level in levels])

    def get_config(self) -> dict[str, Any]:
        """Returns the configuration and the fitted model as plain JSON.

        Each line of `counts` has the n ids of an n-gram and its count; `end` are the
        last `n - 1` ids of the text. The counts of shorter n-grams follow from these.
        """
        fitted = self.vocabulary_size is not None
        return {
            "n": self.n,
            "k": self.k,
            "smoothing": self.smoothing,
            "discount": self.discount,
            "tokenizer": tokenizer_config(self.tokenizer),
            "vocabulary_size": self.vocabulary_size,
            "counts": self._counts.lines() if fitted else [],
            "end": self._counts.tail.tolist() if fitted else [],
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "NGramModel":
        """Builds a model from the result of `get_config`.

        Args:
            config: The dictionary.

        Returns:
            An equal model.

        Raises:
            TypeError: If a value is not a number.
            ValueError: If a key is missing or unknown, an id is outside the vocabulary,
                a count is below 1, or no text has these counts.
        """
        check(config, SCHEMA)
        model = cls(
            config["n"],
            k=config["k"],
            smoothing=config["smoothing"],
            discount=config["discount"],
            tokenizer=tokenizer_from_config(config["tokenizer"]),
        )
        if config["vocabulary_size"] is not None:
            size = checked_size(model._size(config["vocabulary_size"]))
            lines, end = config["counts"], config["end"]
            model._set_counts(NGramCounts.from_lines(model.n, size, lines, end))
        return model

    def _check_fitted(self):
        self._fitted_size()

    def __repr__(self) -> str:
        add_k = self.smoothing == "add_k"
        head = f"n={self.n}, " + (f"k={self.k}" if add_k else self.smoothing)
        if self.vocabulary_size is None:
            return f"<NGramModel: {head}, not fitted>"
        return (
            f"<NGramModel: {head}, vocabulary of {self.vocabulary_size}, "
            f"{len(self._counts.grams[-1])} distinct {self.n}-grams>"
        )


def _checked_discount(discount) -> float | None:
    if discount is None:
        return None
    discount = zero_or_more("discount", discount)
    if not 0 < discount < 1:
        raise ValueError(
            f"`discount` must be above 0 and below 1, "
            f"received {discount}. Pass None to "
            "estimate it."
        )
    return discount
