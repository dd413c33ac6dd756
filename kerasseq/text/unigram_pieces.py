r"""The vocabulary of a unigram tokenizer: checked, and made ready to find pieces.

Inside, a space is a space; the vocabulary writes it ▁ (U+2581), as SentencePiece does.
So a ▁ that stands in the text itself is a character that no piece has.
"""

import math
import numbers
import re
from collections import Counter

from kerasseq.text.texts import utf8
from kerasseq.text.unigram_lattice import STRANGE, best_path, build_trie, edges

SPACE = "\u2581"  # ▁
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
PENALTY = 10.0  # how far a strange character lies below the least probable piece
CACHED = 2**16  # words whose best way is remembered
CACHED_LENGTH = 64  # of characters; longer words hardly come back


class Pieces:
    """Tokens with scores, and how they lie in words.

    Args:
        vocabulary: All tokens in the order of their ids.
        scores: A number for each.
        special: Tokens that are not found in words.
        unknown: The token of characters that are no piece, or None.
        byte_fallback: Whether such characters become bytes instead.

    Attributes:
        trie: The pieces by their letters.
        strange: The weight of a character that is no piece.
    """

    def __init__(self, vocabulary, scores, special, unknown, byte_fallback):
        self.vocabulary = _tokens(vocabulary)
        self.scores = _scores(scores, len(self.vocabulary))
        ids = {token: i for i, token in enumerate(self.vocabulary)}
        apart = {*special, *(BYTES if byte_fallback else ())}
        if missing := [token for token in sorted(apart) if token not in ids]:
            raise ValueError(
                f"`pieces` lacks {len(missing)} of the special and byte tokens: "
                f"{missing[:5]}. Put each where its id is, with the score 0."
            )
        self.unknown_id = None if unknown is None else ids[unknown]
        self.byte_ids = [ids[token] for token in BYTES] if byte_fallback else None
        self.strange = min(self.scores) - PENALTY
        # A piece with a real space can never be found: the text has none left.
        found = {
            token.replace(SPACE, " "): i
            for token, i in ids.items()
            if token not in apart and " " not in token
        }
        self.trie = build_trie((s, i, self.scores[i]) for s, i in found.items())
        self._word = _word_pattern(found, byte_fallback)
        self._cache = {}

    def words(self, text: str) -> list[str]:
        """Cut a text where no piece can cross: before spaces, at most line ends."""
        return self._word.findall(text)

    def edges(self, word: str):
        """Start, end, number and weight of each piece in a word."""
        return edges(word, self.trie, self.strange)

    def ids(self, text: str) -> list[int]:
        """The ids of the best way to cut a text."""
        ids = []
        for word in self.words(text):
            ids += self._cut(word)[0]
        return ids

    def places(self, word: str) -> list[tuple[int, int, int]]:
        """Id, start and end of the best way to cut a word."""
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

    def spell(self, text: str, path) -> list[tuple[int, int, int]]:
        """Turn a path into ids with places: strange characters into bytes or unknowns.

        Strange characters side by side in a word become one unknown.
        """
        places, before = [], None
        for start, end, piece in path:
            if piece != STRANGE:
                places.append((piece, start, end))
            elif self.byte_ids is not None:
                codes = utf8(text[start:end])
                places += [(self.byte_ids[code], start, end) for code in codes]
            elif before == STRANGE and text[start] != " ":
                places[-1] = (places[-1][0], places[-1][1], end)
            else:
                places.append((self._unknown(text[start:end]), start, end))
            before = piece
        return places

    def _unknown(self, character):
        if self.unknown_id is None:
            raise ValueError(
                f"the text has {character!r}, which is no piece of the vocabulary; "
                "with byte_fallback=True it becomes bytes, with unknown='<unk>' that "
                "token"
            )
        return self.unknown_id

    def text(self, ids: list[int]) -> str:
        """The text of ids, with a space for each ▁; bytes that are none become �."""
        text, data = [], bytearray()
        byte_of = dict(zip(self.byte_ids or (), range(256), strict=False))
        for i in ids:
            if i in byte_of:
                data.append(byte_of[i])
                continue
            text += [data.decode("utf-8", "replace"), self._spelling(i)]
            data.clear()
        return "".join([*text, data.decode("utf-8", "replace")])

    def _spelling(self, i):
        return self.vocabulary[i].replace(SPACE, " ")


def _tokens(pieces) -> list[str]:
    if not isinstance(pieces, list | tuple) or not pieces:
        raise ValueError(
            f"`pieces` must be a list of strings, got {repr(pieces)[:60]}."
        )
    for number, piece in enumerate(pieces):
        if not isinstance(piece, str) or not piece:
            raise ValueError(f"`pieces[{number}]` must be a string, got {piece!r}.")
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
            f"`scores` must be {size} numbers, one for each piece, got "
            f"{repr(scores)[:60]}."
        )
    for number, score in enumerate(scores):
        right = isinstance(score, numbers.Real) and not isinstance(score, bool)
        if not right or not math.isfinite(score):
            raise ValueError(f"`scores[{number}]` must be a number, got {score!r}.")
    return [float(score) for score in scores]


def _word_pattern(found, byte_fallback):
    r"""Cut before every space, and around each line end or tab that stands alone.

    A line end or tab that no longer piece has may be cut out: no path crosses it. If
    it is unknown, though, it must stay with its neighbours, to be one unknown.
    """
    inside = set().union(*(piece for piece in found if len(piece) > 1))
    alone = [
        character
        for character in "\t\n\v\f\r"
        if character not in inside and (character in found or byte_fallback)
    ]
    cut = re.escape("".join(alone))
    return re.compile(f" ?[^ {cut}]+|[ {cut}]")
