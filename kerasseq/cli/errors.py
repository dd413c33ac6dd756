"""Errors as one line for the user."""

import errno
import pathlib
import re
import traceback

from kerasseq.core.printable import printable

EXPECTED = (ValueError, TypeError, OSError, ImportError)
MAX_WORD, MAX_LINE = 300, 2000  # characters shown of a word and of a message

_NO_SPACE = "free some space, or choose another folder with --run or --output-dir"
_ADVICE = {
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: _NO_SPACE,
    errno.EROFS: "choose a writable folder with --run or --output-dir",
}
# Each backend reports that memory is exhausted by an error of its own.
_NO_MEMORY = re.compile(
    r"can't allocate memory|out of memory|unable to allocate|bad_alloc|OOM when"
    r"|RESOURCE_EXHAUSTED|Storage size calculation overflowed",
    re.IGNORECASE,
)


class UsageError(ValueError):
    """The command line itself is wrong."""


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
    text = re.sub(r"\bencoding='([^']+)'", r"--encoding \1", text)
    text = re.sub(r'\bpass missing="(\w+)"', r"give --missing \1", text)
    text = re.sub(r'\bmissing="(\w+)"', r"--missing \1", text)
    text = re.sub(r"\b(value|date|group|known)=(?![\w'\"])", r"--\1", text)
    text = text.encode("utf-8", "backslashreplace").decode()  # lone surrogates
    text = printable(" ".join(truncate_word(word) for word in text.split()))
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]} …"


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
    """Whether an error of Python or of a backend means that memory is exhausted.

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
