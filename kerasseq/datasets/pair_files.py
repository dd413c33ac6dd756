r"""Files of pairs, one per line: source, tab, target, as of Tatoeba and Anki.

Text after a second tab, such as the author, is ignored. Malformed lines are skipped and
reported; a file without any pair, or in another encoding, is an error.
"""

import codecs
import os
import pathlib
from typing import NamedTuple

from kerasseq.core.checks import whole_number
from kerasseq.core.table import Table
from kerasseq.datasets.files import check_encoding, decode, not_text, read_bytes
from kerasseq.datasets.pairs import Pairs

SHOWN = 3  # lines of each kind of problem
EXCERPT = 40  # characters of a line
WRONG_ENCODING = "wrong encoding"
_STATEFUL = ("hz", "iso2022_kr")  # a line may depend on the lines before it
_LOOK = (
    "A line should be a sentence, a tab, and its translation, as in 'Go.\\tVa !' where "
    "\\t is the tab key"
)


class Problem(NamedTuple):
    """Malformed lines of one kind.

    Attributes:
        kind: "no tab", "empty source", "empty target" or "wrong encoding".
        count: Number of lines.
        examples: The first three: line number, from 1, and beginning of the line.
    """

    kind: str
    count: int
    examples: list[tuple[int, str]]


class Report(NamedTuple):
    """Statistics of a file of pairs; `str(report)` is a summary.

    Attributes:
        path: The file.
        lines: Number of lines: `kept`, `blank` and those of all `problems`.
        kept: Number of lines with a pair.
        blank: Number of blank lines.
        problems: One `Problem` per kind, in the order of the file.
    """

    path: str
    lines: int
    kept: int
    blank: int
    problems: list[Problem]

    def __str__(self) -> str:
        left_out = sum(problem.count for problem in self.problems)
        told = [
            f"{self.path}: {_lines(self.lines)} read, {self.kept:,} kept as pairs, "
            f"{left_out:,} left out"
        ]
        for kind, count, examples in self.problems:
            shown = ", ".join(f"line {line} {text!r}" for line, text in examples)
            more = " …" if count > len(examples) else ""
            told.append(f"  {kind}: {_lines(count)}: {shown}{more}")
        return "\n".join(told)

    def _repr_html_(self) -> str:
        kinds = [("kept as pairs", self.kept, []), ("blank", self.blank, [])]
        rows = [
            (kind, f"{count:,}", ", ".join(f"{n}: {text!r}" for n, text in examples))
            for kind, count, examples in [*kinds, *self.problems]
        ]
        return Table(rows, (self.path, "lines", "the first")).html()


def read_pairs(
    path: str | os.PathLike[str],
    *,
    encoding: str = "utf-8",
    strict: bool = False,
    limit: int | None = None,
) -> tuple[Pairs, Report]:
    r"""Reads a file of pairs.

    A byte order mark and surrounding whitespace are removed; line ends can be those of
    any system.

    Args:
        path: The file.
        encoding: Name of its encoding.
        strict: Whether a malformed line is an error. Blank lines are allowed.
        limit: Maximum number of pairs. By default the whole file is read.

    Returns:
        The pairs, and a `Report`.

    Raises:
        FileNotFoundError: If there is no such file.
        IsADirectoryError: If it is a folder.
        TypeError: If an argument is of the wrong type.
        ValueError: If the file is empty, binary, in another encoding, or has no pair;
            with `strict`, if a line is malformed.

    Examples:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "pairs.txt")
        ...     _ = path.write_text("Go.\tVa !\nRun!\nHi.\tSalut.\n", encoding="utf-8")
        ...     pairs, report = read_pairs(path)
        >>> pairs
        Pairs(sources=['Go.', 'Hi.'], targets=['Va !', 'Salut.'])
        >>> report.problems
        [Problem(kind='no tab', count=1, examples=[(2, 'Run!')])]
    """
    path, data = read_bytes(path, encoding)
    return parse_pairs(path, data, encoding=encoding, strict=strict, limit=limit)


