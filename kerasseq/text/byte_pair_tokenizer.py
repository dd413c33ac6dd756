r"""Byte-pair encoding: frequent pairs of neighbours become tokens, again and again.

Start from bytes or characters. As long as the vocabulary may grow, take the pair of
neighbours that occurs most often inside the words of the training text, and make it a
token:

$$
(a, b) = \arg\max_{(x, y)} N(x\,y), \qquad V \leftarrow V \cup \{ab\}
$$

To encode, the same merges are applied in the order in which they were learned. On bytes
every text has an encoding, and it is undone exactly.

Sennrich et al. 2016; on bytes Radford et al. 2019 (GPT-2); course slide E. Left out:
dropout of merges, and words with a mark at their end.
"""

from collections import Counter

from kerasseq.core.checks import one_of, truth, whole_number
from kerasseq.core.schema import check
from kerasseq.text import byte_alphabet
from kerasseq.text.bpe_merging import apply_merges
from kerasseq.text.bpe_training import Merge, learn
from kerasseq.text.splitting import split
from kerasseq.text.texts import cut_out, training_texts, utf8
from kerasseq.text.texts import special_tokens as checked_special_tokens
from kerasseq.text.tokenizer import Tokenizer

REMEMBERED = 2**16  # words; a text has few that are not among them
SCHEMA = {
    "vocabulary_size": int,
    "level": str,
    "special_tokens": [str],
    "unknown": str | None,
    "all_bytes": bool,
    "min_count": int,
    "pattern": str,
    "vocabulary": [str],
    "merges": [(str, str, int | None)],
}


