"""The letters of a step: the names of its local variables, and of its weights."""

import contextlib
import itertools
import re
import sys
import types
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import keras

from kerasseq.core.keras_private import children, node_of
from kerasseq.kernels.derived.derive import Derived
from kerasseq.kernels.derived.graph import Value, walk
from kerasseq.kernels.derived.terms import Term, function, letter, part
from kerasseq.kernels.derived.trace import Rows

_USUAL = {
    **{"kernel": "W", "recurrent_kernel": "U", "bias": "b", "peephole_kernel": "P"},
    **{"hidden_state": "h", "cell_state": "c"},
}
_SAME = ("Cast", "ConvertToTensor", "Reshape", "Squeeze", "ExpandDims", "Split")
_OLD = re.compile(r"_?(tm1|prev|old|last|before)$|^(prev|old|last)_")

Bound = Collection[tuple[str, Any]]  # local variables, and the tensors they had


@contextlib.contextmanager
def watch(cell: keras.Layer, step: Callable[..., Any]) -> Iterator[Bound]:
    """Collects the local variables of the methods of a cell, in the order of the code.

    A debugger or a measurement of coverage does not see the step meanwhile.

    Args:
        cell: The cell. The copy of it that runs has the same class.
        step: Its step, which may be a function that was set on the cell.
    """
    code = getattr(step, "__code__", None)
    bound: dict[tuple[str, int], tuple[str, Any]] = {}

    def look(frame: types.FrameType, event: str, _) -> Any:
        for name, value in frame.f_locals.items():
            if isinstance(value, list | tuple) and len(value) == 1:
                (value,) = value
            if isinstance(value, keras.KerasTensor):
                bound.setdefault((name, id(value)), (name, value))
        return look

    def enter(frame: types.FrameType, event: str, _) -> Any:
        inside = type(frame.f_locals.get("self")) is type(cell)
        return look if inside or frame.f_code is code else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield bound.values()
    finally:
        sys.settrace(before)


