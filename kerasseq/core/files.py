"""Reads untrusted files within bounds, and replaces files atomically. Loads no Keras.

Files must be regular, of bounded size and UTF-8, and JSON of bounded depth.
"""

import contextlib
import csv
import functools
import glob
import hashlib
import json
import os
import pathlib
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kerasseq.core import checks
from kerasseq.core.types import FilePath

LARGEST = 2**30  # bytes of a text file
DEEPEST = 100  # levels of nesting in JSON
PART = 2**20  # characters of a text that are encoded at a time


def cache_folder() -> pathlib.Path:
    """Returns the folder for downloads and compiled code, which may not exist yet.

    Returns:
        `KERASSEQ_CACHE` of the environment; else `kerasseq` in `XDG_CACHE_HOME`; else
        `~/.cache/kerasseq`.
    """
    if named := os.environ.get("KERASSEQ_CACHE"):
        return pathlib.Path(named).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (pathlib.Path(base) if base else pathlib.Path.home() / ".cache") / "kerasseq"


@functools.cache
def table_beside(module: str, name: str) -> dict[str, Any]:
    """Returns the content of a TOML file of the package, which is read once.

    Args:
        module: `__file__` of a module in its folder.
        name: Its name without the ending.

    Raises:
        FileNotFoundError: If there is no such file.
    """
    import tomllib  # slow import, and few functions need it

    path = pathlib.Path(module).with_name(f"{name}.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


@contextlib.contextmanager
def replacing(path: FilePath) -> Iterator[pathlib.Path]:
    """Replaces a file atomically: after an error or a kill the old one is unchanged.

    Args:
        path: The file to write.

    Yields:
        A temporary path in the same folder, with the same suffix. At the end of the
        block it becomes `path`; after an error it is deleted. The one of a process that
        was killed is deleted when the same file is written again.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "a.txt")
        ...     with replacing(file) as temporary:
        ...         _ = temporary.write_text("new")
        ...     file.read_text()
        'new'
    """
    path = pathlib.Path(path)
    temporary = temporary_path(path)
    try:
        yield temporary
        with open(temporary, "r+b") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def temporary_path(path: pathlib.Path) -> pathlib.Path:
    """Returns the path where this process writes a file or folder before it is moved.

    Those that processes left which were killed meanwhile are deleted.
    """
    temporary = path.with_name(f".part-{os.getpid()}-{path.name}")
    for left in path.parent.glob(f".part-*-{glob.escape(path.name)}"):
        pid = left.name.split("-")[1]
        if left == temporary or (pid.isdecimal() and not _is_alive(int(pid))):
            _remove(left)
    return temporary


def _remove(path):
    """Deletes a file or a folder, as far as the system allows."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _is_alive(pid):
    """Returns whether a process exists. Windows protects open files instead."""
    if sys.platform == "win32":
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # of another user, or no number of a process
        return True
    return True


def as_path(name: str, path: FilePath) -> pathlib.Path:
    """Returns an argument as a path.

    Raises:
        TypeError: If it is neither a string nor a path.
        ValueError: If it is an empty string, which would be the current folder.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"`{name}` must be a path, received {checks.short(path)}.")
    if not os.fspath(path):
        raise ValueError(f"`{name}` must name a file or a folder, received ''.")
    return pathlib.Path(path)


def regular(path: FilePath) -> pathlib.Path:
    """Returns the path if it is a regular file.

    Raises:
        FileNotFoundError: If there is no such file.
        IsADirectoryError: If it is a folder.
        ValueError: If it is a pipe, a socket or a device.
    """
    path = pathlib.Path(path)
    if path.is_file():
        return path
    if path.is_dir():
        raise IsADirectoryError(f"expected a file, received the folder {path}")
    if not path.exists():
        raise FileNotFoundError(f'there is no file "{path}"')
    raise ValueError(
        f"{path} is a pipe, a socket or a device, which may never end. Copy its "
        "content to a file first"
    )


def read_bytes(path: FilePath, largest: int | None = None) -> bytes:
    """Reads a regular file of at most `largest` bytes, by default `LARGEST`.

    Raises:
        FileNotFoundError: If there is no such file.
        IsADirectoryError: If it is a folder.
        ValueError: If it is not regular, or is larger, or changes while it is read.
    """
    largest = LARGEST if largest is None else largest
    with regular(path).open("rb") as file:
        before = os.fstat(file.fileno())
        if before.st_size > largest:
            raise ValueError(f"{path} is larger than {largest:,} bytes: it is not read")
        data = file.read()  # with a number it would reserve as much memory
        after = os.fstat(file.fileno())
    if (after.st_size, after.st_mtime_ns) != (len(data), before.st_mtime_ns):
        raise ValueError(
            f"{path} changed while it was read. Wait until the program that writes it "
            "has finished, or read a copy"
        )
    return data


