"""Character tokenizer: one id per character.

Ids are in the sorted order of the characters, as in the course's character GPT, so that
Tiny Shakespeare's 65 characters have the ids of the slides. There are no padding, start
or end tokens; models add those that they need.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from kerasseq.core.schema import check
from kerasseq.text.texts import check_text, each_text, training_texts
from kerasseq.text.tokenizers.tokenizer import Tokenizer

CHUNK = 2**18  # characters per look-up, which limits the memory


class CharacterTokenizer(Tokenizer):
    r"""Character tokenizer.

    Args:
        unknown: The token for characters that are not in the training text. It has the
            last id. With None such characters raise an error.

    Attributes:
        unknown: As given.
        characters: The fitted characters, sorted; empty before `fit`.

    Examples:
        >>> tokenizer = CharacterTokenizer(unknown="?").fit("banana")
        >>> tokenizer.vocabulary
        ['a', 'b', 'n', '?']
        >>> tokenizer.encode("nab!")
        array([2, 0, 1, 3], dtype=int32)
        >>> tokenizer.decode([1, 0, 2, 3])
        'ban?'
    """

    def __init__(self, *, unknown: str | None = "\ufffd"):
        if unknown is not None and not isinstance(unknown, str):
            raise TypeError(
                f"`unknown` must be a string or None, received {unknown!r}."
            )
        if unknown == "":
            raise ValueError(
                "`unknown` must not be empty. Pass a string such as '?', or None to "
                "raise an error for unknown characters."
            )
        self.unknown = unknown
        self.characters: list[str] = []
        self._vocabulary: list[str] = []

    def fit(self, text: str | Iterable[str]) -> "CharacterTokenizer":
        """Learns the vocabulary: the distinct characters of a text, sorted.

        Args:
            text: The training text: a string, or a list of strings.

        Returns:
            The tokenizer itself.

        Raises:
            TypeError: If a text is not a string.
            ValueError: If there is no text.

        Examples:
            >>> CharacterTokenizer(unknown=None).fit("hello").characters
            ['e', 'h', 'l', 'o']
        """
        self._set_characters(sorted(set().union(*training_texts(text))))
        return self

    def _set_characters(self, characters: list[str]):
        self.characters = characters
        self._vocabulary = characters + ([] if self.unknown is None else [self.unknown])
        points = _code_points("".join(characters))
        # One entry per code point up to the highest, and one for all code points above.
        unseen = -1 if self.unknown is None else len(characters)
        self._id_of_point = np.full(int(points[-1]) + 2, unseen, "int32")
        self._id_of_point[points] = np.arange(len(characters))

    @each_text
    def encode(self, text: str) -> np.ndarray:
        """Converts text to ids.

        Args:
            text: A string, or a list of strings.

        Returns:
            Array of int32 ids, one per character.

        Raises:
            ValueError: If a character is not in the vocabulary and `unknown` is None.

        Examples:
            >>> CharacterTokenizer().fit("hello").encode("hole")
            array([1, 3, 2, 0], dtype=int32)
        """
        check_text(text)
        self._check_fitted()
        ids = self._look_up(text)
        if self.unknown is None and (ids < 0).any():
            position = int((ids < 0).argmax())
            raise ValueError(
                f"The character {text[position]!r} at position {position} was not in "
                "the text given to `fit`. Fit on a text that has it, remove it, or use "
                "CharacterTokenizer(unknown='\\ufffd')."
            )
        return ids

    def _look_up(self, text: str) -> np.ndarray:
        """Returns an id per character, with that of `unknown` or -1 for unseen ones."""
        ids = np.empty(len(text), "int32")
        for start in range(0, len(text), CHUNK):
            points = _code_points(text[start : start + CHUNK])
            np.minimum(points, len(self._id_of_point) - 1, out=points)
            ids[start : start + CHUNK] = self._id_of_point[points]
        return ids

    def _check_text(self, text):
        check_text(text)  # lone surrogates are allowed

    def _encode_part(self, text):
        return self.encode(text).tolist()

    def _places(self, text):
        return [(i, n, n + 1) for n, i in enumerate(self._encode_part(text))]

    def _decode_part(self, ids):
        return "".join([self._vocabulary[i] for i in ids])

    def unknown_characters(self, text: str) -> dict[str, int]:
        """Counts the characters of a text that are not in the vocabulary.

        Args:
            text: A string.

        Returns:
            The count of each character, the most frequent first.

        Examples:
            >>> CharacterTokenizer().fit("hello").unknown_characters("hi, Lili")
            {'i': 3, ',': 1, ' ': 1, 'L': 1}
        """
        check_text(text)
        self._check_fitted()
        unseen = self._look_up(text) == self._id_of_point[-1]
        points, first, counts = np.unique(
            _code_points(text)[unseen], return_index=True, return_counts=True
        )
        order = np.lexsort((first, -counts))
        return {chr(points[i]): int(counts[i]) for i in order}

    def own_config(self) -> dict[str, Any]:
        """Returns the configuration of the tokenizer as plain JSON."""
        return {"unknown": self.unknown, "characters": list(self.characters)}

    @classmethod
    def from_own_config(cls, config: dict[str, Any]) -> "CharacterTokenizer":
        """Builds a tokenizer from the result of `own_config`.

        Args:
            config: A dictionary with `unknown` and `characters`.

        Returns:
            An equal tokenizer.

        Raises:
            TypeError: If `unknown` is neither a string nor None.
            ValueError: If a key is missing or unknown, or `characters` is not a sorted
                list of distinct single characters.
        """
        check(config, {"unknown": str | None, "characters": [str]})
        tokenizer = cls(unknown=config["unknown"])
        characters = config["characters"]
        if not _are_sorted_characters(characters):
            raise ValueError(
                "`characters` must be a list of distinct single characters, sorted, "
                f"received {repr(characters)[:60]}."
            )
        if characters:
            tokenizer._set_characters(list(characters))
        return tokenizer

    def __repr__(self) -> str:
        size = len(self.characters)
        state = f"{size} characters" if size else "not fitted"
        return f"<CharacterTokenizer: {state}, unknown={self.unknown!r}>"


def _code_points(text: str) -> np.ndarray:
    # "surrogatepass" allows lone surrogates, which damaged downloads have.
    data = bytearray(text.encode("utf-32-le", "surrogatepass"))
    return np.frombuffer(data, "<u4")


def _are_sorted_characters(characters) -> bool:
    if not isinstance(characters, list | tuple):
        return False
    single = all(isinstance(c, str) and len(c) == 1 for c in characters)
    return single and list(characters) == sorted(set(characters))
