"""LoRA adapters in folders of PEFT, read and written.

A folder has `adapter_config.json` and `adapter_model.safetensors`, with two matrices
for each module, `base_model.model.<module>.lora_A.weight` `(r, d_in)` and
`lora_B.weight` `(d_out, r)`, and the weights of modules that are saved whole, such as a
new head.
"""

import pathlib
import re
from typing import NoReturn

import keras
import numpy as np

from kerasseq.core.checks import nearest
from kerasseq.pretrained import adapted_modules, folders, peft_settings, weight_files
from kerasseq.pretrained.adapted_modules import ENDING, Module, ModuleTable
from kerasseq.pretrained.family import LANGUAGE_MODELS
from kerasseq.pretrained.low_rank import Product
from kerasseq.pretrained.peft_settings import CONFIG, PeftSettings
from kerasseq.pretrained.weight_files import Tensor
from kerasseq.tasks import adapters
from kerasseq.tasks.adapters import Adapter

WEIGHTS = "adapter_model.safetensors"
PREFIX = "base_model.model."
MATRIX = re.compile(r"(.+)\.lora_([AB])\.weight")


def read(model: keras.Model, folder: pathlib.Path) -> Adapter:
    """Reads an adapter of a model.

    Raises:
        FileNotFoundError: If one of the two files is missing.
        ImportError: If the package safetensors is not installed.
        TypeError: If Hugging Face has no such class of models.
        ValueError: If a file is damaged, is of another model, or has what kerasseq does
            not have.
    """
    settings = peft_settings.read_settings(folder / CONFIG)
    table = adapted_modules.table_of(model)
    matrices, saved = _tensors(folder, table.form.prefix)
    lora, weights = {}, {}
    for name, pair in matrices.items():
        module = _module(model, table, settings, name, pair)
        for key, product in _products(model, module, settings, pair).items():
            if key in lora:
                _refuse_twice(folder / WEIGHTS, name)
            lora[key] = product.settings(settings.dropout)
            weights |= {f"{key}.lora_a": product.A, f"{key}.lora_b": product.B}
    if not lora:
        raise ValueError(f"{folder / WEIGHTS} has an adapter of no layer")
    return Adapter(lora, weights | _head(model, table, settings, saved))


def _refuse_twice(file: pathlib.Path, name: str) -> NoReturn:
    """Raises an error for a module that has two names in a file."""
    raise ValueError(
        f'{file} has the module "{name}" twice, also under another name. Remove one of '
        "them"
    )


def _tensors(folder, prefix):
    """Returns the pairs of matrices by module, and the other tensors by name.

    The names are without the prefix of the backbone, if the file has one.
    """
    file = folder / WEIGHTS
    if not file.exists():
        weight_files.refuse_pickles(folder, WEIGHTS)
        raise FileNotFoundError(f"{folder} has no {WEIGHTS}")
    matrices, saved = {}, {}
    for tensor in weight_files.read_safetensors_file(file):
        tensor.check_type()
        name = tensor.name.removeprefix(PREFIX)
        match = MATRIX.fullmatch(name)
        if name == tensor.name or ("lora_" in name and match is None):
            raise ValueError(
                f'"{tensor.name}" in {file} must be {PREFIX}<module>.lora_A.weight, '
                "lora_B.weight, or a weight of a module that is saved whole. "
                "Embeddings and magnitudes are not adapted"
            )
        name = name.removeprefix(prefix)
        if match is None:
            saved[name] = tensor
        else:
            pair = matrices.setdefault(match[1].removeprefix(prefix), {})
            if match[2] in pair:
                _refuse_twice(file, match[1])
            pair[match[2]] = tensor
    return matrices, saved


def _module(model, table, settings, name, pair) -> Module:
    """Returns the module of a pair of matrices."""
    for letter in "AB":
        if letter not in pair:
            other = next(iter(pair.values()))
            raise ValueError(
                f'{other.file} has "{other.name}", but not lora_{letter} of the same '
                "module: it is not whole"
            )
    full = _name_in_file(pair["A"])
    if not settings.has_target(full):
        raise ValueError(
            f'"{pair["A"].name}" in {pair["A"].file} adapts a module that '
            f"target_modules in {settings.where} does not name: {settings.targets}. "
            "The two files must be of one adapter"
        )
    if name not in table.modules:
        _refuse(model, table, name, pair["A"])
    return table.modules[name]


def _name_in_file(tensor):
    """Returns the name of the module of a matrix, as the settings name modules."""
    return MATRIX.fullmatch(tensor.name.removeprefix(PREFIX))[1]


def _refuse(
    model: keras.Model, table: ModuleTable, name: str, tensor: Tensor
) -> NoReturn:
    """Raises an error for a module that is no dense layer of a model."""
    kind, tensors = type(model).__name__, [row.tensor for row in table.head.values()]
    if name + ENDING in tensors:
        what = (
            f"the head of this {kind}, which is trained whole: save it by "
            f'modules_to_save=["{name}"]'
        )
    elif ".experts" in name or name + ENDING in table.others:
        what = (
            f"which is no dense layer of this {kind}: embeddings, and experts and "
            "their router, are not adapted"
        )
    else:
        what = (
            f"which this {kind}, a {table.family.name}, does not have: it was made for "
            f"another model.{nearest(name, table.modules)}"
        )
    raise ValueError(f'"{tensor.name}" in {tensor.file} adapts "{name}", {what}')


