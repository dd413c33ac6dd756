"""Models: from words to ids.

`places` returns the id, start and end of each token of a word, counted in characters.
"""

import abc
import os
import re
from collections.abc import Callable

from kerasseq.text.pipeline.part import Part
from kerasseq.text.texts import utf8
from kerasseq.text.tokenizers.bpe import merge
from kerasseq.text.tokenizers.unigram_lattice import UNKNOWN, best_path, build_trie
from kerasseq.text.tokenizers.unigram_pieces import BYTES, PENALTY
from kerasseq.text.tokenizers.wordpiece_tokenizer import longest_pieces

Places = list[tuple[int, int, int]]
CACHE_SIZE = 2**16  # words
CACHED_LENGTH = 64  # characters; longer words rarely occur again


class Cached:
    """A function of a word with a cache."""

    def __init__(self, compute: Callable[[str], Places]):
        self.compute: Callable[[str], Places] = compute
        self.known: dict[str, Places] = {}

    def __call__(self, word: str) -> Places:
        found = self.known.get(word)
        if found is None:
            found = self.compute(word)
            if len(word) <= CACHED_LENGTH:
                if len(self.known) >= CACHE_SIZE:
                    self.known.clear()
                self.known[word] = found
        return found


class Model(abc.ABC):
    """Base class of models.

    Attributes:
        ids: The id of each token.
        unknown: The token for everything outside the vocabulary, or None.
    """

    def __init__(self, part: Part, ids: dict[str, int], unknown: str | None):
        self.path: str | os.PathLike[str] = part.path
        self.ids: dict[str, int] = ids
        self.unknown: str | None = unknown
        self._cached = Cached(self._find)

    def places(self, word: str) -> Places:
        """Returns the id, start and end of each token of a word.

        Raises:
            ValueError: If a character has no token and there is no unknown token.
        """
        return self._cached(word)

    @abc.abstractmethod
    def _find(self, word: str) -> Places:
        """Computes `places` of a word that is not cached."""

    def _unknown_id(self, text: str) -> int:
        if self.unknown not in self.ids:
            raise ValueError(
                f"{text[:40]!r} has no token, and the vocabulary of {self.path} has no "
                "unknown token. Remove these characters from the text"
            )
        return self.ids[self.unknown]

    def _byte_ids(self, text: str) -> list[int] | None:
        """Returns the ids of the bytes of a text; None if one is missing."""
        found = [self.ids.get(BYTES[byte]) for byte in utf8(text)]
        return None if None in found else found


class BytePairModel(Model):
    """Byte-pair encoding.

    A character without a token becomes bytes (`byte_fallback`), else the unknown token;
    if there is none, it is left out, as in the package `tokenizers`.
    """

    def __init__(self, part: Part):
        ids = vocabulary(part)
        super().__init__(part, ids, part.get("unk_token", str, "") or None)
        for key in (
            "dropout",
            "continuing_subword_prefix",
            "end_of_word_suffix",
        ):
            if part.content.get(key):
                part.refuse(key)
        self.byte_fallback: bool = part.get("byte_fallback", bool, False)
        self.fuse_unknown: bool = part.get("fuse_unk", bool, False)
        self.ignore_merges: bool = part.get("ignore_merges", bool, False)
        self.merges: list[tuple[str, str]] = _merges(part, ids)
        self._ranks = {
            (ids[left], ids[right]): (rank, ids[left + right])
            for rank, (left, right) in enumerate(self.merges)
        }
        # SentencePiece's merges do not cross the beginning of a word, so a text without
        # a pre-tokenizer can be cut there.
        crossing = any(re.search("[^▁]▁", left + right) for left, right in self.merges)
        self._merged = Cached(self._merge)
        self._cut = None if crossing or "▁" not in ids else re.compile("▁*[^▁]+|▁+")

    def _find(self, word):
        if self.ignore_merges and word in self.ids:
            return [(self.ids[word], 0, len(word))]
        if self._cut is None:
            return self._merge(word)
        places, done = [], 0
        for part in self._cut.findall(word):
            known = self._merged(part)
            places += [(i, done + start, done + end) for i, start, end in known]
            done += len(part)
        return places

    def _merge(self, word):
        symbols = self._symbols(word)
        merged = merge([i for i, _, _ in symbols], self._ranks)
        ends = [at for at, _ in merged[1:]] + [len(symbols)]
        return [
            (i, symbols[at][1], symbols[end - 1][2])
            for (at, i), end in zip(merged, ends, strict=False)
        ]

    def _symbols(self, word) -> Places:
        """Returns the id, start and end of the initial symbols."""
        places, unknown = [], None
        for at, character in enumerate(word):
            known = self.ids.get(character)
            if known is not None:
                places += [*([unknown] if unknown else []), (known, at, at + 1)]
                unknown = None
                continue
            data = self._byte_ids(character) if self.byte_fallback else None
            if data is not None:
                places += [(i, at, at + 1) for i in data]
            elif self.unknown is not None:
                start = unknown[1] if unknown and self.fuse_unknown else at
                if unknown and not self.fuse_unknown:
                    places.append(unknown)
                unknown = self._unknown_id(character), start, at + 1
        return [*places, unknown] if unknown else places


