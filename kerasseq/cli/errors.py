"""Errors as one line for the user."""

import contextlib
import contextvars
import errno
import os
import pathlib
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kerasseq.core.printable import printable

EXPECTED = (ValueError, TypeError, OSError, ImportError)
MAX_WORD, MAX_LINE = 300, 2000  # characters shown of a word and of a message

# The options of the command that runs, by the names that they have in Python.
typed_options: contextvars.ContextVar[Mapping[str, str]] = contextvars.ContextVar(
    "typed_options", default=MappingProxyType({"encoding": "--encoding"})
)
_START = r"""(?<![\w./\\"'-])"""  # not in a path, a quoted name or an option
_NO_SPACE = (
    "free some space, or choose another folder with --run, --out or --output-dir"
)
_ADVICE = {
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: _NO_SPACE,
    errno.EROFS: "choose a writable folder with --run, --out or --output-dir",
}
# Each backend reports that memory is exhausted by an error of its own.
_NO_MEMORY = re.compile(
    r"can't allocate memory|out of memory|unable to allocate|bad_alloc|OOM when"
    r"|RESOURCE_EXHAUSTED|Storage size calculation overflowed",
    re.IGNORECASE,
)


class UsageError(ValueError):
    """The command line itself is wrong."""


def given(args: object, *names: str) -> list[str]:
    """Returns which of some arguments are given: those that are not None."""
    return [name for name in names if getattr(args, name) is not None]


def refuse(names: Iterable[str], why: str) -> None:
    """Raises a `UsageError` about the first of several options, if there is one.

    Args:
        names: The names of arguments that cannot be used.
        why: What the message says after the option.

    Examples:
        >>> refuse(["no_header"], "is for a table")
        Traceback (most recent call last):
        kerasseq.cli.errors.UsageError: --no-header is for a table
    """
    for name in names:
        raise UsageError(f"--{name.replace('_', '-')} {why}")


def check_new_file(option: str, file: str, endings: tuple[str, ...]) -> None:
    """Raises a `UsageError` if an option does not name a new file.

    Args:
        option: The option.
        file: The file.
        endings: How its name may end.
    """
    if not file.lower().endswith(endings):
        listed = " or ".join(endings)
        raise UsageError(f"{option} must end in {listed}, received {file!r}")
    if os.path.lexists(file):
        raise UsageError(
            f"{option} {file} exists already, and nothing is overwritten. Choose "
            "another name"
        )
    folder = pathlib.Path(file).parent
    if not folder.is_dir():
        raise UsageError(
            f"{option} must be in a folder that exists: there is no folder {folder}"
        )


@contextlib.contextmanager
def about(file: str | os.PathLike[str] | None) -> Iterator[None]:
    """Names a file in each `ValueError` raised inside that does not name it.

    Args:
        file: The file that is read; None if the data are no file.

    Raises:
        UsageError: If an error is one.
        ValueError: If an error is another `ValueError`.

    Examples:
        >>> with about("data/t.csv"):
        ...     raise ValueError("expected 20 pairs, received 1")
        Traceback (most recent call last):
        ValueError: data/t.csv: expected 20 pairs, received 1
    """
    try:
        yield
    except ValueError as error:
        name = re.escape(os.path.basename(file or ""))
        if file is None or re.search(rf"(?<!\w){name}(?!\w)", str(error)):
            raise
        kind = UsageError if isinstance(error, UsageError) else ValueError
        raise kind(f"{file}: {error}") from error


@contextlib.contextmanager
def named_rows(rows: Sequence[Any], arguments: str) -> Iterator[None]:
    """Names a row in place of its number in a `ValueError`, as for "texts[3]".

    Args:
        rows: What each row is, such as "captions.txt, line 4"; others have no name.
        arguments: The names of the arguments, with bars between them.

    Raises:
        ValueError: If an error is one.

    Examples:
        >>> with named_rows(["--text"], "texts"):
        ...     raise ValueError("texts[0] must have 1 to 9 tokens, received 12")
        Traceback (most recent call last):
        ValueError: --text must have 1 to 9 tokens, received 12
    """
    try:
        yield
    except ValueError as error:
        match = re.match(rf"(?:{arguments})\[(\d+)\]", str(error))
        if not match or not isinstance(name := rows[int(match[1])], str):
            raise
        raise ValueError(f"{name}{str(error)[match.end() :]}") from error


