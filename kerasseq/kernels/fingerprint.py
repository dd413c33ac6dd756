"""Notices changes of what a compiled function keeps as constants: all but weights."""

import functools
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

import keras

from kerasseq.core.keras_private import contents_reader

KNOWN = {"keras", "kerasseq", "jax", "jaxlib", "numpy", "optree", "tensorflow", "torch"}
KNOWN |= sys.stdlib_module_names
PLAIN = (bool, bytes, complex, float, int, str, types.NoneType)
HOME = "_programs"  # the attribute with what was compiled
CACHES = {HOME, "__slotnames__"}  # the second is set when an object is copied
SKIPPED = {HOME, *vars(keras.Layer(name="any"))}  # the attributes of each layer
SKIPPED |= {"_dropout_mask", "_recurrent_dropout_mask"}  # which cells draw anew
DEPTH, LONGEST = 4, 256  # of what others wrote; of containers: data is longer
DATA, EMPTY = "__dataclass_fields__", types.CellType()
CONTAINERS = (list, tuple, dict, set, frozenset)


def _attributes(x: object) -> list[Any]:
    return [v for n, v in getattr(x, "__dict__", {}).items() if n not in CACHES]


def _entries(x: Any) -> list[Any]:
    return [len(x), *x, *(x.values() if isinstance(x, dict) else ())]


OPENED: dict[type, Callable[[Any], Any]] = {  # of these only what they hold counts
    types.MethodType: lambda x: (x.__self__, x.__func__),
    functools.partial: lambda x: (x.func, x.args, x.keywords),
    property: lambda x: (x.fget,),
    **dict.fromkeys((classmethod, staticmethod), lambda x: (x.__func__,)),
    **dict.fromkeys(CONTAINERS, _entries),
}


class Fingerprint:
    """Everything that a function or model depends on, except the values of weights.

    Layers are compared by identity, with their public attributes, classes, dtype policy
    and lists of variables. Of what is neither Keras' nor ours also private attributes,
    and what functions read, `DEPTH` deep; not what is in arrays and long containers.

    Args:
        *roots: Functions, bound methods, layers or models; data classes of them.

    Attributes:
        pure: True if all code is Keras', ours, or of layers with `pure = True`; False
            if another layer is there; None if only other functions and objects are.

    Examples:
        >>> before = Fingerprint(layer := keras.layers.Dense(2))
        >>> layer.activation = keras.ops.tanh
        >>> before.holds(), before == Fingerprint(layer)
        (False, False)
    """

    def __init__(self, *roots: Any) -> None:
        self.pure: bool | None = True
        self._reads, self._sized, self._opened = [], [], set()
        self._add(roots, DEPTH + 1, {id(c): c for c in keras.Model.__mro__}, False)
        self._sizes, self._now = list(map(len, self._sized)), self._snapshot()

    def holds(self) -> bool:
        """Returns whether nothing has changed. Equal new numbers count as a change."""
        now = self._snapshot()
        same = len(now) == len(self._now) and all(map(operator.is_, now, self._now))
        return same and list(map(len, self._sized)) == self._sizes

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fingerprint):
            return NotImplemented
        same = len(self._now) == len(other._now)
        return same and all(map(self._alike, self._now, other._now))

    def __hash__(self) -> int:
        return len(self._now)

    def _alike(self, x: Any, y: Any) -> bool:
        known = id(x) in self._opened or (type(x) in PLAIN and x == y)
        return x is y or (type(x) is type(y) and known)

    def _snapshot(self) -> list[Any]:
        return [value for read, of in self._reads for value in read(of)]

    def _add(self, x: Any, depth: int, seen: dict[int, Any], trusted: bool) -> None:
        """Adds what a value holds, and what that holds."""
        if type(x) in PLAIN or id(x) in seen or depth < (type(x) not in CONTAINERS):
            return
        seen[id(x)] = x  # which keeps its id
        maker = x if isinstance(x, type | types.FunctionType) else type(x)
        foreign = str(maker.__module__).partition(".")[0] not in KNOWN
        if isinstance(x, keras.Layer):
            depth, trusted = DEPTH + 1, foreign and getattr(x, "pure", 0) is True
            self.pure = self.pure if trusted or not foreign else False
        if (read := self._reader(x, foreign)) is None:
            return
        self._reads.append((read, x))
        if read in (_reached, _attributes) and foreign and not trusted:
            self.pure = self.pure and None
        if foreign or maker is not x:
            is_object = maker is not x and read not in OPENED.values()
            for value in (*read(x), *(type(x).__mro__ if is_object else ())):
                self._add(value, depth - 1, seen, trusted)

    def _reader(self, x: Any, foreign: bool) -> Callable[[Any], Any] | None:
        """Returns the function that reads what a value holds, if it counts."""
        if isinstance(x, keras.Layer):
            return self._layer_reader(x, foreign)
        if isinstance(x, types.FunctionType):
            return _reached if foreign else None
        read = next((OPENED[c] for c in type(x).__mro__ if c in OPENED), _attributes)
        if read is _entries and len(x) > LONGEST:
            return None
        if read is not _attributes or (hasattr(x, DATA) and not isinstance(x, type)):
            self._opened.add(id(x))
            return read
        return read if foreign or isinstance(x, type) else None

    def _layer_reader(self, layer: keras.Layer, foreign: bool) -> Callable:
        """Reads a model, which training changes, by what its layers are."""
        values, is_model = vars(layer), isinstance(layer, keras.Model)
        names = [n for n in values if n not in SKIPPED and (foreign or n[0] != "_")]
        names = [n for n in names if not is_model or hasattr(values[n], DATA)]
        self._sized += [] if is_model else [values]
        return contents_reader(names)


def _reached(function: types.FunctionType) -> list[Any]:
    """Returns what a function reads besides its arguments; of modules what it names."""
    code, known = function.__code__, function.__globals__
    cells = [c.cell_contents for c in function.__closure__ or () if c != EMPTY]
    names = _names(code)  # among them those of modules that it imports itself
    reached = [known[n] if n in known else sys.modules.get(n) for n in names]
    for module in [vars(x) for x in reached if isinstance(x, types.ModuleType)]:
        reached += [module[n] for n in names if n in module]
    return [code, function.__defaults__, function.__kwdefaults__, *cells, *reached]


def _names(code: types.CodeType) -> list[str]:
    """Returns the names that code uses, also in functions inside it."""
    inside = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return [*code.co_names, *(name for each in inside for name in _names(each))]
