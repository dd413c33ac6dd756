"""Errors as one line for whoever typed the command."""

import errno
import pathlib
import re
import traceback

EXPECTED = (ValueError, TypeError, OSError, ImportError)
WORD, LINE = 300, 2000  # characters that are shown of a word, and of a message

_ADVICE = {
    errno.ENOSPC: "make room, or name another folder with --run or --out",
    errno.EDQUOT: "make room, or name another folder with --run or --out",
    errno.EROFS: "name a folder that can be written to with --run or --out",
}
# How the backends say that there is not enough memory, each by an error of its own.
_NO_MEMORY = re.compile(
    r"can't allocate memory|out of memory|unable to allocate|bad_alloc|OOM when"
    r"|RESOURCE_EXHAUSTED|Storage size calculation overflowed",
    re.IGNORECASE,
)


class UsageError(ValueError):
    """The command line itself is wrong."""


def line(error: BaseException) -> str:
    r"""What an error says, on one line and in the words of the command line.

    Examples:
        >>> line(ValueError("a.txt is not utf-8.\nTry encoding='cp1252'."))
        'a.txt is not utf-8. Try --encoding cp1252.'
        >>> line(PermissionError(13, "Permission denied", "a.txt"))
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
    text = re.sub(r"\bencoding='([^']+)'", r"--encoding \1", text)
    text = text.encode("utf-8", "backslashreplace").decode()  # half a surrogate pair
    return shortened(" ".join(cut(word) for word in text.split()), LINE)


def cut(word: str, most: int = WORD) -> str:
    """Return a word, cut if nobody would read it to its end.

    Examples:
        >>> cut("a" * 5000, 10)
        'aaaaaaaaaa… (5,000 characters)'
    """
    return word if len(word) <= most else f"{word[:most]}… ({len(word):,} characters)"


def shortened(text: str, most: int) -> str:
    """Return a text, cut if it is longer than `most` characters."""
    return text if len(text) <= most else f"{text[:most]} …"


def is_memory(error: BaseException) -> bool:
    """Whether an error says, in the words of a backend, that there is no memory left.

    Examples:
        >>> is_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
        True
    """
    return isinstance(error, MemoryError) or bool(_NO_MEMORY.search(str(error)))


def unexpected(error: BaseException) -> str:
    """What is said of an error that no one foresaw: what a report needs."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{pathlib.Path(last.filename).name}:{last.lineno}"
    return (
        f"unexpected {type(error).__name__} at {where}: {line(error)}. This is a fault "
        "of kerasseq. With KERASSEQ_DEBUG=1 in the environment the same command shows "
        "all of it, for a report"
    )
