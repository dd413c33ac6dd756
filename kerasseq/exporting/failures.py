"""Errors after which nothing else is tried: a full disk or memory. Loads no Keras."""

import errno
import os


def is_final(error: BaseException) -> bool:
    """Returns whether no other backend or length helps: the disk is full, or memory is.

    Examples:
        >>> is_final(OSError(errno.ENOSPC, "full")), is_final(ValueError("unknown op"))
        (True, False)
    """
    full = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
    return isinstance(error, MemoryError) or (
        isinstance(error, OSError) and error.errno in full
    )


def as_final(error: Exception) -> Exception:
    """Returns an error of a backend that the disk is full as that of Python.

    Args:
        error: Any error.
    """
    if os.strerror(errno.ENOSPC) in str(error) and not isinstance(error, OSError):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return error
