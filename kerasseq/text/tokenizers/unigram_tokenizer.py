r"""Unigram tokenizer: the most probable segmentation of a text.

Each piece $x$ has a probability $p(x)$, and the segmentation $x_1 \ldots x_m$ has the
probability $\prod_i p(x_i)$. The probabilities are learned by expectation maximization
(`unigram_training.py`); a text is segmented by the Viterbi algorithm, or at random for
subword regularization (`unigram_lattice.py`).

From: Kudo, "Subword Regularization: Improving Neural Network Translation Models with
Multiple Subword Candidates", 2018; Kudo and Richardson, "SentencePiece", 2018. Left
out: normalization of the text, splits at scripts and digits, and character coverage.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core.checks import one_of, whole_number
from kerasseq.core.schema import check
from kerasseq.text import texts
from kerasseq.text.texts import each_row, each_text, id_array
from kerasseq.text.tokenizers.byte_alphabet import BYTES, SPACE
from kerasseq.text.tokenizers.tokenizer import Encoding, Tokenizer
from kerasseq.text.tokenizers.unigram_pieces import (
    Pieces,
    Spaces,
    check_special_tokens,
)
from kerasseq.text.tokenizers.unigram_training import TrainingStep, learn
from kerasseq.text.tokenizers.unigram_views import UnigramViews

OPTIONS = {"special_tokens", "unknown", "byte_fallback", "max_piece_length"}
OPTIONS |= {"add_prefix_space", "lossless"}
SCHEMA = {
    "vocabulary_size": int,
    "special_tokens": [str],
    "unknown": str | None,
    "byte_fallback": bool,
    "max_piece_length": int,
    "add_prefix_space": bool | str,
    "lossless": bool,
    "pieces": [str],
    "scores": [float],
}


class UnigramTokenizer(UnigramViews, Tokenizer):
    r"""Unigram tokenizer.

    Spaces are ▁ in the pieces. The text is split before every space, and gets a space
    at the beginning, so that a word has the same pieces everywhere.

    With `byte_fallback`, characters that were not in the training text become bytes,
    and `decode(encode(text)) == text` for every string. Otherwise they become
    `unknown`, and spaces are treated as in Hugging Face's `Metaspace`: see `lossless`.

    Ids are those of Hugging Face's `tokenizers` for the same pieces and scores, except
    that special tokens and bytes such as `<0x41>` are never matched in a text.

    Args:
        vocabulary_size: Maximum number of ids. A short text has fewer.
        special_tokens: Tokens that are found in the text as written, and never split.
        unknown: The token for characters without an id. With None and without
            `byte_fallback` such characters raise an error.
        byte_fallback: Whether there are 256 ids for bytes.
        max_piece_length: Maximum length of a piece in characters.
        add_prefix_space: Whether to add a space before a text and after each special
            token; "first" adds it only before a text that does not begin with a special
            token. `decode` removes it.
        lossless: Whether to add the space also before texts that begin with one, and
            to keep ▁ in a text as a character. False is as in Hugging Face's
            `Metaspace`. Defaults to `byte_fallback`.

    Attributes:
        scores: Log-probabilities of the pieces, float64 `(vocabulary_size,)`; 0 for
            special tokens and bytes, as in files of SentencePiece. A character without
            a piece has 10 less than the lowest.
        history: The steps of the training, with `pieces` and `log_likelihood`. It is
            not saved.

    Examples:
        >>> tokenizer = UnigramTokenizer(266).fit("banana bandana ananas")
        >>> tokenizer.tokenize("bananas")
        ['▁ban', 'ana', 's']
        >>> for way in tokenizer.n_best("bananas", 2):
        ...     print(round(way.log_probability, 1), *way.tokens)
        -5.4 ▁ban ana s
        -9.7 ▁ b anana s
        >>> tokenizer.decode(tokenizer.encode("  déjà vu\n"))
        '  déjà vu\n'
    """

    def __init__(
        self,
        vocabulary_size: int = 8000,
        *,
        special_tokens: Iterable[str] = (),
        unknown: str | None = "<unk>",
        byte_fallback: bool = True,
        max_piece_length: int = 16,
        add_prefix_space: bool | str = True,
        lossless: bool | None = None,
    ):
        if unknown is not None and not isinstance(unknown, str):
            raise TypeError(f"unknown must be a string or None, received {unknown!r}")
        if not isinstance(special_tokens, Iterable):
            raise TypeError(
                f"special_tokens must be a list of strings, received {special_tokens!r}"
            )
        self.wanted_size: int = whole_number("vocabulary_size", vocabulary_size)
        self.special_tokens: tuple[str, ...] = texts.special_tokens(
            special_tokens, unknown
        )
        self.unknown = unknown
        self.byte_fallback: bool = one_of("byte_fallback", byte_fallback, [True, False])
        self.max_piece_length: int = whole_number("max_piece_length", max_piece_length)
        one_of("lossless", lossless, [None, True, False])
        self.lossless: bool = byte_fallback if lossless is None else lossless
        if self.lossless and not byte_fallback:
            raise ValueError(
                "lossless=True needs byte_fallback=True, which encodes characters "
                "outside the vocabulary as bytes"
            )
        check_special_tokens(self.special_tokens, byte_fallback)
        self.add_prefix_space = add_prefix_space
        self._spaces = Spaces(add_prefix_space, self.lossless, self.special_tokens)
        self.history: list[TrainingStep] = []
        self._pieces: Pieces | None = None

    @classmethod
    def from_pieces(
        cls,
        pieces: list[str],
        scores: Iterable[float],
        *,
        unknown: str | None = "<unk>",
        special_tokens: Iterable[str] = (),
        byte_fallback: bool = True,
        add_prefix_space: bool | str = True,
        lossless: bool | None = None,
    ) -> "UnigramTokenizer":
        """Builds a tokenizer from a given vocabulary, instead of `fit`.

        Args:
            pieces: All tokens in the order of their ids, with ▁ for a space, including
                special tokens, the unknown token and bytes.
            scores: The score of each.
            unknown: As in the constructor.
            special_tokens: Those of `pieces` that are special.
            byte_fallback: Whether `<0x00>` to `<0xFF>` represent bytes.
            add_prefix_space: True, False or "first", which a `tokenizer.json` calls
                "always", "never" and "first".
            lossless: False gives the ids of a `tokenizer.json` with `Metaspace`, also
                for texts with ▁ or a leading space.

        Returns:
            The tokenizer.

        Raises:
            ValueError: If the pieces are not distinct strings, lack a special token or
                a byte, or the number of scores is wrong.

        Examples:
            >>> tokenizer = UnigramTokenizer.from_pieces(
            ...     ["▁a", "a", "<unk>", "▁"], [-1.0, -2.0, 0.0, -1.5],
            ...     byte_fallback=False,
            ... )
            >>> tokenizer.encode("aa b")
            array([0, 1, 3, 2], dtype=int32)
        """
        tokenizer = cls(
            special_tokens=special_tokens,
            unknown=unknown,
            byte_fallback=byte_fallback,
            add_prefix_space=add_prefix_space,
            lossless=lossless,
        )
        tokenizer._take(pieces, scores)
        tokenizer.wanted_size = tokenizer.vocabulary_size
        return tokenizer

    def fit(self, text: str | Iterable[str]) -> "UnigramTokenizer":
        """Learns the pieces and their probabilities.

        Args:
            text: The training text: a string, or a list of strings.

        Returns:
            The tokenizer itself.

        Raises:
            TypeError: If a text is not a string.
            ValueError: If the text has no words, or there are more characters than ids.
        """
        words = self._spaces.words(texts.training_texts(text))
        fixed = [*self.special_tokens, *(BYTES if self.byte_fallback else ())]
        alphabet = set().union(*words)
        needed = len(fixed) + len(alphabet)
        if needed > self.wanted_size:
            raise ValueError(
                f"vocabulary_size must be at least {needed}, for {len(alphabet)} "
                f"characters in the text and {len(fixed)} special tokens and bytes, "
                f"received vocabulary_size={self.wanted_size}"
            )
        taken = {token.replace(SPACE, " ") for token in fixed}
        size = self.wanted_size - len(fixed)
        learned = learn(words, size, self.max_piece_length, taken)
        pieces = [piece.replace(" ", SPACE) for piece in learned.pieces]
        scores = [0.0] * len(fixed) + learned.scores.tolist()
        self._take([*fixed, *pieces], scores)
        self.history = learned.history
        return self

    def _take(self, vocabulary, scores):
        special = self.special_tokens
        self._pieces = Pieces(
            vocabulary, scores, special, self.unknown, self.byte_fallback
        )
        self.special_tokens = tuple(sorted(special, key=self.id_of))

    @property
    def vocabulary(self) -> list[str]:
        """The tokens in the order of their ids, with ▁ for a space."""
        return self._pieces.vocabulary if self._pieces else []

    @property
    def scores(self) -> np.ndarray:
        return np.array(self._pieces.scores if self._pieces else [])

    @each_text
    def encode(self, text: str) -> np.ndarray:
        self._check_text(text)
        return super().encode(self._spaces.begin(text))

    def encode_with_offsets(self, text: str) -> Encoding:
        self._check_text(text)
        begun = self._spaces.begin(text)
        encoding = super().encode_with_offsets(begun)
        shift = len(begun) - len(text)
        return encoding._replace(offsets=np.maximum(encoding.offsets - shift, 0))

    @each_row
    def decode(self, ids: ArrayLike, *, skip_special: bool = False) -> str:
        self._check_fitted()
        special = {self.id_of(token): token for token in self.special_tokens}
        text, part, prefixed = [], [], bool(self.add_prefix_space)
        for i in id_array(ids, self.vocabulary_size).tolist():
            if i not in special:
                part.append(i)
                continue
            text += [
                self._decode_part(part, prefixed),
                "" if skip_special else special[i],
            ]
            # Without bytes an unknown token is usually a character inside a word.
            within = special[i] == self.unknown and not self.byte_fallback
            prefixed, part = self.add_prefix_space is True and not within, []
        return "".join([*text, self._decode_part(part, prefixed)])

    def _words(self, text):
        self._check_fitted()
        begun, words = self._spaces.begin(text), []
        for part, special in texts.cut_out(begun, self.special_tokens):
            if special:
                words.append((part, self.id_of(part)))
                continue
            read = self._spaces.read(part)
            words += [(word, None) for word in self._pieces.words(read)]
        return words

    def _encode_part(self, text):
        return self._pieces.ids(self._spaces.read(text))

    def _places(self, text):
        read = self._spaces.read(text)
        places, done = [], len(text) - len(read)
        for word in self._pieces.words(read):
            for i, start, end in self._pieces.places(word):
                places.append((i, max(0, done + start), done + end))
            done += len(word)
        return places

    def _decode_part(self, ids, prefixed=True):
        text = self._pieces.text(ids)
        return text.removeprefix(" ") if prefixed else text

    def own_config(self) -> dict[str, Any]:
        """Returns the configuration of the tokenizer as plain JSON."""
        return {
            "vocabulary_size": self.wanted_size,
            **{name: getattr(self, name) for name in OPTIONS},
            "special_tokens": list(self.special_tokens),
            "pieces": list(self.vocabulary),
            "scores": self.scores.tolist(),
        }

    @classmethod
    def from_own_config(cls, config: dict[str, Any]) -> "UnigramTokenizer":
        """Builds a tokenizer from the result of `own_config`.

        Raises:
            TypeError: If an option is of the wrong type.
            ValueError: If a key is missing or unknown, or pieces or scores are invalid.
        """
        check(config, SCHEMA)
        options = {name: config[name] for name in OPTIONS}
        tokenizer = cls(config["vocabulary_size"], **options)
        if config["pieces"] != [] or config["scores"] != []:
            tokenizer._take(config["pieces"], config["scores"])
        return tokenizer