class BytePairTokenizer(Tokenizer):
    """Turn text into frequent pieces, learned by byte-pair encoding, and back.

    Tokens of bytes are spelled as GPT-2 does: Ġ is a space. On `level="byte"` any text
    comes back exactly; on `level="character"` every text of known characters does.

    Args:
        vocabulary_size: How many ids there may be: special tokens, the alphabet and
            one per merge. It stays smaller if no pair occurs `min_count` times.
        level: What merging starts from, "byte" or "character".
        special_tokens: Tokens that are never split. They get the first ids.
        unknown: The token for symbols that are not in the alphabet; None makes them an
            error.
        all_bytes: On level "byte", whether the alphabet is all 256 bytes, or only those
            in the training text.
        min_count: A pair that occurs less often is not merged.
        pattern: How a text is cut into words before: "gpt2", "gpt4", "spaces", or a
            regular expression of the package `regex`.

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
    """

    def __init__(
        self,
        vocabulary_size: int = 8000,
        *,
        level: str = "byte",
        special_tokens=(),
        unknown: str | None = None,
        all_bytes: bool = True,
        min_count: int = 2,
        pattern: str = "gpt2",
    ):
        self.wanted_size = whole_number("vocabulary_size", vocabulary_size)
        self.level = one_of("level", level, ["byte", "character"])
        self.unknown = unknown
        self.special_tokens = checked_special_tokens(special_tokens, unknown)
        self.all_bytes = truth("all_bytes", all_bytes)
        self.min_count = whole_number("min_count", min_count)
        if not isinstance(pattern, str):
            raise TypeError(f"pattern must be a string, got {pattern!r}")
        self.pattern = pattern
        self._use([], [])

    @property
    def vocabulary(self) -> list[str]:
        """What each id stands for, in order."""
        return self._vocabulary

    def fit(self, text) -> "BytePairTokenizer":
        """Learn merges.

        Args:
            text: The training text, or several. A second `fit` replaces the first.

        Returns:
            The tokenizer itself.

        Raises:
            TypeError: If there is something else than strings.
            ValueError: If there is no text, or `vocabulary_size` is below the size of
                the alphabet.
        """
        numbers = Counter()
        for one in training_texts(text):
            for part, special in cut_out(one, self.special_tokens):
                if not special:
                    numbers.update(split(part, self.pattern))
        words = {word: self._spell(word) for word in numbers}
        vocabulary = [*self.special_tokens, *self._alphabet(words.values())]
        self._check_size(len(vocabulary))
        self._use(
            *learn(
                words, numbers.values(), vocabulary, self.wanted_size, self.min_count
            )
        )
        return self

    def _spell(self, word: str) -> str:
        return byte_alphabet.spell(utf8(word)) if self.level == "byte" else word

    def _alphabet(self, words) -> list[str]:
        if self.level == "byte" and self.all_bytes:
            return sorted(byte_alphabet.BYTE_OF)
        return sorted(set().union(*words) - set(self.special_tokens))

    def _check_size(self, least):
        if self.wanted_size < least:
            raise ValueError(
                f"vocabulary_size={self.wanted_size} is too small: the alphabet and "
                f"the special tokens alone are {least}"
            )

    def _use(self, vocabulary, merges):
        """Take over what was learned, and what makes encoding fast."""
        self._vocabulary, self._merges = vocabulary, merges
        id_of = {token: i for i, token in enumerate(vocabulary)}
        self._symbol = id_of
        self._ranks = {}
        for rank, (left, right, token, _) in enumerate(merges):
            pair = id_of[left], id_of[right]
            self._ranks.setdefault(pair, (rank, id_of[token]))
        self._remembered = {}

    def trace(self) -> list[Merge]:
        """Every merge in order, with how often its pair occurred: the whole training.

        Examples:
            >>> BytePairTokenizer(300).fit("aaaa aaaa").trace()[0]
            Merge(left='a', right='a', token='aa', count=6)
        """
        return list(self._merges)

    def _encode_part(self, text):
        ids, remembered = [], self._remembered
        for word in split(text, self.pattern):
            found = remembered.get(word)
            ids += self._ids_of(word) if found is None else found
        return ids

    def _ids_of(self, word: str) -> list[int]:
        """The ids of a word, remembered for the next time."""
        symbols = self._spell(word)
        try:
            ids = [self._symbol[symbol] for symbol in symbols]
        except KeyError as error:
            if self.unknown is None:
                raise ValueError(_unseen(word, error.args[0])) from None
            unknown = self._symbol[self.unknown]
            ids = [self._symbol.get(symbol, unknown) for symbol in symbols]
        ids = apply_merges(ids, self._ranks)
        if len(self._remembered) >= REMEMBERED:
            self._remembered.clear()
        self._remembered[word] = ids
        return ids

    def _places(self, text):
        places, start = [], 0
        for word in split(text, self.pattern):
            # Which character each symbol belongs to, and where the word ends.
            sizes = [len(c.encode()) if self.level == "byte" else 1 for c in word]
            owner = [start + n for n, size in enumerate(sizes) for _ in range(size)]
            at = 0
            for i in self._ids_of(word):
                symbols = 1 if self._is_unknown(i) else len(self._vocabulary[i])
                places.append((i, owner[at], owner[at + symbols - 1] + 1))
                at += symbols
            start += len(word)
        return places

    def _is_unknown(self, i):
        return self.unknown is not None and self._vocabulary[i] == self.unknown

    def _decode_part(self, ids):
        tokens = "".join([self._vocabulary[i] for i in ids])
        if self.level == "character":
            return tokens
        return byte_alphabet.read(tokens).decode("utf-8", "replace")

    def get_config(self) -> dict:
        """Return what `from_config` needs to build an equal tokenizer: plain JSON."""
        return {
            "vocabulary_size": self.wanted_size,
            "level": self.level,
            "special_tokens": list(self.special_tokens),
            "unknown": self.unknown,
            "all_bytes": self.all_bytes,
            "min_count": self.min_count,
            "pattern": self.pattern,
            "vocabulary": list(self._vocabulary),
            "merges": [[left, right, count] for left, right, _, count in self._merges],
        }

    @classmethod
    def from_config(cls, config: dict) -> "BytePairTokenizer":
        """Build a tokenizer from what `get_config` gave.

        Raises:
            TypeError: If a value is of the wrong type.
            ValueError: If a key is missing or strange, or merges do not fit the
                vocabulary.
        """
        check(config, SCHEMA)
        config = dict(config)
        vocabulary, merges = config.pop("vocabulary"), config.pop("merges")
        tokenizer = cls(**config)
        tokenizer.take(vocabulary, merges)
        return tokenizer

    def take(self, vocabulary, merges):
        """Take over a vocabulary and merges learned elsewhere, in place of `fit`.

        Args:
            vocabulary: Tokens in the order of their ids, special ones included.
            merges: Pairs of tokens in the order in which they were learned; a third
                entry, where there is one, is the count.

        Raises:
            ValueError: If a merge is no pair of tokens, or makes none.
        """
        known = set(vocabulary) if vocabulary else set()
        if len(known) != len(vocabulary) or not all(isinstance(t, str) for t in known):
            raise ValueError("the vocabulary must be a list of distinct strings")
        if vocabulary and not known >= set(self.special_tokens):
            lacking = sorted(set(self.special_tokens) - known)
            raise ValueError(f"the vocabulary lacks the special tokens {lacking}")
        learned = []
        for number, merge in enumerate(merges):
            if not _is_merge(merge, known):
                raise ValueError(
                    f"merge number {number}, {repr(merge)[:60]}, is no pair of tokens "
                    "that together are a token of the vocabulary"
                )
            left, right, *count = merge
            learned.append(Merge(left, right, left + right, *(count or [None])))
        self._use(list(vocabulary), learned)


def _is_merge(merge, known) -> bool:
    if not isinstance(merge, list | tuple) or len(merge) not in (2, 3):
        return False
    left, right = merge[:2]
    if not isinstance(left, str) or not isinstance(right, str):
        return False
    return left in known and right in known and left + right in known


def _unseen(word, symbol):
    return (
        f"{symbol!r} in {word[:40]!r} was not in the training text. Fit on a text that "
        'has it, use level="byte", or give an `unknown` token.'
    )
