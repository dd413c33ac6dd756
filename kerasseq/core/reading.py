"""What can be read to its end: a regular file of a size that fits into memory.

A pipe without a writer waits for ever, and a device such as `/dev/zero` never ends.
Loads no Keras.
"""

import os
import stat

LARGEST = 2**31  # bytes of a text file
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def check_readable(path, at_most: int = LARGEST):
    """Raise unless a path leads to a regular file of bounded size.

    Args:
        path: The path.
        at_most: The largest size in bytes.

    Raises:
        OSError: If there is no such file, as `os.stat` says it.
        ValueError: If it is a pipe, a device or a folder, or too large.

    Examples:
        >>> check_readable("/dev/null")
        Traceback (most recent call last):
        ...
        ValueError: /dev/null must be a regular file, and is a device. Save what it \
gives to a file, and name that
    """
    found = os.stat(path)
    kind = stat.S_IFMT(found.st_mode)
    if kind != stat.S_IFREG:
        raise ValueError(
            f"{path} must be a regular file, and is {_KINDS.get(kind, 'none')}. Save "
            "what it gives to a file, and name that"
        )
    if found.st_size > at_most:
        raise ValueError(
            f"{path} must have at most {at_most:,} bytes, and has {found.st_size:,}. "
            "Use a part of it"
        )
