"""From the tensors of a folder to the weights of a model, all checked, and back."""

import fnmatch

import numpy as np
from keras import ops

from kerasseq.core.checks import nearest
from kerasseq.pretrained.layouts import every


def named(tensors, form):
    """Tensors by the names of the trunk: no prefix, and no older endings.

    Args:
        tensors: `Tensor`s by name.
        form: The `Format`.

    Raises:
        ValueError: If two get one name.
    """
    found = {}
    for name, tensor in tensors.items():
        short = name.removeprefix(form.prefix)
        for old, new in form.renamed.items():
            if short.endswith(old):
                short = short.removesuffix(old) + new
        if short in found:
            raise ValueError(
                f'{tensor.file.parent} has both "{found[short].name}" and "{name}"'
            )
        found[short] = tensor
    return found


def matched(family, form, arguments, tensors, folder):
    """Each row of the table with its tensor.

    Args:
        family: The `Family`.
        form: Its `Format`.
        arguments: Of our model.
        tensors: As `named` gives them.
        folder: For messages.

    Returns:
        List of pairs.

    Raises:
        ValueError: If a tensor is missing, left over, of another shape, or not of
            floats.
    """
    sizes, rest, pairs = family.sizes(arguments), dict(tensors), []
    model = family.model.__name__
    for row in every(form.rows(arguments), arguments):
        name = row.theirs
        if name not in tensors:
            name = form.instead.get(name, name)
        tensor, shape = tensors.get(name), row.file_shape(sizes)
        what = f'{model} needs it for "{row.ours[0]}" {row.shape(sizes)}'
        if tensor is None:
            raise ValueError(
                f'{folder} has no tensor "{row.theirs}" {shape}; {what}.'
                f"{nearest(row.theirs, tensors)}"
            )
        if tensor.shape != shape:
            raise ValueError(
                f'"{tensor.name}" in {tensor.file} has the shape {tensor.shape}, but '
                f"by its settings it should be {shape}; {what}"
            )
        tensor.check()
        rest.pop(name, None)
        pairs.append((row, tensor))
    _check_rest(family, form, tensors, rest, folder)
    return pairs


def _check_rest(family, form, tensors, rest, folder):
    """Raise if there is a tensor that nothing here is made for."""
    unknown = []
    for name, tensor in rest.items():
        known = (*form.ignored, *form.left_out)
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in known):
            continue
        first = tensors.get(form.copies.get(name))
        if first is None:
            unknown.append(tensor)
        elif tensor.shape != first.shape or np.any(tensor.read() != first.read()):
            raise ValueError(
                f'"{tensor.name}" and "{first.name}" in {folder} are one weight by its '
                "settings, but differ"
            )
    if unknown:
        shown = ", ".join(f'"{each.name}" {each.shape}' for each in unknown[:3])
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        raise ValueError(
            f"{folder} has tensors for which a {family.model.__name__} with its "
            f"settings has no place: {shown}{more}"
        )


def assign(model, pairs, sizes):
    """Put the tensors into the weights of a model.

    Args:
        model: The model.
        pairs: As `matched` gives them.
        sizes: What the letters stand for.
    """
    weights = by_path(model, [row for row, _ in pairs])
    for row, tensor in pairs:
        for path, array in zip(
            row.ours, row.to_ours(tensor.read(), sizes), strict=True
        ):
            if array.itemsize < 4:  # not every backend takes those of NumPy
                array = array.astype("float32")
            weights[path].assign(array)


def tensors_of(model, rows, sizes):
    """The tensors of a folder, of the weights of a model: pairs of row and array."""
    rows = list(rows)
    weights = by_path(model, rows)
    for row in rows:
        arrays = [ops.convert_to_numpy(weights[path]) for path in row.ours]
        yield row, row.to_file(arrays, sizes)


def by_path(model, rows):
    """The weights of a model by their paths.

    Raises:
        ValueError: If there are others than the rows name.
    """
    weights = {weight.path: weight for weight in model.trainable_weights}
    weights |= {weight.path: weight for weight in model.non_trainable_weights}
    wanted = {path for row in rows for path in row.ours}
    lacks, more = sorted(wanted - set(weights)), sorted(set(weights) - wanted)
    if lacks or more:
        raise ValueError(
            f"this {type(model).__name__} has been changed: it has no weights "
            f"{lacks[:3]}, and {more[:3]} have no name in the folders of others"
        )
    return weights
