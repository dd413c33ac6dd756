"""Bag of words: a text as how often each word is in it, in no order.

Course D prints the table with a row for each word and a column for each text;
`BagOfWords.table` prints it so. As numbers the texts are the rows, as in scikit-learn
and in everything that learns from examples. How words are found is told in `words`.

TF-IDF weighs the counts: words that few texts have count more, and each row is divided
by its length, as scikit-learn does it.

From: course D, "Continuous bag of words"; Spärck Jones, "A Statistical Interpretation
of Term Specificity and Its Application in Retrieval", 1972. Left out: sparse tables,
stop words, stemming.
"""

from collections import Counter

import numpy as np

from kerasseq.core.checks import whole_number
from kerasseq.core.schema import check
from kerasseq.text.saved import Saved
from kerasseq.text.words import find_words

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
    """Count words, over a vocabulary learned from texts.

    Args:
        lowercase: Whether capitals count as small letters.
        punctuation: Whether signs such as the comma count as words, as in course D.
        n: The longest run of words that is counted. With 2 the pairs count too, under
            names such as "no bananas".
        max_words: Keep that many, the most frequent in the texts given to `fit`, the
            first in the alphabet among equals. `None` keeps all.

    Attributes:
        vocabulary: The words in the order of the columns, sorted by code point; empty
            before `fit`.
        document_frequency: In how many of the fitted texts each word is, int64.
        documents: How many texts were fitted.

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
                raise TypeError(f"`{name}` must be a bool, got {value!r}.")
        self.lowercase = lowercase
        self.punctuation = punctuation
        self.n = whole_number("n", n, at_least=1)
        if max_words is not None:
            max_words = whole_number("max_words", max_words, at_least=1)
        self.max_words = max_words
        self._set_vocabulary([], [], 0)

    def fit(self, texts) -> "BagOfWords":
        """Learn the vocabulary.

        Args:
            texts: A list of strings.

        Returns:
            The bag itself. A second `fit` replaces the first.

        Raises:
            TypeError: If `texts` is one string, or holds something else.
            ValueError: If there are no texts or no words in them, or a text holds half
                a surrogate pair.
        """
        bags = self._bags(texts)
        total = _sum(bags)
        if not total:
            raise ValueError(
                f"`texts` holds {len(bags)} texts and no word: there is nothing to "
                "learn."
            )
        frequent = sorted(total, key=lambda word: (-total[word], word))
        vocabulary = sorted(frequent[: self.max_words])
        present = Counter(word for bag in bags for word in bag)
        self._set_vocabulary(vocabulary, [present[w] for w in vocabulary], len(bags))
        return self

    def _set_vocabulary(self, vocabulary, document_frequency, documents: int):
        self.vocabulary: list[str] = list(vocabulary)
        self.document_frequency = np.array(document_frequency, "int64")
        self.documents = documents
        self._column = {word: i for i, word in enumerate(self.vocabulary)}

    def transform(self, texts) -> np.ndarray:
        """Count the words of the vocabulary in each text; others are left out.

        Args:
            texts: A list of strings.

        Returns:
            An int32 array of shape `(texts, words)`.

        Raises:
            TypeError: If `texts` is one string, or holds something else.
            ValueError: Before `fit`, or if a text holds half a surrogate pair.
        """
        self._check_fitted()
        bags = self._bags(texts)
        table = np.zeros((len(bags), len(self.vocabulary)), "int32")
        for row, bag in zip(table, bags, strict=True):
            for word in bag.keys() & self._column.keys():
                row[self._column[word]] = bag[word]
        return table

    def fit_transform(self, texts) -> np.ndarray:
        """Learn the vocabulary and count its words in the same texts.

        Args:
            texts: A list of strings.

        Returns:
            An int32 array of shape `(texts, words)`.
        """
        if np.iterable(texts) and not isinstance(texts, str):
            texts = list(texts)  # it is read twice
        return self.fit(texts).transform(texts)

    def unknown_words(self, texts) -> dict[str, int]:
        """Count the words that are not in the vocabulary.

        Args:
            texts: A list of strings.

        Returns:
            How often each of them occurs, the most frequent first.

        Examples:
            >>> BagOfWords().fit(["yes, no"]).unknown_words(["no we", "we say no"])
            {'we': 2, 'say': 1}
        """
        self._check_fitted()
        total = _sum(self._bags(texts))
        return {w: c for w, c in total.most_common() if w not in self._column}

    def tf_idf(self, texts) -> np.ndarray:
        """Weigh the counts by how few of the fitted texts have the word.

        It needs scikit-learn: `pip install "kerasseq[data]"`.

        Args:
            texts: A list of strings.

        Returns:
            A float64 array of shape `(texts, words)`, rows of length 1, or all zero
            where a text has no word of the vocabulary.

        Raises:
            ImportError: Without scikit-learn.
        """
        counts = self.transform(texts)
        try:
            from sklearn.feature_extraction.text import TfidfTransformer
        except ImportError as error:
            raise ImportError(
                "tf_idf needs scikit-learn, which is not installed: "
                'pip install "kerasseq[data]"'
            ) from error
        if not len(counts):  # which scikit-learn refuses
            return counts.astype("float64")
        # The weights depend on the document frequencies alone, so any table that has
        # them will do, and the fitted texts need not be kept.
        fitted = np.arange(self.documents)[:, None] < self.document_frequency
        weighted = TfidfTransformer().fit(fitted.astype("float64")).transform(counts)
        return weighted.toarray()

    def table(self, texts):
        """Return the counts as a table for `rich.print`, words down as in course D.

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
            made.add_row(rich.text.Text(word), *map(str, row))  # "[b]" is no markup
        return made

    def get_config(self) -> dict:
        """Return what `from_config` needs to build an equal bag: plain JSON."""
        return {
            **{name: getattr(self, name) for name in sorted(OPTIONS)},
            "vocabulary": list(self.vocabulary),
            "document_frequency": self.document_frequency.tolist(),
            "documents": self.documents,
        }

    @classmethod
    def from_config(cls, config: dict) -> "BagOfWords":
        """Build a bag from what `get_config` gave.

        Raises:
            TypeError: If an option is of the wrong type.
            ValueError: If a key is missing or strange, the vocabulary is not sorted, or
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

    def _bags(self, texts) -> list[Counter]:
        """Count what is in each text, whatever the vocabulary."""
        if isinstance(texts, str | bytes) or not np.iterable(texts):
            raise TypeError(
                f"`texts` must be a list of strings, got {type(texts).__name__}. Put a "
                "single text in a list: [text]."
            )
        return [Counter(self._terms(text, i)) for i, text in enumerate(texts)]

    def _terms(self, text, number: int) -> list[str]:
        """Return the words of a text and the runs of 2 … n of them."""
        if not isinstance(text, str):
            raise TypeError(
                f"`texts[{number}]` must be a string, got {type(text).__name__}."
            )
        try:
            text.encode()  # only half a surrogate pair has no UTF-8
        except UnicodeEncodeError as error:
            raise ValueError(
                f"`texts[{number}]` holds {text[error.start]!r} at position "
                f"{error.start}, half of a surrogate pair, which stands for nothing. "
                'Read the file as UTF-8 with errors="replace", or cut it out.'
            ) from error
        words = find_words(text, lowercase=self.lowercase, punctuation=self.punctuation)
        return [
            " ".join(words[i : i + m])
            for m in range(1, min(self.n, len(words)) + 1)
            for i in range(len(words) - m + 1)
        ]

    def _check_fitted(self):
        if not self.vocabulary:
            raise ValueError("The bag has no words yet: call `fit(texts)` first.")

    def __repr__(self):
        size = len(self.vocabulary)
        known = f"{size} words of {self.documents} texts" if size else "not fitted"
        return f"<BagOfWords: {known}>"


def _sum(bags) -> Counter:
    total: Counter = Counter()
    for bag in bags:  # sum() would copy the total for each text
        total.update(bag)
    return total
