"""Loads a saved model without running code from the file.

The classes of kerasseq are known by then: `kerasseq.load_model` loads them first.
"""

import pathlib
from typing import Any

from kerasseq.core import archive, backend
from kerasseq.core.types import FilePath

backend.require()  # a clear message, before Keras fails deep inside

import keras  # noqa: E402

from kerasseq.core.portable import portable_file  # noqa: E402
from kerasseq.core.sublayers import restart_lora  # noqa: E402


def load_model(
    filepath: FilePath,
    custom_objects: dict[str, Any] | None = None,
    compile: bool = True,
    safe_mode: bool = True,
) -> keras.Model:
    """Loads a model from the `.keras` file that `model.save` wrote.

    Unlike `keras.saving.load_model` it finds all classes of kerasseq, without other
    imports, and refuses formats that can run code from the file.

    A model saved on one backend trains on on every other. Keras writes the class of an
    optimizer, and what `jit_compile="auto"` came to, as the backend has them: here they
    are read as what the user chose, in plain Keras models, too. LoRA stays on: what was
    learned is in the matrices, and A and B start anew.

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
    config = archive.read_config(path)
    try:
        with portable_file(path, config) as file:
            model = keras.saving.load_model(
                file, custom_objects, compile, safe_mode=True
            )
    except ImportError:
        raise
    except Exception as error:  # a damaged file may raise any error
        raise archive.explained(path, config, error) from error
    restart_lora(model)
    return model


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
