r"""Shannon's Markov model of text: the next token from the last $n - 1$, by counting.

$$
p(u \mid c) = \frac{N(c\,u) + k}{N(c) + k V}
$$

where $c$ is the context, the last $n - 1$ tokens, $N$ counts what follows what in the
training text, $V$ is the size of the vocabulary and $k$ smooths: with $k = 0$ the
probabilities are the relative frequencies. Shannon's first order is $n = 1$, his second
is $n = 2$. This is the baseline that every language model is printed beside. Back-off
and Kneser–Ney, which know better what is unseen, are in `smoothing.py`.

From: Shannon, "A Mathematical Theory of Communication", 1948.
"""

import numpy as np

from kerasseq.core.checks import one_of, whole_number
from kerasseq.core.schema import Maybe, check
from kerasseq.text.counting import CountingModel, checked_size
from kerasseq.text.ngram_counts import NGramCounts
from kerasseq.text.probabilities import log, zero_or_more
from kerasseq.text.saved import Saved
from kerasseq.text.smoothing import AddK, Discounted
from kerasseq.text.with_tokenizer import (
    TextModel,
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
    r"""Predict the next token from the $n - 1$ before it.

    The first tokens of a sequence have fewer than $n - 1$ before them. They are
    predicted from what there is: the first from no context (the unigram counts), the
    second from one token, and so on, with counts taken over the whole training text.

    With a tokenizer the model reads and writes text: wherever a method takes ids, it
    takes a string as well, and whether the tokens are words or characters is the
    tokenizer's matter.

    Args:
        n: Length of the n-grams, context and token together. 1 ignores the context.
        k: For `"add_k"`: added to every count. With 0 an n-gram that never occurred
            has probability 0, and a text that holds it an infinite perplexity.
        smoothing: `"add_k"`; `"backoff"`, which asks a shorter context about what was
            never seen after the longer one; or `"kneser_ney"`, interpolated and
            modified, which asks it always, and counts there before how many different
            tokens a token stands. The last is the best known by counting.
        discount: For the other two: what is taken from each count, between 0 and 1.
            None estimates it from the text, as `smoothing.py` says.
        tokenizer: A tokenizer such as `CharacterTokenizer()`. One that has no
            vocabulary yet learns it in `fit`.

    With `"add_k"` a context that was never followed by anything is uniform, also with
    `k=0`; the others leave it out and use the shorter one.

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
        tokenizer=None,
    ):
        super().__init__(k, tokenizer=tokenizer)
        self.n = whole_number("n", n, at_least=1)
        self.smoothing = one_of("smoothing", smoothing, SMOOTHING)
        self.discount = _checked_discount(discount)
        if smoothing == "add_k" and discount is not None:
            raise ValueError(
                f'`discount` is {discount}, and smoothing="add_k" has none: choose '
                '"backoff" or "kneser_ney", or set `k`.'
            )
        if smoothing != "add_k" and k != 1:
            raise ValueError(
                f'`k` is {k}, and smoothing="{smoothing}" adds nothing: leave it out, '
                "or set `discount`."
            )

    @property
    def _reach(self) -> int:
        return self.n - 1

    def fit(self, ids, vocabulary_size: int | None = None) -> "NGramModel":
        """Count the n-grams of a text.

        Args:
            ids: The training text: a string if there is a tokenizer, or one row of
                ids; at least `n` tokens.
            vocabulary_size: How many ids there are; all are below it. With a tokenizer
                it may be left out.

        Returns:
            The model itself. A second `fit` replaces the first.

        Raises:
            TypeError: If the ids are not whole numbers, or a string without tokenizer.
            ValueError: If there are fewer than `n` tokens, one is out of range, or the
                vocabulary's size is unknown.

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
        self._counts, self.vocabulary_size = counts, counts.size
        if self.smoothing == "add_k":
            self._p = AddK(counts, self._smooth)
        else:
            self._p = Discounted(counts, self.smoothing, self.discount)

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
        context = self._ids(context, "context")
        return self._p.after(context[max(0, len(context) - self.n + 1) :])

    def log_probabilities(self, ids) -> np.ndarray:
        """Return the natural log of each token's probability, given those before it.

        Args:
            ids: A text as one row of ids.

        Returns:
            A float64 array, one value per token; `-inf` where the probability is 0.
        """
        ids = self._ids(ids)
        return log(self._p.of(ids))

    def transition_matrix(self) -> np.ndarray:
        """Return the probabilities of Shannon's second order, from token to token.

        Returns:
            Float64, `(vocabulary_size, vocabulary_size)`: row i is the distribution
            after token i, for `k=0` the relative counts.

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
                f"n is {self.n}: only with n = 2 is the model a matrix from token to "
                "token. Use `probabilities(context)`."
            )
        return np.stack([self._p.after(np.array([i])) for i in range(size)])

    @property
    def discounts(self) -> np.ndarray:
        """What is taken from the counts 1, 2, and 3 or more of grams of 1 to n tokens.

        Float64, `(n, 3)`. With `"kneser_ney"` the last row is about counts, the others
        about continuation counts. With `"add_k"` nothing is taken.
        """
        self._fitted_size()
        if self.smoothing == "add_k":
            return np.zeros((self.n, 3))
        levels = [*self._p.lower[: self.n - 1], self._p.top[-1]]
        return np.stack([level.D[1:] for level in levels])

    def get_config(self) -> dict:
        """Return what `from_config` needs to build an equal model: plain JSON.

        Under `counts` each line has the n ids of an n-gram and how often it was seen;
        `end` are the last `n - 1` ids of the text. The shorter n-grams follow from it.
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
    def from_config(cls, config: dict) -> "NGramModel":
        """Build a model from what `get_config` gave.

        Args:
            config: The dictionary.

        Returns:
            An equal model.

        Raises:
            TypeError: If a number is none.
            ValueError: If a key is missing or strange, an id is outside the vocabulary,
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

    def __repr__(self):
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
            f"`discount` must lie between 0 and 1, both left out, got {discount}: with "
            "0 nothing is kept for what is unseen. None estimates it."
        )
    return discount
