"""Modules of Hugging Face by name, with the dense layers of a model that they are.

The names are those of the tables of rows: a module is the tensor of a kernel, without
the ending.
"""

import dataclasses
from collections.abc import Mapping

import keras
import numpy as np

from kerasseq.core.dense import Adaptable
from kerasseq.pretrained import checkpoints
from kerasseq.pretrained.family import Arguments, Family, Format
from kerasseq.pretrained.low_rank import Product, join
from kerasseq.pretrained.rows import Row, Sizes, expand_layers
from kerasseq.tasks import adapters

KERNEL = "/kernel"  # how the path of the weight of a dense layer ends
ENDING = ".weight"


@dataclasses.dataclass(frozen=True)
class Module:
    """A module with a kernel, or several side by side.

    Attributes:
        name: Its name in the current version of `transformers`.
        row: The row of its kernel.
        layers: The dense layers that it is, by the keys of `adapters.dense_layers`.
    """

    name: str
    row: Row
    layers: Mapping[str, Adaptable]

    @property
    def widths(self) -> list[int]:
        """The number of outputs of each layer."""
        return [layer.matrix_shape()[1] for layer in self.layers.values()]

    def shapes(self, rank: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Returns the shapes of PEFT's A and B."""
        d_in = next(iter(self.layers.values())).matrix_shape()[0]
        return (rank, d_in), (sum(self.widths), rank)

    @property
    def has_inputs_first(self) -> bool:
        """Whether the kernel of the module has the inputs first, unlike `nn.Linear`."""
        return self.row.inputs_first(next(iter(self.layers.values())).axes())

    def products(
        self, A: np.ndarray, B: np.ndarray, alpha: float
    ) -> dict[str, Product]:
        """Returns the products of the layers, from the matrices of PEFT.

        Args:
            A: `(r, d_in)`.
            B: `(d_out, r)`.
            alpha: The numerator of the factor.
        """
        whole = Product(A.T, self.row.transform.to_model(B).T, alpha)
        parts = (part.within_width() for part in whole.split(self.widths))
        return dict(zip(self.layers, parts, strict=True))

    def product(self, parts: Mapping[str, Product]) -> Product:
        """Returns the product of the module, with B as in PEFT but transposed."""
        whole = join([parts.get(key) for key in self.layers], self.widths)
        B = self.row.transform.to_file(whole.B.T).T
        return dataclasses.replace(whole, B=B)


@dataclasses.dataclass(frozen=True)
class ModuleTable:
    """What Hugging Face calls the parts of a model.

    Attributes:
        family: The family of the model.
        arguments: Its arguments.
        modules: Those that can be adapted, by each name that a file may have for them.
        others: Names of the other tensors.
        head: The rows of the head that is new to a task, by the key of the weight.
    """

    family: Family
    arguments: Arguments
    modules: dict[str, Module]
    others: list[str]
    head: dict[str, Row]

    @property
    def form(self) -> Format:
        """The format of Hugging Face."""
        return self.family.huggingface

    @property
    def sizes(self) -> Sizes:
        """The size of each letter of the rows."""
        return self.family.sizes(self.arguments)


def table_of(model: keras.Model) -> ModuleTable:
    """Returns the table of a model.

    Raises:
        TypeError: If Hugging Face has no such class.
        ValueError: If Hugging Face has none with these options.
    """
    arguments = checkpoints.arguments_of(model)
    family = checkpoints.family_of_model(model, "huggingface", arguments)
    table = ModuleTable(family, arguments, {}, [], {})
    layers = {x.path + KERNEL: (k, x) for k, x in adapters.dense_layers(model).items()}
    head = {v.path: key for key, v in adapters.head_variables(model)}
    for row in expand_layers(table.form.rows(arguments), arguments):
        if all(path in layers for path in row.weights):
            module = Module(
                current_name(row.tensor.removesuffix(ENDING), table.form),
                row,
                dict(layers[path] for path in row.weights),
            )
            table.modules[row.tensor.removesuffix(ENDING)] = module
            table.modules[module.name] = module
        elif row.weights[0] in head:
            table.head[head[row.weights[0]]] = row
        else:
            table.others.append(row.tensor)
    return table


def current_name(name: str, form: Format) -> str:
    """Returns the current name of a module, which differs from that in older files."""
    for old, new in form.modules.items():
        name = name.replace(old, new)
    return name
