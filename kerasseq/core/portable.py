"""The training settings of a saved model, the same for every backend.

Keras writes two things into a file that belong to the backend it was saved on:

- On PyTorch an optimizer is of a private class, which other backends cannot run.
- `jit_compile` is what "auto" came to. True means XLA on TensorFlow and JAX, but
  inductor on PyTorch; PyTorch's default, False, turns XLA off elsewhere.
"""

import contextlib
import json
import pathlib
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from typing import Any

import keras

from kerasseq.core.types import Config

CONFIG = "config.json"
OPTIMIZERS = "keras.optimizers"


@contextlib.contextmanager
def portable_file(path: pathlib.Path, config: Config) -> Iterator[pathlib.Path]:
    """Yields the path of a `.keras` file that fits this backend.

    This is the file itself, unless its settings belong to another backend. Then it is a
    copy with other settings, which is removed at the end of the block.

    Args:
        path: A `.keras` file, already checked.
        config: The content of its `config.json`.
    """
    fitting = portable_settings(config)
    if fitting == config:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path) as archive:
        copy = pathlib.Path(folder) / path.name
        _copy(archive, copy, {CONFIG: json.dumps(fitting).encode()})
        yield copy


def _copy(
    archive: zipfile.ZipFile, path: pathlib.Path, changed: dict[str, bytes]
) -> None:
    """Copies an archive, with other content of some members."""
    with zipfile.ZipFile(path, "w") as copy:
        for name in archive.namelist():
            if name in changed:
                copy.writestr(name, changed[name])
                continue
            with archive.open(name) as old, copy.open(name, "w", force_zip64=True) as n:
                shutil.copyfileobj(old, n, 1 << 20)


def portable_settings(config: Any) -> Any:
    """Returns the config of a model, with settings of training that fit this backend.

    Optimizers get their public class. A `jit_compile` that may be the default of
    another backend becomes "auto"; Keras does not write down whether the user chose it.

    Args:
        config: The content of `config.json`, or a part of it.

    Returns:
        A config that shares no container with the given one.
    """
    on_torch = keras.backend.backend() == "torch"
    # The default of the other backends: True of XLA's, False of PyTorch's.
    foreign = None
    if _is_of_torch(config) != on_torch:
        foreign = on_torch
    return _changed(config, foreign, on_torch)


def public_optimizers(config: Any) -> Any:
    """Returns the config with optimizers under the names that every backend knows.

    Examples:
        >>> config = {"module": "keras.torch.sgd", "class_name": "SGD", "config": {}}
        >>> public_optimizers(config)["module"]
        'keras.optimizers'
    """
    return _changed(config)


def _is_of_torch(config: object) -> bool:
    """Returns whether an optimizer of PyTorch is in the config."""
    if isinstance(config, list | tuple):
        return any(map(_is_of_torch, config))
    if not isinstance(config, dict):
        return False
    return _has_torch_class(config) or _is_of_torch(list(config.values()))


def _has_torch_class(config: Config) -> bool:
    """Returns whether an optimizer of Keras is not under its public name."""
    module, name = config.get("module"), config.get("class_name")
    if not (isinstance(module, str) and isinstance(name, str)):
        return False
    of_keras = module.startswith("keras.") and module != OPTIMIZERS
    return of_keras and isinstance(getattr(keras.optimizers, name, None), type)


def _changed(
    config: Any, foreign_jit: bool | None = None, on_torch: bool = False
) -> Any:
    if isinstance(config, list | tuple):
        return type(config)(_changed(part, foreign_jit, on_torch) for part in config)
    if not isinstance(config, dict):
        return config
    config = {k: _changed(v, foreign_jit, on_torch) for k, v in config.items()}
    if _has_torch_class(config):
        config |= {"module": OPTIMIZERS, "registered_name": None}
    settings = config.get("compile_config")
    if isinstance(settings, dict):
        if foreign_jit is not None and settings.get("jit_compile") is foreign_jit:
            settings["jit_compile"] = "auto"
        if on_torch and "steps_per_execution" in settings:
            settings["steps_per_execution"] = 1  # the only number that it knows
    return config
