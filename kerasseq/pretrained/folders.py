"""Checkpoint folders: `config.json`, read with checks, and new folders, written whole.

A file of settings is not trusted. Nothing that it names is looked up or built: numbers
are checked, and words must be in a table of known words.
"""

import contextlib
import json
import os
import pathlib
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn, TypeVar, overload

from kerasseq.core.checks import nearest
from kerasseq.core.files import read_json, temporary_path
from kerasseq.core.types import FilePath

CONFIG = "config.json"
REQUIRED: Any = object()

Default = TypeVar("Default")
Entry = TypeVar("Entry")


class Settings:
    """A dictionary from a file, with checked access.

    Args:
        values: The dictionary.
        where: The file, for messages.
        task: Class and `Settings` of the task, for a KerasHub preset with one.

    Examples:
        >>> Settings({"n_layer": 2}, "config.json").whole("n_layer")
        2
    """

    def __init__(
        self,
        values: dict[str, Any],
        where: object,
        task: "tuple[str, Settings] | tuple[None, None]" = (None, None),
    ) -> None:
        self.where = where
        self.task = task
        if not isinstance(values, dict):
            raise ValueError(
                f"{where} is damaged: expected a table of settings, received {values!r}"
            )
        self.values: dict[str, Any] = values

    def __contains__(self, name: str) -> bool:
        return self.values.get(name) is not None

    def get(self, name: str, default: Any = REQUIRED) -> Any:
        """Returns a setting; null counts as missing."""
        value = self.values.get(name)
        if value is not None:
            return value
        if default is REQUIRED:
            raise ValueError(f"{self.where} has no {name}")
        return default

    @overload
    def whole(self, name: str) -> int: ...
    @overload
    def whole(self, name: str, default: Default) -> int | Default: ...
    def whole(self, name: str, default: Any = REQUIRED) -> Any:
        """Returns a whole number of at least 1, or the default."""
        value = self.get(name, default)
        if value is default and value is not REQUIRED:
            return value
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            self.refuse(name, "a whole number of at least 1")
        return value

    def id(self, name: str, size: int, default: int | None) -> int:
        """Returns a token id below `size`."""
        value = self.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(name, "a whole number")
        if not 0 <= value < size:
            self.refuse(name, f"from 0 to {size - 1}")
        return value

    def number(self, name: str, default: float = REQUIRED) -> float:
        """Returns a number above 0."""
        value = self.get(name, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 < value <= sys.float_info.max:
            self.refuse(name, "a number above 0")
        return float(value)

    def rate(self, name: str, default: float = 0.0) -> float:
        """Returns a number from 0 to below 1."""
        value = self.get(name, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < 1:
            self.refuse(name, "a number from 0 to below 1")
        return float(value)

    def boolean(self, name: str, default: bool = REQUIRED) -> bool:
        """Returns true or false."""
        value = self.get(name, default)
        if not isinstance(value, bool):
            self.refuse(name, "true or false")
        return value

    def word(
        self, name: str, table: Mapping[str, Entry], default: str = REQUIRED
    ) -> Entry:
        """Returns the entry of a table for a word.

        Examples:
            >>> Settings({"act": "gelu"}, "config.json").word("act", {"relu": 1})
            Traceback (most recent call last):
            ...
            ValueError: config.json: act = 'gelu', but kerasseq builds relu. Did you \
mean "relu"?
        """
        value = self.get(name, default)
        if not isinstance(value, str) or value not in table:
            self.refuse(name, ", ".join(table), "kerasseq builds", table)
        return table[value]

    def require(self, **expected: object) -> None:
        """Raises an error if a setting is there and has another value."""
        for name, right in expected.items():
            value = self.get(name, right)
            if value != right or isinstance(value, bool) != isinstance(right, bool):
                self.refuse(name, repr(right), "kerasseq builds")

    def part(self, name: str) -> "Settings":
        """Returns a nested table."""
        return Settings(self.get(name), f"{self.where}, {name}")

    def refuse(
        self, name: str, right: str, verb: str = "it must be", table: Iterable[str] = ()
    ) -> NoReturn:
        """Raises an error with the setting, its value and the expected one."""
        value, hint = self.values.get(name), nearest(self.values.get(name), table)
        raise ValueError(
            f"{self.where}: {name} = {value!r}, but {verb} {right}"
            + (f".{hint}" if hint else "")
        )


def existing_folder(folder: FilePath) -> pathlib.Path:
    """Returns the path of a folder.

    Raises:
        FileNotFoundError: If there is none.
        NotADirectoryError: If it is a file.
    """
    path = pathlib.Path(folder)
    if not path.exists():
        raise FileNotFoundError(
            f'there is no folder "{path}", and kerasseq downloads no models. Download '
            f"one into a folder, for example with  pip install huggingface_hub  and  "
            f"hf download {folder} --local-dir {path.name}  and pass that folder"
        )
    if not path.is_dir():
        raise NotADirectoryError(
            f'"{path}" is a file: pass the folder with {CONFIG} and the weights'
        )
    return path


def read_config(folder: pathlib.Path) -> tuple[str, str, Settings]:
    """Reads the `config.json` of a folder.

    Returns:
        "huggingface" or "keras_hub"; the model type or class; the settings.
    """
    if not (folder / CONFIG).exists():
        raise FileNotFoundError(
            f"{folder} has no {CONFIG}: it is neither a folder of Hugging Face nor a "
            "preset of KerasHub"
        )
    table = Settings(read_table(folder / CONFIG), folder / CONFIG)
    if "registered_name" in table or "class_name" in table:
        config, task = table.part("config"), folder / "task.json"
        if task.exists():
            task = Settings(read_table(task), task)
            config.task = hub_class(task), task.part("config")
        return "keras_hub", hub_class(table), config
    if "model_type" in table:
        if "quantization_config" in table:
            table.refuse("quantization_config", "null: weights must be floats")
        return "huggingface", table.get("model_type"), table
    raise ValueError(
        f"{folder / CONFIG} must have model_type, as in Hugging Face, or "
        "registered_name, as in KerasHub; it has neither"
    )


def hub_class(table: Settings) -> str:
    """Returns the name of a KerasHub class, which is only compared with known ones.

    Examples:
        >>> hub_class(Settings({"registered_name": "keras_hub>T5Backbone"}, "x"))
        'T5Backbone'
    """
    name = table.get("registered_name", table.values.get("class_name"))
    package, _, cls = str(name).rpartition(">")
    if package not in ("keras_hub", "keras_nlp", ""):
        table.refuse("registered_name", "a class of KerasHub")
    return cls


def read_table(path: pathlib.Path) -> dict[str, Any]:
    """Reads a JSON file with a dictionary."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path} is damaged: it holds no table")
    return content


def write_table(path: pathlib.Path, content: dict[str, Any]) -> None:
    """Writes a dictionary as a JSON file."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


@contextlib.contextmanager
def new_folder(folder: FilePath) -> Iterator[pathlib.Path]:
    """Creates a folder that appears when it is complete, or not at all.

    Args:
        folder: Path of the folder.

    Yields:
        The path of a temporary folder beside it.

    Raises:
        FileExistsError: If there is a file, or a folder that is not empty.
    """
    path = pathlib.Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FileExistsError(
            f'"{path}" is there already, and is not an empty folder: pass another '
            "path, or remove it first"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    part = temporary_path(path)
    part.mkdir()
    try:
        yield part
        if path.exists():
            path.rmdir()  # empty; some systems do not replace it
        os.replace(part, path)
    finally:
        shutil.rmtree(part, ignore_errors=True)
