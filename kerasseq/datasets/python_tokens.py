"""Lines of Python with a tag for each word or character: a tagging task.

The lines are those of the standard library's own source, and the tags those of its
tokenizer, so that neither a download nor annotation is needed.
"""

import functools
import importlib.util
import io
import keyword
import re
import tokenize
from collections.abc import Iterator
from typing import NamedTuple

from kerasseq.core.checks import one_of, random_generator, truth, whole_number
from kerasseq.datasets.tagged import Tagged

TAGS = ("comment", "keyword", "name", "number", "operator", "string")
# Modules of every installation, each in one file, in all versions of Python since 3.11.
MODULES = (
    *("argparse", "ast", "calendar", "configparser", "difflib", "fractions", "heapq"),
    *("ipaddress", "mailbox", "plistlib", "random", "shutil", "statistics", "tarfile"),
)
_TAG_OF = {
    "NUMBER": "number",
    "STRING": "string",
    "COMMENT": "comment",
    "OP": "operator",
}
_WORD = re.compile(r"\w+|[^\w\s]")


class _Token(NamedTuple):
    """Columns `start` to `end` of a line."""

    start: int
    end: int
    tag: str


def python_tokens(
    count: int = 2000,
    *,
    unit: str = "word",
    bio: bool = False,
    seed: int | None = 0,
) -> Tagged:
    """Samples lines of the standard library's source, with a tag for each unit.

    The tags are "keyword", "name", "number", "string", "comment" and "operator". Lines
    are stripped, and each occurs once. Parts of strings of several lines are left out,
    since their tags depend on other lines. The lines differ slightly between versions
    of Python. License: PSF.

    Args:
        count: Number of lines.
        unit: `"word"`: words and single punctuation characters, so that a string or a
            comment has several; `"character"`: characters, of which spaces between
            tokens have the tag "O"; `"token"`: whole tokens of Python.
        bio: Whether tags tell the tokens apart: "B-string" for the first unit of a
            token and "I-string" for the others.
        seed: Random seed of the choice and the order of the lines.

    Returns:
        The lines in random order, as `Tagged`. Slices of it are training and test set.

    Raises:
        FileNotFoundError: If the source of the standard library is not installed.
        TypeError: If `count` is not a whole number, or `bio` not True or False.
        ValueError: If there are fewer lines than `count`, or `unit` is unknown.

    Examples:
        >>> python_tokens(500).names
        ['comment', 'keyword', 'name', 'number', 'operator', 'string']
    """
    count = whole_number("count", count)
    one_of("unit", unit, ("word", "character", "token"))
    truth("bio", bio)
    rng = random_generator(seed)
    lines = _lines()
    if count > len(lines):
        raise ValueError(
            f"`count` must be at most {len(lines):,}, the number of different lines, "
            f"received {count:,}."
        )
    chosen = rng.permutation(len(lines))[:count].tolist()
    return tagged_lines([lines[i] for i in chosen], unit, bio)


def tagged_lines(
    lines: list[tuple[str, tuple[_Token, ...]]], unit: str, bio: bool
) -> Tagged:
    r"""Returns the units of lines, with their tags.

    Examples:
        >>> tagged_lines(source_lines("x += 1  # up\n"), "word", bio=True).tags
        [['B-name', 'B-operator', 'I-operator', 'B-number', 'B-comment', 'I-comment']]
    """
    tagged = Tagged([], [])
    for line, tokens in lines:
        units = list(_units(line, tokens, unit, bio))
        tagged.sentences.append([text for text, _ in units])
        tagged.tags.append([tag for _, tag in units])
    return tagged


def _units(
    line: str, tokens: tuple[_Token, ...], unit: str, bio: bool
) -> Iterator[tuple[str, str]]:
    """Yields the units of a line with their tags."""
    end = 0
    for token in tokens:
        if unit == "character":
            yield from ((character, "O") for character in line[end : token.start])
        text, end = line[token.start : token.end], token.end
        parts = {"word": _WORD.findall, "character": list}.get(unit, lambda t: [t])
        for i, part in enumerate(parts(text)):
            mark = ("I-" if i else "B-") if bio else ""
            yield part, mark + token.tag
    if unit == "character":
        yield from ((character, "O") for character in line[end:])


def source_lines(source: str) -> list[tuple[str, tuple[_Token, ...]]]:
    r"""Returns the stripped lines of a program with their tokens.

    Examples:
        >>> source_lines("if x:\n    pass\n")[1]
        ('pass', (_Token(start=0, end=4, tag='keyword'),))
    """
    lines = [line.rstrip() for line in io.StringIO(source)]
    rows: dict[int, list[_Token]] = {}
    dropped: set[int] = set()
    for (row, start), (last, end), tag in _tokens(source):
        if row != last:
            dropped.update(range(row, last + 1))
        else:
            indent = len(lines[row - 1]) - len(lines[row - 1].lstrip())
            token = _Token(start - indent, end - indent, tag)
            rows.setdefault(row, []).append(token)
    kept = sorted(rows.keys() - dropped)
    return [(lines[row - 1].lstrip(), tuple(rows[row])) for row in kept]


def _tokens(source: str) -> Iterator[tuple[tuple[int, int], tuple[int, int], str]]:
    """Yields the start and the end of each token, as row and column, and its tag."""
    depth, start = 0, (0, 0)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        # Since Python 3.12 an f-string is several tokens; here it is one, as before.
        if kind.endswith("STRING_START"):
            start = start if depth else token.start
            depth += 1
        elif kind.endswith("STRING_END"):
            depth -= 1
            if not depth:
                yield start, token.end, "string"
        elif not depth and (tag := _tag(kind, token.string)):
            yield token.start, token.end, tag


def _tag(kind: str, text: str) -> str:
    """Returns the tag of a token; "" for line ends and indentation."""
    if kind == "NAME":
        return "keyword" if keyword.iskeyword(text) else "name"
    return _TAG_OF.get(kind, "")


@functools.cache
def _lines() -> list[tuple[str, tuple[_Token, ...]]]:
    """Returns the different lines of all modules, in a fixed order."""
    lines: dict[str, tuple[_Token, ...]] = {}
    for name in MODULES:
        for line, tokens in source_lines(_source(name)):
            lines.setdefault(line, tokens)
    return list(lines.items())


def _source(name: str) -> str:
    spec = importlib.util.find_spec(name)
    source = getattr(spec and spec.loader, "get_source", lambda name: None)(name)
    if not source:
        raise FileNotFoundError(
            f"The source of the module {name} of Python's standard library is not "
            "installed. Install Python with its source, or use other data, for example "
            "with read_tagged."
        )
    return source
