r"""Files of pairs, one a line: source, tab, target, as Tatoeba and Anki write them.

What comes after a second tab, such as who wrote the sentence, is not read. Such files
come from many hands, so a line that makes no pair is counted and left out rather than
ending a training run; a file that makes none at all, or is in another encoding, is an
error.
"""

import codecs
import pathlib
from typing import NamedTuple

from kerasseq.core.checks import whole_number
from kerasseq.datasets.files import check_encoding, decode, not_text, read_bytes
from kerasseq.datasets.pairs import Pairs

SHOWN = 3  # lines of each kind of problem
EXCERPT = 40  # characters of a line
WRONG_ENCODING = "wrong encoding"
_LOOK = (
    "A line should be a sentence, a tab, and its translation, as in 'Go.\\tVa !' where "
    "\\t is the tab key"
)


class Problem(NamedTuple):
    """Lines that make no pair, all for the same reason.

    Attributes:
        kind: The reason: "no tab", "empty source", "empty target", "wrong encoding".
        count: How many lines.
        examples: The first three: number of the line, counted from 1, and its start.
    """

    kind: str
    count: int
    examples: list[tuple[int, str]]


class Report(NamedTuple):
    """What became of the lines of a file; `str(report)` says it in words.

    Attributes:
        path: The file.
        lines: Number of lines: `kept`, `blank` and those of all `problems`.
        kept: Number of lines with a pair.
        blank: Number of blank lines, which are not problems.
        problems: One `Problem` per kind, in the order of the file.
    """

    path: str
    lines: int
    kept: int
    blank: int
    problems: list[Problem]

    def __str__(self):
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


def read_pairs(
    path, *, encoding: str = "utf-8", strict: bool = False, limit: int | None = None
) -> tuple[Pairs, Report]:
    r"""Reads a file of pairs, and reports the invalid lines.

    A byte order mark and blanks round a text are dropped; lines may end in the ways of
    all systems.

    Args:
        path: The file.
        encoding: Name of its encoding.
        strict: Whether an invalid line is an error. Blank lines are valid.
        limit: Stop after this many pairs. By default the whole file is read.

    Returns:
        The pairs, and a `Report` of what was left out.

    Raises:
        FileNotFoundError: If there is no such file.
        IsADirectoryError: If it is a folder.
        TypeError: If `path` is no path, or another argument of a wrong type.
        ValueError: If the file is empty, binary, in another encoding, or has no pair at
            all; with `strict`, if a line is no pair.

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
    path: pathlib.Path, data: bytes, *, encoding="utf-8", strict=False, limit=None
) -> tuple[Pairs, Report]:
    """The pairs in the bytes of a file: see `read_pairs`."""
    if limit is not None:
        limit = whole_number("limit", limit)
    lines, encoding = _split_lines(path, data, encoding)
    pairs, blank, problems = _sorted_out(lines, encoding, limit)
    bad = sum(map(len, problems.values()))
    lines = lines[: len(pairs.sources) + blank + bad]  # all, unless limit was reached
    told = [_problem(kind, at, lines, encoding) for kind, at in problems.items()]
    report = Report(str(path), len(lines), len(pairs.sources), blank, told)
    wrong = len(problems.get(WRONG_ENCODING, ()))
    # One damaged line among many good ones is a damaged line. When most lines that can
    # tell encodings apart are wrong, the others are those without accents, and to train
    # on these alone is not what anybody wants.
    most = 2 * wrong > sum(not line.isascii() for line in lines)
    if wrong and (not pairs.sources or (wrong > SHOWN and most)):
        raise _other_encoding(path, data, encoding, report)
    if not pairs.sources:
        raise ValueError(f"No pair was found. {_LOOK}.\n{report}")
    if strict and told:
        raise ValueError(f"Not every line is a pair. {_LOOK}.\n{report}")
    return pairs, report


def _sorted_out(lines: list[bytes], encoding: str, limit):
    """The pairs, the number of blank lines, and the numbers of the others by kind."""
    pairs, blank, problems = Pairs([], []), 0, {}
    for number, line in enumerate(lines, start=1):
        found = _read_line(line, encoding)
        if found is None:
            blank += 1
        elif isinstance(found, str):
            problems.setdefault(found, []).append(number)
        else:
            pairs.sources.append(found[0])
            pairs.targets.append(found[1])
            if len(pairs.sources) == limit:
                break
    return pairs, blank, problems


def _split_lines(path, data: bytes, encoding: str) -> tuple[list[bytes], str]:
    """The lines as bytes, so that each can be decoded, or fail, on its own.

    That needs an encoding in which a tab and the ends of lines are the bytes that they
    are in ASCII. Others, such as UTF-16, are decoded whole and written again.
    """
    check_encoding(encoding)
    if codecs.lookup(encoding).name == "utf-8-sig":
        encoding = "utf-8"
    if "\t\r\n".encode(encoding) != b"\t\r\n":
        data, encoding = decode(path, data, encoding).encode(), "utf-8"
    if b"\0" in data:
        raise not_text(path, data, encoding)
    return data.splitlines(), encoding  # bytes: at \n, \r\n and \r only


def _read_line(line: bytes, encoding: str) -> tuple[str, str] | str | None:
    r"""The two sides of a line, or what is wrong with it, or None if it is blank.

    Examples:
        >>> _read_line(b" Go.\tVa !\tby a speaker", "utf-8")
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
