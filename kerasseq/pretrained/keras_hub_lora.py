"""LoRA adapters in files of KerasHub, `.lora.h5`, read as arrays.

KerasHub numbers the layers of a backbone, outer ones first and those inside in reverse
order of their creation. The tables of rows have them in this order, so that a number
becomes a layer without KerasHub. Its EinsumDense has an A for each head and one B.
"""

import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import keras

from kerasseq.core.dense import Adaptable
from kerasseq.pretrained import checkpoints, weight_files
from kerasseq.pretrained.adapted_modules import KERNEL
from kerasseq.pretrained.family import Arguments, Format
from kerasseq.pretrained.low_rank import Product, of_heads
from kerasseq.pretrained.rows import Row, expand_layers
from kerasseq.pretrained.weight_files import Tensor
from kerasseq.tasks import adapters
from kerasseq.tasks.adapters import Adapter

MATRIX = re.compile(r"lora/(\d{1,9})/(?:vars/)?lora_kernel_([ab])")
RANK = re.compile(r"lora/(?:vars/)?rank")
LISTS = ("layers", "encoder_layers")  # parts of paths that are no layers
FIRST = "/vars/0"  # the kernel of a dense layer


def read(model: keras.Model, path: pathlib.Path) -> Adapter:
    """Reads an adapter of a model.

    Raises:
        FileNotFoundError: If there is no such file.
        ImportError: If the package h5py is not installed.
        TypeError: If KerasHub has no such class of models.
        ValueError: If the file is damaged or of another model.
    """
    arguments = checkpoints.arguments_of(model)
    family = checkpoints.family_of_model(model, "keras_hub", arguments)
    rank, matrices = _matrices(path)
    paths, rows = layer_paths(family.keras_hub, arguments)
    layers = {x.path + KERNEL: (k, x) for k, x in adapters.dense_layers(model).items()}
    sizes, lora, weights = family.sizes(arguments), {}, {}
    for number, pair in matrices.items():
        place = paths[number] if number < len(paths) else ""
        row = rows.get(place + FIRST)
        if row is None or row.weights[0] not in layers:
            raise ValueError(
                f"{path} has an adapter for layer {number}, which is no dense layer of "
                f"this {type(model).__name__}, by KerasHub's order of its "
                f"{len(paths)} layers: it was made for another model"
            )
        key, layer = layers[row.weights[0]]
        shape = row.file_shape(sizes)
        product = _product(model, layer, shape, rank, pair, path).within_width()
        lora[key] = product.settings(0.0)
        weights |= {f"{key}.lora_a": product.A, f"{key}.lora_b": product.B}
    return Adapter(lora, weights | adapters.head_without_adapter(model))


def _matrices(path) -> tuple[int, dict[int, dict[str, Tensor]]]:
    """Returns the rank, and the pairs of matrices by number of the layer."""
    rank, matrices = None, {}
    for tensor in weight_files.read_h5_file(path):
        if RANK.fullmatch(tensor.name) and not tensor.shape:
            rank = int(tensor.read())
        elif match := MATRIX.fullmatch(tensor.name):
            matrices.setdefault(int(match[1]), {})[match[2]] = tensor
        else:
            raise ValueError(
                f'"{tensor.name}" in {path} must be lora/rank or a matrix, '
                "lora/<number>/lora_kernel_a or lora_kernel_b, as in files of "
                "KerasHub's save_lora_weights"
            )
    if rank is None or rank < 1 or not matrices:
        raise ValueError(
            f"{path} must have a rank of at least 1 and matrices, received rank {rank} "
            f"and {len(matrices)} layers"
        )
    for number, pair in matrices.items():
        if len(pair) != 2:
            raise ValueError(
                f"{path} must have lora_kernel_a and lora_kernel_b of layer {number}, "
                f"received lora_kernel_{next(iter(pair))} alone"
            )
    return rank, dict(sorted(matrices.items()))


def _product(
    model: keras.Model,
    layer: Adaptable,
    shape: tuple[int, ...],
    rank: int,
    pair: Mapping[str, Tensor],
    path: pathlib.Path,
) -> Product:
    """Returns the product of a layer whose kernel has a shape in KerasHub."""
    for letter, right in (("a", (*shape[:-1], rank)), ("b", (rank, shape[-1]))):
        if pair[letter].shape != right:
            raise ValueError(
                f'"{pair[letter].name}" in {path} has the shape {pair[letter].shape}, '
                f"but it must be {right} by the rank {rank} of the file, and for "
                f'"{layer.path}" of this {type(model).__name__}: it was made for '
                "another model"
            )
    A, B = (pair[letter].numbers() for letter in "ab")
    return of_heads(A, B, layer.matrix_shape()[0])


def layer_paths(form: Format, arguments: Arguments) -> tuple[list[str], dict[str, Row]]:
    """Returns the paths of KerasHub's layers with weights, in the order of its numbers.

    Args:
        form: A format of KerasHub.
        arguments: Arguments of the model.

    Returns:
        The paths, and the rows by name of their tensor.
    """
    tree, rows = {}, {}
    for row in form.rows(arguments):
        for one in expand_layers([row], arguments):  # all blocks, as they are made
            if one.tensor.startswith(checkpoints.TASK):
                continue
            rows[one.tensor] = one
            inside = tree
            for part in one.tensor.rpartition("/vars/")[0].split("/"):
                inside = inside.setdefault(part, {})
    return list(_in_order(tree["layers"], "layers", reverse=False)), rows


def _in_order(tree: dict[str, Any], around: str, reverse: bool = True) -> Iterator[str]:
    """Yields the paths of layers and of those inside, whose order is reversed.

    Examples:
        >>> list(_in_order({"a": {"b": {}, "c": {}}, "d": {}}, "layers", reverse=False))
        ['layers/a', 'layers/a/c', 'layers/a/b', 'layers/d']
    """
    for name in reversed(tree) if reverse else tree:
        path = f"{around}/{name}"
        if name not in LISTS:
            yield path
        yield from _in_order(tree[name], path)
