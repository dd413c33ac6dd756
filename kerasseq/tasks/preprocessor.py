"""Preprocessors: from texts, words, ids or vectors to rows of arrays."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from kerasseq.core import checks, ids
from kerasseq.core.types import Config
from kerasseq.tasks import data_checks, sources
from kerasseq.tasks.input_rows import are_batches, is_ids, is_stream, rank, read_columns
from kerasseq.tasks.labeled_data import Data, complete_rows, predictable_rows
from kerasseq.tasks.sequence_layers import check_sizes, embedding_width, sequence_input
from kerasseq.text.tokenizers.conversion import (
    advice_for_path,
    fitted_tokenizer,
    is_path,
)
from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.training.label_batches import Rows


class Preprocessor:
    """The base of the preprocessors, for texts.

    Attributes:
        tokenizer: The tokenizer, or None.
        padding: The id of padding.
        longest: The most steps of a row; None if there is no limit.
        has_texts: Whether rows are texts, which may be empty.
        reads_words: Whether a row is a list of words.
        encodes: Whether inputs differ from what the model reads.
        row_rank: Number of axes of a row that is an array; -1 if none is.
    """

    tokenizer: Tokenizer | None = None
    padding: int = 0
    longest: int | None = None
    has_texts: bool = True
    reads_words: bool = False
    encodes: bool = True
    row_rank: int = -1

    @property
    def is_waiting(self) -> bool:
        """Whether `fit` has yet to train the tokenizer."""
        return False

    def data(
        self, x: Any, y: Any = None, sample_weight: Any = None, labels: Any = None
    ) -> Data:
        """Returns inputs, labels and sample weights of any source, as lists or arrays.

        Args:
            x: As for `fit`.
            y: As for `fit`.
            sample_weight: As for `fit`.
            labels: The labels of the model, as its argument.
        """
        options = {"words": self.reads_words, "labels": labels}
        is_stream_of_texts = isinstance(x, sources.TextStream)
        read = sources.read if is_stream_of_texts or is_stream(x) else read_columns
        return read(x, y, sample_weight, **options)

    def is_one(self, x: Any) -> bool:
        """Returns whether this is one input, and not a list or a batch."""
        return isinstance(x, str)

    def is_row(self, x: Any) -> bool:
        """Returns whether an array that a stream yields is one row, and no batch."""
        return rank(x) == self.row_rank

    def has_labels(self, x: Any) -> bool:
        """Returns whether these are rows with their labels, and not `(x, y)`."""
        return False

    def several(self, x: Any) -> Any:
        """Returns one input as a list with it, texts of words as lists of words.

        Others are returned as they are.
        """
        if self.reads_words:
            return sentences(x)
        return [x] if self.is_one(x) else x

    def complete(self, missing: str, *data: Any, **options: Any) -> Data:
        """Returns data without the rows that have an empty cell.

        Args:
            missing: "error" or "skip", as for `fit`.
            *data: As `data` returns them.
            **options: As for `complete_rows`.
        """
        return complete_rows(*data, missing, has_texts=self.has_texts, **options)

    def predictable(self, missing: str, x: Any) -> list[int] | None:
        """Returns the indices of rows without an empty cell; None for all.

        Args:
            missing: "error" or "skip", as for `predict`.
            x: Inputs, as `data` returns them.
        """
        return predictable_rows(x, missing, has_texts=self.has_texts)

    def none(self) -> Any:
        """Returns inputs without rows; None where their shape is that of the layers."""
        return None

    def rows(self, x: Any) -> Rows | None:
        """Converts inputs to rows; None for what Keras takes as it is."""
        raise NotImplementedError

    def word_rows(self, x: Any) -> Rows | None:
        """Converts inputs to rows with a label for each step, or for each word."""
        raise NotImplementedError

    def tokens(self, x: Any) -> tuple[list[str], np.ndarray]:
        """Returns the tokens of a text, and their indices in its row."""
        raise NotImplementedError


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


def _how_words(x):
    """Returns what to do about rows that are no lists of words."""
    rows = x if isinstance(x, list | tuple) else []
    if any(isinstance(row, str) for row in rows):
        return ". Split the texts, as in [text.split() for text in x]"
    empty = [n for n, row in enumerate(rows) if isinstance(row, list) and not row]
    return f". x[{empty[0]}] has no words: leave it out" if empty else ""


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


class SequencePreprocessor(Preprocessor):
    """Converts texts, words or ids to rows of ids; vectors stay as they are.

    Args:
        arguments: The arguments of the model: `tokenizer`, `vocabulary_size`,
            `features` and those of its layers.
        per_step: Whether each step has a label.

    Raises:
        TypeError: If the tokenizer is none.
        ValueError: If there is not exactly one kind of inputs.
    """

    def __init__(self, arguments: Config, per_step: bool) -> None:
        given = check_tokenizer(arguments["tokenizer"])
        arguments["tokenizer"], sizes = given, ("vocabulary_size", "features")
        if given is not None and not isinstance(given, str):
            self.tokenizer: Tokenizer = given
            self.padding: int = given.vocabulary_size
        others = [f"{n}={arguments[n]}" for n in sizes if arguments[n] is not None]
        received = others if given is None else ["a tokenizer", *others]
        if len(received) != 1:
            raise ValueError(
                'expected one of tokenizer, for texts, such as tokenizer="word", '
                "vocabulary_size, for ids, and features, for vectors; received "
                f"{' and '.join(received) or 'none of them'}"
            )
        self.arguments = arguments
        self.has_texts: bool = given is not None
        self.encodes: bool = self.has_texts
        self.reads_words: bool = per_step and self.has_texts
        self.row_rank: int = 1 if arguments["features"] is None else 2

    @property
    def is_waiting(self) -> bool:
        """Whether the tokenizer has to be trained."""
        return self.has_texts and self.tokenizer is None

    @property
    def size(self) -> int | None:
        """The number of ids, padding included; None for vectors."""
        if self.tokenizer is None:
            return self.arguments["vocabulary_size"]
        return self.padding + 1

    def trained(self, x: Any) -> Tokenizer:
        """Trains the tokenizer that the model names on texts, and returns it."""
        texts = None
        if self.reads_words:
            if are_words(x):
                texts = [" ".join(words) for words in x]
        elif are_texts(x):
            texts = list(x)
        if texts is None:
            kind, advice = "texts", ""
            if self.reads_words:
                kind = "lists of words"
                advice = ". Split texts, [text.split() for text in x]" * are_texts(x)
            raise TypeError(
                f"expected {kind}, as the model has a tokenizer, received "
                f"x={checks.short(x)}{advice}"
            )
        return train_tokenizer(self.arguments["tokenizer"], texts)

    def layers(self) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Returns the input of the model, and its vectors `(batch, time, width)`."""
        a, size = self.arguments, self.size
        units, features = a["units"], a["features"]
        width = embedding_width(a["embedding_dim"], units)
        rows = {"vocabulary_size": size, "features": features}
        check_sizes(a["architecture"], units, a["num_layers"], width, rows)
        return sequence_input(size, features, width, a["mask_value"], self.padding)

    def rows(self, x: Any) -> Rows | None:
        if self.tokenizer is None or is_ids(x):
            return self._id_rows(x)
        x = self.several(x)
        if not are_texts(x):
            raise TypeError(
                "x must be a list of strings, as the model has a tokenizer, received "
                f"{checks.short(x)}"
            )
        return self._of_lists(self.text_ids(x))

    def text_ids(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Returns the ids of texts."""
        return text_rows(self.tokenizer, texts)

    def prefixes(self, x: Any, row: np.ndarray) -> list[np.ndarray]:
        """Returns the row of each prefix of an input.

        Args:
            x: A text, ids or vectors.
            row: Its row, `(T,)` or `(T, features)`.
        """
        return [row[: t + 1] for t in range(len(row))]

    def word_rows(self, x: Any) -> Rows | None:
        if self.tokenizer is None or is_ids(x):
            rows = self._id_rows(x)
            if rows is not None and rows.lengths is None:
                (part,) = x.values() if isinstance(x, Mapping) else [x]
                rows.per_step, rows.steps = True, np.shape(part)[1]
            return rows
        if not are_words(x):
            raise TypeError(
                "x must be a list of lists of words, as the model has a tokenizer, "
                f"received {checks.short(x)}{_how_words(x)}"
            )
        rows, first = word_rows(self.tokenizer, x)
        return self._of_lists(rows, first)

    def _id_rows(self, x):
        """Rows of ids or vectors, checked."""
        if self.tokenizer is None:
            ids.refuse_texts(x, has_tokenizer=False)
        size, features = self.size, self.arguments["features"]
        name = "sequence" if size is None else "ids"
        x = data_checks.array_rows(x, size, self.padding, features, name)
        if isinstance(x, list):
            return self._of_lists(x)
        if are_batches(x):
            return None
        return Rows(x, padding=self.padding, is_array=True)

    def _of_lists(self, rows, places=None):
        lengths = np.array([len(row) for row in rows])
        return Rows(rows, lengths=lengths, padding=self.padding, places=places)

    def tokens(self, x: Any) -> tuple[list[str], np.ndarray]:
        text = " ".join(x.split()) if self.reads_words else x
        offsets = self.tokenizer.encode_with_offsets(text).offsets.tolist()
        tokens = [text[a:b] for a, b in offsets]
        return tokens, np.arange(len(tokens))