def _products(model, module, settings, pair) -> dict[str, Product]:
    """Returns the products of the layers of a module."""
    full = _name_in_file(pair["A"])
    rank = settings.rank_of(full)
    for tensor, shape in zip((pair["A"], pair["B"]), module.shapes(rank), strict=True):
        if tensor.shape != shape:
            raise ValueError(
                f'"{tensor.name}" in {tensor.file} has the shape {tensor.shape}, but '
                f"it must be {shape} for this {type(model).__name__} and the rank "
                f"{rank} of r or rank_pattern in {settings.where}"
            )
    A, B = (pair[letter].numbers() for letter in "AB")
    return module.products(A, B, settings.alpha_of(full))


def _head(model, table: ModuleTable, settings: PeftSettings, saved):
    """Returns the weights of the head; those that are not in the file stay."""
    weights, rest = {}, dict(saved)
    for key, row in table.head.items():
        tensor = rest.pop(row.tensor, None)
        shape, name = row.file_shape(table.sizes), row.tensor.rpartition(".")[0]
        if tensor is None and settings.saves(name):
            raise ValueError(
                f'{settings.where}: modules_to_save names "{name}", but {WEIGHTS} has '
                f'no "{row.tensor}"'
            )
        if tensor is None:
            continue
        if tensor.shape != shape:
            raise ValueError(
                f'"{tensor.name}" in {tensor.file} has the shape {tensor.shape}, but '
                f"the head of this {type(model).__name__} has {shape}: it was made for "
                "another number of labels or another model"
            )
        weights[key] = row.to_model(tensor.numbers(), table.sizes)[0]
    if rest:
        tensor = next(iter(rest.values()))
        known = [row.tensor for row in table.head.values()]
        raise ValueError(
            f'"{tensor.name}" in {tensor.file} is of a module that is saved whole: '
            f"modules_to_save = {settings.saved} in {CONFIG}. Of this "
            f"{type(model).__name__} only {known or 'no module'} can be, as the head "
            "of a task"
        )
    return adapters.head_without_adapter(model) | weights


def write(model: keras.Model, folder: pathlib.Path, adapter: Adapter) -> None:
    """Writes an adapter of a model as a new folder.

    Raises:
        FileExistsError: If the folder exists and is not empty.
        ImportError: If the package safetensors is not installed.
        TypeError: If Hugging Face has no such class of models.
        ValueError: If Hugging Face has none with these options.
    """
    table = adapted_modules.table_of(model)
    architecture = table.form.write(table.arguments)["architectures"][0]
    modules = _adapted(model, table, adapter)
    products, tensors = {}, {}
    for module, product in modules:
        name = _full_name(module.name, table, architecture)
        products[name] = product
        tensors[f"{PREFIX}{name}.lora_A.weight"] = product.A.T
        tensors[f"{PREFIX}{name}.lora_B.weight"] = product.B.T
    saved = {}
    for key, row in table.head.items():
        name = _full_name(row.tensor, table, architecture)
        saved[name.rpartition(".")[0]] = None
        array = row.to_file([adapter.weights[key]], table.sizes)
        tensors[PREFIX + name] = array
    settings = peft_settings.to_settings(
        products,
        dropout=max(lora.dropout for lora in adapter.lora.values()),
        saved=[*saved],
        inputs_first=modules[0][0].has_inputs_first,
        architecture=architecture,
    )
    with folders.new_folder(folder) as part:
        arrays = {name: np.ascontiguousarray(x) for name, x in tensors.items()}
        weight_files.write_safetensors_file(part / WEIGHTS, arrays)
        folders.write_table(part / CONFIG, settings)


def _adapted(model, table, adapter):
    """Returns the modules that have an adapter, with their products."""
    parts = {
        key: Product(*(adapter.weights[f"{key}.lora_{x}"] for x in "ab"), lora.alpha)
        for key, lora in adapter.lora.items()
    }
    by_name = {module.name: module for module in table.modules.values()}
    known = {key for module in by_name.values() for key in module.layers}
    if left := sorted(set(parts) - known):
        raise ValueError(
            f'the adapted layer "{left[0]}" of this {type(model).__name__} has no '
            f"name in a {table.family.name} of Hugging Face. Save the adapter as a "
            "file that ends in .safetensors"
        )
    return [
        (module, module.product(parts))
        for module in by_name.values()
        if parts.keys() & module.layers.keys()
    ]


def _full_name(name, table, architecture):
    """Returns the name of a module or tensor in a class of Hugging Face."""
    is_base = architecture.endswith("Model") and not architecture.endswith(
        LANGUAGE_MODELS
    )
    is_head = f"{name}.".startswith(table.form.heads)
    return name if is_base or is_head else table.form.prefix + name
