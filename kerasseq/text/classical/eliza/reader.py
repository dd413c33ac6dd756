"""Files of rules, read with care: each complaint says where, and what would be right.

TOML, since it is what a student edits most easily: comments, no quotes round names, no
commas to forget between sections, replies as lines of a list; JSON has none of these.
"""

import os
import pathlib
from collections.abc import Collection
from typing import Any, TypeVar

from kerasseq.core import checks
from kerasseq.core.files import read_bytes

T = TypeVar("T")
FOLDER = pathlib.Path(__file__).parent
LANGUAGES = ("en", "fr")
_KINDS = {str: "a string", list: "a list", dict: "a table", int: "a whole number"}


def read(rules: str | os.PathLike[str]) -> "Section":
    """Reads a file of rules.

    Args:
        rules: `"en"`, `"fr"`, or a path.

    Returns:
        Its content, unchecked.

    Raises:
        FileNotFoundError: If there is no such file.
        IsADirectoryError: If it is a folder.
        TypeError: If `rules` is no path.
        ValueError: If it is no TOML in UTF-8.
    """
    import tomllib  # kept out of `import kerasseq.text`, which must stay light

    if not isinstance(rules, str | os.PathLike):
        raise TypeError(
            f'`rules` must be "en", "fr" or a path, received {type(rules).__name__}.'
        )
    path = FOLDER / f"{rules}.toml" if rules in LANGUAGES else pathlib.Path(rules)
    text = _text(path)
    try:
        return Section(path, (), tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        lines = text.count("\n") + (not text.endswith("\n"))
        why = str(error).replace("at end of document", f"at the end, line {lines}")
        raise ValueError(f"{path} is no TOML: {why}.") from error
    except RecursionError as error:
        raise ValueError(f"{path} is no file of rules: nested too deep.") from error


def _text(path) -> str:
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file of rules in it.")
    if not path.exists():
        known = " and ".join(f'"{name}"' for name in LANGUAGES)
        raise FileNotFoundError(
            f"There is no file {path.name} in {path.absolute().parent}. The rules that "
            f"come with kerasseq are {known}."
        )
    data = read_bytes(path)
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")  # as Notepad writes it
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path} is not UTF-8: line {line} has the byte 0x{data[error.start]:02x} "
            f"(byte {error.start} of the file). Save it as UTF-8."
        ) from error
    if not text.strip():
        raise ValueError(f"{path} is empty: copy {FOLDER / 'en.toml'} and change it.")
    return text


class Section:
    """A table of a file of rules, which knows where it is.

    Args:
        path: The file.
        names: The keys that lead to the table.
        content: The table.

    Examples:
        >>> section = Section("my.toml", ("keyword", "sea"), {"rank": "high"})
        >>> section.get("rank", int, 0)
        Traceback (most recent call last):
        ...
        ValueError: my.toml: [keyword.sea] rank must be a whole number, received 'high'.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        names: tuple[str, ...],
        content: dict[str, Any],
    ):
        self.path: str | os.PathLike[str] = path
        self.names: tuple[str, ...] = names
        self.content: dict[str, Any] = content

    def error(self, text: str) -> ValueError:
        """Builds an error that says where it is."""
        where = f"[{'.'.join(self.names)}] " if self.names else ""
        return ValueError(f"{self.path}: {where}{text}.")

    def only(self, known: Collection[str]) -> None:
        """Raises an error for keys that are not among `known`."""
        for key in self.content:
            if key not in known:
                near = checks.nearest(key, known)
                listed = "" if near else f" The keys are: {', '.join(known)}"
                raise self.error(f'has an unknown key "{key}".{near or listed}')

    def get(self, key: str, kind: type[T], default: T | None = None) -> T:
        """Returns a value of one kind, or the default; without one it is required."""
        if key not in self.content:
            if default is None:
                raise self.error(f'lacks "{key}", which must be {_KINDS[kind]}')
            return default
        value = self.content[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.error(f"{key} must be {_KINDS[kind]}, received {value!r:.60}")
        if kind is str and not value.strip():
            raise self.error(f"{key} is empty")
        return value

    def strings(self, key: str, default: list[str] | None = None) -> list[str]:
        """Returns a list of strings; one that is required must not be empty."""
        values = self.get(key, list, default)
        if default is None and not values:
            raise self.error(f"{key} is an empty list: write at least one")
        for number, value in enumerate(values, 1):
            if not isinstance(value, str) or not value.strip():
                raise self.error(
                    f"{key}: number {number} must be a string that is not empty, "
                    f"received {value!r:.60}"
                )
        return values

    def section(self, key: str, required: bool = False) -> "Section":
        """Returns a table in this one; an empty one if it may be missing."""
        content = self.get(key, dict, None if required else {})
        return Section(self.path, (*self.names, key), content)

    def sections(self, key: str) -> list["Section"]:
        """Returns the tables of a list, `[[key]]` each."""
        tables = self.get(key, list, [])
        for table in tables:
            if not isinstance(table, dict):
                raise self.error(f"{key} must be written as [[{key}]] tables")
        names = [(*self.names, f"{key} {i}") for i in range(1, len(tables) + 1)]
        return [Section(self.path, n, t) for n, t in zip(names, tables, strict=True)]

    def entries(self, key: str) -> dict[str, str]:
        """Returns a table of strings, none of them empty."""
        table = self.section(key)
        for old in table.content:
            if not old.strip():
                raise table.error("has an empty key")
            if not set(old) - set(" *'-"):
                raise table.error(f'"{old}" has no letter')
            table.get(old, str)
        return table.content
