"""The letters of a step: the names of its local variables, and of its weights."""

import re
import sys
import types
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, Self

import keras

from kerasseq.core.keras_private import node_of
from kerasseq.kernels.derived.graph import Value
from kerasseq.kernels.derived.terms import Letter, letter
from kerasseq.kernels.derived.trace import Rows

_WEIGHTS = {
    "kernel": "W",
    "recurrent_kernel": "U",
    "bias": "b",
    "peephole_kernel": "p",
}
_STATES = {"hidden_state": "h", "cell_state": "c"}
# Operations of Keras that are written as one function, not as what they are made of.
_ACTIVATIONS = (
    *("Relu", "ReLU", "Relu6", "LeakyRelu", "Elu", "Celu", "Selu", "Silu", "Gelu"),
    *("Mish", "Softplus", "Softsign", "Squareplus", "LogSigmoid", "SparseSigmoid"),
    *("HardSigmoid", "HardSilu", "HardTanh", "TanhShrink", "SoftShrink", "HardShrink"),
    *("Threshold", "Softmax", "LogSoftmax"),
)
_OLD = re.compile(r"_?(tm1|prev|old|last|before)$|^(prev|old|last)_")


class Binding(NamedTuple):
    """A name that a step gave to a tensor.

    Attributes:
        name: The local variable.
        tensor: The tensor.
        depth: 1 in `step`, more in methods that it calls.
        alone: Whether it is no part of a longer list.
    """

    name: str
    tensor: Any
    depth: int
    alone: bool


class Watch:
    """Notes the local variables of the methods of a cell, while it is open.

    A debugger or a measurement of coverage does not see the step meanwhile.

    Args:
        cell: The cell. The copy of it that runs has the same class.
        step: Its step, which may be a function that was set on the cell.
    """

    def __init__(self, cell: keras.Layer, step: Callable[..., Any]) -> None:
        self.bound: list[Binding] = []
        self._class = type(cell)
        self._code = getattr(getattr(step, "__func__", step), "__code__", None)
        self._depth = 0

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._enter_function)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _enter_function(self, frame: types.FrameType, event: str, _) -> Any:
        code = frame.f_code
        owner = code.co_varnames[0] if code.co_argcount else ""
        own = type(frame.f_locals.get(owner)) is self._class
        if event != "call" or not (own or code is self._code):
            return None
        self._depth += 1
        depth, seen = self._depth, {}

        def look(frame: types.FrameType, event: str, _) -> Any:
            for name, value in frame.f_locals.items():
                if seen.get(name) is not value:
                    seen[name] = value
                    self._note(name, value, depth)
            if event == "return":
                self._depth -= 1
            return look

        return look

    def _note(self, name, value, depth) -> None:
        items = value if isinstance(value, list | tuple) else [value]
        for k, item in enumerate(items, 1):
            if isinstance(item, keras.KerasTensor):
                alone = len(items) == 1
                named = name if alone else f"{name}_{k}"
                self.bound.append(Binding(named, item, depth, alone))


def letters_of_weights(
    cell: keras.Layer, matrices: Collection[int | None]
) -> dict[int, Letter]:
    """Returns a letter for each variable of a cell, by its id.

    The attribute is the letter, W, U and b for Keras' usual attributes. Where two
    layers inside the cell have the same attributes, their names are indices.

    Args:
        cell: The cell.
        matrices: The ids of the variables that rows are multiplied with.
    """
    paths = dict(_paths(cell, (), set()))
    last = [path[-1] for path in paths.values()]
    found = {}
    for variable in cell.variables:
        path = paths.get(id(variable), (variable.name,))
        name = _WEIGHTS.get(path[-1])
        if name is not None and id(variable) in matrices:
            name = name.upper()
        found[id(variable)] = letter(name or path[-1])
        if last.count(path[-1]) > 1 and len(path) > 1:
            found[id(variable)] = found[id(variable)].indexed(path[-2])
    return found


def _paths(layer, path, seen):
    """Yields the id of each variable with the attributes that lead to it."""
    seen.add(id(layer))
    for name, value in vars(layer).items():
        if name.startswith("_"):  # lists of Keras
            continue
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, keras.Variable):
                yield id(item), (*path, name)
            elif isinstance(item, keras.Layer) and id(item) not in seen:
                yield from _paths(item, (*path, name), seen)


def letters_of_states(
    cell: keras.Layer, bound: Sequence[Binding], states: Sequence[Any]
) -> list[Letter]:
    """Returns a letter for each state: its name in the step."""
    names = getattr(cell, "state_names", ())
    found: list[Letter] = []
    for k, state in enumerate(states):
        own = [b.name for b in bound if b.tensor is state and b.alone and b.depth == 1]
        own.sort(key="states".__eq__)  # the argument, if nothing else
        name = own[0] if own else names[k] if k < len(names) else f"s{k + 1}"
        name = _OLD.sub("", _STATES.get(name, name)) or name
        found.append(letter("h" if name == "states" else name))
        if found[-1] in found[:-1]:
            found[-1] = found[-1].indexed(str(k + 1))
    return found


def activations(rows: Rows) -> dict[Value, tuple[str, Value]]:
    """Returns the values that activations computed: their names and arguments."""
    found: dict[Value, tuple[str, Value]] = {}
    for tensor in list(rows.tensors):
        node = node_of(tensor)
        name = None if node is None else type(node.operation).__name__
        if name in _ACTIVATIONS:
            argument = rows.value(node.arguments.keras_tensors[0])
            found[rows.value(tensor)] = (_shown(node.operation), argument)
    return found


def _shown(operation: Any) -> str:
    """The name of an operation: that of Keras' function, and ReLU."""
    name = type(operation).__name__
    options = [getattr(operation, k, 0) for k in ("negative_slope", "threshold")]
    if name.lower() == "relu":
        plain = not any(options) and getattr(operation, "max_value", None) is None
        return "ReLU" if plain else "relu"
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
