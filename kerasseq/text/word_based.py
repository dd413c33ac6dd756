"""What the tokenizers share that first cut a text into words.

Their ids stand for words or parts of words, so spaces and what normalisation took away
are not in them: `decode` gives the normalised text, not the one that was encoded.
"""

import abc
from collections import Counter

from kerasseq.text.ids import id_array
from kerasseq.text.texts import cut_out, each_row, training_texts, utf8
from kerasseq.text.tokenizer import Tokenizer


class WordBased(Tokenizer):
    """A tokenizer of words."""

    @property
    def vocabulary(self) -> list[str]:
        """What each id stands for, in order."""
        return self._vocabulary

    @abc.abstractmethod
    def _words(self, text: str) -> list[str]:
        """The words of a text without special tokens, normalised."""

    @abc.abstractmethod
    def _is_unknown(self, word: str) -> bool:
        """Whether a word has no ids but the one for unknown words."""

    @abc.abstractmethod
    def _join(self, tokens: list[str]) -> str:
        """The text of tokens, special ones among them."""

    @each_row
    def decode(self, ids, *, skip_special: bool = False) -> str:
        """Turn ids into the normalised text.

        Args:
            ids: A list, array or tensor of whole numbers with one axis.
            skip_special: Whether special tokens are left out, the unknown one too.

        Returns:
            The text, with spaces between words and around special tokens.

        Raises:
            TypeError: If the ids are not whole numbers.
            ValueError: If an id is outside the vocabulary.
        """
        self._check_fitted()
        ids = id_array(ids, self.vocabulary_size).tolist()
        tokens = [self._vocabulary[i] for i in ids]
        if skip_special:
            tokens = [token for token in tokens if token not in self.special_tokens]
        return self._join(tokens)

    def _decode_part(self, ids):
        return self._join([self._vocabulary[i] for i in ids])

    def unknown_words(self, text: str) -> dict[str, int]:
        """Count the words of a text for which only the unknown token is left.

        Args:
            text: Any string.

        Returns:
            How often each occurs, normalised, the most frequent first.

        Raises:
            TypeError: If `text` is no string.
            ValueError: Before `fit`, or if the text has half a surrogate pair.
        """
        self._check_fitted()
        self._check_text(text)
        count = self._count_words([text])
        return {w: n for w, n in count.most_common() if self._is_unknown(w)}

    def _count_words(self, text) -> Counter:
        """How often each word is in one text or several, special tokens left out."""
        count = Counter()
        for one in text:
            utf8(one)  # or it says what is wrong
            for part, special in cut_out(one, self.special_tokens):
                if not special:
                    count.update(self._words(part))
        return count

    def _training_words(self, text) -> Counter:
        """The same of the texts to learn from; there must be a word."""
        count = self._count_words(training_texts(text))
        if not count:
            raise ValueError("`text` has no words: there is nothing to learn from.")
        return count

    def _check_vocabulary(self, tokens):
        """Raise unless `tokens` can be the vocabulary, or are none at all."""
        if not isinstance(tokens, list):
            raise TypeError(f"the vocabulary must be a list, got {repr(tokens)[:60]}")
        seen = {}
        for number, token in enumerate(tokens):
            if not isinstance(token, str) or not token:
                raise ValueError(
                    f"token number {number} of the vocabulary must be a string that is "
                    f"not empty, got {token!r}"
                )
            if token in seen:
                raise ValueError(
                    f"{token!r} is in the vocabulary twice, as number {seen[token]} "
                    f"and {number}"
                )
            seen[token] = number
        lacking = [token for token in self.special_tokens if token not in seen]
        if tokens and lacking:
            raise ValueError(f"the vocabulary lacks the special tokens {lacking}")


def check_bool(name: str, value) -> bool:
    """Return `value` if it is True or False.

    Examples:
        >>> check_bool("lowercase", "yes")
        Traceback (most recent call last):
        ...
        TypeError: lowercase must be True or False, got 'yes'
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return value
