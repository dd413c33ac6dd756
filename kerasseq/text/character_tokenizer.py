"""One id per character: the smallest tokenizer, learned from the text itself.

Ids follow the sorted order of the characters, as in the course's character GPT, so that
Tiny Shakespeare's 65 characters get the ids of the slides. There is no padding id and
no start or end mark: the models add what they need.
"""

import numpy as np

from kerasseq.core.schema import check
from kerasseq.text.texts import check_text, each_text, training_texts
from kerasseq.text.tokenizer import Tokenizer

PART = 2**18  # characters looked up at a time: memory holds little beside the ids


class CharacterTokenizer(Tokenizer):
    r"""Turn text into ids, one per character, and back.

    Args:
        unknown: What stands for characters that `fit` did not see. It takes one more
            id, after all the others. With `None` there is no such id, and an unseen
            character is an error.

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
            raise TypeError(f"`unknown` must be a string or None, got {unknown!r}.")
        if unknown == "":
            raise ValueError(
                "`unknown` must not be empty: pass a mark such as '?', or None to make "
                "unseen characters an error."
            )
        self.unknown = unknown
        self.characters: list[str] = []
        self._vocabulary: list[str] = []

    def fit(self, text) -> "CharacterTokenizer":
        """Learn the vocabulary: every distinct character of `text`, sorted.

        Args:
            text: The training text, or several. A second `fit` replaces the first.

        Returns:
            The tokenizer itself.

        Raises:
            TypeError: If there is something else than strings.
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
        # One entry per code point up to the highest one fitted, and one beyond, where
        # everything higher ends up: a look-up in one step, whatever the alphabet.
        unseen = -1 if self.unknown is None else len(characters)
        self._id_of_point = np.full(int(points[-1]) + 2, unseen, "int32")
        self._id_of_point[points] = np.arange(len(characters))

    @each_text
    def encode(self, text: str) -> np.ndarray:
        """Turn text into ids.

        Args:
            text: Any string, the empty one included.

        Returns:
            An int32 array with one id per character.

        Raises:
            ValueError: If a character was not seen in `fit` and `unknown` is None.

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
        """Return an id per character, whatever stands for unseen ones included."""
        ids = np.empty(len(text), "int32")
        for start in range(0, len(text), PART):
            points = _code_points(text[start : start + PART])
            np.minimum(points, len(self._id_of_point) - 1, out=points)
            ids[start : start + PART] = self._id_of_point[points]
        return ids

    def _check_text(self, text):
        check_text(text)  # half a surrogate pair is a character, too

    def _encode_part(self, text):
        return self.encode(text).tolist()

    def _places(self, text):
        return [(i, n, n + 1) for n, i in enumerate(self._encode_part(text))]

    def _decode_part(self, ids):
        return "".join([self._vocabulary[i] for i in ids])

    @property
    def vocabulary(self) -> list[str]:
        """What each id stands for, in order: the characters, then `unknown`."""
        return self._vocabulary

    def unknown_characters(self, text: str) -> dict[str, int]:
        """Count the characters of `text` that `fit` did not see.

        Args:
            text: Any string.

        Returns:
            How often each unseen character occurs, the most frequent first.

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

    def get_config(self) -> dict:
        """Return what `from_config` needs to build an equal tokenizer: plain JSON."""
        return {"unknown": self.unknown, "characters": list(self.characters)}

    @classmethod
    def from_config(cls, config: dict) -> "CharacterTokenizer":
        """Build a tokenizer from what `get_config` gave.

        Args:
            config: A dictionary with `unknown` and `characters`.

        Returns:
            An equal tokenizer.

        Raises:
            TypeError: If `unknown` is neither a string nor None.
            ValueError: If a key is missing or strange, or `characters` is not a sorted
                list of distinct single characters.
        """
        check(config, {"unknown": str | None, "characters": [str]})
        tokenizer = cls(unknown=config["unknown"])
        characters = config["characters"]
        if not _are_sorted_characters(characters):
            raise ValueError(
                "`characters` must be a list of distinct single characters, sorted, "
                f"got {repr(characters)[:60]}."
            )
        if characters:
            tokenizer._set_characters(list(characters))
        return tokenizer

    def __repr__(self):
        size = len(self.characters)
        state = f"{size} characters" if size else "not fitted"
        return f"<CharacterTokenizer: {state}, unknown={self.unknown!r}>"


def _code_points(text: str) -> np.ndarray:
    # "surrogatepass": half a pair, as broken downloads have them, is a character too.
    data = bytearray(text.encode("utf-32-le", "surrogatepass"))
    return np.frombuffer(data, "<u4")


def _are_sorted_characters(characters) -> bool:
    if not isinstance(characters, list | tuple):
        return False
    single = all(isinstance(c, str) and len(c) == 1 for c in characters)
    return single and list(characters) == sorted(set(characters))
