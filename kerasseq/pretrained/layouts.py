"""Where a weight stands in a file, as one line of a table that is read both ways.

A line names a tensor of the file, the weight or weights of ours that are in it, and the
axes of both as letters. Letters in brackets are one axis of the file; `1` is an axis of
length one.
"""

import dataclasses
import math
import re
from collections.abc import Callable

import numpy as np


@dataclasses.dataclass(frozen=True)
class Values:
    """How the numbers of a tensor of a file differ from those of our weight.

    Attributes:
        to_ours: From the tensor of the file to one with our numbers.
        to_file: The inverse.
        extra_rows: How many rows the file has before the first of ours.
    """

    to_ours: Callable
    to_file: Callable
    extra_rows: int = 0


SAME = Values(to_ours=lambda x: x, to_file=lambda x: x)
REVERSED = Values(to_ours=lambda x: x[::-1], to_file=lambda x: x[::-1])
MINUS_ONE = Values(to_ours=lambda x: x + 1, to_file=lambda x: x - 1)


def rows_before(number):
    """`Values` of a table that begins with rows that no token uses.

    Examples:
        >>> table = rows_before(2)
        >>> table.to_ours(table.to_file(np.ones((3, 1)))).shape
        (3, 1)
    """
    return Values(
        to_ours=lambda x: x[number:],
        to_file=lambda x: np.concatenate(
            [np.zeros_like(x, shape=(number, x.shape[1])), x]
        ),
        extra_rows=number,
    )


@dataclasses.dataclass(frozen=True)
class Row:
    """One tensor of a file, and what it is here.

    Attributes:
        theirs: Its name in the file. `{n}` is the number of the layer; `{_n}` the same
            as Keras counts layers, nothing for the first and `_1` for the second;
            `{_m}` counts on behind the layers of a first stack.
        ours: The paths of our weights in it, side by side in its last axis.
        axes: The axes of each of ours.
        file_axes: The axes of each of them in the file; as `axes` if None.
        values: How the numbers differ.

    Examples:
        >>> row = Row("q.weight", ("query/kernel",), "D N K", "(N K) D")
        >>> row.file_shape({"D": 6, "N": 2, "K": 5})
        (10, 6)
    """

    theirs: str
    ours: tuple[str, ...]
    axes: str
    file_axes: str | None = None
    values: Values = SAME

    def of_layer(self, n, layers):
        """The row of layer n of a stack of so many."""
        words = {"n": n, "_n": _counted(n), "_m": _counted(n + layers)}
        return dataclasses.replace(
            self,
            theirs=self.theirs.format(**words),
            ours=tuple(path.format(**words) for path in self.ours),
        )

    @property
    def repeats(self):
        """Whether each layer has one."""
        return "{" in self.ours[0]

    def shape(self, sizes):
        """The shape of each of ours."""
        return tuple(sizes.get(letter, 1) for letter in self.axes.split())

    def file_shape(self, sizes):
        """The shape of the tensor in the file."""
        *first, last = self._file_shape_of_ours(sizes)
        if self.values.extra_rows:
            first[0] += self.values.extra_rows
        return (*first, last * len(self.ours))

    def _file_shape_of_ours(self, sizes):
        """The shape of each of ours in the axes of the file."""
        return [
            math.prod(sizes.get(letter, 1) for letter in group)
            for group in _groups(self.file_axes or self.axes)
        ]

    def to_file(self, arrays, sizes):
        """The tensor of the file, of our arrays.

        Examples:
            >>> row = Row("cls", ("token",), "D", "1 1 D")
            >>> row.to_file([np.ones(3)], {"D": 3}).shape
            (1, 1, 3)
        """
        letters, order = self._letters(sizes), self._order()
        shape = self._file_shape_of_ours(sizes)
        parts = [x.reshape(letters).transpose(order).reshape(shape) for x in arrays]
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
        return self.values.to_file(whole)

    def to_ours(self, array, sizes):
        """Our arrays, of the tensor of the file."""
        letters, order = self._letters(sizes), self._order()
        parts = np.split(self.values.to_ours(array), len(self.ours), axis=-1)
        parts = [part.reshape([letters[axis] for axis in order]) for part in parts]
        shape = self.shape(sizes)
        return [part.transpose(np.argsort(order)).reshape(shape) for part in parts]

    def _letters(self, sizes):
        """Our shape without axes of length one that have no letter."""
        return [sizes[letter] for group in _groups(self.axes) for letter in group]

    def _order(self):
        """Which of our axes stands where in the file."""
        groups = _groups(self.file_axes or self.axes)
        ours = [letter for group in _groups(self.axes) for letter in group]
        return [ours.index(letter) for group in groups for letter in group]


def _groups(axes):
    """The letters of each axis.

    Examples:
        >>> _groups("1 (N K) D")
        [[], ['N', 'K'], ['D']]
    """
    found = re.findall(r"\(([^)]*)\)|(\S+)", axes)
    return [(many or one).replace("1", "").split() for many, one in found]


def _counted(n):
    return f"_{n}" if n else ""


def every(rows, arguments):
    """All rows, those of the layers for each layer; one at a time.

    Args:
        rows: `Row`s.
        arguments: Of our model, which say how many layers each stack has; a file may
            say any number.

    Examples:
        >>> rows = [one("{n}.x", "block_{n}/x", "D"), one("y", "y", "D")]
        >>> [row.theirs for row in every(rows, {"num_layers": 2})]
        ['y', '0.x', '1.x']
    """
    first = arguments["num_layers"]
    second = arguments.get("num_decoder_layers") or first
    yield from (row for row in rows if not row.repeats)
    for n in range(max(first, second)):
        for row in rows:
            layers = second if row.ours[0].startswith("decoder_") else first
            if row.repeats and n < layers:
                yield row.of_layer(n, first)


def one(theirs, ours, axes, file_axes=None, values=SAME):
    """A row of a single weight."""
    return Row(theirs, (ours,), axes, file_axes, values)


def dense(theirs, ours, inputs, outputs, *, bias=True, values=SAME):
    """The rows of a dense layer as PyTorch has it: outputs before inputs.

    Examples:
        >>> [row.theirs for row in dense("fc", "dense", "D", "F")]
        ['fc.weight', 'fc.bias']
    """
    kernel = one(
        f"{theirs}.weight",
        f"{ours}/kernel",
        f"{inputs} {outputs}",
        f"({outputs}) ({inputs})",
        values,
    )
    if not bias:
        return [kernel]
    axes = outputs, f"({outputs})"
    return [kernel, one(f"{theirs}.bias", f"{ours}/bias", *axes, values)]


def layer_norm(theirs, ours):
    """The rows of a layer norm as PyTorch has it."""
    return [
        one(f"{theirs}.weight", f"{ours}/gamma", "D"),
        one(f"{theirs}.bias", f"{ours}/beta", "D"),
    ]


def numbered(theirs, ours, *axes, file_axes=()):
    """The weights of a layer in KerasHub's files: numbers 0 and on.

    Args:
        theirs: The folder of the layer.
        ours: The paths of its weights.
        *axes: The axes of each.
        file_axes: Those in the file, where they differ.
    """
    file_axes = [*file_axes, *[None] * len(axes)]
    return [
        one(f"{theirs}/vars/{n}", path, letters, file_axes[n])
        for n, (path, letters) in enumerate(zip(ours, axes, strict=True))
    ]
