"""Reads and writes tensors in safetensors files and in KerasHub's HDF5 files.

Both formats keep tensors in one file, or in several with an index. The files are not
trusted: pickles are refused, links in HDF5 files are not followed, and a file cannot
claim more data than it holds or name a file outside its folder.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping

import ml_dtypes  # noqa: F401  # registers bfloat16 with NumPy
import numpy as np

from kerasseq.core import packages
from kerasseq.core.files import regular
from kerasseq.pretrained import folders

MAX_SHARD_SIZE = 5_000_000_000  # bytes of tensors in a file

SAFETENSORS = "model.safetensors"
SAFETENSORS_INDEX = "model.safetensors.index.json"
FLOAT_TYPES = ("F64", "F32", "F16", "BF16")
PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")

H5 = "model.weights.h5"
H5_INDEX = "model.weights.json"


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor of a file, whose values are read on demand.

    Attributes:
        name: Name in the file.
        file: The file.
        shape: Shape.
        read: Returns the values as an array.
        wrong_type: The type if it is not a float. Tensors that are not weights may
            have one.
    """

    name: str
    file: pathlib.Path
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]
    wrong_type: str | None = None

    def check_type(self) -> None:
        """Raises an error unless the values are floats."""
        if self.wrong_type is not None:
            raise ValueError(
                f'"{self.name}" in {self.file} must be a tensor of floats, received '
                f"type {self.wrong_type}"
            )

    def numbers(self) -> np.ndarray:
        """Returns the values, of at least 32 bits.

        Raises:
            ValueError: If they are not floats, or one is not finite.
        """
        self.check_type()
        array = self.read()
        array = array.astype("float32") if array.itemsize < 4 else array
        if not np.all(np.isfinite(array)):
            raise ValueError(
                f'"{self.name}" in {self.file} has numbers that are not finite'
            )
        return array


# safetensors


def read_safetensors(folder: pathlib.Path) -> dict[str, Tensor]:
    """Returns the tensors of a folder by name.

    Raises:
        FileNotFoundError: If the file, or one that the index names, is missing.
        ImportError: If the package safetensors is not installed.
        ValueError: If a file is damaged, or the weights are a pickle.
    """
    files = _file_names(folder, SAFETENSORS, SAFETENSORS_INDEX)
    if files is None:
        refuse_pickles(folder, SAFETENSORS)
        raise FileNotFoundError(
            f"{folder} has neither {SAFETENSORS} nor {SAFETENSORS_INDEX}"
        )
    return _by_name(folder, files, read_safetensors_file)


def refuse_pickles(folder: pathlib.Path, wanted: str) -> None:
    """Raises a `ValueError` if a folder has weights in a pickle.

    Args:
        folder: The folder, without the file that is wanted.
        wanted: The name of the file.
    """
    for file in sorted(file for ending in PICKLES for file in folder.glob(ending)):
        raise ValueError(
            f"{folder} has its weights in {file.name}, a pickle, which can run any "
            f"code when it is loaded. Look for a {wanted} from the same source, "
            "or load the weights with the program that wrote them and save them as "
            "safetensors"
        )


def read_safetensors_file(path: pathlib.Path) -> Iterator[Tensor]:
    """Yields the tensors of a file.

    Raises:
        FileNotFoundError: If there is no such file.
        ImportError: If the package safetensors is not installed.
        ValueError: If the file is damaged.
    """
    library = _safetensors()
    regular(path)
    try:
        file = library.safe_open(path, framework="np")
    except (library.SafetensorError, OSError) as error:
        raise ValueError(
            f"{path} is not a safetensors file, or is damaged: {error}"
        ) from error
    for name in file.keys():  # noqa: SIM118  # it is not a dictionary
        part = file.get_slice(name)
        kind, shape = part.get_dtype(), tuple(part.get_shape())
        wrong = None if kind in FLOAT_TYPES else kind
        yield Tensor(name, path, shape, _safetensors_reader(file, name), wrong)


def _safetensors_reader(file, name):
    return lambda: file.get_tensor(name)


def write_safetensors(
    folder: pathlib.Path, tensors: Iterable[tuple[str, np.ndarray]]
) -> None:
    """Writes tensors into one file, or into several with an index if they are large.

    Args:
        folder: The folder.
        tensors: Pairs of name and array, consumed one by one.
    """
    _write_shards(
        folder,
        tensors,
        SAFETENSORS,
        SAFETENSORS_INDEX,
        write_file=write_safetensors_file,
        shard_name=lambda n, count: f"model-{n + 1:05}-of-{count:05}.safetensors",
    )


