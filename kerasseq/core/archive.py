"""Checks the content of a `.keras` file before anything is built from it.

A file may come from anybody. Nothing is unpacked beyond a bound, nothing is built
whose weights cannot be in the file, and no code that it holds runs.
"""

import pathlib
import zipfile
import zlib
from typing import Any

from kerasseq.core import checks
from kerasseq.core.files import key_path, parse_json, regular, walk
from kerasseq.core.types import Config

CONFIG, WEIGHTS = "config.json", ("model.weights.h5", "model.weights.npz")
LARGEST_TEXT = 2**26  # bytes of config.json, unpacked
LARGEST_RATIO = 100  # bytes unpacked for each byte of the file
SMALL = 2**20  # bytes that may always be unpacked; a size that is always tried
DEEPEST = 300  # levels; a model within a model takes some six

# Whole numbers under these names are dimensions of weights.
SIZES = (
    *("units", "filters", "hidden_dim", "intermediate_dim", "embedding_dim"),
    *("input_dim", "output_dim", "key_dim", "value_dim", "head_dim", "num_heads"),
    *("num_query_heads", "num_key_value_heads", "num_classes", "labels"),
    "vocabulary_size",
)
# Under these they are numbers of layers, each with weights of its own.
COUNTS = ("num_layers", "num_encoder_layers", "num_decoder_layers", "layers")
OF_A_LAYER = 256  # bytes of HDF5 that no layer with weights goes below
NAMES = ("class_name", "registered_name", "module")

# What stands under a key, or at the end of a key: null as well.
WORDS = {str: "a string", dict: "a table", list: "a list"}
KINDS = {
    **dict.fromkeys(("initializer", "regularizer", "constraint"), (str, dict)),
    **dict.fromkeys(("activation", "optimizer"), (str, dict)),
    **dict.fromkeys(("build_config", "compile_config"), (dict,)),
}


def read_config(path: pathlib.Path) -> Config:
    """Reads the configuration of a model, once the whole file is found sound.

    Raises:
        ValueError: If the file is damaged, unpacks to more than it may, or describes
            what cannot be in it; the text names the file and the key.
    """
    try:
        with zipfile.ZipFile(regular(path)) as archive:
            _check_members(archive, path)
            with archive.open(CONFIG) as file:
                text = file.read(LARGEST_TEXT + 1)
            broken = archive.testzip()
            stored = sum(
                i.file_size for i in archive.infolist() if i.filename in WEIGHTS
            )
    except (
        *(zipfile.BadZipFile, zlib.error, EOFError, KeyError),
        *(NotImplementedError, RuntimeError),  # other compressions, encryption
    ) as error:
        raise ValueError(
            f'"{path}" is not a .keras file, or is damaged: {error}'
        ) from error
    if broken:
        raise ValueError(f'"{path}" is damaged: "{broken}" in it cannot be read')
    where = f'"{path}" is not a .keras file, or is damaged: {CONFIG}'
    config = parse_json(text, where, DEEPEST)
    if not isinstance(config, dict):
        raise ValueError(f"{where}: expected a table, received {config!r:.60}")
    for keys, value in walk(config):
        problem = _problem(keys, value, stored)
        if problem:
            key = key_path(keys) or "the model"
            raise ValueError(f'"{path}": {CONFIG}, {key}: {problem}')
    return config


def _check_members(archive: zipfile.ZipFile, path: pathlib.Path) -> None:
    """Raises if a file would be far larger when it is unpacked."""
    for member in archive.infolist():
        name, size = member.filename, member.file_size
        if name == CONFIG:
            limit = LARGEST_TEXT
        else:
            limit = max(SMALL, LARGEST_RATIO * path.stat().st_size)
        if size > limit:
            raise ValueError(
                f'"{path}": "{name}" in it unpacks to {size:,} bytes, which is more '
                f"than the {limit:,} that are read from a file of this size"
            )


def _problem(keys: tuple[Any, ...], value: object, stored: int) -> str | None:
    """Returns what is wrong with a value of the configuration, or None."""
    if isinstance(value, dict) and "class_name" in value:
        problem = _problem_of_names(value)
        if problem:
            return problem
    key = str(keys[-1]) if keys else ""
    kinds = KINDS.get(key, KINDS.get(key.rpartition("_")[2]))
    if kinds and value is not None and not isinstance(value, kinds):
        return f"expected {' or '.join(map(WORDS.get, kinds))}, received {value!r:.60}"
    if isinstance(value, int) and not isinstance(value, bool):
        return _problem_of_size(keys, value, stored)
    return None


def _problem_of_size(keys: tuple[Any, ...], value: int, stored: int) -> str | None:
    """Finds what is wrong with a whole number, given the bytes of all weights."""
    if "tokenizer" in keys:  # it may have been built for more tokens than it learned
        return None
    what = f"among the {stored:,} bytes of weights in the file, received {value}"
    if keys[-1] in SIZES and value > max(SMALL, stored):
        return f"expected a size whose weights can be {what}"
    # Up to 1000 layers are allowed, however small the file is.
    if keys[-1] in COUNTS and value > max(1000, stored // OF_A_LAYER):
        return f"expected a number of layers whose weights can be {what}"
    return None


def _problem_of_names(table: dict[str, Any]) -> str | None:
    """Finds what is wrong with the names in a table that describes an object."""
    if table["class_name"] == "__lambda__":
        return (
            "holds Python code (a Lambda layer with a lambda), which loading it would "
            "run. Write the function as a layer class, register it with "
            "keras.saving.register_keras_serializable, and save the model again"
        )
    names = {name: table[name] for name in NAMES if table.get(name) is not None}
    names["class_name"] = table["class_name"]
    config = table.get("config")
    if isinstance(config, dict) and config.get("name") is not None:
        names["config.name"] = config["name"]
    for name, value in names.items():
        if not isinstance(value, str):
            return f"{name}: expected a string, received {value!r:.60}"
    return None


def explained(path: pathlib.Path, config: Config, error: BaseException) -> ValueError:
    """Returns the error of a file from which Keras could not build a model."""
    classes, cause = [], error
    while cause.__context__ and str(cause).startswith("<class "):
        classes.append(str(cause).split("'")[1].rpartition(".")[2])
        cause = cause.__context__
        if "Unable to revive model" in str(cause) and cause.__context__:
            cause = cause.__context__
    text = f'"{path}" cannot be loaded: '
    text += "".join(f"{name}: " for name in dict.fromkeys(classes))
    if isinstance(cause, checks.NotEnoughMemory):
        text += str(cause)
    elif isinstance(cause, ValueError | TypeError):
        return ValueError(f"{text}{cause}")
    else:
        text += f"{type(cause).__name__}: {str(cause)[:300]}"
    sizes = [
        (value, key_path(keys))
        for keys, value in walk(config)
        if isinstance(value, int) and keys[-1] in SIZES + COUNTS and value > 1000
    ]
    if sizes:
        value, key = max(sizes)
        text += (
            f". The largest size in {CONFIG} is {key} = {value}: it may need more "
            "memory than there is"
        )
    return ValueError(text)
