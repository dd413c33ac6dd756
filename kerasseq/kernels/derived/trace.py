"""Turns `step` of a cell into a graph of values, by calling it once.

The step runs on `keras.KerasTensor`, which hold no numbers: Keras notes each operation
of `keras.ops`. In the copy of the cell that runs, its variables are such tensors, too.
`lowering.py` says what each operation of Keras is made of.
"""

import dataclasses
import inspect
import math
import types
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops, tree

from kerasseq.core.keras_private import node_of
from kerasseq.core.types import Tensor
from kerasseq.kernels.derived.graph import (
    INPUT,
    NOISE,
    PARAMETER,
    STATE,
    Graph,
    NotDerivable,
    Value,
)
from kerasseq.kernels.derived.lowering import has_rows, lower


@dataclasses.dataclass
class Traced:
    """One step as a graph.

    Attributes:
        graph: The graph of the values.
        output: The output of the step.
        new_states: The states after the step.
        rows: Knows the value of each tensor, and what the parameters are.
    """

    graph: Graph
    output: Value
    new_states: list[Value]
    rows: "Rows"


def trace(
    cell: keras.Layer,
    step: Callable[..., tuple[Any, Any]],
    *,
    width: int,
    states: Sequence[int],
    noise: Sequence[int] | int | None = None,
    training: bool = False,
    dtype: str = "float32",
) -> Traced:
    """Calls `step` once, and returns what it computes.

    Args:
        cell: A built cell.
        step: Function `(cell, x, states) -> (output, new states)`.
        width: Size of `x`, whose shape is `(batch, width)`.
        states: Size of each state.
        noise: Size of the mask of recurrent dropout, a list of sizes if each gate has
            its own, None without dropout.
        training: Whether dropout is on, for layers inside the cell.
        dtype: That of all values.

    Raises:
        NotDerivable: If the step has something that a graph cannot hold. The message
            says what.
    """
    rows = Rows(cell, dtype, training)
    x = rows.leaf(INPUT, width)
    old = [rows.leaf(STATE, size, k) for k, size in enumerate(states)]
    view = rows.view(cell)
    if noise is not None:
        several = not isinstance(noise, int)
        masks = [
            rows.leaf(NOISE, size, k)
            for k, size in enumerate(noise if several else [noise])
        ]
        made = masks if several else masks[0]
        vars(view)["get_recurrent_dropout_mask"] = lambda *_: made
    try:
        output, new = step(Inner(view, training), x, old)
        new = tree.flatten(new)
        values = [rows.value(t) for t in [output, *new]]
    except NotDerivable:
        raise
    except Exception as error:  # whatever a user's step does with tensors
        raise NotDerivable(f"{type(error).__name__}: {error}") from error
    if [v.width for v in values[1:]] != list(states):
        raise NotDerivable(
            f"the states have {list(states)} units before the step, and "
            f"{[v.width for v in values[1:]]} after it: return states of the sizes in "
            "`state_size`"
        )
    return Traced(rows.graph, values[0], values[1:], rows)


class Rows:
    """Finds the value of each tensor that a step makes."""

    def __init__(self, cell: keras.Layer, dtype: str, training: bool) -> None:
        self.graph: Graph = Graph()
        self.dtype: str = dtype
        # Keras gives the results of float64 symbols float32, as if 64 bits were off.
        symbolic = self._symbolic = "float32" if dtype == "float64" else dtype
        self.training: bool = training
        self.variables: list[keras.Variable] = list(cell.variables)
        self.symbols: list[keras.KerasTensor] = [
            keras.KerasTensor(v.shape, v.dtype if "int" in v.dtype else symbolic)
            for v in self.variables
        ]
        self._symbol_of = {
            id(v): s for v, s in zip(self.variables, self.symbols, strict=True)
        }
        self.parameters: Parameters = Parameters(self.symbols, dtype)
        self.values: dict[int, Value] = {}
        self.tensors: list[keras.KerasTensor] = []  # ids are those of live tensors
        self._views: dict[int, Any] = {}

    def leaf(self, op: str, width: int, index: int | None = None) -> Any:
        """Returns a tensor for a leaf."""
        tensor = keras.KerasTensor((None, width), self._symbolic)
        self._note(tensor, self.graph.make(op, width=width, detail=index))
        return tensor

    def _note(self, tensor, value) -> None:
        self.values[id(tensor)] = value
        self.tensors.append(tensor)

    # The copy of the cell that runs.

    def view(self, thing: Any) -> Any:
        """Returns a copy of a layer whose variables are symbolic, and so inside."""
        if id(thing) in self._views:
            return self._views[id(thing)]
        # `copy.copy` would save and load the layer, with other variables.
        twin = self._views[id(thing)] = object.__new__(type(thing))
        for name, value in vars(thing).items():
            vars(twin)[name] = self._inside(value, thing, twin)
        return twin

    def _inside(self, value: Any, owner: Any, twin: Any) -> Any:
        if isinstance(value, keras.Variable):
            return self._symbol_of.get(id(value), value)
        if isinstance(value, keras.Layer):
            return Inner(self.view(value), self.training)
        if isinstance(value, types.MethodType) and value.__self__ is owner:
            return types.MethodType(value.__func__, twin)
        if type(value) in (list, tuple):
            return type(value)(self._inside(v, owner, twin) for v in value)
        if type(value) is dict:
            return {k: self._inside(v, owner, twin) for k, v in value.items()}
        return value

    # The values of the tensors.

    def symbol(self, tensor: Any) -> Any:
        """Returns a tensor; that of a variable of the cell for the variable."""
        return self._symbol_of.get(id(tensor), tensor)

    def value(self, tensor: Any) -> Value:
        """Returns the value of a tensor, a number or a variable.

        Raises:
            NotDerivable: If it is none of these, or made by an operation that a graph
                does not have.
        """
        tensor = self.symbol(tensor)
        if isinstance(tensor, bool | int | float | np.number):
            return self.graph.number(float(tensor))
        if isinstance(tensor, np.ndarray):
            return self.parameter(tensor)
        if not isinstance(tensor, keras.KerasTensor):
            raise NotDerivable(
                f"a {type(tensor).__name__} made inside the step: use a number, or "
                "make it from the inputs, as `ops.zeros_like(h)` does"
            )
        if id(tensor) not in self.values:
            if not has_rows(tensor):
                return self.parameter(tensor)
            self._note_results(node_of(tensor))
        return self.values[id(tensor)]

    def _note_results(self, node) -> None:
        if node is None:
            raise NotDerivable("Keras does not say which operations a step has")
        results = lower(node.operation, node.arguments, self)
        for each, value in zip(node.outputs, results, strict=True):
            if each.dtype not in (self.dtype, self._symbolic, "bool"):
                raise NotDerivable(
                    f"{each.dtype} among values of {self.dtype}: cast nothing in "
                    "the step, and pass `dtype=` to the layer"
                )
            self._note(each, value)

    def parameter(self, tensor: Any, *, matrix: bool = False) -> Value:
        """Returns the leaf for a tensor that depends on variables alone."""
        shape = tuple(tensor.shape)
        width = shape[-1] if shape else 1
        if matrix and len(shape) != 2:
            raise NotDerivable(f"a product with weights of shape {shape}: use a matrix")
        if not matrix and math.prod(shape) != width:
            raise NotDerivable(
                f"weights of shape {shape} in an operation by element: use a row, "
                "`(units,)`, or a number"
            )
        index = self.parameters.index(tensor, matrix)
        return self.graph.make(PARAMETER, width=width, detail=index)


