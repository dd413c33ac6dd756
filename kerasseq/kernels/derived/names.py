"""Names the values of a step: letters of the code, and indices where it has none."""

from collections.abc import Iterator, Sequence
from typing import Any

import keras

from kerasseq.core.keras_private import node_of
from kerasseq.kernels.derived.graph import HEAVY, LEAVES, NUMBER, STATE, Value
from kerasseq.kernels.derived.letters import (
    Binding,
    activations,
    letters_of_states,
    letters_of_weights,
)
from kerasseq.kernels.derived.terms import Letter, Term, function, letter, part
from kerasseq.kernels.derived.trace import Rows

_BENDS = (HEAVY | {"where", "maximum", "minimum", "absolute", "sign"}) - {"matmul"}


class Names:
    """The letters of values and weights.

    A variable that is bound again gives its letter to its last value. The argument of
    an activation is the pre-activation z of what the activation computes, f = σ(z_f).
    The states are h_{t-1} before the step and h_t after it.

    Args:
        cell: The cell.
        rows: The tensors of its step and their values.
        bound: The names that the step gave to tensors.
        states: The tensors of the states before the step.
        new_states: The values after it; one more than states if the loop adds the
            output as a state.

    Attributes:
        letters: The letter of each value that has one.
        order: These values, in the order of the code.
        after: The letter of each state after the step.
        pre_activation_of: The argument of an activation, by what this computes.
        activations: Values that one activation computed: its name and its argument.
    """

    def __init__(
        self,
        cell: keras.Layer,
        rows: Rows,
        bound: Sequence[Binding],
        states: Sequence[Any] = (),
        new_states: Sequence[Value] = (),
    ) -> None:
        self.rows: Rows = rows
        self.letters: dict[Value, Letter] = {}
        self.after: list[Letter] = []
        self.pre_activation_of: dict[Value, Value] = {}
        self.activations: dict[Value, tuple[str, Value]] = activations(rows)
        self._taken: set[str] = set()  # as text
        self._name_states(letters_of_states(cell, bound, states), new_states, bound)
        self._weights = self._letters_of_weights(cell, bound)
        self._taken |= {x.term.text for x in self._weights.values()}
        self.order: list[Value] = self._name_bound(bound)
        for value, name in list(self.letters.items()):
            self._name_argument(value, name)

    @property
    def pre_activations(self) -> list[Value]:
        return list(self.pre_activation_of.values())

    def weight(self, index: int) -> Term:
        """Returns a parameter, as a term of the weights that it is computed from."""
        tensor, _ = self.rows.parameters.wanted[index]
        return self._weight(tensor)

    # States.

    def _name_states(self, states, new_states, bound) -> None:
        self._taken |= {x.term.text for x in states}  # h is neither h_t nor h_{t-1}
        for k, state in enumerate(states):
            leaf = self.rows.graph.make(STATE, width=new_states[k].width, detail=k)
            self._note(leaf, state.indexed("t-1"))
        if len(new_states) > len(states):
            own = [b.name for b in bound if self._value_of(b.tensor) is new_states[-1]]
            states = [*states, letter(own[-1] if own else "y")]
        self.after = [state.indexed("t") for state in states]
        for after, value in zip(self.after, new_states, strict=True):
            if value.op not in (*LEAVES, "broadcast"):
                self._note(value, after)

    # Variables of the step.

    def _value_of(self, tensor: Any) -> Value | None:
        return self.rows.values.get(id(tensor))

    def _name_bound(self, bound: Sequence[Binding]) -> list[Value]:
        outside = {b.name for b in bound if b.depth == 1}
        chains: dict[tuple[bool, str], dict[Value, None]] = {}
        for b in sorted(bound, key=lambda b: b.depth):
            value, inner = self._value_of(b.tensor), b.depth > 1
            if value is None or value.op in (*LEAVES, "broadcast") or not b.alone:
                continue
            if not inner or b.name not in outside:
                chain = chains.setdefault((inner, b.name), {})
                chain.pop(value, None)
                chain[value] = None
        for (_, name), chain in chains.items():
            self._name_chain(letter(name), list(chain))
        found = dict.fromkeys(self._value_of(b.tensor) for b in bound)
        return [value for value in found if value in self.letters]

    def _name_chain(self, name: Letter, values: list[Value]) -> None:
        """Names the values that one variable had, the last of which has its name."""
        *earlier, last = values
        self._note(last, name)
        name = _without_time(self.letters[last])
        if earlier and self._activates(last, earlier[-1]):
            name = Letter("z", (name,))
            self._name_pre_activation(earlier.pop(), name, last)
        for k, value in enumerate(reversed(earlier), 1):
            if value.op == "slice":
                self._note(value, name._replace(primes=k))

    def _activates(self, y: Value, x: Value) -> bool:
        """Whether y is a function of x alone, by element, and not a linear one."""
        bends, stack = False, [y]
        while stack:
            value = stack.pop()
            if value is x or value.op == NUMBER:
                continue
            if value.op in LEAVES or value.op in ("slice", "matmul", "concatenate"):
                return False
            bends |= value.op in _BENDS
            stack += value.args
        return bends

    def _name_argument(self, value: Value, name: Letter) -> None:
        """Names the argument of an activation, where the code does not."""
        argument = None
        if value.op in ("tanh", "sigmoid"):
            (argument,) = value.args
        elif value in self.activations:
            _, argument = self.activations[value]
        if argument is not None and argument.op not in LEAVES:
            name = Letter("z", (_without_time(name),))
            self._name_pre_activation(argument, name, value)

    def _name_pre_activation(self, argument, name, value) -> None:
        self._note(argument, name)
        self.pre_activation_of[value] = argument

    def _note(self, value: Value, name: Letter) -> None:
        """Gives a value its first name, which no other value has."""
        if value not in self.letters:
            while name.term.text in self._taken:
                name = name._replace(primes=name.primes + 1)
            self._taken.add(name.term.text)
            self.letters[value] = name

    # Weights.

    def _letters_of_weights(self, cell, bound) -> dict[int, Letter]:
        whole = {id(s): id(v) for v, s in self._symbols()}
        matrices = {whole.get(id(t)) for t, m in self.rows.parameters.wanted if m}
        letters = letters_of_weights(cell, matrices)
        found = {id(s): letters[id(v)] for v, s in self._symbols()}
        wanted = {id(tensor) for tensor, _ in self.rows.parameters.wanted}
        for b in bound:  # as U_f for a part of U
            if b.depth == 1 and b.alone and id(b.tensor) in wanted:
                found.setdefault(id(b.tensor), letter(b.name))
        return found

    def _symbols(self) -> Iterator[tuple[keras.Variable, keras.KerasTensor]]:
        return zip(self.rows.variables, self.rows.symbols, strict=True)

    def _weight(self, tensor: Any) -> Term:
        if id(tensor) in self._weights:
            return self._weights[id(tensor)].term
        node = node_of(tensor)
        if node is None:
            return letter("constant").term
        kind, args = type(node.operation).__name__, node.arguments
        inside = [self._weight(t) for t in args.keras_tensors]
        if kind == "GetItem":
            return part(inside[0], _index(args.args[1]))
        if kind == "Split":
            axis = node.operation.axis % len(tensor.shape)
            sizes = [t.shape[axis] for t in node.outputs]
            place = [t is tensor for t in node.outputs].index(True)
            start = sum(sizes[:place])
            index = (slice(None),) * axis + (slice(start, start + sizes[place]),)
            return part(inside[0], _index(index))
        if kind in ("Cast", "ConvertToTensor", "Reshape", "Squeeze", "ExpandDims"):
            return inside[0]
        return function(kind.lower(), *inside)


def _without_time(name: Letter) -> Letter:
    """The letter of a state, without t."""
    timed = name.below[-1:] == ("t",)
    return name._replace(below=name.below[:-1]) if timed else name


def _index(key: Any) -> str:
    """An index as in Python.

    Examples:
        >>> _index((slice(None), slice(2, 4))), _index(1)
        (':, 2:4', '1')
    """
    if isinstance(key, tuple):
        return ", ".join(map(_index, key))
    if isinstance(key, slice):
        ends = ["" if x is None else str(x) for x in (key.start, key.stop, key.step)]
        return ":".join(ends[: 3 if ends[2] else 2])
    return str(key)
