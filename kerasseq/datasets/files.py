"""Reads text files in any encoding, suggests encodings in errors, finds folders."""

import codecs
import contextlib
import difflib
import encodings.aliases
import gzip
import io
import os
import pathlib
import zlib
from collections.abc import Iterator

from kerasseq.core import files
from kerasseq.core.types import FilePath

GZIP = b"\x1f\x8b"  # the first bytes of all files of gzip
_BOMS = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8"),
)


def read_bytes(
    path: str | os.PathLike[str], encoding: str
) -> tuple[pathlib.Path, bytes]:
    """Reads the bytes of a text file.

    Args:
        path: The file.
        encoding: Name of its encoding; only its type is checked here.

    Returns:
        The path as a `Path`, and the bytes.

    Raises:
        FileNotFoundError: If there is no such file.
        IsADirectoryError: If it is a folder.
        TypeError: If `path` is not a path, or `encoding` not a string.
        ValueError: If the file is empty, larger than 1 GiB, or a pipe or device.
    """
    path = files.as_path("path", path)
    if not isinstance(encoding, str):
        raise TypeError(f"`encoding` must be a string, received {encoding!r}.")
    check_is_file(path)
    data = files.read_bytes(path)
    if not data:
        raise ValueError(f"{path} is empty.")
    return path, data


def existing_folder(path: FilePath, what: str) -> pathlib.Path:
    """Returns the path of a folder that exists.

    Args:
        path: The folder.
        what: What it has, for the message.

    Raises:
        FileNotFoundError: If there is no such folder.
        NotADirectoryError: If it is a file.
        TypeError: If `path` is not a path.
    """
    folder = files.as_path("path", path)
    if not folder.exists():
        raise FileNotFoundError(f"there is no folder {folder}")
    if not folder.is_dir():
        raise NotADirectoryError(f"expected a folder of {what}, received {folder}")
    return folder


def check_is_file(path: pathlib.Path) -> None:
    """Raises an error unless there is a file at `path`."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a text file in it.")
    if not path.exists():
        folder = path.absolute().parent
        raise FileNotFoundError(f"There is no file {path.name} in {folder}.")


def read_text(path: str | os.PathLike[str], encoding: str) -> tuple[pathlib.Path, str]:
    r"""Returns the path and the text of a file, which gzip may have compressed.

    A byte order mark is removed, and all line ends become `"\n"`.

    Args:
        path: The file.
        encoding: Name of its encoding.

    Raises:
        ValueError: If the file is empty, binary, damaged, in another encoding or larger
            than 1 GiB.
    """
    path, data = read_bytes(path, encoding)
    data = decompressed(path, data)
    text = decode(path, data, encoding)
    if "\0" in text:
        raise not_text(path, data, encoding)
    del data  # free the memory
    return path, text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def decompressed(path: pathlib.Path, data: bytes) -> bytes:
    """Returns the bytes of a file, decompressed if it is one of gzip.

    Args:
        path: The file, for messages.
        data: Its bytes.

    Raises:
        ValueError: If the file is damaged, or larger than 1 GiB when decompressed.
    """
    if not data.startswith(GZIP):
        return data
    with decompressing(path), gzip.open(io.BytesIO(data)) as file:
        content = file.read(files.LARGEST + 1)
    if len(content) > files.LARGEST:
        raise ValueError(
            f"{path} is larger than {files.LARGEST:,} bytes when decompressed: it is "
            "not read."
        )
    return content


@contextlib.contextmanager
def decompressing(path: FilePath) -> Iterator[None]:
    """Raises a `ValueError` if a file of gzip that is read in the block is damaged."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{path} is damaged: it begins as a file of gzip, but cannot be "
            f"decompressed ({error}). Copy or download it again"
        ) from error


def decode(path: pathlib.Path, data: bytes, encoding: str) -> str:
    """Decodes the bytes of a file; suggests another encoding in errors."""
    try:
        return data.decode(encoding)
    except (LookupError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise not_text(path, data, encoding, error.start) from error
    # Otherwise there is no such codec, or it is not a text encoding.
    raise _no_encoding(encoding)


def check_encoding(encoding: str) -> None:
    """Raises an error unless `encoding` is a text encoding."""
    if not _is_for_text(encoding):
        raise _no_encoding(encoding)


def _no_encoding(encoding: str) -> ValueError:
    names = {*encodings.aliases.aliases, *encodings.aliases.aliases.values()}
    names = [name.replace("_", "-") for name in sorted(names) if _is_for_text(name)]
    near = difflib.get_close_matches(encoding.lower(), names, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else "Most files are 'utf-8'."
    return ValueError(f"`encoding` {encoding!r} is no text encoding. {hint}")


def _is_for_text(encoding: str) -> bool:
    try:
        " ".encode(encoding)
    except (LookupError, ValueError):
        return False
    return True


def not_text(
    path: str | os.PathLike[str],
    data: bytes,
    encoding: str,
    position: int | None = None,
    before: tuple[int, int] = (0, 0),
) -> ValueError:
    """Returns the error for bytes that are not valid in `encoding`.

    Args:
        path: The file.
        data: Its bytes, or a part of them.
        encoding: Name of the encoding.
        position: The first byte of `data` that is wrong; None for NUL characters.
        before: How many bytes and ends of lines the file has before `data`.
    """
    other = _likely_encoding(data, encoding)
    if other is None:
        return ValueError(
            f"{path} looks like a binary file, not text: byte {data.find(0)} is NUL. "
            "Convert it to plain text first."
        )
    where = "NUL characters"
    if position is not None:
        line = before[1] + data.count(b"\n", 0, position) + 1
        where = f"byte {before[0] + position}, line {line}"
    return ValueError(f"{path} is not {encoding} ({where}). Try encoding={other!r}.")


def _likely_encoding(data: bytes, encoding: str) -> str | None:
    """Returns a probable encoding; None for binary data."""
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
