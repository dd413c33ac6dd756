r"""Text of data as a terminal may print it. Loads no Keras.

A terminal obeys control characters: `\x1b]0;…` sets its title, `\r` and `\x1b[2K`
overwrite a line. Those in data are shown instead.
"""

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and newline


def printable(text: str) -> str:
    r"""Replaces control characters other than tabs and newlines by their escapes.

    Examples:
        >>> print(printable("\x1b]0;title\x07"))
        \x1b]0;title\x07
    """
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
