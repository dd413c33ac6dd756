"""One id per character: the smallest tokenizer, learned from the text itself.

Ids follow the sorted order of the characters, as in the course's character GPT, so that
Tiny Shakespeare's 65 characters get the ids of the slides. There is no padding id and
no start or end mark: the models add what they need.
"""

import numpy as np

from kerasseq.text.ids import id_array
from kerasseq.text.vocabulary_file import read_vocabulary, write_vocabulary

FORMAT = "kerasseq.CharacterTokenizer"


class CharacterTokenizer:
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

    def fit(self, text: str) -> "CharacterTokenizer":
        """Learn the vocabulary: every distinct character of `text`, sorted.

        Args:
            text: The training text. A second `fit` replaces the first.

        Returns:
            The tokenizer itself.

        Raises:
            TypeError: If `text` is not a string.
            ValueError: If `text` is empty.

        Examples:
            >>> CharacterTokenizer(unknown=None).fit("hello").characters
            ['e', 'h', 'l', 'o']
        """
        _check_text(text)
        if not text:
            raise ValueError("`text` is empty: there are no characters to learn.")
        self._set_characters(sorted(set(text)))
        return self

    def _set_characters(self, characters: list[str]):
        self.characters = characters
        points = _code_points("".join(characters))
        # One entry per code point up to the highest one fitted, and one beyond, where
        # everything higher ends up: a look-up in one step, whatever the alphabet.
        unseen = -1 if self.unknown is None else len(characters)
        self._id_of_point = np.full(int(points[-1]) + 2, unseen, "int32")
        self._id_of_point[points] = np.arange(len(characters))

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
        _check_text(text)
        self._check_fitted("encode")
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
        points = _code_points(text)
        return self._id_of_point[np.minimum(points, len(self._id_of_point) - 1)]

    def decode(self, ids) -> str:
        """Turn ids into text.

        Args:
            ids: A list, array or tensor of whole numbers with one axis.

        Returns:
            The text; the unknown id gives the `unknown` mark.

        Raises:
            TypeError: If the ids are not whole numbers.
            ValueError: If an id is outside the vocabulary.

        Examples:
            >>> CharacterTokenizer().fit("hello").decode([1, 0, 2, 2, 3])
            'hello'
        """
        self._check_fitted("decode")
        vocabulary = self.vocabulary
        ids = id_array(ids, len(vocabulary))
        return "".join(vocabulary[i] for i in ids.tolist())

    @property
    def vocabulary(self) -> list[str]:
        """What each id stands for, in order: the characters, then `unknown`."""
        return self.characters + ([] if self.unknown is None else [self.unknown])

    @property
    def vocabulary_size(self) -> int:
        """How many ids there are, the unknown one included."""
        return len(self.vocabulary)

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
        _check_text(text)
        self._check_fitted("unknown_characters")
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
        if not isinstance(config, dict) or config.keys() != {"unknown", "characters"}:
            keys = sorted(config) if isinstance(config, dict) else config
            raise ValueError(
                f"`config` must have the keys 'characters' and 'unknown', got {keys!r}."
            )
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

    def save(self, path) -> None:
        """Write the tokenizer to a JSON file, whole or not at all.

        Args:
            path: Where to write, for example `"characters.json"`.

        Raises:
            ValueError: Before `fit`.
        """
        self._check_fitted("save")
        write_vocabulary(path, FORMAT, self.get_config())

    @classmethod
    def load(cls, path) -> "CharacterTokenizer":
        """Read a tokenizer that `save` wrote.

        Args:
            path: The file.

        Returns:
            An equal tokenizer.

        Raises:
            ValueError: If the file is damaged or of another kind; the text says which.
        """
        config = read_vocabulary(path, FORMAT)
        try:
            tokenizer = cls.from_config(config)
            tokenizer._check_fitted("load")
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path} is damaged: {error}") from error
        return tokenizer

    def _check_fitted(self, method: str):
        if not self.characters:
            raise ValueError(
                f"The tokenizer has no characters yet: call `fit(text)` before "
                f"`{method}`."
            )

    def __eq__(self, other):
        if not isinstance(other, CharacterTokenizer):
            return NotImplemented
        return self.vocabulary == other.vocabulary and self.unknown == other.unknown

    __hash__ = None  # a fitted tokenizer can be fitted again: no key of a dictionary

    def __repr__(self):
        size = len(self.characters)
        state = f"{size} characters" if size else "not fitted"
        return f"<CharacterTokenizer: {state}, unknown={self.unknown!r}>"


def _code_points(text: str) -> np.ndarray:
    # "surrogatepass": half a pair, as broken downloads have them, is a character too.
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


def _check_text(text):
    if not isinstance(text, str):
        raise TypeError(f"`text` must be a string, got {type(text).__name__}.")


def _are_sorted_characters(characters) -> bool:
    if not isinstance(characters, list | tuple):
        return False
    single = all(isinstance(c, str) and len(c) == 1 for c in characters)
    return single and list(characters) == sorted(set(characters))
