r"""The tokenizer of RWKV: the longest match in a fixed list of byte strings.

From the left, each token is the longest of the list that the rest of the text, as
UTF-8, begins with. Nothing is trained, and no rule splits a text into words before. As
in the code of Peng et al. 2024 (RWKV-5 and 6), and in KerasHub's `RWKVTokenizer`.

A file has one token per line, its id, its literal in Python, and its number of bytes:

    33 ' ' 1
    10395 b'\xe7\x9a' 2
"""

import ast
import functools
import os
from collections.abc import Iterable
from typing import Any

from kerasseq.core.checks import several, short, whole_number
from kerasseq.core.files import read_text
from kerasseq.core.schema import check
from kerasseq.text.texts import utf8
from kerasseq.text.tokenizers import byte_alphabet
from kerasseq.text.tokenizers.tokenizer import Tokenizer

MOST_IDS = 2**20  # 16 times as many as the published vocabulary has


class RWKVTokenizer(Tokenizer):
    """Longest match over a fixed list of byte strings.

    In `vocabulary`, bytes are spelled as in GPT-2: Ġ is a space. An id without a token,
    such as 0 in the published vocabulary, which ends a text, is `<unused_0>`, and is
    decoded to nothing. Decoding restores every text exactly; bytes that are not UTF-8,
    as where a character is cut, become �.

    Args:
        tokens: The byte strings in the order of their ids, b"" for an id without one.

    Raises:
        TypeError: If a token is not a byte string.
        ValueError: If there is none, or a token occurs twice.

    Examples:
        >>> tokenizer = RWKVTokenizer([b"", b"t", b"h", b"e", b" ", b"the", b"then"])
        >>> tokenizer.encode("the then eth")
        array([5, 4, 6, 4, 3, 1, 2], dtype=int32)
        >>> tokenizer.tokenize("the then")
        ['the', 'Ġ', 'then']
        >>> tokenizer.decode([5, 0, 4, 1])
        'the t'
    """

    def __init__(self, tokens: Iterable[bytes]) -> None:
        tokens = several("tokens", tokens, "byte strings")
        ids: dict[bytes, int] = {}
        for i, token in enumerate(tokens):
            if not isinstance(token, bytes):
                raise TypeError(
                    f"tokens[{i}] must be a byte string, received {short(token)}. "
                    "Encode it as UTF-8"
                )
            if token in ids:
                raise ValueError(
                    f"tokens must differ, received {token!r} for the ids {ids[token]} "
                    f"and {i}. Leave one of them out"
                )
            if token:
                ids[token] = i
        if not ids:
            raise ValueError(
                'tokens must have at least one that is not b"", received none. Pass '
                "the byte strings of a vocabulary"
            )
        self._tokens, self._ids = tokens, ids
        self._vocabulary = [
            byte_alphabet.spell(token) if token else f"<unused_{i}>"
            for i, token in enumerate(tokens)
        ]

    @functools.cached_property
    def _lengths(self) -> dict[bytes, list[int]]:
        """The lengths of the tokens with the same first two bytes, longest first."""
        lengths: dict[bytes, set[int]] = {}
        for token in self._ids:
            lengths.setdefault(token[:2], set()).add(len(token))
        return {start: sorted(sizes, reverse=True) for start, sizes in lengths.items()}

    @classmethod
    def from_vocabulary(
        cls, lines: Iterable[str], size: int | None = None
    ) -> "RWKVTokenizer":
        r"""Builds a tokenizer from the lines of a file, as KerasHub holds them.

        Args:
            lines: The lines: id, literal in Python and number of bytes of each token.
            size: Number of ids; the largest plus one if None.

        Returns:
            The tokenizer.

        Raises:
            TypeError: If a line is not a string.
            ValueError: If a line is damaged, or an id or a token occurs twice.

        Examples:
            >>> lines = ["1 'a' 1", "2 '\\n' 1", "4 b'\\xc3' 1"]
            >>> tokenizer = RWKVTokenizer.from_vocabulary(lines)
            >>> tokenizer.vocabulary
            ['<unused_0>', 'a', 'Ċ', '<unused_3>', 'Ã']
        """
        tokens: dict[int, bytes] = {}
        for number, line in enumerate(several("lines", lines), start=1):
            i, token = _read(line, number)
            if i in tokens:
                raise ValueError(
                    f"ids must differ, received {i} a second time in line {number}. "
                    "Leave one of the lines out"
                )
            tokens[i] = token
        least = max(tokens, default=-1) + 1
        if size is None:
            size = least
        elif whole_number("size", size) < least:
            raise ValueError(
                f"size must be at least {least}, the number of ids, received size="
                f"{size}. Leave it out"
            )
        return cls([tokens.get(i, b"") for i in range(size)])

    @classmethod
    def from_vocab_file(cls, path: str | os.PathLike[str]) -> "RWKVTokenizer":
        """Builds a tokenizer from a published file, such as `rwkv_vocab_v20230424.txt`.

        Args:
            path: The file, in UTF-8.

        Returns:
            The tokenizer.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If a line is damaged, or an id or a token occurs twice.
        """
        lines = [line for line in read_text(path).split("\n") if line.strip()]
        try:
            return cls.from_vocabulary(lines)
        except ValueError as error:
            raise ValueError(f"{path} is damaged: {error}") from error

    def lines(self) -> list[str]:
        r"""Returns the lines of a file that `from_vocab_file` and KerasHub read.

        Examples:
            >>> RWKVTokenizer([b"", b"a", bytes([195])]).lines()
            ["1 'a' 1", "2 b'\\xc3' 1"]
        """
        return [f"{i} {_literal(token)} {len(token)}" for token, i in self._ids.items()]

    def padded(self, size: int) -> "RWKVTokenizer":
        """Returns the same tokenizer with unused ids up to a number of ids.

        The published models have 65,536 ids, and their vocabulary 65,530.

        Args:
            size: Number of ids.

        Examples:
            >>> RWKVTokenizer([b"a"]).padded(3).vocabulary
            ['a', '<unused_1>', '<unused_2>']
        """
        unused = [b""] * (size - len(self._tokens))
        return RWKVTokenizer([*self._tokens, *unused])._with_template_of(self)

    def fit(self, text: str | Iterable[str]) -> "RWKVTokenizer":
        """Raises an error, since the list of tokens is fixed.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "an RWKVTokenizer cannot be fitted: its list of tokens is fixed. Fit a "
            "BytePairTokenizer, WordPieceTokenizer or UnigramTokenizer"
        )

    def _matches(self, data: bytes) -> list[bytes]:
        """Splits bytes into the longest tokens, from the left."""
        tokens, at, ids, lengths = [], 0, self._ids, self._lengths
        while at < len(data):
            for start in (data[at : at + 2], data[at : at + 1]):
                candidates = (data[at : at + size] for size in lengths.get(start, ()))
                token = next((part for part in candidates if part in ids), None)
                if token is not None:
                    break
            else:
                raise ValueError(
                    f"the vocabulary must have a token for each byte of the text, "
                    f"received a text with {data[at : at + 1]!r}, which none begins. "
                    "Remove it"
                )
            tokens.append(token)
            at += len(token)
        return tokens

    def _encode_part(self, text):
        return [self._ids[token] for token in self._matches(utf8(text))]

    def _places(self, text):
        owner = [n for n, one in enumerate(text) for _ in range(len(utf8(one)))]
        places, at = [], 0
        for token in self._matches(utf8(text)):
            end = at + len(token)
            places.append((self._ids[token], owner[at], owner[end - 1] + 1))
            at = end
        return places

    def _decode_part(self, ids):
        return b"".join(self._tokens[i] for i in ids).decode("utf-8", "replace")

    def own_config(self) -> dict[str, Any]:
        """Returns the configuration of the tokenizer as plain JSON."""
        return {"tokens": [byte_alphabet.spell(token) for token in self._tokens]}

    @classmethod
    def from_own_config(cls, config: dict[str, Any]) -> "RWKVTokenizer":
        """Builds a tokenizer from the result of `own_config`.

        Raises:
            TypeError: If a value is of the wrong type.
            ValueError: If a key is missing or unknown, or a token is damaged.
        """
        tokens = []
        for i, spelled in enumerate(check(config, {"tokens": [str]})["tokens"]):
            try:
                tokens.append(byte_alphabet.read(spelled))
            except KeyError as error:
                raise ValueError(
                    f"tokens[{i}] must spell bytes as GPT-2 does, received "
                    f"{error.args[0]!r}, which spells none. Save the tokenizer again"
                ) from None
        return cls(tokens)


def _literal(token):
    """Returns the literal of a token: of its text if it is UTF-8."""
    try:
        return repr(token.decode("utf-8"))
    except UnicodeDecodeError:
        return repr(token)


def _read(line, number):
    """Returns the id and the bytes in a line of a file."""
    if not isinstance(line, str):
        raise TypeError(
            f"lines[{number - 1}] must be a string, received {short(line)}. Pass the "
            "lines of a vocabulary"
        )
    wrong = (
        f"line {number} must have an id below {MOST_IDS:,}, the literal of a string "
        f"and its number of bytes, received {short(line)}. Download the file again"
    )
    try:
        first, _, rest = line.strip("\r\n").partition(" ")
        literal, _, size = rest.rpartition(" ")
        i, token, size = int(first), ast.literal_eval(literal.strip()), int(size)
        token = utf8(token) if isinstance(token, str) else token
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(wrong) from error
    fits = isinstance(token, bytes) and len(token) == size > 0
    if not fits or not 0 <= i < MOST_IDS:
        raise ValueError(wrong)
    return i, token
