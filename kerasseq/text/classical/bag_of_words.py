"""Bag of words: a text as the counts of its words, without their order.

The rows of an array are texts, as in scikit-learn. `BagOfWords.table` prints a row for
each word and a column for each text, as course D does. Words are defined in `words.py`.

TF-IDF gives higher weights to words that few texts have, and normalizes each row, as
scikit-learn does.

From: course D, "Continuous bag of words"; Spärck Jones, "A Statistical Interpretation
of Term Specificity and Its Application in Retrieval", 1972. Left out: sparse tables,
stop words, stemming.
"""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from kerasseq.core import packages
from kerasseq.core.checks import whole_number
from kerasseq.core.schema import check
from kerasseq.text.files import Saved
from kerasseq.text.words import find_words

if TYPE_CHECKING:
    import rich.table

OPTIONS = {"lowercase", "punctuation", "n", "max_words"}
SCHEMA = {
    "lowercase": bool,
    "punctuation": bool,
    "n": int,
    "max_words": int | None,
    "vocabulary": [str],
    "document_frequency": [int],
    "documents": int,
}


class BagOfWords(Saved):
    """Bag-of-words model: counts of words over a vocabulary learned from texts.

    Args:
        lowercase: Whether to convert to lowercase.
        punctuation: Whether punctuation characters are words, as in course D.
        n: Maximum length of n-grams. With 2, pairs such as "no bananas" are counted
            as well.
        max_words: Maximum number of words: the most frequent are kept, ties in
            alphabetical order. None keeps all.

    Attributes:
        vocabulary: The words in the order of the columns, sorted by code point; empty
            before `fit`.
        document_frequency: Number of training texts with each word, int64.
        documents: Number of training texts.

    Examples:
        >>> bag = BagOfWords()
        >>> bag.fit_transform(["yes, no", "No bananas, no!"])
        array([[0, 1, 0, 1, 1],
               [1, 1, 1, 2, 0]], dtype=int32)
        >>> bag.vocabulary
        ['!', ',', 'bananas', 'no', 'yes']
        >>> print(bag)
        <BagOfWords: 5 words of 2 texts>
    """

    def __init__(
        self,
        *,
        lowercase: bool = True,
        punctuation: bool = True,
        n: int = 1,
        max_words: int | None = None,
    ):
        for name, value in (("lowercase", lowercase), ("punctuation", punctuation)):
            if not isinstance(value, bool):
                raise TypeError(f"`{name}` must be a bool, received {value!r}.")
        self.lowercase = lowercase
        self.punctuation = punctuation
        self.n: int = whole_number("n", n, at_least=1)
        if max_words is not None:
            max_words = whole_number("max_words", max_words, at_least=1)
        self.max_words = max_words
        self._set_vocabulary([], [], 0)

    def fit(self, texts: Iterable[str]) -> "BagOfWords":
        """Learns the vocabulary.

        Args:
            texts: A list of strings.

        Returns:
            The bag itself. A second call replaces the first.

        Raises:
            TypeError: If `texts` is not a list of strings.
            ValueError: If there are no words, or a text has a lone surrogate.
        """
        bags = self._bags(texts)
        total = _sum(bags)
        if not total:
            raise ValueError(
                f"`texts` must have at least one word; received {len(bags)} texts "
                "without any."
            )
        frequent = sorted(total, key=lambda word: (-total[word], word))
        vocabulary = sorted(frequent[: self.max_words])
        present = Counter(word for bag in bags for word in bag)
        self._set_vocabulary(vocabulary, [present[w] for w in vocabulary], len(bags))
        return self

    def _set_vocabulary(self, vocabulary, document_frequency, documents: int):
        self.vocabulary: list[str] = list(vocabulary)
        self.document_frequency: np.ndarray = np.array(document_frequency, "int64")
        self.documents = documents
        self._column = {word: i for i, word in enumerate(self.vocabulary)}

    def transform(self, texts: Iterable[str]) -> np.ndarray:
        """Counts the words of the vocabulary in each text.

        Args:
            texts: A list of strings.

        Returns:
            An int32 array of shape `(texts, words)`.

        Raises:
            TypeError: If `texts` is not a list of strings.
            ValueError: Before `fit`, or if a text has a lone surrogate.
        """
        self._check_fitted()
        bags = self._bags(texts)
        table = np.zeros((len(bags), len(self.vocabulary)), "int32")
        for row, bag in zip(table, bags, strict=True):
            for word in bag.keys() & self._column.keys():
                row[self._column[word]] = bag[word]
        return table

    def fit_transform(self, texts: Iterable[str]) -> np.ndarray:
        """Learns the vocabulary, and counts its words in the same texts.

        Args:
            texts: A list of strings.

        Returns:
            An int32 array of shape `(texts, words)`.
        """
        if np.iterable(texts) and not isinstance(texts, str):
            texts = list(texts)  # iterated twice
        return self.fit(texts).transform(texts)

    def unknown_words(self, texts: Iterable[str]) -> dict[str, int]:
        """Counts the words that are not in the vocabulary.

        Args:
            texts: A list of strings.

        Returns:
            The count of each word, the most frequent first.

        Examples:
            >>> BagOfWords().fit(["yes, no"]).unknown_words(["no we", "we say no"])
            {'we': 2, 'say': 1}
        """
        self._check_fitted()
        total = _sum(self._bags(texts))
        return {w: c for w, c in total.most_common() if w not in self._column}

    def tf_idf(self, texts: Iterable[str]) -> np.ndarray:
        """Computes TF-IDF weights.

        It needs scikit-learn.

        Args:
            texts: A list of strings.

        Returns:
            A float64 array of shape `(texts, words)`, with rows of norm 1, or
            zeros for texts without words of the vocabulary.

        Raises:
            ImportError: If scikit-learn is not installed.
        """
        counts = self.transform(texts)
        name = "sklearn.feature_extraction.text"
        sklearn = packages.load(name, "scikit-learn", "tf_idf needs")
        if not len(counts):  # scikit-learn needs at least one text
            return counts.astype("float64")
        # The weights depend only on document frequencies: any table with these works.
        fitted = np.arange(self.documents)[:, None] < self.document_frequency
        weighted = (
            sklearn.TfidfTransformer().fit(fitted.astype("float64")).transform(counts)
        )
        return weighted.toarray()

    def table(self, texts: Iterable[str]) -> "rich.table.Table":
        """Returns the counts as a table for `rich.print`, one row per word.

        Args:
            texts: A list of strings.

        Returns:
            A `rich.table.Table` with a row for each word, a column for each text.

        Examples:
            >>> table = BagOfWords().fit(["yes, no"]).table(["no", "no no"])
            >>> [list(column.cells) for column in table.columns[1:]]
            [['0', '1', '0'], ['0', '2', '0']]
        """
        import rich.box
        import rich.table
        import rich.text

        counts = self.transform(texts)
        made = rich.table.Table(box=rich.box.SIMPLE_HEAD)
        made.add_column("")
        for number in range(1, len(counts) + 1):
            made.add_column(str(number), justify="right")
        for word, row in zip(self.vocabulary, counts.T, strict=True):
            made.add_row(
                rich.text.Text(word), *map(str, row)
            )  # no markup such as "[b]"
        return made

    def get_config(self) -> dict[str, Any]:
        """Returns the configuration and the vocabulary as plain JSON."""
        return {
            **{name: getattr(self, name) for name in sorted(OPTIONS)},
            "vocabulary": list(self.vocabulary),
            "document_frequency": self.document_frequency.tolist(),
            "documents": self.documents,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "BagOfWords":
        """Builds a bag from the result of `get_config`.

        Raises:
            TypeError: If an option is of the wrong type.
            ValueError: If a key is missing or unknown, the vocabulary is not sorted, or
                a document frequency is not between 1 and the number of texts.
        """
        check(config, SCHEMA)
        bag = cls(**{name: config[name] for name in OPTIONS})
        words, frequency = config["vocabulary"], config["document_frequency"]
        documents = whole_number("documents", config["documents"], at_least=0)
        is_list = isinstance(words, list) and all(isinstance(w, str) for w in words)
        if not is_list or words != sorted(set(words)):
            raise ValueError("`vocabulary` must be a list of distinct words, sorted.")
        if not isinstance(frequency, list) or len(frequency) != len(words):
            raise ValueError("`document_frequency` must be a list, one for each word.")
        for word, count in zip(words, frequency, strict=True):
            name = f"document_frequency of {word!r}"
            if whole_number(name, count, at_least=1) > documents:
                raise ValueError(f"{name} is {count}, of {documents} texts.")
        bag._set_vocabulary(words, frequency, documents)
        return bag

    def _bags(self, texts: Iterable[str]) -> list[Counter]:
        """Returns the counts of all words in each text."""
        if isinstance(texts, str | bytes) or not np.iterable(texts):
            raise TypeError(
                f"`texts` must be a list of strings, "
                f"received {type(texts).__name__}. Put a "
                "single text in a list: [text]."
            )
        return [Counter(self._terms(text, i)) for i, text in enumerate(texts)]

    def _terms(self, text, number: int) -> list[str]:
        """Returns the words and n-grams of a text."""
        if not isinstance(text, str):
            raise TypeError(
                f"`texts[{number}]` must be a string, received {type(text).__name__}."
            )
        try:
            text.encode()  # fails for lone surrogates only
        except UnicodeEncodeError as error:
            raise ValueError(
                f"`texts[{number}]` has half a surrogate pair, "
                f"{text[error.start]!r}, at position {error.start}. Read the file as "
                'UTF-8 with errors="replace", or remove it.'
            ) from error
        words = find_words(text, lowercase=self.lowercase, punctuation=self.punctuation)
        return [
            " ".join(words[i : i + m])
            for m in range(1, min(self.n, len(words)) + 1)
            for i in range(len(words) - m + 1)
        ]

    def _check_fitted(self):
        if not self.vocabulary:
            raise ValueError("The bag is not fitted. Call `fit(texts)` first.")

    def __repr__(self) -> str:
        size = len(self.vocabulary)
        known = f"{size} words of {self.documents} texts" if size else "not fitted"
        return f"<BagOfWords: {known}>"


def _sum(bags) -> Counter:
    total: Counter = Counter()
    for bag in bags:  # sum() would copy the total each time
        total.update(bag)
    return total
