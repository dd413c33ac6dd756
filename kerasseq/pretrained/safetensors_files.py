"""Tensors in safetensors files: numbers with names, and nothing that runs."""

import ml_dtypes  # noqa: F401  # NumPy knows bfloat16 from then on
import numpy as np

from kerasseq.core.files import regular
from kerasseq.pretrained import shards
from kerasseq.pretrained.tensors import Tensor

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
FLOATS = ("F64", "F32", "F16", "BF16")
PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")


def read(folder):
    """The tensors of a folder by name, of one file or of all that its index names.

    Args:
        folder: The folder, a path.

    Raises:
        FileNotFoundError: If there is none, or one is missing.
        ImportError: If the package safetensors is missing.
        ValueError: If a file is damaged.
    """
    files = shards.files(folder, SINGLE, INDEX)
    if files is None:
        _refuse_pickles(folder)
        raise FileNotFoundError(f"{folder} has neither {SINGLE} nor {INDEX}")
    return shards.united(folder, files, _of_file)


def _refuse_pickles(folder):
    for file in sorted(file for ending in PICKLES for file in folder.glob(ending)):
        raise ValueError(
            f"{folder} has its weights in {file.name}, a pickle, which can run any "
            "code on this computer when it is read: kerasseq does not read it. Often "
            f"there is a {SINGLE} in the same place; or load the weights with the "
            "program that wrote them, and save them as safetensors"
        )


def _of_file(path):
    library = _library()
    regular(path)
    try:
        file = library.safe_open(path, framework="np")
    except (library.SafetensorError, OSError) as error:
        raise ValueError(
            f"{path} is no safetensors file, or is damaged: {error}"
        ) from error
    for name in file.keys():  # noqa: SIM118  # it is no dictionary
        part = file.get_slice(name)
        kind, shape = part.get_dtype(), tuple(part.get_shape())
        other = None if kind in FLOATS else kind
        yield Tensor(name, path, shape, _reader(file, name), other)


def _reader(file, name):
    return lambda: file.get_tensor(name)


def write(folder, tensors):
    """Write tensors into one file, or into several with an index if they are large.

    Args:
        folder: Where to, a path.
        tensors: Pairs of name and array, which are taken one by one.
    """
    shards.write(
        folder,
        tensors,
        SINGLE,
        INDEX,
        write_file=_write_file,
        named=lambda n, all: f"model-{n + 1:05}-of-{all:05}.safetensors",
    )


def _write_file(path, arrays):
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    _library().numpy.save_file(arrays, path, {"format": "pt"})


def _library():
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as error:
        raise ImportError(
            "weights of Hugging Face are in files of the package safetensors, which is "
            'not installed: pip install "kerasseq[weights]"'
        ) from error
    return safetensors