class Names:
    """The letters of values and weights.

    A variable that is bound again gives its letter to its last value. The argument of
    an activation is the pre-activation z of what the activation computes, f = σ(z_f).
    The states are h_{t-1} before the step and h_t after it.

    Args:
        cell: The cell.
        derived: What its step computes. It has one more state if the loop adds the
            output as a state.
        bound: The local variables of the step.
        x: What the step takes: it is written out.
        *states: The tensors of the states before the step.

    Attributes:
        letters: The letter of each value that has one, as `terms.letter` reads it.
        order: These values, in the order of the code.
        after: The letter of each state after the step.
        functions: Values that one activation computed: its name and its argument.
        parameters: The tensors of the weights.
    """

    def __init__(
        self, cell: keras.Layer, derived: Derived, bound: Bound, x: Any, *states: Any
    ) -> None:
        rows = derived.rows
        self.parameters: list[Any] = [t for t, _ in rows.parameters.wanted]
        self.letters: dict[Value, str] = {}
        self.functions: dict[Value, tuple[str, Value]] = _functions(rows)
        self._taken: set[str] = {"x_t"}  # as text
        values = [(name, rows.values.get(id(tensor))) for name, tensor in bound]
        plain = [self.free(name) for name in _states(cell, bound, states)]
        plain += [self.free("y")] if derived.extra else []
        for state, name in zip(states, plain, strict=False):
            self.letters[rows.values[id(state)]] = f"{name}_t-1"
        self.after: list[str] = [f"{name}_t" for name in plain]
        for value, name in zip(derived.new_states, self.after, strict=True):
            self._note(value, name)
        self._weights: dict[int, Term] = self._name_weights(cell, rows, bound)
        values = [(n, v) for n, v in values if v not in (None, rows.values.get(id(x)))]
        self._name_variables(values, derived.new_states)
        self.order: list[Value] = [v for _, v in values if v in self.letters]

    def free(self, name: str) -> str:
        """Returns a letter that no other value has: with more primes, if need be."""
        while letter(name).text in self._taken:
            name += "′"
        self._taken.add(letter(name).text)
        return name

    def _note(self, value: Value, name: str) -> None:
        """Gives a value its first name."""
        if value.args and value.op != "broadcast" and value not in self.letters:
            self.letters[value] = self.free(name)

    def _name_variables(self, values, new_states) -> None:
        chains: dict[str, list[Value]] = {}
        for name, value in values:
            chains.setdefault(name, []).append(value)
        for name, chain in chains.items():
            self._note(chain[-1], name)
        for value in [v for v in self.letters if v in self.functions]:
            _, argument = self.functions[value]
            self._note(argument, f"z__{self.letters[value].removesuffix('_t')}")
        uses = Counter(a for v in walk(new_states) for a in v.args)
        for name, (*earlier, last) in chains.items():
            _, named = self.functions.get(last, (None, last))
            own = self.letters.get(last, name).removesuffix("_t").rstrip("′") == name
            for value in reversed(earlier if own else []):
                if value.op == "slice" or uses[value] > 1:
                    self._note(value, self.letters.get(named, name).removesuffix("_t"))

    def _name_weights(self, cell, rows, bound) -> dict[int, Term]:
        """Returns the letters of variables, and of their parts that have names: U_f."""
        names: dict[int, str] = {}
        for owner in (cell, *children(cell)):
            names |= {id(value): name for name, value in vars(owner).items()}
        pairs = zip(rows.variables, rows.symbols, strict=True)
        named = [(names.get(id(v), v.name), symbol) for v, symbol in pairs]
        wanted = set(map(id, self.parameters))
        letters: dict[int, Term] = {}
        for name, tensor in [*named, *(b for b in bound if id(b[1]) in wanted)]:
            if id(tensor) not in letters:
                letters[id(tensor)] = letter(self.free(_USUAL.get(name, name)))
        return letters

    def weight(self, tensor: Any) -> Term:
        """Returns a parameter, as a term of the weights that it is computed from."""
        if id(tensor) in self._weights:
            return self._weights[id(tensor)]
        node = node_of(tensor)
        if node is None:
            return letter("constant")
        kind, args = type(node.operation).__name__, node.arguments
        inside = [self.weight(t) for t in args.keras_tensors]
        if kind == "GetItem":
            return part(inside[0], _index(args.args[1]))
        if kind == "Split" and len(node.outputs) > 1:
            axis = node.operation.axis % len(tensor.shape)
            ends = [*itertools.accumulate(t.shape[axis] for t in node.outputs)]
            end = ends[[t is tensor for t in node.outputs].index(True)]
            return part(inside[0], f"{':, ' * axis}{end - tensor.shape[axis]}:{end}")
        return inside[0] if kind in _SAME else function(kind.lower(), *inside)


def _states(cell: keras.Layer, bound: Bound, states: Sequence[Any]) -> Iterator[str]:
    """Yields the name of each state in the step, without a word for the old one."""
    names = getattr(cell, "state_names", ())
    for k, state in enumerate(states):
        own = [n for n, tensor in bound if tensor is state and n != "states"]
        name = [*own, *names[k : k + 1], "h"][0]
        yield _OLD.sub("", _USUAL.get(name, name)) or name


def _functions(rows: Rows) -> dict[Value, tuple[str, Value]]:
    """Returns the values that activations computed: their names and arguments."""
    functions: dict[Value, tuple[str, Value]] = {}
    for tensor in [t for t in rows.tensors if node_of(t) is not None]:
        operation, arguments = node_of(tensor).operation, node_of(tensor).arguments
        kind = re.sub(r"([a-z0-9])([A-Z][a-z])", r"\1_\2", type(operation).__name__)
        name = kind.lower()  # as in `keras.activations`
        if name == "exp" or hasattr(keras.activations, name):
            options = ("negative_slope", "max_value", "threshold")
            if name == "relu" and not any(getattr(operation, k, 0) for k in options):
                name = "ReLU"
            argument = rows.value(arguments.keras_tensors[0])
            functions[rows.value(tensor)] = (name, argument)
    return functions


def _index(key: Any) -> str:
    """Returns an index as in Python: ":, 2:4"."""
    if isinstance(key, tuple):
        return ", ".join(map(_index, key))
    if not isinstance(key, slice):
        return str(key)
    ends = [key.start, key.stop, *([key.step] if key.step else [])]
    return ":".join("" if x is None else str(x) for x in ends)
