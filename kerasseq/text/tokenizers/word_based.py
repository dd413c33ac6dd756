"""Base class of tokenizers that split a text into words first.

Their ids represent words or parts of words of the normalized text: `decode` returns the
normalized text, not the original one.
"""

import abc
from collections import Counter

from numpy.typing import ArrayLike

from kerasseq.text.texts import cut_out, each_row, id_array, training_texts, utf8
from kerasseq.text.tokenizers.tokenizer import Tokenizer


class WordBased(Tokenizer):
    """Base class of tokenizers of words."""

    @abc.abstractmethod
    def _words(self, text: str) -> list[str]:
        """Returns the normalized words of a text without special tokens."""

    @abc.abstractmethod
    def _is_unknown(self, word: str) -> bool:
        """Returns whether a word is encoded as the unknown token."""

    @abc.abstractmethod
    def _join(self, tokens: list[str]) -> str:
        """Returns the text of tokens, including special tokens."""

    @each_row
    def decode(self, ids: ArrayLike, *, skip_special: bool = False) -> str:
        """Converts ids to normalized text.

        Args:
            ids: A list, array or tensor of whole numbers with one axis.
            skip_special: Whether to leave out special tokens, including unknown ones.

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
        """Counts the words of a text that become the unknown token.

        Args:
            text: A string.

        Returns:
            The count of each normalized word, the most frequent first.

        Raises:
            TypeError: If `text` is not a string.
            ValueError: Before `fit`, or if the text has a lone surrogate.
        """
        self._check_fitted()
        self._check_text(text)
        count = self._count_words([text])
        return {w: n for w, n in count.most_common() if self._is_unknown(w)}

    def _count_words(self, text) -> Counter[str]:
        """Counts the words of texts, without special tokens."""
        count = Counter()
        for one in text:
            utf8(one)  # raises an error for lone surrogates
            for part, special in cut_out(one, self.special_tokens):
                if not special:
                    count.update(self._words(part))
        return count

    def _training_words(self, text) -> Counter[str]:
        """Counts the words of training texts; raises an error without words."""
        count = self._count_words(training_texts(text))
        if not count:
            raise ValueError("`text` has no words. Pass a text with at least one word.")
        return count

    def _check_vocabulary(self, tokens):
        """Raises an error unless `tokens` are a valid vocabulary, or empty."""
        if not isinstance(tokens, list):
            raise TypeError(
                f"the vocabulary must be a list, received {repr(tokens)[:60]}"
            )
        seen = {}
        for number, token in enumerate(tokens):
            if not isinstance(token, str) or not token:
                raise ValueError(
                    f"token number {number} of the vocabulary must be a string that is "
                    f"not empty, received {token!r}"
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


def check_bool(name: str, value: bool) -> bool:
    """Returns `value` if it is True or False.

    Examples:
        >>> check_bool("lowercase", "yes")
        Traceback (most recent call last):
        ...
        TypeError: lowercase must be True or False, received 'yes'
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, received {value!r}")
    return value