def write_safetensors_file(
    path: pathlib.Path, arrays: Mapping[str, np.ndarray]
) -> None:
    """Writes arrays by name into a file."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    _safetensors().numpy.save_file(arrays, path, {"format": "pt"})


def _safetensors():
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as error:
        raise packages.missing(
            "folders of Hugging Face need the package", "safetensors"
        ) from error
    return safetensors


# HDF5


def read_h5(folder: pathlib.Path) -> dict[str, Tensor]:
    """Returns the tensors of a folder by name.

    Raises:
        FileNotFoundError: If the file, or one that the index names, is missing.
        ImportError: If the package h5py is not installed.
        ValueError: If a file is damaged, or refers to data outside of it.
    """
    files = _file_names(folder, H5, H5_INDEX)
    if files is None:
        raise FileNotFoundError(f"{folder} has neither {H5} nor {H5_INDEX}")
    return _by_name(folder, files, read_h5_file)


def read_h5_file(path: pathlib.Path) -> list[Tensor]:
    """Returns the tensors of a file."""
    h5py, tensors = _h5py(), []

    def visit(name, item):  # called for hard links only: h5py does not follow others
        if isinstance(item, h5py.Dataset):
            tensors.append(_h5_tensor(name, path, item))

    regular(path)
    try:
        with h5py.File(path, "r") as file:
            file.visititems(visit)
    except (OSError, RuntimeError, KeyError) as error:
        raise ValueError(
            f"{path} is not an HDF5 file, or is damaged: {error}"
        ) from error
    return tensors


def _h5_tensor(name, path, data):
    # HDF5 has no bfloat16: Keras stores it as integers with an attribute.
    is_bfloat16 = data.attrs.get("dtype") == "bfloat16"
    kind = "V" if is_bfloat16 else "f"
    is_float = data.dtype.kind == kind or (is_bfloat16 and data.dtype == "uint16")
    if data.is_virtual or data.external or data.id.get_storage_size() != data.nbytes:
        raise ValueError(
            f'"{name}" in {path} must have its {data.nbytes} bytes in the file itself, '
            "uncompressed, as Keras saves weights; received compressed, virtual or "
            "external data"
        )

    def read():
        with _h5py().File(path, "r") as file:
            array = np.asarray(file[name])
        return array.view("bfloat16") if is_bfloat16 else array

    return Tensor(name, path, data.shape, read, None if is_float else str(data.dtype))


def write_h5(folder: pathlib.Path, tensors: Iterable[tuple[str, np.ndarray]]) -> None:
    """Writes tensors into one file, or into several with an index if they are large.

    Args:
        folder: The folder.
        tensors: Pairs of name and array, consumed one by one.
    """
    _write_shards(
        folder,
        tensors,
        H5,
        H5_INDEX,
        write_file=write_h5_file,
        shard_name=lambda n, count: f"model_{n:05}.weights.h5",
        index_key=lambda name: "/" + name.rpartition("/")[0],  # the layer
    )


def write_h5_file(
    path: pathlib.Path, arrays: Mapping[str, np.ndarray | np.generic]
) -> None:
    """Writes arrays by name into a file, as Keras does."""
    with _h5py().File(path, "w") as file:
        for name, array in arrays.items():
            data = file.create_dataset(name, data=array)
            if array.dtype == "bfloat16":
                data.attrs["dtype"] = "bfloat16"


def _h5py():
    return packages.load("h5py", "h5py", "files of KerasHub need the package")


# One file, or several with an index


def _file_names(folder, single, index):
    """Returns the names of the files with weights; None without weights."""
    if (folder / single).exists():
        return [single]
    if not (folder / index).exists():
        return None
    files = folders.read_table(folder / index).get("weight_map")
    if not isinstance(files, dict) or not files:
        raise ValueError(f"{folder / index} is damaged: it has no weight_map")
    names = []
    for file in files.values():  # Keras has a list for a layer in several files
        names += file if isinstance(file, list) else [file]
    return list(dict.fromkeys(_checked_name(folder, index, name) for name in names))


def _checked_name(folder, index, file):
    """Returns the name of a file if it is in the folder itself."""
    is_plain = isinstance(file, str) and not set(file) & set("/\\:\0")
    if not is_plain or not file or file.startswith("."):
        raise ValueError(
            f"{folder / index} must name files in its folder, received {file!r}: "
            "nothing outside of it is read"
        )
    if not (folder / file).is_file():
        raise FileNotFoundError(f"{folder / index} names {file}, which is not there")
    return file


def _by_name(folder, files, read_file):
    """Returns the tensors of all files by name.

    Raises:
        ValueError: If two files have the same tensor.
    """
    tensors = {}
    for file in files:
        for tensor in read_file(folder / file):
            if tensor.name in tensors:
                raise ValueError(
                    f'"{tensor.name}" is in two files of {folder}: {file} and '
                    f"{tensors[tensor.name].file.name}"
                )
            tensors[tensor.name] = tensor
    return tensors


def _write_shards(
    folder, tensors, single, index, write_file, shard_name, index_key=str
):
    """Writes tensors into one file, or into several with an index if they are large.

    Args:
        folder: The folder.
        tensors: Pairs of name and array, consumed one by one.
        single: Name of the file, if there is one.
        index: Name of the index, if there are several files.
        write_file: Writes arrays by name to a path.
        shard_name: Returns the name of a file from its number and their count.
        index_key: Returns the key in the index from the name of a tensor.
    """
    shards, total = [], 0
    for n, arrays in enumerate(_shards(tensors)):
        write_file(folder / f"part-{n}", arrays)
        shards.append([index_key(name) for name in arrays])
        total += sum(array.nbytes for array in arrays.values())
    if len(shards) == 1:
        (folder / "part-0").rename(folder / single)
        return
    files = {}
    for n, keys in enumerate(shards):
        file = shard_name(n, len(shards))
        (folder / f"part-{n}").rename(folder / file)
        for key in dict.fromkeys(keys):
            files.setdefault(key, []).append(file)
    files = {key: v[0] if len(v) == 1 else v for key, v in files.items()}
    table = {"metadata": {"total_size": total}, "weight_map": files}
    folders.write_table(folder / index, table)


def _shards(tensors):
    """Yields the tensors in dictionaries of at most `MAX_SHARD_SIZE` bytes."""
    arrays, size = {}, 0
    for name, array in tensors:
        if arrays and size + array.nbytes > MAX_SHARD_SIZE:
            yield arrays
            arrays, size = {}, 0
        arrays[name] = array
        size += array.nbytes
    yield arrays
