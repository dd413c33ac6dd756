r"""Vocabulary and spaces of a unigram tokenizer.

The vocabulary has ▁ (U+2581) for a space, as in SentencePiece; internally a space is a
space. A ▁ in the text is therefore a character without a piece.
"""

import math
import numbers
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from kerasseq.core.checks import one_of
from kerasseq.text.texts import check_text, utf8
from kerasseq.text.tokenizers.byte_alphabet import BYTES, SPACE
from kerasseq.text.tokenizers.unigram_lattice import (
    UNKNOWN,
    Edge,
    Path,
    Trie,
    best_path,
    build_trie,
    edges,
)

PENALTY = 10.0  # of unknown characters, below the least probable piece
CACHED = 2**16  # words
CACHED_LENGTH = 64  # characters; longer words rarely occur again


class Pieces:
    """Pieces with scores, and segmentation of words into them.

    Args:
        vocabulary: All tokens in the order of their ids.
        scores: The score of each.
        special: Tokens that do not occur in words.
        unknown: The token for characters without a piece, or None.
        byte_fallback: Whether such characters become bytes instead.

    Attributes:
        trie: The pieces as a trie.
        strange: Weight of a character without a piece.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        scores: Iterable[float],
        special: Iterable[str],
        unknown: str | None,
        byte_fallback: bool,
    ):
        self.vocabulary: list[str] = _tokens(vocabulary)
        self.scores: list[float] = _scores(scores, len(self.vocabulary))
        ids = {token: i for i, token in enumerate(self.vocabulary)}
        apart = {*special, *(BYTES if byte_fallback else ())}
        if missing := [token for token in sorted(apart) if token not in ids]:
            raise ValueError(
                f"`pieces` lacks {len(missing)} of the special and byte tokens: "
                f"{missing[:5]}. Put each where its id is, with the score 0."
            )
        self.unknown_id: int | None = None if unknown is None else ids[unknown]
        self.byte_ids: list[int] | None = (
            [ids[token] for token in BYTES] if byte_fallback else None
        )
        self.strange: float = min(self.scores) - PENALTY
        # A token with a space cannot match: spaces of the text are ▁ in tokens.
        pieces = {
            token.replace(SPACE, " "): i
            for token, i in ids.items()
            if token not in apart and " " not in token
        }
        self.trie: Trie = build_trie((s, i, self.scores[i]) for s, i in pieces.items())
        self._word = _word_pattern(pieces, byte_fallback)
        self._cache = {}

    def words(self, text: str) -> list[str]:
        """Splits a text at positions that no piece crosses."""
        return self._word.findall(text)

    def edges(self, word: str) -> Iterator[Edge]:
        """Returns start, end, index and weight of each piece in a word."""
        return edges(word, self.trie, self.strange)

    def ids(self, text: str) -> list[int]:
        """Returns the ids of the best segmentation of a text."""
        ids = []
        for word in self.words(text):
            ids += self._cut(word)[0]
        return ids

    def places(self, word: str) -> list[tuple[int, int, int]]:
        """Returns id, start and end of each piece of the best segmentation."""
        return self._cut(word)[1]

    def _cut(self, word):
        known = self._cache.get(word)
        if known is None:
            path = best_path(word, self.trie, self.strange)
            places = self.spell(word, path)
            known = [i for i, _, _ in places], places
            if len(word) <= CACHED_LENGTH:
                if len(self._cache) >= CACHED:
                    self._cache.clear()
                self._cache[word] = known
        return known

    def spell(self, text: str, path: Iterable[Sequence[int]]) -> Path:
        """Converts a path to ids with start and end.

        Characters without a piece become bytes or unknown tokens; adjacent ones in a
        word are one unknown token.
        """
        places, before = [], None
        for start, end, piece in path:
            if piece != UNKNOWN:
                places.append((piece, start, end))
            elif self.byte_ids is not None:
                codes = utf8(text[start:end])
                places += [(self.byte_ids[code], start, end) for code in codes]
            elif before == UNKNOWN and text[start] != " ":
                places[-1] = (places[-1][0], places[-1][1], end)
            else:
                places.append((self._unknown(text[start:end]), start, end))
            before = piece
        return places

    def _unknown(self, character):
        if self.unknown_id is None:
            raise ValueError(
                f"the text has {character!r}, which is not in the vocabulary. Use "
                "byte_fallback=True, or an unknown token such as unknown='<unk>'"
            )
        return self.unknown_id

    def text(self, ids: list[int]) -> str:
        """Returns the text of ids, with spaces for ▁ and � for invalid bytes."""
        text, data = [], bytearray()
        byte_of = dict(zip(self.byte_ids or (), range(256), strict=False))
        for i in ids:
            if i in byte_of:
                data.append(byte_of[i])
                continue
            text.append(data.decode("utf-8", "replace"))
            text.append(self.vocabulary[i].replace(SPACE, " "))
            data.clear()
        return "".join([*text, data.decode("utf-8", "replace")])


def _tokens(pieces) -> list[str]:
    if not isinstance(pieces, list | tuple) or not pieces:
        raise ValueError(
            f"`pieces` must be a list of strings, received {repr(pieces)[:60]}."
        )
    for number, piece in enumerate(pieces):
        if not isinstance(piece, str) or not piece:
            raise ValueError(
                f"`pieces[{number}]` must be a string, received {piece!r}."
            )
        try:
            utf8(piece)
        except ValueError as error:
            raise ValueError(f"`pieces[{number}]`: {error}") from error
    if len(set(pieces)) < len(pieces):
        twice = Counter(pieces).most_common(1)[0][0]
        raise ValueError(f"`pieces` has {twice!r} twice: each needs one id.")
    return list(pieces)


def _scores(scores, size: int) -> list[float]:
    scores = list(scores) if hasattr(scores, "__iter__") else scores
    if not isinstance(scores, list) or len(scores) != size:
        raise ValueError(
            f"`scores` must be {size} numbers, one for each piece, received "
            f"{repr(scores)[:60]}."
        )
    for number, score in enumerate(scores):
        right = isinstance(score, numbers.Real) and not isinstance(score, bool)
        if not right or not math.isfinite(score):
            raise ValueError(
                f"`scores[{number}]` must be a number, received {score!r}."
            )
    return [float(score) for score in scores]


def _word_pattern(pieces, byte_fallback):
    r"""Returns a pattern that splits before spaces and around some line ends and tabs.

    A line end or tab that is in no longer piece is a separate word. If it is unknown,
    it stays with its neighbors, since adjacent unknown characters are one token.
    """
    inside = set().union(*(piece for piece in pieces if len(piece) > 1))
    alone = [
        character
        for character in "\t\n\v\f\r"
        if character not in inside and (character in pieces or byte_fallback)
    ]
    cut = re.escape("".join(alone))
    return re.compile(f" ?[^ {cut}]+|[ {cut}]")


class Spaces:
    """The prefix space of a text, and the treatment of ▁ in it.

    Args:
        add: True adds a space before each part between special tokens, "first" only
            before the text.
        lossless: Whether to add it also before a space, and to keep ▁ as a character.
        special: The special tokens.

    Examples:
        >>> Spaces(True, True, ()).read(" a▁b")
        '  a▁b'
        >>> Spaces(True, False, ()).read(" a▁b")
        ' a b'
    """

    def __init__(self, add: bool | str, lossless: bool, special: tuple[str, ...]):
        self.add: bool | str = one_of("add_prefix_space", add, [True, False, "first"])
        self.lossless = lossless
        self.special = special
        spaced = [token for token in special if token.startswith(" ")]
        if spaced and add == "first":
            raise ValueError(
                f"special_tokens must not have {spaced[0]!r} with "
                "add_prefix_space='first', since the prefix space could complete it"
            )

    def begin(self, text: str) -> str:
        """Adds the prefix space to a text, for `add="first"`.

        Raises:
            TypeError: If `text` is not a string.
            ValueError: If it has a lone surrogate.
        """
        check_text(text)
        utf8(text)
        without = not text or text.startswith(self.special) or self._has_one(text)
        return " " + text if self.add == "first" and not without else text

    def read(self, part: str) -> str:
        """Returns a part between special tokens as it is segmented."""
        if not self.lossless:
            part = part.replace(SPACE, " ")
        without = not part or self._has_one(part)
        return " " + part if self.add is True and not without else part

    def _has_one(self, text):
        return not self.lossless and text.startswith((" ", SPACE))

    def words(self, several: list[str]) -> Counter[str]:
        """Counts the words of texts, with leading spaces; other whitespace is separate.

        Raises:
            ValueError: If there are only special tokens.
        """
        longest_first = sorted(self.special, key=len, reverse=True)
        marks = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        words = Counter()
        for text in several:
            for part in marks.split(self.begin(text)):
                words.update(re.findall(rf" ?[^\s{SPACE}]+|\s", self.read(part)))
        if not words:
            raise ValueError("`text` has no words. Pass a text with at least one word.")
        return words


def check_special_tokens(tokens: Iterable[str], byte_fallback: bool) -> None:
    """Raises a `ValueError` if a special token is ▁ or a byte token."""
    taken = {SPACE, *(BYTES if byte_fallback else ())}.intersection(tokens)
    if taken:
        raise ValueError(
            f"special_tokens must not have {min(taken)!r}, which represents a space or "
            "a byte"
        )