def exit_code_and_message(error: BaseException) -> tuple[int, str]:
    """Returns the exit code of an error, and its message on one line."""
    if is_out_of_memory(error):
        return 2, (
            f"not enough memory: {one_line(error)}. Choose smaller sizes, such as "
            "--units, --num-layers, --sequence-length or --batch-size"
        )
    if isinstance(error, EXPECTED):
        return 2, one_line(error)
    return 1, unexpected(error)


def one_line(error: BaseException) -> str:
    r"""Returns the message of an error on one line, with the command's option names.

    Examples:
        >>> one_line(ValueError("a.txt is not utf-8.\nTry encoding='cp1252'."))
        'a.txt is not utf-8. Try --encoding cp1252.'
        >>> one_line(PermissionError(13, "Permission denied", "a.txt"))
        'permission denied: a.txt'
    """
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror[:1].lower() + error.strerror[1:]
        if error.filename is not None:
            text += f": {error.filename}"
        if error.errno in _ADVICE:
            text += f"; {_ADVICE[error.errno]}"
    elif not text:
        text = type(error).__name__
    text = with_option_names(text, typed_options.get())
    text = text.encode("utf-8", "backslashreplace").decode()  # lone surrogates
    text = printable(" ".join(truncate_word(word) for word in text.split()))
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]} …"


def with_option_names(text: str, options: Mapping[str, str]) -> str:
    """Replaces the names of arguments in Python by those of the command's options.

    Args:
        text: A message.
        options: Options by the names of the arguments.

    Examples:
        >>> options = {"num_heads": "--num-heads", "date": "--date"}
        >>> message = "num_heads must divide 7, received num_heads=4. Choose 1 or 7"
        >>> with_option_names(f"{message}, or pass head_dim=1", options)
        '--num-heads must divide 7, received --num-heads 4. Choose 1 or 7'
        >>> with_option_names('set date= to a column, such as date="day"', options)
        'set --date to a column, such as --date day'
        >>> with_option_names('pass date="first day"', options)
        'give --date "first day"'
    """
    names = "|".join(sorted(options, key=len, reverse=True))
    long = "|".join(name for name in options if "_" in name) or "(?!)"

    def option(match):
        value = match["value"] or ""
        if " " not in value:
            value = value.strip("\"'")
        return f"{options[match['name']]} {value}".rstrip()

    # An advice that the command has no option for.
    advice = re.compile(r",? or pass `?(?P<name>[a-z]+_[a-z_]+)`?(=\S*\w)?(?=[.,]|$)")
    text = advice.sub(lambda a: a[0] if a["name"] in options else "", text)
    value = r"""(?P<value>"[^"]*"|'[^']*'|[\w.+-]*\w)?"""
    text = re.sub(rf"{_START}`?(?P<name>{names})={value}`?", option, text)
    whole = rf"{_START}`?(?P<name>{long})`?(?![\w/\\\"'=]|\.\w)(?P<value>)"
    text = re.sub(whole, option, text)
    return re.sub(r"\bpass (?=--)", "give ", text)


def truncate_word(word: str, length: int = MAX_WORD) -> str:
    """Returns a word, truncated if it is long.

    Examples:
        >>> truncate_word("a" * 5000, 10)
        'aaaaaaaaaa… (5,000 characters)'
    """
    if len(word) <= length:
        return word
    return f"{word[:length]}… ({len(word):,} characters)"


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether an error of Python or a backend means that memory is exhausted.

    Examples:
        >>> is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
        True
    """
    return isinstance(error, MemoryError) or bool(_NO_MEMORY.search(str(error)))


def unexpected(error: BaseException) -> str:
    """Returns the message for a bug: where it occurred, and how to report it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{pathlib.Path(last.filename).name}:{last.lineno}"
    return (
        f"unexpected {type(error).__name__} at {where}: {one_line(error)}. This is a "
        "bug in kerasseq. To report it, run the same command with the environment "
        "variable KERASSEQ_DEBUG=1 and copy the traceback"
    )
