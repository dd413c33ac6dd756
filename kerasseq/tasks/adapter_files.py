"""Files of adapters: safetensors, with the settings of LoRA as metadata.

Folders of PEFT and files of KerasHub name layers as these libraries do. The module that
reads them knows the models, so that it is above this one: `kerasseq.models` names it.
"""

import json
import os
import pathlib
from collections.abc import Callable
from types import ModuleType

import keras
import numpy as np

from kerasseq.core import checks, files, packages
from kerasseq.core.dense import LoRA
from kerasseq.core.types import FilePath
from kerasseq.tasks import adapters
from kerasseq.tasks.adapters import Adapter

SUFFIX = ".safetensors"
KEY = "kerasseq.lora"  # of the metadata
PEFT = "peft"
KERAS_HUB = ".lora.h5"
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
_LOADERS: dict[str, Callable[[], ModuleType]] = {}


def register_formats(
    peft: Callable[[], ModuleType], keras_hub: Callable[[], ModuleType]
) -> None:
    """Registers the adapters of other libraries.

    Args:
        peft: Imports the module with `read(model, path)` and `write`.
        keras_hub: Imports the module with `read(model, path)`.
    """
    _LOADERS.update({PEFT: peft, KERAS_HUB: keras_hub})


def save_lora_weights(
    model: keras.Model, path: FilePath, format: str | None = None
) -> None:
    """Writes the active adapter, with a new head, for kerasseq or for PEFT.

    Args:
        model: The model.
        path: A file that ends in ".safetensors"; or a new folder, as a name without
            such an ending, which PEFT reads: for the models of `save_pretrained`.
        format: "peft" for a folder whose name has a dot.

    Raises:
        FileExistsError: If the folder exists and is not empty.
        TypeError: If the model is of a class that Hugging Face does not have.
        ValueError: If there is no adapter, or Hugging Face has no such model.
    """
    checks.one_of("format", format, (None, PEFT))
    adapter = adapters.current(model)
    folder = files.as_path("path", path)
    is_folder = (
        folder.is_dir() or str(path).endswith(("/", os.sep)) or not folder.suffix
    )
    if format == PEFT or is_folder:
        _LOADERS[PEFT]().write(model, folder, adapter)
    else:
        write(folder, adapter)


def load_lora_weights(
    model: keras.Model, path: FilePath, name: str = "default"
) -> None:
    """Reads an adapter of a model like this one, and activates it.

    Args:
        model: The model.
        path: A file of `save_lora_weights`, a folder of PEFT, or a file of KerasHub's
            `save_lora_weights`, which ends in ".lora.h5".
        name: Its name for `set_adapter`.

    Raises:
        FileNotFoundError: If there is no such file, or the folder lacks one.
        ImportError: If the package safetensors is needed and not installed.
        TypeError: If Hugging Face or KerasHub has no such class of models.
        ValueError: If the file is damaged, of another model, or has what kerasseq does
            not have; or the name is taken.

    Examples:
        >>> import tempfile, kerasseq
        >>> sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 6}
        >>> model = kerasseq.models.GPT(vocabulary_size=5, **sizes)
        >>> model.enable_lora(2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save_lora_weights(f"{folder}/adapter")
        ...     model.load_lora_weights(f"{folder}/adapter", name="mine")
    """
    adapters.add(model, name, _loaded(model, path))


def _loaded(model, path):
    path = files.as_path("path", path)
    if path.is_dir():
        return _LOADERS[PEFT]().read(model, path)
    if path.name.endswith(KERAS_HUB):
        return _LOADERS[KERAS_HUB]().read(model, path)
    if path.suffix in PICKLES:
        raise ValueError(
            f"{path} is a pickle, which can run any code when it is loaded. Load it "
            "with the program that wrote it, and save it as safetensors"
        )
    if not path.suffix and not path.exists():
        raise FileNotFoundError(
            f'there is no folder "{path}". An adapter is a folder of PEFT, with '
            f'adapter_config.json, or a file that ends in "{SUFFIX}" or "{KERAS_HUB}"'
        )
    return read(path)


def write(path: FilePath, adapter: Adapter) -> None:
    """Writes an adapter; the file is replaced at once when it is whole.

    Raises:
        ImportError: If the package safetensors is not installed.
        ValueError: If the name of the file ends differently.
    """
    library = _safetensors("safetensors.numpy")
    path = _checked(path)
    settings = {k: [x.rank, x.alpha, x.dropout] for k, x in adapter.lora.items()}
    weights = {k: np.ascontiguousarray(v) for k, v in adapter.weights.items()}
    with files.replacing(path) as temporary:
        library.save_file(weights, temporary, {KEY: json.dumps(settings)})


def read(path: FilePath) -> Adapter:
    """Reads an adapter.

    Raises:
        FileNotFoundError: If there is no such file.
        ImportError: If the package safetensors is not installed.
        ValueError: If the file is damaged, or no adapter of kerasseq.
    """
    library, path = _safetensors("safetensors"), _checked(path)
    files.regular(path)
    try:
        with library.safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (library.SafetensorError, OSError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is not a safetensors file, or is damaged: {error}"
        ) from error
    if KEY not in metadata:
        raise ValueError(
            f"{path} has tensors, but no settings of LoRA: it was not written by "
            "save_lora_weights. Of an adapter of PEFT pass the folder, which has "
            "adapter_config.json as well"
        )
    settings = files.parse_json(metadata[KEY], path, 3)
    try:
        lora = {key: _settings(*values) for key, values in settings.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"the settings of LoRA in {path} are damaged: {error}"
        ) from error
    if not lora:
        raise ValueError(f"{path} has an adapter of no layer")
    wrong = [name for name, array in weights.items() if not np.all(np.isfinite(array))]
    if wrong:
        raise ValueError(f'"{wrong[0]}" in {path} has numbers that are not finite')
    return Adapter(lora, weights)


def _settings(rank, alpha, dropout):
    return LoRA(
        checks.whole_number("rank", rank),
        checks.positive("alpha", alpha),
        checks.rate("dropout", dropout),
    )


def _checked(path: FilePath) -> pathlib.Path:
    path = files.as_path("path", path)
    if path.suffix != SUFFIX:
        raise ValueError(
            f'the file of an adapter must end in "{SUFFIX}", received "{path}". A '
            'folder of PEFT has no such ending, or format="peft"'
        )
    return path


def _safetensors(module):
    return packages.load(module, "safetensors", "files of adapters need the package")
