"""Texts as inputs of a model: tokenized, as rows of ids."""

import types
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kerasseq.core import checks
from kerasseq.tasks import data_checks
from kerasseq.text.tokenizers.tokenizer import Tokenizer

TOKENIZERS = ("character", "word", "bpe", "wordpiece", "unigram")
ENDLESS = -1  # the cardinality of a `tf.data` set that repeats
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


def check_tokenizer(tokenizer: Any) -> None:
    """Raises if an argument is no fitted tokenizer."""
    if not isinstance(tokenizer, Tokenizer):
        raise TypeError(
            "tokenizer must be a tokenizer of kerasseq.text, or one of "
            f"{', '.join(TOKENIZERS)}; received {checks.short(tokenizer)}"
        )
    more = ", or give its name, so that the model trains it on the texts"
    checks.fitted_size(tokenizer, more=more)


def are_texts(x: Any) -> bool:
    """Whether inputs are strings, in a list, an array or a column of a table.

    Examples:
        >>> are_texts(["a", "b"]), are_texts(np.array(["a"])), are_texts([[1, 2]])
        (True, True, False)
    """
    kind = getattr(getattr(x, "dtype", None), "kind", None)
    if kind is not None:
        return kind in "UOT" and getattr(x, "ndim", 1) == 1
    return isinstance(x, list | tuple) and len(x) > 0 and isinstance(x[0], str)


def are_words(x: Any) -> bool:
    """Whether inputs are lists of words.

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


def from_dataset(
    x: Any, y: Any, words: bool = False, sample_weight: Any = None
) -> tuple[Any, Any, Any]:
    """Returns strings, labels and sample weights of a `tf.data.Dataset` as lists.

    Args:
        x: Such a data set, with batches or without, of strings or pairs of strings; or
            other inputs, which are returned as they are, as columns of a table are as
            lists, and several columns of strings as tuples.
        y: Labels, None for a data set that has them.
        words: Whether a row is a list of words with a list of labels: in a data set a
            tensor `(words,)`, or a batch of them, ragged or filled with "".
        sample_weight: The weights of the rows, None for a data set that has them.

    Raises:
        TypeError: If the inputs are neither rows nor batches.
        ValueError: If a data set of strings has no end, or there are weights twice.
    """
    data_checks.check_data(x)
    if isinstance(x, types.GeneratorType):
        x = data_checks.batches_of_generator(x)
    if not hasattr(x, "as_numpy_iterator"):
        return _plain(x, words), _plain(y, words), sample_weight
    x, y, weights = _collected(x, words)
    if weights is not None and sample_weight is not None:
        raise ValueError(
            "sample_weight must be None for a data set (x, y, weight), which has its "
            f"own, received {checks.short(sample_weight)}"
        )
    return x, y, sample_weight if weights is None else weights


def _plain(values, words):
    """Columns of a table as a list, of several as tuples; with words, arrays, too."""
    if hasattr(values, "columns"):
        array = values.to_numpy()
        return _pairs(array) if array.dtype.kind == "O" else values
    if hasattr(values, "to_numpy"):
        return values.tolist()
    if isinstance(values, np.ndarray) and values.dtype.kind in "OU":
        return values.tolist() if words else _pairs(values)
    return values


def _pairs(array):
    """An array of strings of rank 2 as tuples, of a higher rank as lists."""
    if array.ndim > 2:
        return array.tolist()
    return list(map(tuple, array.tolist())) if array.ndim == 2 else array


def _collected(dataset, words):
    """Strings, labels and weights of a data set; it itself if it has no strings."""
    spec = dataset.element_spec
    parts = spec if isinstance(spec, tuple) else (spec,)
    texts = parts[0] if isinstance(parts[0], tuple) else parts[:1]
    if not all(getattr(part, "dtype", None) == "string" for part in texts):
        return dataset, None, None
    if int(dataset.cardinality()) == ENDLESS:
        raise ValueError(
            "x must be a data set with an end, as its texts are read before training, "
            f"received {checks.short(dataset)}, which repeats without end. Leave "
            ".repeat() out, and pass epochs=..."
        )
    columns, labels, weights = [[] for _ in texts], [], []
    for element in dataset.as_numpy_iterator():
        x, *y = element if isinstance(spec, tuple) else (element,)
        values = x if isinstance(x, tuple) else (x,)
        for column, part in zip(columns, values, strict=True):
            column.extend(_rows_of(part, words))
        for part in y[:1]:
            labels.extend(_rows_of(part, words))
        for part in y[1:]:
            weights.extend(_rows_of(part, words=False))
    x = columns[0] if len(texts) == 1 else list(zip(*columns, strict=True))
    if words:
        x = list(map(_without_padding, x))
        labels = [tags[: len(row)] for tags, row in zip(labels, x, strict=False)]
    return (
        x,
        labels if len(parts) > 1 else None,
        weights if len(parts) > 2 else None,
    )


def _rows_of(values, words):
    """The rows of an element of a data set: texts, or lists of words or labels."""
    found = _decoded(values)
    if not isinstance(found, list):
        return [found]
    is_batch = bool(found) and isinstance(found[0], list)
    return [found] if words and not is_batch else found


def _without_padding(row):
    """Words without the empty strings at the end.

    Examples:
        >>> _without_padding(["a", "b", "", ""])
        ['a', 'b']
    """
    count = len(row)
    while count and row[count - 1] == "":
        count -= 1
    return row[:count]


def _decoded(value):
    """Tensors of bytes or numbers as plain lists of text or numbers.

    Examples:
        >>> _decoded(np.array([b"a", b"b"])), _decoded(b"a")
        (['a', 'b'], 'a')
    """
    for method in ("to_list", "tolist"):  # of ragged tensors and of arrays
        if hasattr(value, method):
            value = getattr(value, method)()
    if isinstance(value, list):
        return list(map(_decoded, value))
    return value.decode("utf-8") if isinstance(value, bytes) else value
