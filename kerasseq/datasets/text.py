"""Text to train on: the reference of Python itself, or a file of the user's own.

The reference comes with Python's standard library, so there is real English prose of
about half a megabyte on every machine, with no network. Nothing here downloads.
"""

import codecs
import difflib
import encodings.aliases
import os
import pathlib
import re

# Underlines of titles and the rules of tables: lines of nothing but these signs.
_RULE = re.compile(r"^[ |+=*~^-]*[|+=*~^-]{3}[ |+=*~^-]*\n", re.MULTILINE)
# Rows of tables. Read line by line, their columns would mix in the middle of sentences.
_TABLE_ROW = re.compile(r"^ *\|.*\| *\n", re.MULTILINE)

_BOMS = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8"),
)


def python_reference() -> str:
    """Return the text of Python's language reference.

    It is what `help("assert")` and its like show, in the order of the topics' names,
    without the underlines of titles and without tables. It differs a little from one
    version of Python to the next. Licence: PSF.

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
        ValueError: If the file is empty, blank, binary, or in another encoding.

    Examples:
        >>> text_file("hamlet.txt")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        FileNotFoundError: There is no file hamlet.txt in ...
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"`path` must be a path, got {type(path).__name__}.")
    if not isinstance(encoding, str):
        raise TypeError(f"`encoding` must be a string, got {encoding!r}.")
    path = pathlib.Path(path)
    _check_is_file(path)
    data = path.read_bytes()
    if not data:
        raise ValueError(f"{path} is empty.")
    text = _decode(path, data, encoding)
    if "\0" in text:
        raise _not_text(path, data, encoding)
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise ValueError(f"{path} holds nothing but blanks and line ends.")
    return text


def _check_is_file(path: pathlib.Path):
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a text file in it.")
    if not path.exists():
        folder = path.absolute().parent
        raise FileNotFoundError(f"There is no file {path.name} in {folder}.")


def _decode(path: pathlib.Path, data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except (LookupError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise _not_text(path, data, encoding, error.start) from error
    # Any other failure is about the name: no such codec, or one that is not for text.
    names = {*encodings.aliases.aliases, *encodings.aliases.aliases.values()}
    names = [name.replace("_", "-") for name in sorted(names) if _is_for_text(name)]
    near = difflib.get_close_matches(encoding.lower(), names, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else "Most files are 'utf-8'."
    raise ValueError(f"`encoding` {encoding!r} is no text encoding. {hint}")


def _is_for_text(encoding: str) -> bool:
    try:
        " ".encode(encoding)
    except (LookupError, ValueError):
        return False
    return True


def _not_text(path, data: bytes, encoding: str, position: int | None = None):
    """Build the error for bytes that `encoding` cannot have written."""
    other = _likely_encoding(data, encoding)
    if other is None:
        return ValueError(
            f"{path} looks like a binary file, not text: byte {data.find(0)} is NUL. "
            "Convert it to plain text first."
        )
    where = "NUL characters" if position is None else f"byte {position}"
    return ValueError(f"{path} is not {encoding} ({where}). Try encoding={other!r}.")


def _likely_encoding(data: bytes, encoding: str) -> str | None:
    """Guess what would read `data`; None if it does not look like text at all."""
    for mark, name in _BOMS:
        if data.startswith(mark) and name != encoding.lower():
            return name
    if b"\0" in data:
        return None
    for name in ("utf-8", "cp1252"):
        try:
            data.decode(name)
        except UnicodeDecodeError:
            continue
        return name
    return "latin-1"
