"""Word tokenizer: one id per word, as in early neural language models.

Words are defined in `words.py`; punctuation characters are words, too. Words that are
rare in the training text, or missing, become the unknown token, which subword
tokenizers avoid.

Bengio et al. 2003; course D. Left out: stemming, and scripts without spaces.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from kerasseq.core.checks import whole_number
from kerasseq.core.schema import check
from kerasseq.text.joining import joined
from kerasseq.text.texts import cut_out, each_text
from kerasseq.text.texts import special_tokens as checked_special_tokens
from kerasseq.text.tokenizers.tokenizer import Encoding
from kerasseq.text.tokenizers.word_based import WordBased, check_bool
from kerasseq.text.words import find_places, find_words

SCHEMA = {
    "vocabulary_size": int | None,
    "min_count": int,
    "lowercase": bool,
    "unknown": str | None,
    "special_tokens": [str],
    "vocabulary": [str],
}


class WordTokenizer(WordBased):
    """Word tokenizer.

    `decode` returns the normalized text: composed characters (NFC), ' for ’, single
    spaces between words, none before `,.;:!?…)]}”` and after `([{“`, at hyphens between
    words, inside pairs of `"`, and in 3.5 and 9:30. What tokens do not tell cannot be
    restored: dashes written as hyphens, "3,5" and the list "3, 5", which is returned;
    French spaces before `;:!?`; and an apostrophe with a space at its side, which
    becomes `l' homme` after an elided word, and else stays "rock ' n".

    Args:
        vocabulary_size: Maximum number of ids, including special tokens: the most
            frequent words are kept. None keeps all.
        min_count: Minimum count of a word.
        lowercase: Whether to convert to lowercase.
        unknown: The token for other words. With None they raise an error.
        special_tokens: Tokens that are never split. They get the first ids, before the
            words in order of decreasing count.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If it is out of range.

    Examples:
        >>> tokenizer = WordTokenizer().fit("we have no bananas, no bananas today")
        >>> tokenizer.vocabulary
        ['<unk>', 'no', 'bananas', 'we', 'have', ',', 'today']
        >>> tokenizer.encode("no, we have apples")
        array([1, 5, 3, 4, 0], dtype=int32)
        >>> tokenizer.decode([1, 5, 3, 4, 0])
        'no, we have <unk>'
    """

    def __init__(
        self,
        vocabulary_size: int | None = None,
        *,
        min_count: int = 1,
        lowercase: bool = False,
        unknown: str | None = "<unk>",
        special_tokens: Iterable[str] = (),
    ):
        if vocabulary_size is not None:
            vocabulary_size = whole_number("vocabulary_size", vocabulary_size)
        self.wanted_size = vocabulary_size
        self.min_count: int = whole_number("min_count", min_count)
        self.lowercase: bool = check_bool("lowercase", lowercase)
        if unknown is not None and not isinstance(unknown, str):
            raise TypeError(f"unknown must be a string or None, received {unknown!r}")
        self.unknown = unknown
        self.special_tokens: tuple[str, ...] = checked_special_tokens(
            special_tokens, unknown
        )
        self._use([])

    def fit(self, text: str | Iterable[str]) -> "WordTokenizer":
        """Learns the vocabulary.

        Args:
            text: The training text: a string, or a list of strings.

        Returns:
            The tokenizer itself.

        Raises:
            TypeError: If a text is not a string.
            ValueError: If there are no words, all are too rare, `vocabulary_size` is
                too small for one, or a text has a lone surrogate.
        """
        count = self._training_words(text)
        kept = [
            word
            for word, number in count.most_common()  # ties in order of appearance
            if number >= self.min_count and word not in self.special_tokens
        ]
        if not kept:
            raise ValueError(
                f"min_count must be at most {max(count.values())}, the highest count "
                f"of a word, received min_count={self.min_count}"
            )
        least = len(self.special_tokens) + 1
        if self.wanted_size is not None and self.wanted_size < least:
            raise ValueError(
                f"vocabulary_size must be at least {least}, for the special tokens and "
                f"one word, received vocabulary_size={self.wanted_size}"
            )
        self._use([*self.special_tokens, *kept][: self.wanted_size])
        return self

    def _use(self, vocabulary):
        self._vocabulary = vocabulary
        self._ids = {word: i for i, word in enumerate(vocabulary)}

    @each_text
    def encode(self, text: str) -> np.ndarray:
        """Converts text to ids.

        Args:
            text: A string, or a list of strings.

        Returns:
            Array of int32 ids, one per word.

        Raises:
            TypeError: If `text` is not a string.
            ValueError: Before `fit`; if a word is unknown and `unknown` is None.
        """
        try:
            return super().encode(text)
        except KeyError:
            raise ValueError(self._first_unseen(text)) from None

    def encode_with_offsets(self, text: str) -> Encoding:
        """Converts text to ids, with the offsets of each token.

        Args:
            text: A string.

        Returns:
            An `Encoding`: `ids`, `tokens`, and `offsets` `(tokens, 2)` into the text.

        Raises:
            TypeError: If `text` is not a string.
            ValueError: Before `fit`; if a word is unknown and `unknown` is None.
        """
        try:
            return super().encode_with_offsets(text)
        except KeyError:
            raise ValueError(self._first_unseen(text)) from None

    def _first_unseen(self, text):
        """Returns the error message for the first unknown word of a text."""
        places, start = [], 0
        for part, special in cut_out(text, self.special_tokens):
            if not special:
                words = find_places(part, lowercase=self.lowercase)
                places += [(word, start + place) for word, place, _ in words]
            start += len(part)
        word, place = next(one for one in places if one[0] not in self._ids)
        return (
            f"the word {word!r} at position {place} is not in the vocabulary. Fit on a "
            "text that has it, or pass an `unknown` token"
        )

    def _words(self, text):
        return find_words(text, lowercase=self.lowercase, punctuation=True)

    def _is_unknown(self, word):
        return word not in self._ids

    def _id_of_word(self, word):
        """Returns the id of a word; raises a `KeyError` if there is none."""
        return self._ids[word if word in self._ids else self.unknown]

    def _encode_part(self, text):
        return [self._id_of_word(word) for word in self._words(text)]

    def _places(self, text):
        places = find_places(text, lowercase=self.lowercase)
        return [(self._id_of_word(word), start, end) for word, start, end in places]

    def _join(self, tokens):
        return joined(tokens)

    def own_config(self) -> dict[str, Any]:
        """Returns the configuration of the tokenizer as plain JSON."""
        return {
            "vocabulary_size": self.wanted_size,
            "min_count": self.min_count,
            "lowercase": self.lowercase,
            "unknown": self.unknown,
            "special_tokens": list(self.special_tokens),
            "vocabulary": list(self._vocabulary),
        }

    @classmethod
    def from_own_config(cls, config: dict[str, Any]) -> "WordTokenizer":
        """Builds a tokenizer from the result of `own_config`.

        Raises:
            TypeError: If a value is of the wrong type.
            ValueError: If a key is missing or unknown, or words repeat.
        """
        check(config, SCHEMA)
        options = dict(config)
        vocabulary = options.pop("vocabulary")
        tokenizer = cls(**options)
        tokenizer._check_vocabulary(vocabulary)
        tokenizer._use(list(vocabulary))
        return tokenizer
