"""Errors as one sentence on the page."""

import errno
from collections.abc import Callable

LONGEST = 400  # characters of a message that are shown


class Refused(Exception):
    """An input that the page does not take.

    Args:
        key: The text that says so, in the catalogue of the lab or in `common`.
        **values: Its placeholders.
    """

    def __init__(self, key: str, **values: object):
        super().__init__(key)
        self.key = key
        self.values = values


class NotReady(Exception):
    """Ends the body of a lab: what it needs is still being made."""


def sentence(error: BaseException, text: Callable[..., str]) -> str:
    """Returns what the page says about an error.

    Args:
        error: The error.
        text: Returns a text of the catalogues.
    """
    if isinstance(error, Refused):
        return text(error.key, **error.values)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return text("error_disk")
    if isinstance(error, MemoryError):
        return text("error_memory")
    if isinstance(error, ImportError):
        return text("error_backend", message=shortened(error))
    if isinstance(error, ValueError | TypeError | OSError):
        return text("error_input", message=shortened(error))
    return text("error_other", message=f"{type(error).__name__}: {shortened(error)}")


def shortened(error: BaseException) -> str:
    r"""Returns the message of an error on one line.

    Examples:
        >>> shortened(ValueError("a\n  b"))
        'a b'
    """
    message = " ".join(str(error).split())
    return message if len(message) <= LONGEST else f"{message[:LONGEST]}…"
