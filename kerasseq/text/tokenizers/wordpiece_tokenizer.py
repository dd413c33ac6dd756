"""WordPiece, the tokenizer of BERT: words as few long pieces.

A text is normalized and split into words by `bert_normalizer.py`. A word is split
greedily: the longest piece in the vocabulary from its start, then the longest from
there on; pieces inside a word begin with `##`:

    unhappily  →  un ##happi ##ly

If there is no matching piece, the whole word is unknown. `wordpiece_training.py` learns
the pieces.

Schuster and Nakajima 2012; Devlin et al. 2018 (BERT). Left out: `[CLS]` and
`[SEP]` around a text, which models add.
"""

import os
from collections.abc import Iterable
from typing import Any

from kerasseq.core.checks import one_of, whole_number
from kerasseq.core.files import read_text
from kerasseq.core.schema import check
from kerasseq.text.texts import special_tokens as checked_special_tokens
from kerasseq.text.tokenizers.bert_normalizer import BertNormalizer, is_punctuation
from kerasseq.text.tokenizers.word_based import WordBased, check_bool
from kerasseq.text.tokenizers.wordpiece_training import (
    ScoredMerge,
    alphabet,
    learn,
    read_merges,
)

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
OPTIONS = ("unknown", "lowercase", "strip_accents", "split_chinese", "clean", "prefix")
OPTIONS += ("max_word_length", "score", "min_count", "cleanup")
SCHEMA = {
    "vocabulary_size": int,
    "special_tokens": [str],
    "unknown": str,
    "lowercase": bool,
    "strip_accents": bool | None,
    "split_chinese": bool,
    "clean": bool,
    "prefix": str,
    "max_word_length": int,
    "score": str,
    "min_count": int,
    "cleanup?": bool,  # not in older files
    "vocabulary": [str],
    "merges": [(str, str, int, float)],
}
CACHE_SIZE = 2**16  # words
CLEANED = (".", "?", "!", ",")


