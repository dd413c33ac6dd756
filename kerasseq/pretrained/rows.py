"""Tables that map the tensors of a checkpoint to the weights of a model.

A `Row` names a tensor of the file, the weight or weights that it holds, and the axes of
both as letters: "D N K" is a weight with three axes, "(N K) D" the same weight in a
file where two of them are flattened into one; `1` is an axis of length 1. The same
table serves reading and writing.

A weight of a mixture of experts is stacked, `(E, D, F)`, and files have a tensor for
each expert: one row describes all of them, by the axes of one.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

Sizes: TypeAlias = Mapping[str, int]  # of the letters of the axes


@dataclasses.dataclass(frozen=True)
class Transform:
    """How the values of a tensor in a file differ from those of the weight.

    Attributes:
        to_model: Converts the array of the file to the values of the weight.
        to_file: The inverse.
        extra_rows: Number of rows that only the file has, before the others.
    """

    to_model: Callable[[np.ndarray], np.ndarray]
    to_file: Callable[[np.ndarray], np.ndarray]
    extra_rows: int = 0


IDENTITY = Transform(to_model=lambda x: x, to_file=lambda x: x)
REVERSED = Transform(to_model=lambda x: x[::-1], to_file=lambda x: x[::-1])
OFFSET_BY_ONE = Transform(to_model=lambda x: x + 1, to_file=lambda x: x - 1)


def skip_rows(number: int) -> Transform:
    """Returns the `Transform` of an embedding whose first rows are unused in the file.

    Examples:
        >>> table = skip_rows(2)
        >>> table.to_model(table.to_file(np.ones((3, 1)))).shape
        (3, 1)
    """
    return Transform(
        to_model=lambda x: x[number:],
        to_file=lambda x: np.concatenate(
            [np.zeros_like(x, shape=(number, x.shape[1])), x]
        ),
        extra_rows=number,
    )


@dataclasses.dataclass(frozen=True)
class Row:
    """One tensor of a file, and the weights that it holds.

    Attributes:
        tensor: Name of the tensor. `{n}` is the index of the layer. `{_n}` is the index
            in Keras' style, empty for the first layer and `_1` for the second; `{_m}`
            continues it after the layers of the first stack. `{e}` is the index of the
            expert.
        weights: Paths of the weights, concatenated along one axis of the tensor.
        axes: Axes of each weight.
        file_axes: Axes of each weight in the file. Defaults to `axes`.
        transform: How the values differ.
        start: Index of the first layer that has the row, if it repeats.
        axis: The axis of the tensor along which several weights are concatenated.
        experts: Number of experts with a tensor each; 0 if one tensor is the whole.
        expert: Index of the expert whose part of the weights, along their first axis,
            the tensor holds; None if it is the whole.

    Examples:
        >>> row = Row("q.weight", ("query/kernel",), "D N K", "(N K) D")
        >>> row.file_shape({"D": 6, "N": 2, "K": 5})
        (10, 6)
    """

    tensor: str
    weights: tuple[str, ...]
    axes: str
    file_axes: str | None = None
    transform: Transform = IDENTITY
    start: int = 0
    axis: int = -1
    experts: int = 0
    expert: int | None = None

    def of_layer(self, n: int, num_layers: int) -> "Row":
        """Returns the row of layer `n` of a stack of `num_layers` layers."""
        index = {"n": n, "_n": _suffix(n), "_m": _suffix(n + num_layers)}
        index["e"] = "{e}"  # is filled in by `of_each_expert`
        return dataclasses.replace(
            self,
            tensor=self.tensor.format(**index),
            weights=tuple(path.format(**index) for path in self.weights),
        )

    def of_each_expert(self) -> Iterator["Row"]:
        """Yields the row of each expert; the row itself if it is not one of experts.

        Examples:
            >>> row = Row("{e}.w", ("kernel",), "D F", experts=2)
            >>> [(one.tensor, one.expert) for one in row.of_each_expert()]
            [('0.w', 0), ('1.w', 1)]
        """
        if not self.experts:
            yield self
        for e in range(self.experts):
            name = self.tensor.replace("{e}", str(e))
            yield dataclasses.replace(self, tensor=name, expert=e)

    def inputs_first(self, axes: int) -> bool:
        """Returns whether a kernel begins with its inputs in the file, as in Keras.

        Args:
            axes: How many axes of the weight are those of the inputs.

        Examples:
            >>> Row("c_fc", ("kernel",), "D F").inputs_first(1)
            True
            >>> dense("fc", "dense", "D", "F")[0].inputs_first(1)
            False
        """
        inputs = [letter for group in _groups(self.axes)[:axes] for letter in group]
        return _groups(self.file_axes or self.axes)[0] == inputs

    @property
    def repeats(self) -> bool:
        """Whether each layer has this row."""
        return "{" in self.weights[0]

    def shape(self, sizes: Sizes) -> tuple[int, ...]:
        """Returns the shape of each weight."""
        return tuple(sizes.get(letter, 1) for letter in self.axes.split())

    def file_shape(self, sizes: Sizes) -> tuple[int, ...]:
        """Returns the shape of the tensor in the file."""
        shape = self._file_shape_of_one(sizes)
        shape[self.axis] *= len(self.weights)
        shape[0] += self.transform.extra_rows
        return tuple(shape)

    def _file_shape_of_one(self, sizes):
        """Returns the shape of one weight, with the axes of the file."""
        return [
            math.prod(sizes.get(letter, 1) for letter in group)
            for group in _groups(self.file_axes or self.axes)
        ]

    def to_file(self, arrays: list[np.ndarray], sizes: Sizes) -> np.ndarray:
        """Converts the arrays of the weights to the tensor of the file.

        Examples:
            >>> row = Row("cls", ("token",), "D", "1 1 D")
            >>> row.to_file([np.ones(3)], {"D": 3}).shape
            (1, 1, 3)
        """
        letters, order = self._letters(sizes), self._order()
        shape = self._file_shape_of_one(sizes)
        parts = [x.reshape(letters).transpose(order).reshape(shape) for x in arrays]
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts, self.axis)
        return self.transform.to_file(whole)

    def to_model(self, array: np.ndarray, sizes: Sizes) -> list[np.ndarray]:
        """Converts the tensor of the file to the arrays of the weights."""
        letters, order = self._letters(sizes), self._order()
        array = self.transform.to_model(array)
        parts = np.split(array, len(self.weights), axis=self.axis)
        parts = [part.reshape([letters[axis] for axis in order]) for part in parts]
        shape = self.shape(sizes)
        return [part.transpose(np.argsort(order)).reshape(shape) for part in parts]

    def _letters(self, sizes):
        """Returns the shape of a weight, without axes of length 1."""
        return [sizes[letter] for group in _groups(self.axes) for letter in group]

    def _order(self):
        """Returns the permutation from the axes of a weight to those of the file."""
        groups = _groups(self.file_axes or self.axes)
        own = [letter for group in _groups(self.axes) for letter in group]
        return [own.index(letter) for group in groups for letter in group]


def _groups(axes):
    """Splits axes into the letters of each.

    Examples:
        >>> _groups("1 (N K) D")
        [[], ['N', 'K'], ['D']]
    """
    groups = re.findall(r"\(([^)]*)\)|(\S+)", axes)
    return [(many or one).replace("1", "").split() for many, one in groups]


def _suffix(n):
    return f"_{n}" if n else ""


def expand_layers(rows: list[Row], arguments: dict[str, Any]) -> Iterator[Row]:
    """Yields all rows, with those that repeat once for each layer and each expert.

    It is a generator because the numbers of both may come from an untrusted file.

    Args:
        rows: A table.
        arguments: Arguments of the model, with the number of layers.

    Examples:
        >>> rows = [weight("{n}.x", "block_{n}/x", "D"), weight("y", "y", "D")]
        >>> [row.tensor for row in expand_layers(rows, {"num_layers": 2})]
        ['y', '0.x', '1.x']
    """
    first = arguments["num_layers"]
    second = arguments.get("num_decoder_layers") or first
    for row in rows:
        if not row.repeats:
            yield from row.of_each_expert()
    for n in range(max(first, second)):
        for row in rows:
            layers = second if row.weights[0].startswith("decoder_") else first
            if row.repeats and row.start <= n < layers:
                yield from row.of_layer(n, first).of_each_expert()


def within(tensor_prefix: str, weight_prefix: str, rows: list[Row]) -> list[Row]:
    """Returns rows with prefixes of the tensor and of the weights.

    Examples:
        >>> within("h.{n}.", "block_{n}/", [weight("b", "bias", "D")])[0].weights
        ('block_{n}/bias',)
    """
    return [
        dataclasses.replace(
            row,
            tensor=tensor_prefix + row.tensor,
            weights=tuple(weight_prefix + path for path in row.weights),
        )
        for row in rows
    ]


def weight(
    tensor: str,
    path: str,
    axes: str,
    file_axes: str | None = None,
    transform: Transform = IDENTITY,
) -> Row:
    """Returns the row of a single weight."""
    return Row(tensor, (path,), axes, file_axes, transform)


# Layers of PyTorch, as Hugging Face saves them.


def dense(
    tensor: str,
    path: str,
    inputs: str,
    outputs: str,
    *,
    bias: bool = True,
    transform: Transform = IDENTITY,
) -> list[Row]:
    """Returns the rows of a dense layer; PyTorch has the outputs first.

    Examples:
        >>> [row.tensor for row in dense("fc", "dense", "D", "F")]
        ['fc.weight', 'fc.bias']
    """
    axes, file_axes = f"{inputs} {outputs}", f"({outputs}) ({inputs})"
    kernel = weight(f"{tensor}.weight", f"{path}/kernel", axes, file_axes, transform)
    if not bias:
        return [kernel]
    axes, file_axes = outputs, f"({outputs})"
    return [
        kernel,
        weight(f"{tensor}.bias", f"{path}/bias", axes, file_axes, transform),
    ]


def layer_norm(tensor: str, path: str) -> list[Row]:
    """Returns the rows of a layer norm."""
    return [
        weight(f"{tensor}.weight", f"{path}/gamma", "D"),
        weight(f"{tensor}.bias", f"{path}/beta", "D"),
    ]


def untied_head(a: Mapping[str, Any], tensor: str = "lm_head.weight") -> list[Row]:
    """Returns the row of the logits, if they have an embedding of their own.

    Args:
        a: The arguments of a language model.
        tensor: Its name in the file.
    """
    if not a["head"] or a["tie_embeddings"]:
        return []
    return [weight(tensor, "embedding/reverse_embeddings", "D V", "V D")]


# Layers of KerasHub: the weights of a layer are numbered.


def hub_weights(
    layer: str, paths: Sequence[str], *axes: str, file_axes: Sequence[str | None] = ()
) -> list[Row]:
    """Returns the rows of the weights of a layer.

    Args:
        layer: The layer in the file.
        paths: Paths of the weights.
        *axes: Axes of each.
        file_axes: Axes of each in the file, where they differ.
    """
    file_axes = [*file_axes, *[None] * len(axes)]
    return [
        weight(f"{layer}/vars/{n}", path, letters, file_axes[n])
        for n, (path, letters) in enumerate(zip(paths, axes, strict=True))
    ]


def hub_dense(layer: str, path: str, kernel: str, bias: str) -> list[Row]:
    """Returns the rows of a dense layer with these axes.

    Examples:
        >>> [row.tensor for row in hub_dense("dense", "fc", "D F", "F")]
        ['dense/vars/0', 'dense/vars/1']
    """
    return hub_weights(layer, [f"{path}/kernel", f"{path}/bias"], kernel, bias)


def hub_norm(layer: str, path: str) -> list[Row]:
    """Returns the rows of a layer norm."""
    return hub_weights(layer, [f"{path}/gamma", f"{path}/beta"], "D", "D")


def hub_embedding(is_tied: bool) -> list[Row]:
    """Returns the rows of an embedding, and of that of the logits if it has its own."""
    paths = ["embedding/embeddings", "embedding/reverse_embeddings"]
    axes = ["V D", "D V"]
    count = 1 if is_tied else 2
    return hub_weights("layers/reversible_embedding", paths[:count], *axes[:count])


def hub_attention(layer: str, path: str, *, key_bias: bool = True) -> list[Row]:
    """Returns the rows of an attention layer of Keras; keys may have no bias."""
    key = hub_dense(f"{layer}/key_dense", f"{path}/key", "D N K", "N K")
    return [
        *hub_dense(f"{layer}/query_dense", f"{path}/query", "D N K", "N K"),
        *(key if key_bias else key[:1]),
        *hub_dense(f"{layer}/value_dense", f"{path}/value", "D N K", "N K"),
        *hub_dense(f"{layer}/output_dense", f"{path}/attention_output", "N K D", "D"),
    ]


# Rows of KerasHub are in the order in which it makes the layers, here and in the tables
# of the families: it numbers them so in files of adapters.
_HUB_ATTENTION = [
    *hub_attention("_self_attention_layer", "self_attention"),
    *hub_norm("_self_attention_layer_norm", "self_attention_layer_norm"),
]
HUB_DENSE_PAIR = [
    *hub_dense(
        "_feedforward_intermediate_dense", "feed_forward/intermediate_dense", "D F", "F"
    ),
    *hub_dense("_feedforward_output_dense", "feed_forward/output_dense", "F D", "D"),
]
_HUB_NORM = hub_norm("_feedforward_layer_norm", "feedforward_layer_norm")
HUB_ENCODER_BLOCK = [*_HUB_ATTENTION, *_HUB_NORM, *HUB_DENSE_PAIR]
HUB_DECODER_BLOCK = [*_HUB_ATTENTION, *HUB_DENSE_PAIR, *_HUB_NORM]
