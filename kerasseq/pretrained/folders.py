"""Folders of others: which kind they are, their tables, and a safe way to write one."""

import contextlib
import json
import os
import pathlib
import shutil
import uuid

from kerasseq.core.files import read_json
from kerasseq.pretrained.settings import Settings

CONFIG = "config.json"


def existing(folder):
    """The path of a folder.

    Raises:
        FileNotFoundError: If there is none.
        NotADirectoryError: If it is a file.
    """
    path = pathlib.Path(folder)
    if not path.exists():
        raise FileNotFoundError(
            f'there is no folder "{path}". kerasseq downloads nothing: give a folder '
            "on this computer"
        )
    if not path.is_dir():
        raise NotADirectoryError(
            f'"{path}" is a file: give the folder with {CONFIG} and the weights'
        )
    return path


def settings(folder):
    """What a folder says of its model: of whom it is, its kind, and its `Settings`.

    Args:
        folder: A path.

    Returns:
        "huggingface" or "keras_hub"; the model's type or class; the settings.
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
            config.task = keras_class(task), task.part("config")
        return "keras_hub", keras_class(table), config
    if "model_type" in table:
        if "quantization_config" in table:
            table.refuse("quantization_config", "weights that are floats: none")
        return "huggingface", table.get("model_type"), table
    raise ValueError(
        f"{folder / CONFIG} has neither model_type, as those of Hugging Face, nor "
        "registered_name, as those of KerasHub"
    )


def keras_class(table):
    """The name of a class of KerasHub; nothing is done with it but comparing.

    Examples:
        >>> keras_class(Settings({"registered_name": "keras_hub>T5Backbone"}, "x"))
        'T5Backbone'
    """
    name = table.get("registered_name", table.values.get("class_name"))
    package, _, cls = str(name).rpartition(">")
    if package not in ("keras_hub", "keras_nlp", ""):
        table.refuse("registered_name", "a class of KerasHub")
    return cls


def read_table(path):
    """A JSON file that holds a dictionary."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path} is damaged: it holds no table")
    return content


def write_table(path, content):
    """A dictionary as a JSON file."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


@contextlib.contextmanager
def new(folder):
    """A folder to write into, put in its place at the end: whole, or not at all.

    Args:
        folder: Where it will stand.

    Yields:
        The path of a temporary folder beside it.

    Raises:
        FileExistsError: If there is something already.
    """
    path = pathlib.Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FileExistsError(
            f'"{path}" is there already, and is no empty folder: give another name, or '
            "remove it first"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    part.mkdir()
    try:
        yield part
        if path.exists():
            path.rmdir()  # empty; not every system would replace it
        os.replace(part, path)
    finally:
        shutil.rmtree(part, ignore_errors=True)
