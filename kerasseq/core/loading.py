"""Load a saved model, and run no foreign code on the way.

The classes of kerasseq are known by then: `kerasseq.load_model` loads them first.
"""

import json
import os
import pathlib
import zipfile
import zlib

from kerasseq.core import backend

backend.require()  # a clear message, before Keras fails deep inside

import keras  # noqa: E402


def load_model(
    filepath: str | os.PathLike,
    custom_objects: dict | None = None,
    compile: bool = True,
    safe_mode: bool = True,
) -> keras.Model:
    """Load a model from the `.keras` file that `model.save` wrote.

    Unlike `keras.saving.load_model` it finds the classes of kerasseq whatever was
    imported before, and never reads a format that can run code of whoever wrote it.

    Args:
        filepath: The `.keras` file.
        custom_objects: Your own classes and functions by name, if the model has some
            that are not registered with Keras.
        compile: Whether to restore loss, optimizer and metrics too.
        safe_mode: Only `True`.

    Raises:
        ValueError: If the file is damaged, is of another format or holds Python code.
        FileNotFoundError: If there is no such file.
        IsADirectoryError: If it is a folder.
    """
    if safe_mode is not True:
        raise ValueError(
            f"safe_mode={safe_mode!r} would let the file run any Python code on this "
            "computer: kerasseq loads models with safe_mode=True only"
        )
    path = pathlib.Path(filepath)
    _check_is_keras_file(path)
    _check_is_whole(path)
    return keras.saving.load_model(path, custom_objects, compile, safe_mode=True)


def _check_is_keras_file(path: pathlib.Path) -> None:
    if path.is_dir():
        inside = sorted(path.glob("*.keras"))
        hint = f'. Did you mean "{inside[0]}"?' if inside else ""
        raise IsADirectoryError(f'"{path}" is a folder, not a .keras file{hint}')
    if not path.exists():
        raise FileNotFoundError(f'there is no file "{path}"')
    if path.suffix in (".h5", ".hdf5"):
        raise ValueError(
            f'"{path}" is in the old HDF5 format, which can run foreign code when a '
            "model is loaded from it. Save the model as .keras instead; if the file "
            "holds weights only, build the model and call model.load_weights"
        )
    if path.suffix != ".keras":
        raise ValueError(f'"{path}" is not a .keras file: its name ends differently')


def _check_is_whole(path: pathlib.Path) -> None:
    """Read the file once, so that damage is found before anything is built from it."""
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
            config = json.loads(archive.read("config.json"))
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError) as error:
        raise ValueError(
            f'"{path}" is not a .keras file, or is damaged: {error}'
        ) from error
    if broken:
        raise ValueError(f'"{path}" is damaged: "{broken}" in it cannot be read')
    if _holds_code(config):
        raise ValueError(
            f'"{path}" holds Python code (a Lambda layer with a lambda), which loading '
            "it would run. Write the function as a layer class, register it with "
            "keras.saving.register_keras_serializable, and save the model again"
        )


def _holds_code(config) -> bool:
    """Look for a function that Keras saved as code.

    Examples:
        >>> _holds_code({"layers": [{"function": {"class_name": "__lambda__"}}]})
        True
    """
    if isinstance(config, list):
        return any(map(_holds_code, config))
    if not isinstance(config, dict):
        return False
    return config.get("class_name") == "__lambda__" or _holds_code(
        list(config.values())
    )
