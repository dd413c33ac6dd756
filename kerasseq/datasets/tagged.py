r"""Sentences with a tag for each word, and files of them in CoNLL formats.

A line has a word and its tag, in columns; a blank line ends the sentence. CoNLL-2000,
CoNLL-2003 and CoNLL-U are such formats.
"""

import os
import pathlib
import re
import warnings
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kerasseq.core.checks import one_of, optional, short, truth, whole_number
from kerasseq.datasets.files import read_text

_LOOK = (
    "A line should have a word and its tag, as in 'Paris B-LOC', and a blank line "
    "should end a sentence"
)
_FIRST = 5  # wrong lines that a message names
_SPACES = re.compile("[ \t]+")  # not others, which can be inside a word
_RANGE = re.compile(r"\d+[-.]\d+")  # of CoNLL-U: 1-2 is a contraction, 1.1 is empty


class Tagged(NamedTuple):
    """Sentences with a tag for each word.

    Attributes:
        sentences: Lists of words.
        tags: For each sentence a list of tags, of the same length.
    """

    sentences: list[list[str]]
    tags: list[list[str]]

    @property
    def names(self) -> list[str]:
        """The different tags, sorted."""
        return sorted({tag for tags in self.tags for tag in tags})


class _Fault(NamedTuple):
    """A wrong line: its number, and what is wrong."""

    line: int
    message: str


class _Layout(NamedTuple):
    """Columns of a file: their separator and number, and those of word and tag."""

    separator: str | None
    width: int
    word: int
    tag: int


def read_tagged(
    path: str | os.PathLike[str],
    *,
    word_column: int | None = None,
    tag_column: int | None = None,
    separator: str | None = None,
    comments: bool | None = None,
    encoding: str = "utf-8",
    limit: int | None = None,
    missing: str = "error",
) -> Tagged:
    r"""Reads a file of words and their tags, in a CoNLL format.

    Lines that begin with `-DOCSTART-` are skipped. In CoNLL-U files
    (`word_column=1, tag_column=3`, word and part of speech, the default where the name
    ends in `.conllu`), so are contractions such as `1-2` and empty nodes such as `1.1`.
    A byte order mark is removed; line ends can be those of any system; a file
    compressed by gzip is decompressed.

    Args:
        path: The file.
        word_column: Index of the column of words, from 0; negative from the last. By
            default 0, and 1 for `.conllu`.
        tag_column: Index of the column of tags. By default -1, and 3 for `.conllu`.
        separator: String between columns. By default a tab if the first line of words
            has one, else one or more spaces.
        comments: Whether lines before the first word of a sentence that begin with `#`
            and a space are comments, and skipped. By default they are if their number
            of columns differs from that of the words; if not, an error is raised.
        encoding: Name of the encoding.
        limit: Maximum number of sentences. By default the whole file is read.
        missing: What is done if lines have no word or tag, or more or fewer columns
            than the others: "error", or "skip", which leaves out their sentences and
            warns with their number.

    Returns:
        The sentences, as `Tagged`.

    Raises:
        FileNotFoundError: If there is no such file.
        IsADirectoryError: If it is a folder.
        TypeError: If an argument is of the wrong type.
        ValueError: If the file is empty, binary, damaged, in another encoding, or has
            no sentence; if lines have no tag, or more or fewer columns than the others.
            The message has the number of these lines, and the first.

    Examples:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "tagged.txt")
        ...     _ = path.write_text("In O\nParis B-LOC\n\nYes O\n", encoding="utf-8")
        ...     read_tagged(path)
        Tagged(sentences=[['In', 'Paris'], ['Yes']], tags=[['O', 'B-LOC'], ['O']])
    """
    one_of("missing", missing, ("error", "skip"))
    usual = {"word_column": 0, "tag_column": -1}
    if str(path).lower().removesuffix(".gz").endswith(".conllu"):
        usual = {"word_column": 1, "tag_column": 3}
    given = {"word_column": word_column, "tag_column": tag_column}
    columns = tuple(
        usual[name] if value is None else whole_number(name, value, at_least=-(10**6))
        for name, value in given.items()
    )
    optional(truth, "comments", comments)
    limit = optional(whole_number, "limit", limit)
    if not (separator is None or (isinstance(separator, str) and separator)):
        raise TypeError(
            '`separator` must be a string such as "\\t", or None, received '
            f"{short(separator)}."
        )
    path, text = read_text(path, encoding)
    lines = text.split("\n")
    layout = _layout(path, lines, separator, comments, columns)
    tagged, wrong, skipped = Tagged([], []), [], 0
    for sentence in _sentences(_rows(path, lines, layout, comments)):
        faults = [row for row in sentence if isinstance(row, _Fault)]
        if faults:
            wrong += faults
            skipped += 1
            continue
        tagged.sentences.append([word for word, _ in sentence])
        tagged.tags.append([tag for _, tag in sentence])
        if len(tagged.sentences) == limit:
            break
    if wrong:
        _report(path, wrong, skipped, missing == "error" or not tagged.sentences)
    return tagged