class WordPieceTokenizer(WordBased):
    """WordPiece tokenizer.

    `decode` returns the normalized text: pieces joined to words, with single spaces
    between words and around punctuation.

    Args:
        vocabulary_size: Maximum number of ids: special tokens, characters and learned
            pieces. It is smaller if no pair occurs `min_count` times.
        special_tokens: Tokens that are never split. They get the first ids.
        unknown: The token for words without pieces; it is a special token.
        lowercase: Whether to convert to lowercase.
        strip_accents: Whether to remove accents. Defaults to `lowercase`, as in BERT.
        split_chinese: Whether each Chinese character is a word.
        clean: Whether to remove control characters and U+FFFD.
        prefix: Prefix of pieces inside a word. It must have a punctuation character, so
            that no word begins with it.
        max_word_length: Maximum length of a word in characters. Longer words are
            unknown, and not used in `fit`.
        score: The score of pairs: "count", as in Hugging Face's trainer, or
            "likelihood" (Schuster and Nakajima), which results in longer encodings.
        min_count: Minimum count of a pair to be merged.
        cleanup: Whether `decode` leaves out the space before `.`, `?`, `!` and `,`, as
            published files of BERT do.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If it is out of range.

    Examples:
        >>> text = "Low, lower, lowest: slow."
        >>> tokenizer = WordPieceTokenizer(28, score="count").fit(text)
        >>> [(merge.token, merge.count) for merge in tokenizer.trace()]
        [('##ow', 4), ('low', 3), ('lowe', 2)]
        >>> tokenizer.tokenize("Slow towel")
        ['s', '##l', '##ow', 't', '##ow', '##e', '##l']
    """

    def __init__(
        self,
        vocabulary_size: int = 8000,
        *,
        special_tokens: Iterable[str] = SPECIAL_TOKENS,
        unknown: str = "[UNK]",
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_chinese: bool = True,
        clean: bool = True,
        prefix: str = "##",
        max_word_length: int = 100,
        score: str = "count",
        min_count: int = 2,
        cleanup: bool = False,
    ):
        self.wanted_size: int = whole_number("vocabulary_size", vocabulary_size)
        for name, value in (("unknown", unknown), ("prefix", prefix)):
            if not isinstance(value, str):
                raise TypeError(f"{name} must be a string, received {value!r}")
        self.unknown: str | None = unknown
        self.special_tokens: tuple[str, ...] = checked_special_tokens(
            special_tokens, unknown
        )
        self.lowercase: bool = check_bool("lowercase", lowercase)
        if strip_accents is not None:
            check_bool("strip_accents", strip_accents)
        self.strip_accents = strip_accents
        self.split_chinese: bool = check_bool("split_chinese", split_chinese)
        self.clean: bool = check_bool("clean", clean)
        # Words have no punctuation inside, so that no word is spelled like a piece.
        if not any(map(is_punctuation, prefix)):
            raise ValueError(
                f'prefix must have punctuation, such as "##", received {prefix!r}'
            )
        self.prefix = prefix
        self.max_word_length: int = whole_number("max_word_length", max_word_length)
        self.score: str = one_of("score", score, ["likelihood", "count"])
        self.min_count: int = whole_number("min_count", min_count)
        self.cleanup: bool = check_bool("cleanup", cleanup)
        self._normalizer = BertNormalizer(
            lowercase=lowercase,
            strip_accents=lowercase if strip_accents is None else strip_accents,
            split_chinese=split_chinese,
            clean=clean,
        )
        self._use([], [])

    def fit(self, text: str | Iterable[str]) -> "WordPieceTokenizer":
        """Learns pieces.

        Args:
            text: The training text: a string, or a list of strings.

        Returns:
            The tokenizer itself.

        Raises:
            TypeError: If a text is not a string.
            ValueError: If there are no words, a text has a lone surrogate, or
                `vocabulary_size` is below the number of special tokens and characters.
        """
        counts = self._training_words(text)
        words = {w: n for w, n in counts.items() if len(w) <= self.max_word_length}
        if not words:
            raise ValueError(
                f"`text` has no words of at most {self.max_word_length} characters"
            )
        start = [*self.special_tokens, *alphabet(words, self.prefix)]
        start = list(dict.fromkeys(start))  # a special token may be one character
        if self.wanted_size < len(start):
            raise ValueError(
                f"vocabulary_size must be at least {len(start)}, the number of special "
                f"tokens and characters, received vocabulary_size={self.wanted_size}"
            )
        options = {
            name: getattr(self, name) for name in ("prefix", "score", "min_count")
        }
        self._use(*learn(words, start, self.wanted_size, **options))
        return self

    def _use(self, vocabulary, merges):
        """Sets vocabulary and merges, and the look-up tables for encoding."""
        self._vocabulary, self._merges = vocabulary, merges
        self._ids = {token: i for i, token in enumerate(vocabulary)}
        self._longest = max(map(len, vocabulary), default=0)
        self._cache = {}

    def trace(self) -> list[ScoredMerge]:
        """Returns every merge of the training in order, with its count and score.

        Returns:
            A list of `ScoredMerge`s, empty if the vocabulary is from a file.

        Examples:
            >>> WordPieceTokenizer(12, score="likelihood").fit("ab ab").trace()
            [ScoredMerge(left='a', right='##b', token='ab', count=2, score=0.5)]
        """
        return list(self._merges)

    def _words(self, text):
        return self._normalizer.words(text)

    def _is_unknown(self, word):
        return self._ids_of(word) == [self._ids[self.unknown]]

    def _encode_part(self, text):
        ids, cache = [], self._cache
        for word in self._normalizer.words(text):
            cached = cache.get(word)
            ids += self._ids_of(word) if cached is None else cached
        return ids

    def _ids_of(self, word: str) -> list[int]:
        """Returns the ids of a word, from the cache if possible."""
        if len(word) > self.max_word_length:
            return [self._ids[self.unknown]]
        if word not in self._cache:
            if len(self._cache) >= CACHE_SIZE:
                self._cache.clear()
            ids = longest_pieces(word, self._ids, self.prefix, self._longest)
            self._cache[word] = ids or [self._ids[self.unknown]]
        return self._cache[word]

    def _places(self, text):
        places = []
        for word, origin in self._normalizer.words_with_origins(text):
            ids = self._ids_of(word)
            if len(ids) == 1:  # one piece, or the unknown token
                places.append((ids[0], origin[0], origin[-1] + 1))
                continue
            start = 0
            for i in ids:
                size = len(self._vocabulary[i]) - (len(self.prefix) if start else 0)
                end = start + size
                places.append((i, origin[start], origin[end - 1] + 1))
                start = end
        return places

    def _join(self, tokens):
        if self.cleanup:  # these join the token before them
            rest = [self.prefix * (t in CLEANED) + t for t in tokens[1:]]
            tokens = tokens[:1] + rest
        return " ".join(tokens).replace(" " + self.prefix, "")

    def own_config(self) -> dict[str, Any]:
        """Returns the configuration of the tokenizer as plain JSON."""
        return {
            "vocabulary_size": self.wanted_size,
            "special_tokens": list(self.special_tokens),
            **{name: getattr(self, name) for name in OPTIONS},
            "vocabulary": list(self._vocabulary),
            "merges": [[m.left, m.right, m.count, m.score] for m in self._merges],
        }

    @classmethod
    def from_own_config(cls, config: dict[str, Any]) -> "WordPieceTokenizer":
        """Builds a tokenizer from the result of `own_config`.

        Raises:
            TypeError: If a value is of the wrong type.
            ValueError: If a key is missing or unknown, tokens repeat, or merges do not
                fit the vocabulary.
        """
        check(config, SCHEMA)
        options = dict(config)
        vocabulary, merges = options.pop("vocabulary"), options.pop("merges")
        tokenizer = cls(**options)
        tokenizer._check_vocabulary(vocabulary)
        merges = read_merges(merges, set(vocabulary), tokenizer.prefix)
        tokenizer._use(list(vocabulary), merges)
        return tokenizer

    @classmethod
    def from_vocabulary(
        cls, tokens: Iterable[str], **options: Any
    ) -> "WordPieceTokenizer":
        """Builds a tokenizer from a given vocabulary, instead of `fit`.

        Args:
            tokens: All tokens in the order of their ids, including special tokens.
            options: Options of the constructor, without `vocabulary_size`.
                `special_tokens` defaults to those of BERT in the vocabulary.

        Returns:
            The tokenizer, fitted.

        Raises:
            TypeError: If an option is unknown or of the wrong type.
            ValueError: If there are no tokens, one is empty or a duplicate, or a
                special or unknown token is missing.

        Examples:
            >>> tokens = ["[UNK]", "un", "##happi", "##ly"]
            >>> tokenizer = WordPieceTokenizer.from_vocabulary(tokens)
            >>> tokenizer.encode("Unhappily, un")
            array([1, 2, 3, 0, 1], dtype=int32)
            >>> tokenizer.decode([1, 2, 3, 0, 1])
            'unhappily [UNK] un'
        """
        tokens = tokens if isinstance(tokens, str) else list(tokens)
        if not tokens:
            raise ValueError("the vocabulary is empty")
        if "special_tokens" not in options:
            options["special_tokens"] = [t for t in tokens if t in SPECIAL_TOKENS]
        tokenizer = cls(len(tokens), **options)
        tokenizer._check_vocabulary(tokens)
        tokenizer._use(tokens, [])
        return tokenizer

    @classmethod
    def from_vocab_file(
        cls, path: str | os.PathLike[str], **options: Any
    ) -> "WordPieceTokenizer":
        """Builds a tokenizer from BERT's `vocab.txt`, one token per line.

        Args:
            path: The file, in UTF-8.
            options: As in `from_vocabulary`; `lowercase=False` for a cased model.

        Returns:
            The tokenizer, fitted.

        Raises:
            FileNotFoundError: If there is no such file.
            TypeError: If an option is unknown or of the wrong type.
            ValueError: If the file is not UTF-8, a line is empty or a repetition, or a
                special token is missing.
        """
        tokens = read_bert_vocabulary(path)
        try:
            return cls.from_vocabulary(tokens, **options)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def read_bert_vocabulary(path: str | os.PathLike[str]) -> list[str]:
    """Reads the tokens of a `vocab.txt`.

    Lines end with a line feed. Trailing whitespace is removed, except from a token that
    is whitespace itself, such as U+2028 in the Chinese vocabulary.

    Args:
        path: The file, in UTF-8.

    Returns:
        The tokens.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is empty or not UTF-8, or a line is empty or a repetition.
    """
    lines = read_text(path).split("\n")
    if not lines[-1]:  # after the last line feed
        lines.pop()
    if not lines:
        raise ValueError(f"{path} must have one token per line, but it is empty")
    seen = {}
    for number, line in enumerate(lines, 1):
        token = line.rstrip() or line.rstrip("\r")
        if not token:
            raise ValueError(
                f"{path}: line {number} must have a token, but it is empty"
            )
        if token in seen:
            raise ValueError(
                f"{path}: lines {seen[token]} and {number} both have {token!r}. Each "
                "token must have one id"
            )
        seen[token] = number
    return list(seen)


def longest_pieces(
    word: str, ids: dict[str, int], prefix: str, longest: int
) -> list[int] | None:
    """Splits a word into its longest pieces, from left to right.

    Args:
        word: A string.
        ids: The id of each piece.
        prefix: Prefix of pieces inside a word in `ids`.
        longest: Length of the longest piece.

    Returns:
        The ids of the pieces; None if there is no matching piece.

    Examples:
        >>> longest_pieces("unhappy", {"un": 0, "##happy": 1}, "##", 7)
        [0, 1]
    """
    pieces, start, before = [], 0, ""
    while start < len(word):
        for end in range(min(len(word), start + longest), start, -1):
            piece = ids.get(before + word[start:end])
            if piece is not None:
                break
        else:
            return None
        pieces.append(piece)
        start, before = end, prefix
    return pieces
