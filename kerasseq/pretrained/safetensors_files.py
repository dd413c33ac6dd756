"""Tensors in safetensors files: numbers with names, and nothing that runs."""

import ml_dtypes  # noqa: F401  # NumPy knows bfloat16 from then on
import numpy as np

from kerasseq.pretrained import folders
from kerasseq.pretrained.tensors import Tensor

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
SHARD = 5_000_000_000  # bytes of tensors in a file, at most
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
    found = {}
    for file in _files(folder):
        for tensor in _of_file(folder / file):
            if tensor.name in found:
                raise ValueError(
                    f'"{tensor.name}" is in two files of {folder}: {file} and '
                    f"{found[tensor.name].file.name}"
                )
            found[tensor.name] = tensor
    return found


def _files(folder):
    """The names of the files with weights."""
    if (folder / SINGLE).exists():
        return [SINGLE]
    if not (folder / INDEX).exists():
        _refuse_pickles(folder)
        raise FileNotFoundError(f"{folder} has neither {SINGLE} nor {INDEX}")
    places = folders.read_table(folder / INDEX).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ValueError(f"{folder / INDEX} is damaged: it has no weight_map")
    return list(dict.fromkeys(_checked(folder, file) for file in places.values()))


def _checked(folder, file):
    """The name of a file that lies in the folder itself."""
    is_plain = isinstance(file, str) and not set(file) & set("/\\:\0")
    if not is_plain or not file or file.startswith("."):
        raise ValueError(
            f"{folder / INDEX} names the file {file!r}, which is not the plain name of "
            "a file in this folder: nothing outside of it is read"
        )
    if not (folder / file).is_file():
        raise FileNotFoundError(f"{folder / INDEX} names {file}, which is not there")
    return file


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
    library, parts, total = _library(), [], 0
    for n, part in enumerate(_parts(tensors)):
        library.numpy.save_file(part, folder / f"part-{n}", {"format": "pt"})
        parts.append(list(part))
        total += sum(array.nbytes for array in part.values())
    if len(parts) == 1:
        (folder / "part-0").rename(folder / SINGLE)
        return
    places = {}
    for n, names in enumerate(parts):
        file = f"model-{n + 1:05}-of-{len(parts):05}.safetensors"
        (folder / f"part-{n}").rename(folder / file)
        places |= dict.fromkeys(names, file)
    index = {"metadata": {"total_size": total}, "weight_map": places}
    folders.write_table(folder / INDEX, index)


def _parts(tensors):
    """The tensors in dictionaries that are not too large."""
    part, size = {}, 0
    for name, array in tensors:
        if part and size + array.nbytes > SHARD:
            yield part
            part, size = {}, 0
        part[name] = np.ascontiguousarray(array)
        size += array.nbytes
    yield part


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
