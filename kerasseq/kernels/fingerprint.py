"""Collects what a function depends on besides its arguments, to detect changes.

A compiled function reads new values of weights, but not new weights, layers or options,
as after `enable_lora`, `quantize`, a new dtype policy or a replaced layer.
"""

import functools
import operator
import sys
import types
from collections.abc import Iterator
from typing import Any

import keras

OURS = {"keras", "kerasseq"}
LEAVES = OURS | {"jax", "jaxlib", "numpy", "optree", "tensorflow", "torch"}
PLAIN = (bool, bytes, complex, float, int, str, types.NoneType)
CONTAINERS = (list, tuple, dict, set, frozenset)
INSIDE = ("_layers", "_trainable_variables", "_non_trainable_variables")  # of a layer
SKIPPED = {"build", "quantize", "call_signature_parameters"}  # methods of each layer
HOME = "_programs"  # the attribute with what was compiled
DEPTH = 4  # of what others wrote: objects in objects
LONGEST = 256  # of a container that is read: data is longer


class Fingerprint:
    """Everything that a function or model depends on, except the values of weights.

    Layers are compared by identity, with their public attributes, dtype policies and
    lists of variables; so is what a function of the user reads from its closure, from
    globals and from the attributes of its object. Changes inside arrays and inside
    containers of more than `LONGEST` entries are not detected.

    Args:
        *roots: Functions, bound methods, layers or models; data classes of them.

    Attributes:
        ours: Whether all code belongs to Keras and kerasseq, which has no side
            effects.

    Examples:
        >>> layer = keras.layers.Dense(2)
        >>> layer.build((None, 3))
        >>> before = Fingerprint(layer)
        >>> layer.kernel.assign(np.ones((3, 2))) is None, before.holds()
        (False, True)
        >>> layer.enable_lora(1)
        >>> before.holds(), before == Fingerprint(layer)
        (False, False)
    """

    def __init__(self, *roots: Any) -> None:
        self.ours: bool = True
        self._parts, self._seen, self._simple = [], set(), set(PLAIN)
        # From where the parts can be had again: attributes, functions, containers.
        self._attributes, self._reads, self._lists = [], [], []
        for root in roots:
            self._read(root, DEPTH)
        del self._seen, self._simple
        self._now = self._snapshot()

    def holds(self) -> bool:
        """Whether nothing has changed: fast, but False also for equal new numbers."""
        try:
            now = self._snapshot()
        except KeyError:  # an attribute is gone
            return False
        return len(now) == len(self._now) and all(map(operator.is_, now, self._now))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fingerprint):
            return NotImplemented
        mine, theirs = self._parts, other._parts
        return len(mine) == len(theirs) and all(map(_alike, mine, theirs))

    def __hash__(self) -> int:
        return len(self._parts)

    def _snapshot(self) -> list[Any]:
        now = list(map(len, self._attributes))
        for read in self._reads:
            now += read()
        for values in self._lists:
            now += values
        return now

    def _read(self, value: Any, depth: int) -> None:
        """Adds a value, and what it depends on."""
        kind = type(value)
        if isinstance(value, keras.Layer):
            self._read_layer(value)
        elif kind in PLAIN:
            self._parts.append(value)
        elif isinstance(value, CONTAINERS):
            self._read_container(value, depth)
        elif kind is types.MethodType:
            self._read(value.__self__, depth)
            self._read(value.__func__, depth)
        elif kind is functools.partial:
            self._read((value.func, value.args, value.keywords), depth)
        elif kind is types.FunctionType:
            self._read_function(value, depth)
        else:
            self._read_object(value, kind, depth)

    def _is_new(self, value: object) -> bool:
        known = id(value) in self._seen
        self._seen.add(id(value))
        return not known

    def _read_layer(self, root: keras.Layer) -> None:
        """A layer and those inside; of models only what their layers are."""
        waiting, parts = [root], self._parts
        while waiting:
            layer = waiting.pop()
            parts.append(layer)
            if not self._is_new(layer):
                continue
            self.ours &= _package(type(layer)) in OURS
            attributes = vars(layer)
            if isinstance(layer, keras.Model):  # of which training changes the others
                names = [n for n, v in attributes.items() if _is_dataclass(type(v))]
            else:
                names = [n for n in attributes if n[0] != "_" and n not in SKIPPED]
                self._attributes.append(attributes)
            read = operator.itemgetter("_dtype_policy", *INSIDE, *names)
            self._reads.append(functools.partial(read, attributes))
            policy, *inside = read(attributes)
            inside, values = inside[: len(INSIDE)], inside[len(INSIDE) :]
            self._lists += inside
            waiting += inside[0]
            parts += [policy, *inside[1], *inside[2]]
            for value in values:
                if type(value) in self._simple:
                    parts.append(value)
                elif not isinstance(value, keras.Layer):  # those are in `_layers`
                    self._read(value, DEPTH)

    def _read_container(self, values: Any, depth: int) -> None:
        self._parts += (type(values), len(values))
        if not depth or len(values) > LONGEST:
            self._parts.append(values)
        elif self._is_new(values):
            if isinstance(values, list | dict | set):
                self._lists.append(values)
            inside = list(values)
            if isinstance(values, dict):
                self._reads.append(values.values)
                inside += values.values()
            for value in inside:
                self._read(value, depth - 1)

    def _read_function(self, function: types.FunctionType, depth: int) -> None:
        """A function; if others wrote it, with what it reaches."""
        self._parts.append(function)
        if _is_leaf(function):
            return
        self.ours = False
        if depth and self._is_new(function):
            reached = functools.partial(_reached, function)
            self._reads.append(reached)
            for value in reached():
                self._read(value, depth - 1)

    def _read_object(self, value: Any, kind: type, depth: int) -> None:
        """Adds a data class by its fields, a third-party object by its attributes."""
        is_data = _is_dataclass(kind)
        if not is_data and (_is_leaf(kind) or not hasattr(value, "__dict__")):
            self._simple.add(kind)
            self._parts.append(value)
            return
        self.ours &= _package(kind) in OURS
        self._parts.append(kind if is_data else value)
        if depth and self._is_new(value):
            fields = functools.partial(_fields, value)
            self._reads.append(fields)
            for field in fields():
                self._read(field, depth - 1)


def _alike(mine: object, theirs: object) -> bool:
    """Whether two parts are identical, or equal numbers or strings."""
    if mine is theirs:
        return True
    return type(mine) is type(theirs) and type(mine) in PLAIN and mine == theirs


def _package(thing: type | types.FunctionType) -> str:
    return (thing.__module__ or "").partition(".")[0]


def _is_leaf(thing: type | types.FunctionType) -> bool:
    """Whether a function, or the objects of a class, are compared by identity only."""
    package = _package(thing)
    return package in LEAVES or package in sys.stdlib_module_names


def _is_dataclass(kind: type) -> bool:
    return hasattr(kind, "__dataclass_fields__")


def _fields(value: object) -> list[Any]:
    return [field for name, field in vars(value).items() if name != HOME]


def _reached(function: types.FunctionType) -> list[Any]:
    """Returns what a function reads besides its arguments."""
    cells = map(_content, function.__closure__ or ())
    defaults = [
        *(function.__defaults__ or ()),
        *(function.__kwdefaults__ or {}).values(),
    ]
    known = function.__globals__
    return [
        *cells,
        *defaults,
        *(known[n] for n in _names(function.__code__) if n in known),
    ]


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the name has no value yet
        return None


def _names(code: types.CodeType) -> Iterator[str]:
    """Yields the names that code uses, also in functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
