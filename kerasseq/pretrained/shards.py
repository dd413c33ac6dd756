"""Weights in one file, or in several with an index that says what lies where."""

from kerasseq.pretrained import folders

SHARD = 5_000_000_000  # bytes of tensors in a file, at most


def files(folder, single, index):
    """The names of the files with weights; None if there are none.

    Args:
        folder: The folder, a path.
        single: The name of the file, if there is one.
        index: The name of the index, if there are several.

    Raises:
        FileNotFoundError: If one that the index names is missing.
        ValueError: If the index is damaged, or names a file outside of the folder.
    """
    if (folder / single).exists():
        return [single]
    if not (folder / index).exists():
        return None
    places = folders.read_table(folder / index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ValueError(f"{folder / index} is damaged: it has no weight_map")
    names = []
    for place in places.values():  # Keras lists the files of a layer that was cut
        names += place if isinstance(place, list) else [place]
    return list(dict.fromkeys(_checked(folder, index, name) for name in names))


def _checked(folder, index, file):
    """The name of a file that lies in the folder itself."""
    is_plain = isinstance(file, str) and not set(file) & set("/\\:\0")
    if not is_plain or not file or file.startswith("."):
        raise ValueError(
            f"{folder / index} names the file {file!r}, which is not the plain name of "
            "a file in this folder: nothing outside of it is read"
        )
    if not (folder / file).is_file():
        raise FileNotFoundError(f"{folder / index} names {file}, which is not there")
    return file


def united(folder, names, read):
    """The tensors of all files by name.

    Args:
        folder: The folder, a path.
        names: Of the files.
        read: Function of a path that gives the `Tensor`s of a file.

    Raises:
        ValueError: If two files have the same tensor.
    """
    found = {}
    for file in names:
        for tensor in read(folder / file):
            if tensor.name in found:
                raise ValueError(
                    f'"{tensor.name}" is in two files of {folder}: {file} and '
                    f"{found[tensor.name].file.name}"
                )
            found[tensor.name] = tensor
    return found


def write(folder, tensors, single, index, write_file, named, place=str):
    """Write tensors into one file, or into several with an index if they are large.

    Args:
        folder: Where to, a path.
        tensors: Pairs of name and array, which are taken one by one.
        single: The name of the file, if there is one.
        index: The name of the index, if there are several.
        write_file: Function of a path and a dictionary of arrays.
        named: Function of the number of a file and of all, which gives its name.
        place: Function of the name of a tensor: under which name the index has it.
    """
    parts, total = [], 0
    for n, part in enumerate(_parts(tensors)):
        write_file(folder / f"part-{n}", part)
        parts.append([place(name) for name in part])
        total += sum(array.nbytes for array in part.values())
    if len(parts) == 1:
        (folder / "part-0").rename(folder / single)
        return
    places = {}
    for n, entries in enumerate(parts):
        file = named(n, len(parts))
        (folder / f"part-{n}").rename(folder / file)
        for entry in dict.fromkeys(entries):
            places.setdefault(entry, []).append(file)
    places = {k: v[0] if len(v) == 1 else v for k, v in places.items()}
    table = {"metadata": {"total_size": total}, "weight_map": places}
    folders.write_table(folder / index, table)


def _parts(tensors):
    """The tensors in dictionaries that are not too large."""
    part, size = {}, 0
    for name, array in tensors:
        if part and size + array.nbytes > SHARD:
            yield part
            part, size = {}, 0
        part[name] = array
        size += array.nbytes
    yield part
