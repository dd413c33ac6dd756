"""Text to train on: the reference of Python itself, or a file of the user's own.

The reference comes with Python's standard library, so there is real English prose of
about half a megabyte on every machine, with no network. Nothing here downloads.
"""

import re

from kerasseq.datasets.files import decode, not_text, read_bytes

# Underlines of titles and the rules of tables: lines of nothing but these signs.
_RULE = re.compile(r"^[ |+=*~^-]*[|+=*~^-]{3}[ |+=*~^-]*\n", re.MULTILINE)
# Rows of tables. Read line by line, their columns would mix in the middle of sentences.
_TABLE_ROW = re.compile(r"^ *\|.*\| *\n", re.MULTILINE)


def python_reference() -> str:
    """Return the text of Python's language reference.

    It is what `help("assert")` and its like show, in the order of the topics' names,
    without the underlines of titles and without tables. It differs a little from one
    version of Python to the next. License: PSF.

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


def text_file(path, encoding: str = "utf-8") -> str:
    r"""Read a text file, and say clearly why it cannot be read if it cannot.

    A byte order mark is dropped, and every kind of line end becomes `"\n"`.

    Args:
        path: The file.
        encoding: Name of its encoding.

    Returns:
        The text.

    Raises:
        FileNotFoundError: If there is no such file.
        IsADirectoryError: If it is a folder.
        TypeError: If `path` is no path or `encoding` no string.
        ValueError: If the file is empty, blank, binary, in another encoding, larger
            than 1 GiB, or a pipe or device.

    Examples:
        >>> text_file("hamlet.txt")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        FileNotFoundError: There is no file hamlet.txt in ...
    """
    path, data = read_bytes(path, encoding)
    text = decode(path, data, encoding)
    if "\0" in text:
        raise not_text(path, data, encoding)
    del data  # a large text is in memory once
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if not text or text.isspace():
        raise ValueError(f"{path} holds nothing but blanks and line ends.")
    return text