class Parameters:
    """Computes what a step needs of the weights, once for all steps.

    Args:
        symbols: A tensor without numbers for each variable of the cell.
        dtype: That of arrays of NumPy.
    """

    def __init__(self, symbols: Sequence[keras.KerasTensor], dtype: str) -> None:
        self.dtype: str = dtype
        self.symbols: list[keras.KerasTensor] = list(symbols)
        self.wanted: list[tuple[Any, bool]] = []  # and whether it is a matrix

    def index(self, tensor: Any, matrix: bool) -> int:
        """Returns the number of a parameter."""
        for k, (other, kind) in enumerate(self.wanted):
            if other is tensor and kind is matrix:
                return k
        self._check(tensor)
        self.wanted.append((tensor, matrix))
        return len(self.wanted) - 1

    def _check(self, tensor) -> None:
        if isinstance(tensor, np.ndarray) or any(tensor is s for s in self.symbols):
            return
        node = node_of(tensor)
        if node is None or any(map(has_rows, node.arguments.keras_tensors)):
            raise NotDerivable(
                "a value that is the same for all sequences of a batch: compute along "
                "the last axis, with `keepdims=True`"
            )
        for inside in node.arguments.keras_tensors:
            self._check(inside)

    def __call__(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """Returns the parameters: matrices `(n, m)`, and rows `(n,)`.

        Args:
            weights: The values of the variables of the cell.
        """
        known = {id(s): w for s, w in zip(self.symbols, weights, strict=True)}
        parameters = []
        for tensor, matrix in self.wanted:
            value = self._compute(tensor, known)
            is_ready = matrix or len(value.shape) == 1
            parameters.append(value if is_ready else ops.reshape(value, (-1,)))
        return parameters

    def _compute(self, tensor, known) -> Tensor:
        if isinstance(tensor, np.ndarray):
            return ops.convert_to_tensor(tensor, dtype=self.dtype)
        if id(tensor) not in known:
            node = node_of(tensor)
            args = [self._put(x, known) for x in node.arguments.args]
            kwargs = {n: self._put(x, known) for n, x in node.arguments.kwargs.items()}
            # `call`, as a call of the operation looks for symbolic tensors once more.
            results = tree.flatten(node.operation.call(*args, **kwargs))
            known.update((id(t), r) for t, r in zip(node.outputs, results, strict=True))
        return known[id(tensor)]

    def _put(self, x, known):
        """Returns an argument of an operation, with numbers for symbolic tensors."""
        if isinstance(x, keras.KerasTensor):
            return self._compute(x, known)
        if isinstance(x, list | tuple):
            return type(x)([self._put(each, known) for each in x])
        return x


class Inner:
    """A layer inside the cell: calling it runs its `call`.

    Keras would note the call as one operation, and not what the layer computes.
    """

    def __init__(self, layer: keras.Layer, training: bool) -> None:
        self._layer, self._training = layer, training

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = self._layer.call
        if "training" in inspect.signature(call).parameters:
            kwargs.setdefault("training", self._training)
        return call(*args, **kwargs)
