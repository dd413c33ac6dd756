"""Errors as one line for whoever typed the command."""

import errno
import re

EXPECTED = (ValueError, TypeError, OSError, ImportError)

_ADVICE = {
    errno.ENOSPC: "make room, or name another folder with --run or --out",
    errno.EDQUOT: "make room, or name another folder with --run or --out",
    errno.EROFS: "name a folder that can be written to with --run or --out",
}


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
    return " ".join(text.split())
