"""Matches the tensors of a checkpoint with the weights of a model."""

import fnmatch
import itertools
import pathlib
import warnings
from collections.abc import Iterable, Iterator, Mapping

import keras
import numpy as np
from keras import ops

from kerasseq.core.checks import nearest
from kerasseq.pretrained.family import Arguments, Family, Format
from kerasseq.pretrained.rows import Row, Sizes, expand_layers
from kerasseq.pretrained.weight_files import Tensor


def current_names(tensors: Mapping[str, Tensor], form: Format) -> dict[str, Tensor]:
    """Returns the tensors by their current names, without the prefix of the backbone.

    Args:
        tensors: `Tensor`s by name.
        form: The `Format`.

    Raises:
        ValueError: If two tensors get the same name.
    """
    current = {}
    for name, tensor in tensors.items():
        short = name.removeprefix(form.prefix)
        for old, new in form.renamed.items():
            if short.endswith(old):
                short = short.removesuffix(old) + new
        if short in current:
            raise ValueError(
                f'{tensor.file.parent} has both "{current[short].name}" and "{name}", '
                "which are the same weight. Remove one of them"
            )
        current[short] = tensor
    return current


def match(
    family: Family,
    form: Format,
    arguments: Arguments,
    tensors: Mapping[str, Tensor],
    folder: pathlib.Path,
) -> list[tuple[Row, Tensor]]:
    """Pairs each row of the table with its tensor.

    Args:
        family: The `Family`.
        form: Its `Format`.
        arguments: Arguments of the model.
        tensors: The result of `current_names`.
        folder: The folder, for messages.

    Returns:
        List of pairs of row and tensor.

    Raises:
        ValueError: If a tensor is missing or left over, or has a wrong shape or type.

    Warns:
        UserWarning: If the model has no place for a tensor, such as another head.
    """
    sizes, rest, pairs = family.sizes(arguments), dict(tensors), []
    model = family.model.__name__
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    for row in expand_layers(form.table(arguments, shapes), arguments):
        name = row.tensor
        if name not in tensors:
            name = form.instead.get(name, name)
        tensor, shape = tensors.get(name), row.file_shape(sizes)
        place = row.weights[0] + ("" if row.expert is None else f"[{row.expert}]")
        use = f'{model} needs it for "{place}" {row.shape(sizes)}'
        if tensor is None:
            raise ValueError(
                f'{folder} has no tensor "{row.tensor}" {shape}; {use}.'
                f"{nearest(row.tensor, tensors)}"
            )
        if tensor.shape != shape:
            raise ValueError(
                f'"{tensor.name}" in {tensor.file} has the shape {tensor.shape}, but '
                f"by config.json it should be {shape}; {use}"
            )
        tensor.check_type()
        rest.pop(name, None)
        pairs.append((row, tensor))
    _check_rest(family, form, tensors, rest, folder)
    return pairs


def _check_rest(family, form, tensors, rest, folder):
    """Raises an error for tensors that are not known, and names those left out."""
    unknown, dropped = [], []
    for name, tensor in rest.items():
        if _matches(name, form.ignored):
            continue
        if _matches(name, form.left_out):
            dropped.append(tensor)
            continue
        first = tensors.get(form.copies.get(name))
        if first is None:
            unknown.append(tensor)
        elif tensor.shape != first.shape or np.any(tensor.read() != first.read()):
            raise ValueError(
                f'"{tensor.name}" and "{first.name}" in {folder} must be equal, since '
                "config.json ties these weights, but they differ"
            )
    model = family.model
    if unknown:
        raise ValueError(
            f"{folder} has tensors that a {model.__name__} with its config.json has no "
            f"place for: {_names(unknown)}"
        )
    if dropped:
        advice = " A head of its own, to be trained, comes from with_head."
        warnings.warn(
            f"{folder} is loaded as a {model.__name__} without {_names(dropped)}. It "
            "has no place for them, and save_pretrained cannot write them."
            + advice
            * hasattr(model, "with_head"),
            stacklevel=4,
        )


def _matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _names(tensors):
    """Returns the first tensors for a message."""
    shown = ", ".join(f'"{each.name}" {each.shape}' for each in tensors[:3])
    return shown + (f" and {len(tensors) - 3} more" if len(tensors) > 3 else "")


def assign(model: keras.Model, pairs: list[tuple[Row, Tensor]], sizes: Sizes) -> None:
    """Assigns tensors to the weights of a model.

    Args:
        model: The model.
        pairs: The result of `match`.
        sizes: The size of each letter of the rows.
    """
    weights = weights_by_path(model, [row for row, _ in pairs])
    for paths, group in itertools.groupby(pairs, lambda pair: pair[0].weights):
        converted = [(row, row.to_model(tensor.read(), sizes)) for row, tensor in group]
        for n, path in enumerate(paths):
            parts = [arrays[n] for _, arrays in converted]  # of the experts, in order
            array = parts[0] if converted[0][0].expert is None else np.stack(parts)
            if array.itemsize < 4:  # not every backend accepts NumPy's half precision
                array = array.astype("float32")
            weights[path].assign(array)


def to_tensors(
    model: keras.Model, rows: Iterable[Row], sizes: Sizes
) -> Iterator[tuple[Row, np.ndarray]]:
    """Yields the tensors of a folder from the weights: pairs of row and array."""
    rows = list(rows)
    weights = weights_by_path(model, rows)
    for row in rows:
        values = [weights[path] for path in row.weights]
        if row.expert is not None:
            values = [value[row.expert] for value in values]
        yield row, row.to_file([ops.convert_to_numpy(x) for x in values], sizes)


def weights_by_path(
    model: keras.Model, rows: Iterable[Row]
) -> dict[str, keras.Variable]:
    """Returns the weights of a model by path.

    Raises:
        ValueError: If these are not exactly the weights in the rows.
    """
    weights = {weight.path: weight for weight in model.trainable_weights}
    weights |= {weight.path: weight for weight in model.non_trainable_weights}
    expected = {path for row in rows for path in row.weights}
    missing, extra = sorted(expected - set(weights)), sorted(set(weights) - expected)
    if missing or extra:
        raise ValueError(
            f"this {type(model).__name__} must have exactly the weights that it was "
            f"built with, but it lacks {missing[:3]} and has {extra[:3]}, which the "
            "format has no names for. Merge an adapter first: merge_lora()"
        )
    return weights