def _merges(part: Part, ids) -> list[tuple[str, str]]:
    merges = []
    for number, found in enumerate(part.get("merges", [object])):
        pair = found.split(" ") if isinstance(found, str) else found
        right = isinstance(pair, list) and len(pair) == 2
        right = right and all(isinstance(token, str) for token in pair)
        if not right or not {*pair, "".join(pair)} <= ids.keys():
            expected = "two tokens that together are a token"
            part.damaged(f"merges[{number}]", expected, found)
        merges.append(tuple(pair))
    return merges


class UnigramModel(Model):
    """The most probable pieces."""

    def __init__(self, part: Part):
        pieces = part.get("vocab", [(str, float)])
        ids = {piece: i for i, (piece, _) in enumerate(pieces)}
        number = part.get("unk_id", int, None)
        if number is not None and not 0 <= number < len(pieces):
            part.damaged("unk_id", f"0 to {len(pieces) - 1}", number)
        super().__init__(part, ids, None if number is None else pieces[number][0])
        self.byte_fallback: bool = part.get("byte_fallback", bool, False)
        scores = {piece: score for piece, score in pieces if piece}
        if not scores:
            part.damaged("vocab", "at least one piece", pieces)
        self._trie = build_trie((piece, ids[piece], s) for piece, s in scores.items())
        self._strange = min(score for _, score in pieces) - PENALTY

    def _find(self, word):
        places = []
        for start, end, _ in self._stretches(word):
            text = word[start:end]
            found = self.ids.get(text)
            data = None
            if found is None and self.byte_fallback:
                data = self._byte_ids(text)
            if data is not None:
                places += [(i, start, end) for i in data]
            else:
                i = self._unknown_id(text) if found is None else found
                places.append((i, start, end))
        return places

    def _stretches(self, word):
        """Returns start and end of each piece; adjacent unknown pieces are joined."""
        stretches = []
        for start, end, piece in best_path(word, self._trie, self._strange):
            unknown = piece == UNKNOWN or piece == self.ids.get(self.unknown)
            if unknown and stretches and stretches[-1][2]:
                stretches[-1] = stretches[-1][0], end, True
            else:
                stretches.append((start, end, unknown))
        return stretches


class WordPieceModel(Model):
    """The longest pieces from the left."""

    def __init__(self, part: Part):
        super().__init__(part, vocabulary(part), part.get("unk_token", str))
        self.prefix: str = part.get("continuing_subword_prefix", str)
        self.longest_word: int = part.get("max_input_chars_per_word", int)
        self._longest = max(map(len, self.ids), default=0)

    def _find(self, word):
        found = None
        if len(word) <= self.longest_word:
            found = longest_pieces(word, self.ids, self.prefix, self._longest)
        return [(self._unknown_id(word), 0, len(word))] if found is None else found


def vocabulary(part: Part) -> dict[str, int]:
    """Returns the vocabulary."""
    ids = part.get("vocab", {str: int})
    if not ids:
        part.damaged("vocab", "at least one token", ids)
    return ids


MODELS: dict[str, Callable[[Part], Model]] = {
    "BPE": BytePairModel,
    "Unigram": UnigramModel,
    "WordPiece": WordPieceModel,
}


def read_model(part: Part) -> Model:
    """Builds the model of a file. Older files, such as GPT-2's, have no type."""
    if part.content.get("type") is not None:
        return part.component(MODELS)
    if "merges" in part.content:
        return BytePairModel(part)
    if "max_input_chars_per_word" in part.content:
        return WordPieceModel(part)
    if isinstance(part.content.get("vocab"), list):
        return UnigramModel(part)
    return part.refuse("type", f"Known are {', '.join(MODELS)}. ")
