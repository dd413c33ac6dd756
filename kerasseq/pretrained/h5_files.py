"""Tensors in KerasHub's HDF5 files: what lies in the file itself, and nothing else.

An HDF5 file may also point: to other files, to parts of them, to numbers that a filter
makes. Links are not followed, and such data are refused, so that a file can neither
read this computer's other files nor claim more numbers than it holds.
"""

import h5py
import numpy as np

from kerasseq.core.files import regular
from kerasseq.pretrained import shards
from kerasseq.pretrained.tensors import Tensor

SINGLE = "model.weights.h5"
INDEX = "model.weights.json"


def read(folder):
    """The tensors of a folder by name, of one file or of all that its index names.

    Args:
        folder: The folder, a path.

    Raises:
        FileNotFoundError: If there is none, or one is missing.
        ValueError: If a file is damaged, or points to something that is not in it.
    """
    files = shards.files(folder, SINGLE, INDEX)
    if files is None:
        raise FileNotFoundError(f"{folder} has neither {SINGLE} nor {INDEX}")
    return shards.united(folder, files, read_file)


def read_file(path):
    """The tensors of a file, a list."""
    found = []

    def visit(name, thing):  # hard links only: h5py does not follow others
        if isinstance(thing, h5py.Dataset):
            found.append(_tensor(name, path, thing))

    try:
        with h5py.File(regular(path), "r") as file:
            file.visititems(visit)
    except (OSError, RuntimeError, KeyError) as error:
        raise ValueError(f"{path} is no HDF5 file, or is damaged: {error}") from error
    return found


def _tensor(name, path, data):
    is_bfloat16 = data.attrs.get("dtype") == "bfloat16"  # Keras keeps it as integers
    right = "V" if is_bfloat16 else "f"
    known = data.dtype.kind == right or (is_bfloat16 and data.dtype == "uint16")
    if data.is_virtual or data.external or data.id.get_storage_size() != data.nbytes:
        raise ValueError(
            f'"{name}" in {path} claims {data.nbytes} bytes, which are not in the file '
            "as they are: weights that Keras saves are neither compressed nor elsewhere"
        )

    def as_array():
        with h5py.File(path, "r") as file:
            array = np.asarray(file[name])
        return array.view("bfloat16") if is_bfloat16 else array

    return Tensor(name, path, data.shape, as_array, None if known else str(data.dtype))


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
        write_file=write_file,
        named=lambda n, all: f"model_{n:05}.weights.h5",
        place=lambda name: "/" + name.rpartition("/")[0],  # a layer, not its weights
    )


def write_file(path, arrays):
    """Write a dictionary of arrays into a file as Keras does."""
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            data = file.create_dataset(name, data=array)
            if array.dtype == "bfloat16":
                data.attrs["dtype"] = "bfloat16"  # HDF5 has no word for it
