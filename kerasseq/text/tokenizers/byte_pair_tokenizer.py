r"""Byte-pair encoding: frequent pairs of neighboring tokens become tokens.

Training starts from bytes or characters. Until the vocabulary has its size, the most
frequent pair of neighboring tokens inside words of the training text becomes a token:

$$
(a, b) = \arg\max_{(x, y)} N(x\,y), \qquad V \leftarrow V \cup \{ab\}
$$

Encoding applies the merges in the order in which they were learned. On bytes every text
has an encoding, and decoding restores it exactly. To understand the algorithm, read
`basic_bpe.py` first: sixty lines with the same merges and ids, by which this module is
tested. The fast version of training and merging is in `bpe.py`.

Sennrich et al. 2016; on bytes Radford et al. 2019 (GPT-2); with bytes for unknown
characters Kudo and Richardson 2018 (SentencePiece, LLaMA 2); course slide E; with marks
of ends of words Sennrich et al. 2016, course slide A. Left out: BPE dropout.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from numpy.typing import ArrayLike

from kerasseq.core.checks import one_of, truth, whole_number
from kerasseq.core.files import read_json, read_text
from kerasseq.core.schema import check
from kerasseq.text.files import tokens_in_order
from kerasseq.text.texts import cut_out, each_row, training_texts, utf8
from kerasseq.text.texts import special_tokens as checked_special_tokens
from kerasseq.text.tokenizers import byte_alphabet
from kerasseq.text.tokenizers.bpe import Merge, apply_merges, is_merge, learn
from kerasseq.text.tokenizers.bpe_steps import MergeStep, merge_steps
from kerasseq.text.tokenizers.byte_alphabet import BYTES, SPACE
from kerasseq.text.tokenizers.splitting import checked_mark, split
from kerasseq.text.tokenizers.tokenizer import Tokenizer

CACHE_SIZE = 2**16  # words
CACHED_LENGTH = 64  # characters; longer words rarely occur again
LEVELS = ["byte", "character", "sentencepiece"]
SCHEMA = {
    "vocabulary_size": int,
    "level": str,
    "special_tokens": [str],
    "unknown": str | None,
    "all_bytes": bool,
    "min_count": int,
    "pattern": str,
    "ignore_merges?": bool,  # not in older files
    "end_of_word?": str | None,  # not in older files
    "vocabulary": [str],
    "merges": [(str, str, int | None)],
}


class BytePairTokenizer(Tokenizer):
    """Byte-pair encoding (BPE).

    `kerasseq.text.BasicBPE` is the same algorithm in sixty lines to read.

    Byte tokens are spelled as in GPT-2: Ġ is a space. With `level="byte"` decoding
    restores every text exactly, with `level="character"` every text of known
    characters. With `level="sentencepiece"`, as in LLaMA 2, tokens are characters, a
    space is ▁, each part between special tokens gets one at its beginning, and unknown
    characters become bytes, such as `<0xE2>`; decoding restores every text without ▁
    and special tokens.

    Args:
        vocabulary_size: Maximum number of ids: special tokens, the alphabet and one per
            merge. It is smaller if no pair occurs `min_count` times.
        level: The initial tokens: "byte", "character", or "sentencepiece". If None,
            "character" with `end_of_word`, else "byte".
        special_tokens: Tokens that are never split. They get the first ids.
        unknown: The token for symbols outside the alphabet. With None they raise an
            error.
        all_bytes: With level "byte", whether the alphabet is all 256 bytes, or only
            those in the training text.
        min_count: Minimum count of a pair to be merged.
        pattern: Pre-tokenization into words: "gpt2", "gpt4", "spaces" (before words),
            "ends" (spaces after them), a regular expression of the package `regex`, or
            "none" for the whole text.
        ignore_merges: Whether a word of the vocabulary is one token, whatever the
            merges, as in LLaMA 3.
        end_of_word: With level "character", a character such as "_" that is written for
            the space after a word and belongs to it; decoding restores every text
            without this character. Words end there, whatever the pattern.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If it is out of range.

    Examples:
        >>> tokenizer = BytePairTokenizer(8, level="character").fit("low lower lowest")
        >>> tokenizer.vocabulary
        [' ', 'e', 'l', 'o', 'r', 's', 't', 'w']
        >>> tokenizer = BytePairTokenizer(12, level="character").fit("low lower lowest")
        >>> [(m.token, m.count) for m in tokenizer.trace()]
        [('lo', 3), ('low', 3), (' low', 2), (' lowe', 2)]
        >>> tokenizer.encode("lower")
        array([9, 1, 4], dtype=int32)
        >>> tokenizer.tokenize("slow lowe")
        ['s', 'low', ' lowe']
        >>> tokenizer = BytePairTokenizer(267, level="sentencepiece").fit("low lower")
        >>> tokenizer.tokenize("low é")
        ['▁low', '▁', '<0xC3>', '<0xA9>']
        >>> tokenizer = BytePairTokenizer(11, end_of_word="_").fit("low low lower")
        >>> tokenizer.tokenize("low lower")
        ['low_', 'low', 'e', 'r']
    """

    def __init__(
        self,
        vocabulary_size: int = 8000,
        *,
        level: str | None = None,
        special_tokens: Iterable[str] = (),
        unknown: str | None = None,
        all_bytes: bool = True,
        min_count: int = 2,
        pattern: str = "gpt2",
        ignore_merges: bool = False,
        end_of_word: str | None = None,
    ):
        self.wanted_size: int = whole_number("vocabulary_size", vocabulary_size)
        if level is None:
            level = "byte" if end_of_word is None else "character"
        self.level: str = one_of("level", level, LEVELS)
        self.unknown = unknown
        self.special_tokens: tuple[str, ...] = checked_special_tokens(
            special_tokens, unknown
        )
        self.all_bytes: bool = truth("all_bytes", all_bytes)
        self.min_count: int = whole_number("min_count", min_count)
        if not isinstance(pattern, str):
            raise TypeError(f"pattern must be a string, received {pattern!r}")
        self.pattern = pattern
        self.ignore_merges: bool = truth("ignore_merges", ignore_merges)
        self.end_of_word: str | None = checked_mark(end_of_word, level)
        self._use([], [])

    def fit(self, text: str | Iterable[str]) -> "BytePairTokenizer":
        """Learns merges from a text. A second call replaces the first.

        Args:
            text: The training text: a string, or a list of strings.

        Returns:
            The tokenizer itself.

        Raises:
            TypeError: If a text is not a string.
            ValueError: If the text is empty, or `vocabulary_size` is smaller than the
                alphabet.
        """
        numbers = self.word_counts(text)
        words = {word: self._spell(word) for word in numbers}
        vocabulary = [*self.special_tokens, *self._alphabet(words.values())]
        self._check_size(len(vocabulary))
        self._use(
            *learn(
                words, numbers.values(), vocabulary, self.wanted_size, self.min_count
            )
        )
        return self

    def word_counts(self, text: str | Iterable[str]) -> Counter[str]:
        """Returns how often each word of a text occurs, in order of appearance.

        Args:
            text: A string, or a list of strings.

        Examples:
            >>> BytePairTokenizer().word_counts("is it, is it")
            Counter({' it': 2, 'is': 1, ',': 1, ' is': 1})
        """
        numbers: Counter[str] = Counter()
        for one in training_texts(text):
            for part, special in cut_out(one, self.special_tokens):
                if not special:
                    numbers.update(self._split(part))
        return numbers

    def steps(self, text: str | Iterable[str]) -> Iterator[MergeStep]:
        """Yields words and counts of pairs before each merge, and after the last one.

        Args:
            text: The training text, as for `fit`.

        Examples:
            >>> tokenizer = BytePairTokenizer(9, level="character").fit("low lower")
            >>> first = next(tokenizer.steps("low lower"))
            >>> first.words
            {'low': ['l', 'o', 'w'], ' lower': [' ', 'l', 'o', 'w', 'e', 'r']}
            >>> first.pairs["l", "o"], first.merge.token
            (2, 'lo')
        """
        numbers = self.word_counts(text).items()
        words = Counter({self._spell(word): number for word, number in numbers})
        return merge_steps(words, self._merges)

    def _split(self, part: str) -> list[str]:
        """Returns the words of a part between special tokens."""
        begin = " " if part and self.level == "sentencepiece" else ""
        pattern = self.pattern if self.end_of_word is None else "ends"
        return split(begin + part, pattern)

    def _spell(self, word: str) -> str:
        if self.level == "byte":
            return byte_alphabet.spell(utf8(word))
        mark = SPACE if self.level == "sentencepiece" else self.end_of_word
        return word if mark is None else word.replace(" ", mark)

    def _alphabet(self, words) -> list[str]:
        if self.level == "byte" and self.all_bytes:
            return sorted(byte_alphabet.BYTE_OF)
        fixed = BYTES if self.level == "sentencepiece" else []
        return [*fixed, *sorted(set().union(*words) - set(self.special_tokens))]

    def _check_size(self, least):
        if self.wanted_size < least:
            raise ValueError(
                f"vocabulary_size must be at least {least}, the number of symbols and "
                f"special tokens, received vocabulary_size={self.wanted_size}"
            )

    def _use(self, vocabulary, merges):
        """Sets vocabulary and merges, and the look-up tables for encoding."""
        self._vocabulary, self._merges = vocabulary, merges
        id_of = {token: i for i, token in enumerate(vocabulary)}
        self._symbol = id_of
        self._ranks = {}
        for rank, (left, right, token, _) in enumerate(merges):
            pair = id_of[left], id_of[right]
            self._ranks.setdefault(pair, (rank, id_of[token]))
        self._cache = {}

    def trace(self) -> list[Merge]:
        """Returns every merge of the training in order, with the count of its pair.

        Examples:
            >>> BytePairTokenizer(300).fit("aaaa aaaa").trace()[0]
            Merge(left='a', right='a', token='aa', count=6)
        """
        return list(self._merges)

    def _encode_part(self, text):
        ids, cache = [], self._cache
        for word in self._split(text):
            cached = cache.get(word)
            ids += self._ids_of(word) if cached is None else cached
        return ids

    def _ids_of(self, word: str) -> list[int]:
        """Returns the ids of a word, from the cache if possible."""
        symbols = self._spell(word)
        if self.ignore_merges and symbols in self._symbol:
            symbols = [symbols]
        try:
            ids = [self._symbol[symbol] for symbol in symbols]
        except KeyError as error:
            if self.level == "sentencepiece":
                ids = [
                    self._symbol[s]
                    for symbol in symbols
                    for s in self._or_bytes(symbol)
                ]
            elif self.unknown is None:
                raise ValueError(_unseen(word, error.args[0])) from None
            else:
                unknown = self._symbol[self.unknown]
                ids = [self._symbol.get(symbol, unknown) for symbol in symbols]
        ids = apply_merges(ids, self._ranks)
        if len(self._cache) >= CACHE_SIZE:
            self._cache.clear()
        if len(word) <= CACHED_LENGTH:
            self._cache[word] = ids
        return ids

    def _or_bytes(self, symbol: str) -> list[str]:
        """Returns a symbol that is in the vocabulary; the bytes of any other."""
        if symbol in self._symbol:
            return [symbol]
        return [BYTES[code] for code in utf8(symbol)]

    def _places(self, text):
        places, words = [], self._split(text)
        start = len(text) - sum(map(len, words))  # -1 if a space was added
        for word in words:
            # owner[i] is the index in the text of the character of symbol i; an added
            # space has that of the first character, as in the package `tokenizers`.
            sizes = [self._symbols_of(character) for character in word]
            owner = [
                max(start + n, 0) for n, size in enumerate(sizes) for _ in range(size)
            ]
            at = 0
            for i in self._ids_of(word):
                symbols = 1 if self._is_one_symbol(i) else len(self._vocabulary[i])
                places.append((i, owner[at], owner[at + symbols - 1] + 1))
                at += symbols
            start += len(word)
        return places

    def _symbols_of(self, character: str) -> int:
        if self.level == "byte":
            return len(character.encode())
        if self.level == "sentencepiece":
            return len(self._or_bytes(self._spell(character)))
        return 1

    def _is_one_symbol(self, i: int) -> bool:
        """Returns whether a token is one symbol, though its name is longer."""
        token = self._vocabulary[i]
        is_unknown = self.unknown is not None and token == self.unknown
        return is_unknown or (
            self.level == "sentencepiece" and token in byte_alphabet.BYTE_NAMED
        )

    @each_row
    def decode(self, ids: ArrayLike, *, skip_special: bool = False) -> str:
        text = super().decode(ids, skip_special=skip_special)
        return text.removeprefix(" ") if self.level == "sentencepiece" else text

    def _decode_part(self, ids):
        tokens = [self._vocabulary[i] for i in ids]
        if self.level == "sentencepiece":
            return byte_alphabet.decode_tokens(tokens).replace(SPACE, " ")
        if self.level == "character":
            mark = self.end_of_word
            text = "".join(tokens)
            return text if mark is None else text.replace(mark, " ")
        return byte_alphabet.read("".join(tokens)).decode("utf-8", "replace")

    def own_config(self) -> dict[str, Any]:
        """Returns the configuration of the tokenizer as plain JSON."""
        return {
            "vocabulary_size": self.wanted_size,
            "level": self.level,
            "special_tokens": list(self.special_tokens),
            "unknown": self.unknown,
            "all_bytes": self.all_bytes,
            "min_count": self.min_count,
            "pattern": self.pattern,
            "ignore_merges": self.ignore_merges,
            "end_of_word": self.end_of_word,
            "vocabulary": list(self._vocabulary),
            "merges": [[left, right, count] for left, right, _, count in self._merges],
        }

    @classmethod
    def from_own_config(cls, config: dict[str, Any]) -> "BytePairTokenizer":
        """Builds a tokenizer from the result of `own_config`.

        Raises:
            TypeError: If a value is of the wrong type.
            ValueError: If a key is missing or unknown, or merges do not match the
                vocabulary.
        """
        check(config, SCHEMA)
        config = dict(config)
        vocabulary, merges = config.pop("vocabulary"), config.pop("merges")
        tokenizer = cls(**config)
        tokenizer.take(vocabulary, merges)
        return tokenizer

    @classmethod
    def from_vocabulary(
        cls,
        vocabulary: Sequence[str] | dict[str, int],
        merges: Iterable[str | Sequence[Any]],
        **options: Any,
    ) -> "BytePairTokenizer":
        """Builds a tokenizer from a given vocabulary and merges, instead of `fit`.

        Args:
            vocabulary: All tokens in the order of their ids, or the id of each token.
            merges: Pairs of tokens, or strings of two with a space between them, in
                the order in which they were learned, as in a `merges.txt`.
            **options: Options of the constructor, without `vocabulary_size`.
                `special_tokens` defaults to the tokens that are neither a single
                symbol nor the result of a merge.

        Returns:
            The tokenizer, fitted.

        Raises:
            ValueError: If ids are missing, or a merge is not a pair of tokens that
                results in a token.

        Examples:
            >>> tokenizer = BytePairTokenizer.from_vocabulary(
            ...     {"<end>": 3, "a": 0, "b": 1, "ab": 2}, ["a b"]
            ... )
            >>> tokenizer.encode("abb<end>")
            array([2, 1, 3], dtype=int32)
        """
        if isinstance(vocabulary, dict):
            vocabulary = tokens_in_order(vocabulary, "vocabulary")
        merges = [m.split(" ") if isinstance(m, str) else m for m in merges]
        merges = merges[bool(merges and merges[0][:1] == ["#version:"]) :]
        if "special_tokens" not in options:
            known = set(vocabulary)
            made = {m[0] + m[1] for m in merges if is_merge(m, known)}
            special = [t for t in vocabulary if len(t) > 1 and t not in made]
            options["special_tokens"] = special
        tokenizer = cls(len(vocabulary), **options)
        tokenizer.take(vocabulary, merges)
        return tokenizer

    def take(self, vocabulary: Sequence[str], merges: Iterable[Sequence[Any]]) -> None:
        """Sets a vocabulary and merges from elsewhere, instead of `fit`.

        Args:
            vocabulary: Tokens in the order of their ids, including special tokens.
            merges: Pairs of tokens in the order in which they were learned; an
                optional third entry is the count.

        Raises:
            ValueError: If a merge is not a pair of tokens that results in a token.
        """
        known = set(vocabulary) if vocabulary else set()
        if len(known) != len(vocabulary) or not all(isinstance(t, str) for t in known):
            raise ValueError("the vocabulary must be a list of distinct strings")
        if vocabulary and not known >= set(self.special_tokens):
            lacking = sorted(set(self.special_tokens) - known)
            raise ValueError(f"the vocabulary lacks the special tokens {lacking}")
        learned = []
        for number, merge in enumerate(merges):
            if not is_merge(merge, known):
                raise ValueError(
                    f"merge number {number} must be a pair of tokens that together are "
                    f"a token of the vocabulary, received {repr(merge)[:60]}"
                )
            left, right, *count = merge
            learned.append(Merge(left, right, left + right, *(count or [None])))
        self._use(list(vocabulary), learned)


def _unseen(word, symbol):
    return (
        f"{symbol!r} in {word[:40]!r} was not in the training text. Fit on a text that "
        'has it, use level="byte", or pass an `unknown` token.'
    )


def from_vocabulary_and_merges(
    vocabulary: str | os.PathLike[str],
    merges: str | os.PathLike[str],
    *,
    added: dict[str, int] | None = None,
    **options: Any,
) -> BytePairTokenizer:
    """Loads a tokenizer from the two files of GPT-2.

    Args:
        vocabulary: Path of `vocab.json`, an id for each token.
        merges: Path of `merges.txt`, a pair of tokens on each line.
        added: Ids of special tokens beyond these files.
        **options: As in `BytePairTokenizer.from_vocabulary`.

    Raises:
        ValueError: If a file is damaged, or the two files do not match.
    """
    tokens = read_json(vocabulary)
    if added is not None:
        both = isinstance(tokens, dict) and isinstance(added, dict)
        tokens = {**tokens, **added} if both else {}
    tokens = tokens_in_order(tokens, vocabulary)
    pairs = _read_merges(merges)
    try:
        return BytePairTokenizer.from_vocabulary(tokens, pairs, **options)
    except ValueError as error:
        raise ValueError(f"{merges}: {error}") from error


def _read_merges(path) -> list[list[str]]:
    """Reads the pairs of a `merges.txt`.

    Raises:
        ValueError: If a line is not a pair.
    """
    merges = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        line = line.rstrip("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        pair = line.split(" ")
        if len(pair) != 2 or not all(pair):
            raise ValueError(
                f"{path}, line {number} must have two tokens separated by a space, "
                f"received {line[:60]!r}"
            )
        merges.append(pair)
    return merges