def read_text(path: FilePath) -> str:
    """Reads a UTF-8 file, with or without a byte order mark.

    Raises:
        FileNotFoundError: If there is no such file.
        IsADirectoryError: If it is a folder.
        ValueError: If it is not regular, too large, or not UTF-8; the text names the
            line.
    """
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path} is not UTF-8: byte 0x{data[error.start]:02x} on line {line} (byte "
            f"{error.start} of the file). Save it as UTF-8, or convert it with  "
            "iconv -f LATIN1 -t UTF-8"
        ) from error


def read_json(path: FilePath) -> Any:
    """Reads a JSON file.

    Raises:
        FileNotFoundError: If there is no such file.
        IsADirectoryError: If it is a folder.
        ValueError: If it is not regular, too large, not UTF-8, not JSON, or nested
            deeper than `DEEPEST`.
    """
    return parse_json(read_text(path), path)


def parse_json(text: str | bytes, where: object, deepest: int | None = None) -> Any:
    """Returns the content of JSON, nested at most `deepest` levels.

    Args:
        text: The JSON.
        where: Its file, for messages.
        deepest: By default `DEEPEST`.

    Examples:
        >>> parse_json("[[[]]]", "x.json", deepest=2)
        Traceback (most recent call last):
        ...
        ValueError: x.json is damaged: nested too deep, more than 2 levels, at [0][0]
    """
    deepest = DEEPEST if deepest is None else deepest
    try:
        content = json.loads(text)
    except RecursionError as error:
        raise ValueError(
            f"{where} is damaged: nested too deep, more than {deepest} levels"
        ) from error
    except ValueError as error:
        raise ValueError(f"{where} is damaged: it is not JSON ({error})") from error
    if _is_deeper(content, deepest):
        deep = (keys for keys, _ in walk(content) if len(keys) == deepest)
        raise ValueError(
            f"{where} is damaged: nested too deep, more than {deepest} levels, at "
            f"{key_path(next(deep))[:60]}"
        )
    return content


def _is_deeper(content: object, deepest: int) -> bool:
    """Returns whether lists and dictionaries have more levels than `deepest`."""
    level = [[content]]
    for _ in range(deepest + 1):
        values = (c.values() if isinstance(c, dict) else c for c in level)
        level = [v for part in values for v in part if isinstance(v, dict | list)]
    return bool(level)


def walk(content: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yields each value in nested lists and dictionaries with its keys.

    Examples:
        >>> list(walk({"a": [1]}))
        [((), {'a': [1]}), (('a',), [1]), (('a', 0), 1)]
    """
    pending = [((), content)]
    while pending:
        keys, value = pending.pop()
        yield keys, value
        if isinstance(value, dict):
            inside = list(value.items())
        elif isinstance(value, list):
            inside = list(enumerate(value))
        else:
            continue
        pending += [((*keys, key), part) for key, part in reversed(inside)]


def key_path(keys: Iterable[object]) -> str:
    """Writes the keys that lead to a value.

    Examples:
        >>> key_path(("model", "vocab", 3, 0))
        'model.vocab[3][0]'
    """
    parts = [f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys]
    return "".join(parts).removeprefix(".")


def write_json(file: FilePath, data: object) -> None:
    """Writes plain data, atomically."""
    with replacing(file) as temporary, open(temporary, "w", encoding="utf-8") as out:
        json.dump(data, out, indent=1, ensure_ascii=False)
        out.write("\n")


def write_csv(
    file: FilePath,
    columns: Sequence[str],
    rows: Iterable[Mapping[str, object]],
) -> None:
    """Writes a table, atomically."""
    with (
        replacing(file) as temporary,
        open(temporary, "w", newline="", encoding="utf-8") as out,
    ):
        writer = csv.DictWriter(out, columns)
        writer.writeheader()
        writer.writerows(rows)


def sha256(data: str | bytes) -> str:
    """Returns the checksum of a text or of bytes."""
    if not isinstance(data, str):
        return hashlib.sha256(data).hexdigest()
    return sha256_of(data[start : start + PART] for start in range(0, len(data), PART))


def sha256_of(texts: Iterable[str]) -> str:
    """Returns the checksum of several texts, one after the other."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
