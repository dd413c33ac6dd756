"""Training texts: the Python language reference, or a text file.

The reference is part of Python's standard library: about half a megabyte of English
prose without a download.
"""

import os
import re

from kerasseq.datasets.files import read_text

# Underlines of titles and rules of tables: lines of only these characters.
_RULE = re.compile(r"^[ |+=*~^-]*[|+=*~^-]{3}[ |+=*~^-]*\n", re.MULTILINE)
# Rows of tables, whose columns would mix sentences.
_TABLE_ROW = re.compile(r"^ *\|.*\| *\n", re.MULTILINE)


def python_reference() -> str:
    """Returns the text of Python's language reference.

    This is the text of `help("assert")` and other topics, sorted by name, without
    underlines of titles and without tables. It differs slightly between versions of
    Python. License: PSF.

    Returns:
        About half a million characters.

    Examples:
        >>> print(python_reference()[:22])
        The "assert" statement
    """
    from pydoc_data.topics import topics

    text = "\n\n".join(topics[name].strip("\n") for name in sorted(topics)) + "\n"
    text = _TABLE_ROW.sub("", _RULE.sub("", text))
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text)


def text_file(path: str | os.PathLike[str], encoding: str = "utf-8") -> str:
    r"""Reads a text file.

    A byte order mark is removed, and all line ends become `"\n"`. A file compressed by
    gzip is decompressed.

    Args:
        path: The file.
        encoding: Name of its encoding.

    Returns:
        The text.

    Raises:
        FileNotFoundError: If there is no such file.
        IsADirectoryError: If it is a folder.
        TypeError: If `path` is not a path, or `encoding` not a string.
        ValueError: If the file is empty, blank, binary, in another encoding, larger
            than 1 GiB, or a pipe or device.

    Examples:
        >>> text_file("hamlet.txt")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        FileNotFoundError: There is no file hamlet.txt in ...
    """
    path, text = read_text(path, encoding)
    if not text or text.isspace():
        raise ValueError(f"{path} must have text, but has only whitespace.")
    return text
