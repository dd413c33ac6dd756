"""Texts as inputs of a model: tokenized, as rows of ids."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kerasseq.core import checks
from kerasseq.text.tokenizers.conversion import (
    advice_for_path,
    fitted_tokenizer,
    is_path,
)
from kerasseq.text.tokenizers.tokenizer import Tokenizer

TOKENIZERS = ("character", "word", "bpe", "wordpiece", "unigram")
VOCABULARY_SIZE = 1000  # of a tokenizer that is trained by name


class Words(NamedTuple):
    """Sentences of words as ids.

    Attributes:
        rows: The ids of each sentence.
        first: For each sentence, the index of the first id of each word.
    """

    rows: list[np.ndarray]
    first: list[np.ndarray]


def train_tokenizer(name: str, texts: Sequence[str]) -> Tokenizer:
    """Trains a tokenizer on texts.

    Args:
        name: One of "character", "word", "bpe", "wordpiece", "unigram".
        texts: The training texts.
    """
    from kerasseq import text

    checks.one_of("tokenizer", name, TOKENIZERS)
    if name == "character":
        return text.CharacterTokenizer().fit(texts)
    classes = {
        "word": text.WordTokenizer,
        "bpe": text.BytePairTokenizer,
        "wordpiece": text.WordPieceTokenizer,
        "unigram": text.UnigramTokenizer,
    }
    return classes[name](VOCABULARY_SIZE).fit(texts)


def check_tokenizer(tokenizer: Any) -> Tokenizer | str | None:
    """Returns a fitted tokenizer, or the name of one that is trained, or None."""
    if isinstance(tokenizer, str):
        try:
            return checks.one_of("tokenizer", tokenizer, TOKENIZERS)
        except ValueError as error:
            if is_path(tokenizer):
                raise ValueError(f"{error} {advice_for_path(tokenizer)}") from error
            raise
    more = ", or give its name, so that the model trains it on the texts"
    return fitted_tokenizer(tokenizer, more=more)


def are_texts(x: Any) -> bool:
    """Returns whether inputs are strings, in a list, an array or a column of a table.

    Examples:
        >>> are_texts(["a", "b"]), are_texts(np.array(["a"])), are_texts([[1, 2]])
        (True, True, False)
    """
    kind = getattr(getattr(x, "dtype", None), "kind", None)
    if kind is not None:
        return kind in "UOT" and getattr(x, "ndim", 1) == 1
    return isinstance(x, list | tuple) and len(x) > 0 and isinstance(x[0], str)


def are_words(x: Any) -> bool:
    """Returns whether inputs are lists of words.

    Examples:
        >>> are_words([["a", "b"], ["c"]]), are_words(["a b"]), are_words([[1], [2]])
        (True, False, False)
    """
    if not isinstance(x, list | tuple) or not len(x):
        return False
    return all(
        hasattr(row, "__len__") and not isinstance(row, str) and _all_strings(row)
        for row in x
    )


def _all_strings(row):
    return len(row) > 0 and all(isinstance(word, str) for word in row)


def sentences(x: Any) -> Any:
    """Returns texts as lists of words, one sentence in a list; others as they are.

    Examples:
        >>> sentences("to be"), sentences(["to be", "or"]), sentences(["to", "be"])
        ([['to', 'be']], [['to', 'be'], ['or']], [['to', 'be']])
    """
    if isinstance(x, str):
        return [x.split()]
    if is_one_sentence(x):
        return [list(x)]
    rows = x if isinstance(x, list | tuple) or are_texts(x) else ()
    has_texts = any(isinstance(row, str) for row in rows)
    return [_words(row) for row in rows] if has_texts else x


def is_one_sentence(x: Any) -> bool:
    """Returns whether this is a text, or a list of words: strings without spaces."""
    if isinstance(x, str):
        return True
    return are_texts(x) and all(map(_is_word, x))


def _is_word(text):
    return isinstance(text, str) and " " not in text.strip()


def _words(row):
    """Returns the words of a text; other rows as they are."""
    return row.split() if isinstance(row, str) else row


def text_rows(
    tokenizer: Tokenizer, texts: Sequence[Any], name: str = "x"
) -> list[np.ndarray]:
    """Returns the ids of texts.

    Args:
        tokenizer: A fitted tokenizer.
        texts: Strings.
        name: The name of the argument, for error messages.

    Raises:
        TypeError: If one is not a string.
        ValueError: If one has no tokens.

    Examples:
        >>> from kerasseq.text import CharacterTokenizer
        >>> [row.tolist() for row in text_rows(CharacterTokenizer().fit("ab"), ["ba"])]
        [[1, 0]]
    """
    check_strings(texts, name)
    rows = []
    for row, text in enumerate(texts):
        ids = tokenizer.encode(text)
        if not len(ids):
            raise ValueError(
                f"{name}[{row}] must have at least one token, received "
                f"{checks.short(text)}"
            )
        rows.append(ids.astype("int32"))
    return rows


def check_strings(texts: Sequence[Any], name: str = "x") -> None:
    """Raises unless all are strings.

    Examples:
        >>> check_strings(["a", 3])
        Traceback (most recent call last):
        ...
        TypeError: x[1] must be a string, received 3
    """
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"{name}[{row}] must be a string, received {checks.short(text)}"
            )


def word_rows(
    tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], name: str = "x"
) -> Words:
    """Returns the ids of sentences, and where each word begins.

    The words are joined by spaces, so that a tokenizer reads them as in a text.

    Args:
        tokenizer: A fitted tokenizer.
        sentences: Lists of words.
        name: The name of the argument, for error messages.

    Raises:
        ValueError: If a word has no tokens.

    Examples:
        >>> from kerasseq.text import CharacterTokenizer
        >>> rows, first = word_rows(CharacterTokenizer().fit("ab "), [["ab", "b"]])
        >>> rows[0].tolist(), first[0].tolist()
        ([1, 2, 0, 2], [0, 3])
    """
    rows, firsts = [], []
    for row, words in enumerate(sentences):
        ids, first = word_ids(tokenizer, words, f"{name}[{row}]")
        rows.append(ids.astype("int32"))
        firsts.append(first)
    return Words(rows, firsts)


def word_ids(
    tokenizer: Tokenizer, words: Sequence[str], name: str = "x"
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ids of a sentence, and the index of each word's first id.

    Args:
        tokenizer: A fitted tokenizer.
        words: The words.
        name: The name of the argument, for error messages.
    """
    encoding = tokenizer.encode_with_offsets(" ".join(words))
    starts = np.cumsum([0] + [len(word) + 1 for word in words])[:-1]
    ends = starts + [len(word) for word in words]
    begins, stops = encoding.offsets[:, 0], encoding.offsets[:, 1]
    # The first token with a character of the word; a space may precede it.
    first = np.searchsorted(stops, starts, side="right")
    inside = first < len(begins)
    inside[inside] = begins[first[inside]] < ends[inside]
    if not inside.all() or len(set(first.tolist())) < len(words):
        word = words[int(np.argmin(inside))]
        raise ValueError(
            f"{name}: each word must have a token of its own, received "
            f"{checks.short(word)} in {checks.short(' '.join(words))}"
        )
    return encoding.ids, first