def parse_pairs(
    path: pathlib.Path,
    data: bytes,
    *,
    encoding: str = "utf-8",
    strict: bool = False,
    limit: int | None = None,
) -> tuple[Pairs, Report]:
    """Returns the pairs in the bytes of a file: see `read_pairs`."""
    if limit is not None:
        limit = whole_number("limit", limit)
    lines, encoding = _split_lines(path, data, encoding)
    pairs, blank, problems = _sorted_out(lines, encoding, limit)
    bad = sum(map(len, problems.values()))
    lines = lines[: len(pairs.sources) + blank + bad]  # all, unless limit was reached
    told = [_problem(kind, at, lines, encoding) for kind, at in problems.items()]
    report = Report(str(path), len(lines), len(pairs.sources), blank, told)
    wrong = len(problems.get(WRONG_ENCODING, ()))
    # A few undecodable lines are damaged lines. If most of the lines that are not ASCII
    # cannot be decoded, the whole file has another encoding.
    most = 2 * wrong > sum(not line.isascii() for line in lines)
    if wrong and (not pairs.sources or (wrong > SHOWN and most)):
        raise _other_encoding(path, data, encoding, report)
    if not pairs.sources:
        raise ValueError(f"No pair was found. {_LOOK}.\n{report}")
    if strict and told:
        raise ValueError(f"Not every line is a pair. {_LOOK}.\n{report}")
    return pairs, report


def _sorted_out(lines: list[bytes], encoding: str, limit):
    """Returns pairs, the number of blank lines, and other line numbers by kind."""
    pairs, blank, problems = Pairs([], []), 0, {}
    for number, line in enumerate(lines, start=1):
        pair = _read_line(line, encoding)
        if pair is None:
            blank += 1
        elif isinstance(pair, str):
            problems.setdefault(pair, []).append(number)
        else:
            pairs.sources.append(pair[0])
            pairs.targets.append(pair[1])
            if len(pairs.sources) == limit:
                break
    return pairs, blank, problems


def _split_lines(path, data: bytes, encoding: str) -> tuple[list[bytes], str]:
    """Splits a file into lines as bytes, which are decoded one by one.

    This needs an encoding with the tabs and line ends of ASCII. Files in others, such
    as UTF-16, or with a state across lines are decoded as a whole and encoded as UTF-8.
    """
    check_encoding(encoding)
    name = codecs.lookup(encoding).name
    if name == "utf-8-sig":
        encoding = "utf-8"
    if name in _STATEFUL or "\t\r\n".encode(encoding) != b"\t\r\n":
        data, encoding = decode(path, data, encoding).encode(), "utf-8"
    if b"\0" in data:
        raise not_text(path, data, encoding)
    return data.splitlines(), encoding  # bytes: at \n, \r\n and \r only


def _read_line(line: bytes, encoding: str) -> tuple[str, str] | str | None:
    r"""Returns source and target of a line, the kind of problem, or None if blank.

    Examples:
        >>> _read_line(b" Go.\tVa !\tCC-BY", "utf-8")
        ('Go.', 'Va !')
        >>> _read_line(b"Go.\t", "utf-8")
        'empty target'
    """
    try:
        text = line.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError:
        return WRONG_ENCODING
    if not text.strip():
        return None
    source, tab, rest = text.partition("\t")
    if not tab:
        return "no tab"
    source, target = source.strip(), rest.partition("\t")[0].strip()
    if not source:
        return "empty source"
    return (source, target) if target else "empty target"


def _problem(kind: str, numbers: list[int], lines: list[bytes], encoding) -> Problem:
    examples = []
    for number in numbers[:SHOWN]:
        text = lines[number - 1].decode(encoding, "backslashreplace")
        excerpt = text if len(text) <= EXCERPT else text[: EXCERPT - 1] + "…"
        examples.append((number, excerpt))
    return Problem(kind, len(numbers), examples)


def _other_encoding(path, data: bytes, encoding: str, report: Report) -> ValueError:
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        advice = not_text(path, data, encoding, error.start)
    return ValueError(f"{advice}\n{report}")


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count:,} lines"