def _report(
    path: pathlib.Path, wrong: list["_Fault"], skipped: int, is_error: bool
) -> None:
    """Raises an error for wrong lines, or warns that their sentences are skipped."""
    shown = ", ".join(str(fault.line) for fault in wrong[:_FIRST])
    shown += ", …" * (len(wrong) > _FIRST)
    if not is_error:
        warnings.warn(
            f"{path}: {skipped:,} sentences are left out, as {len(wrong):,} lines have "
            f"no word or tag, or another number of columns: line {shown}.",
            stacklevel=3,
        )
        return
    more = f" So {len(wrong):,} lines are wrong: line {shown}." * (len(wrong) > 1)
    raise ValueError(
        f'{wrong[0].message}{more} Correct them, or pass missing="skip" to leave out '
        "their sentences."
    )


def _sentences(
    rows: Iterable["tuple[str, str] | _Fault | None"],
) -> Iterator[list["tuple[str, str] | _Fault"]]:
    """Yields lists of words and tags between the ends of sentences.

    Examples:
        >>> list(_sentences([None, ("Yes", "O"), None, None, ("No", "O")]))
        [[('Yes', 'O')], [('No', 'O')]]
    """
    sentence: list[tuple[str, str] | _Fault] = []
    for row in rows:
        if row is not None:
            sentence.append(row)
        elif sentence:
            yield sentence
            sentence = []
    if sentence:
        yield sentence


def _rows(
    path: pathlib.Path, lines: list[str], layout: _Layout, comments: bool | None
) -> Iterator["tuple[str, str] | _Fault | None"]:
    """Yields word and tag of each line, or its fault; None ends a sentence."""
    inside = False  # a sentence
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("-DOCSTART-"):
            inside = False
            yield None
            continue
        columns = _columns(line, layout.separator)
        is_of_width = len(columns) == layout.width
        where = f"{path}, line {number}"
        if not inside and _is_comment(where, line, is_of_width, comments):
            continue
        if not is_of_width:
            inside = True
            yield _Fault(number, _ragged(where, line, len(columns), layout.width))
        elif not (layout.word and _RANGE.fullmatch(columns[0])):
            inside = True
            word, tag = columns[layout.word], columns[layout.tag]
            if word and tag:
                yield word, tag
            else:
                yield _Fault(number, _missing(where, line, "tag" if word else "word"))


def _is_comment(
    where: str, line: str, is_of_width: bool, comments: bool | None
) -> bool:
    """Returns whether a line before the first word of a sentence is a comment."""
    if not _is_hash(line) or comments is False:
        return False
    if comments is None and is_of_width:
        raise ValueError(
            f"{where} could be a comment, or the word # and its tag: {short(line)}. "
            "Pass `comments=True` or `comments=False`."
        )
    return True


def _layout(
    path: pathlib.Path,
    lines: list[str],
    separator: str | None,
    comments: bool | None,
    columns: tuple[int, int],
) -> _Layout:
    """Returns the layout of a file, from its first line of words."""
    # A line that could be a comment does not decide.
    words = (
        (number, line)
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.startswith("-DOCSTART-")
        if comments is False or not _is_hash(line)
    )
    number, line = next(words, (0, ""))
    if not number:
        raise ValueError(f"{path} has no line with a word. {_LOOK}.")
    if separator is None and "\t" in line:
        separator = "\t"
    width = len(_columns(line, separator))
    if width == 1:
        raise ValueError(_missing(f"{path}, line {number}", line, "tag"))
    for name, column in zip(("word_column", "tag_column"), columns, strict=True):
        if not -width <= column < width:
            raise ValueError(
                f"`{name}` must be a column of the file, received {column}; {path}, "
                f"line {number} has {width} columns: {short(line)}."
            )
    word, tag = (column % width for column in columns)
    if word == tag:
        raise ValueError(
            f"`word_column` and `tag_column` must differ, received {columns[0]} and "
            f"{columns[1]}, with {width} columns."
        )
    return _Layout(separator, width, word, tag)


def _columns(text: str, separator: str | None) -> list[str]:
    r"""Splits a line into columns.

    Examples:
        >>> _columns("10 000\tNUM", "\t")
        ['10 000', 'NUM']
        >>> _columns("Paris  NNP B-LOC ", None)
        ['Paris', 'NNP', 'B-LOC']
    """
    if separator is None:
        return _SPACES.split(text.strip(" \t"))
    return [part.strip() for part in text.split(separator)]


def _is_hash(line: str) -> bool:
    """Returns whether a line has the form of a comment of CoNLL-U.

    Examples:
        >>> _is_hash("# text = Oui."), _is_hash("#hashtag O")
        (True, False)
    """
    return line == "#" or line.startswith("# ")


def _missing(where: str, line: str, what: str) -> str:
    return f"{where} has no {what}: {short(line)}. {_LOOK}."


def _ragged(where: str, line: str, received: int, width: int) -> str:
    if received == 1:
        return _missing(where, line, "tag")
    return (
        f"{where} must have {width} columns, as the first line of words, received "
        f"{received}: {short(line)}. Correct the line, or pass `separator`."
    )
