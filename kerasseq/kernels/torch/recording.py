"""Records a function of tensors on PyTorch as a list of calls to `torch`.

Keras handles layers, masks and scopes at each call: milliseconds for a Transformer, and
more than its products where one token is read. The first call of a function runs as it
is, and writes down which functions of `torch` it calls, with which arguments; later
calls with the same shapes run these alone, and need no compiler. Generation uses it;
`programs.py` drops a recording when the model has changed.
"""

import collections
import contextvars
import dataclasses
import math
import re
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import torch
from keras import ops
from torch.overrides import TorchFunctionMode

from kerasseq.core.types import Nested, Tensor
from kerasseq.kernels.torch import private

SHAPES = 64  # that are kept, those used last: a recording holds on to memory
LOOP = 64  # steps of a loop over time: a longer one is not written out
PLAIN = (bool, int, str, types.NoneType, types.EllipsisType)
NAME = re.compile(r"\b_[lvw]\d+\b")  # of a leaf, a result and a tensor from outside
CLONE = torch.clone, torch.Tensor.clone
COPY = re.compile(r"c\d+\((_l\d+)\)")  # of a leaf, by a function of one argument
# Values leave a tensor by these, or by operations of PyTorch that have these tags.
BY_MEMORY = {"__array__", "data_ptr", "numpy", "storage", "tolist", "untyped_storage"}
BY_VALUE = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
_recording = contextvars.ContextVar("kerasseq_recording", default=False)


def recorded(
    function: Callable[..., Nested], *, donated: bool = False
) -> Callable[..., Nested]:
    """Returns the function, which runs as a list of calls after its first call.

    Args:
        function: Function of structures of tensors that returns one, without side
            effects. It is recorded anew for each new shape, and the last `SHAPES` are
            kept. What depends on a value runs as it is.
        donated: Whether outputs that go in again are given up: entries of a cache are
            then written into it, not into a copy.

    Returns:
        A function of the same arguments, without gradients.
    """
    made = collections.OrderedDict()  # programs, and the structures of their outputs

    def record(leaves: list[Tensor], structure: Any) -> tuple[Any, list[Tensor]]:
        leaves = [x.detach() for x in leaves]  # one tensor may be there twice
        recorder = Recorder(leaves)
        token = _recording.set(True)
        try:
            with recorder, recorder.watch:
                outputs = function(*rebuild(structure, iter(leaves)))
                outputs, structure = flatten(outputs)
        finally:
            _recording.reset(token)
        return (Program(recorder, outputs, donated), structure), outputs

    def call(*args: Nested) -> Nested:
        leaves, structure = flatten(args)
        key = structure, *[(x.shape, x.stride(), x.dtype, x.device) for x in leaves]
        with torch.no_grad():
            if key not in made:
                made[key] = None, None
                if len(made) > SHAPES:
                    made.popitem(last=False)
                try:
                    made[key], outputs = record(leaves, structure)
                    return rebuild(made[key][1], iter(outputs))
                except Exception:  # whatever the reason, it runs as it is
                    made[key] = None, None
            made.move_to_end(key)
            program, after = made[key]
            if program is None:
                return function(*rebuild(structure, iter(leaves)))
            return rebuild(after, iter(program(leaves)))

    return call


def check_loop(x: Tensor) -> None:
    """Raises while a function is recorded whose loop over time is too long.

    Its steps, one after the other, would take longer than a loop of compiled code,
    which runs while nothing is recorded.
    """
    if _recording.get() and len(x) > LOOP:
        raise NotRecordableError(f"a loop of {len(x)} steps")


class NotRecordableError(Exception):
    """What a function does cannot be written down as calls to `torch`."""


@dataclasses.dataclass(eq=False)
class _Call:
    """`left = right`, the code of a call; a `fixed` one writes or draws."""

    function: Any
    left: str
    right: str
    fixed: bool


class Watch(private.dispatch_mode()):
    """Notes what the operations of PyTorch inside one call to `torch` do."""

    inside: bool = False
    constant: bool = False
    draws: bool = False
    written: Sequence[Any] = ()

    def __torch_dispatch__(
        self, op: Any, kinds: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if not self.inside and any(isinstance(x, torch.Tensor) for x in args):
            raise NotRecordableError(f"{op} is not called through torch")
        by_value = not BY_VALUE.isdisjoint(op.tags) and not self.constant
        if by_value and not (op is torch.ops.aten.index.Tensor and _places(args[1])):
            raise NotRecordableError(f"{op} depends on a value")
        self.draws |= torch.Tag.nondeterministic_seeded in op.tags
        self.written = [*self.written, *private.written_by(op, args)]
        return op(*args, **(kwargs or {}))


class Recorder(TorchFunctionMode):
    """Writes down the calls to `torch` inside its block."""

    def __init__(self, leaves: Sequence[Tensor]) -> None:
        super().__init__()
        self.watch: Watch = Watch()
        self.calls: list[_Call] = []
        self.bound: dict[str, Any] = {}  # functions, types and the like, by name
        self.weights: dict[str, Tensor] = {}  # tensors from outside
        self.owners: dict[str, str] = {}  # of the memory of each name
        self.known: dict[int, tuple[Callable[[], Any], str]] = {}
        self.constants: set[str] = set()
        self.values: dict[str, Tensor] = {}  # of constants and of views of weights
        self.written: set[str] = set()  # owners
        self.leaves = [self._new_name("l", x, {}) for x in leaves]

    def _new_name(self, letter: str, x: Tensor, owners: dict[int, str]) -> str:
        name = f"_{letter}{len(self.owners)}"
        self.known[id(x)] = weakref.ref(x), name
        self.owners[name] = owners.get(_place(x), name)
        return name

    def name_of(self, x: Tensor) -> str:
        """Returns the name of a tensor; one that was not seen comes from outside."""
        known, name = self.known.get(id(x), (lambda: None, ""))
        if known() is not x:
            name = self._new_name("w", x, {})
            self.weights[name] = x
        return name

    def _text(self, value: Any, uses: dict[str, Tensor]) -> str:
        """Returns the code of an argument."""
        if isinstance(value, keras.Variable):
            with self:
                value = value.value
        kind = type(value)
        if isinstance(value, torch.Tensor):
            name = self.name_of(value)
            uses[name] = value
            return name
        if kind in PLAIN or (kind is float and math.isfinite(value)):
            return repr(value)
        if kind in (list, tuple, torch.Size):
            inside = "".join(f"{self._text(x, uses)}, " for x in value)
            return f"[{inside}]" if kind is list else f"({inside})"
        if kind is slice:
            return "slice" + self._text((value.start, value.stop, value.step), uses)
        if kind is torch.Generator:
            raise NotRecordableError("a generator draws other numbers at each call")
        name = f"c{id(value)}"
        self.bound[name] = value
        return name

    def __torch_function__(
        self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs, uses = kwargs or {}, {}
        parts = [self._text(x, uses) for x in args]
        parts += [f"{name}={self._text(x, uses)}" for name, x in kwargs.items()]
        right = f"{self._text(function, uses)}({', '.join(parts)})"
        constant = self.constants.issuperset(uses)
        if getattr(function, "__name__", "") in BY_MEMORY and not constant:
            raise NotRecordableError(f"{function} reads values")
        watch = self.watch
        watch.inside, watch.constant = True, constant
        watch.draws, watch.written = False, ()
        try:
            result = function(*args, **kwargs)
        finally:
            watch.inside = False
        if watch.written or all(result is not x for x in uses.values()):
            self._write_down(function, right, result, uses)
        return result  # one of them as it is: `x.to(dtype)` of this type

    def _write_down(
        self, function: Any, right: str, result: Any, uses: dict[str, Tensor]
    ) -> None:
        owners = {_place(x): self.owners[name] for name, x in uses.items()}
        written = {owners.get(_place(x)) for x in self.watch.written} - {None}
        if not written.isdisjoint((*self.weights, *self.leaves)):
            raise NotRecordableError(f"{function} writes into an argument")
        self.written |= written
        fixed = bool(written) or self.watch.draws
        many = isinstance(result, list | tuple) and type(result) is not torch.Size
        results = result if many else [result]
        tensors = [x for x in results if isinstance(x, torch.Tensor)]
        if tensors and len(tensors) < len(results):
            raise NotRecordableError(f"{function} returns {results}")
        if not tensors and not fixed:  # a shape or a type
            return
        names = [self._new_name("v", x, owners) for x in tensors]
        if not fixed and self.constants.issuperset(uses):
            self.constants.update(names)
        same = self.constants | self.weights.keys()  # at each call
        if all(self.owners[name] in same for name in (*uses, *names)):
            self.values.update(zip(names, tensors, strict=True))
        left = ", ".join(names) + "," * many
        self.calls.append(_Call(function, left, right, fixed))


class Program:
    """A function of leaves: what a recorder wrote down; `donated` as in `recorded`."""

    def __init__(
        self, recorder: Recorder, outputs: Sequence[Tensor], donated: bool = False
    ) -> None:
        names = [recorder.name_of(x) for x in outputs]
        owners, weights = recorder.owners, recorder.weights
        calls, names = _without_equal(recorder, names)
        self.into = _write_in_place(calls, recorder.leaves, names) if donated else []
        self.own: dict[int, Callable[[], Any]] = {}  # the last outputs
        # What comes out may be written into by the next call.
        copied = [name + ".clone()" * (owners[name] in weights) for name in names]
        lines, needed = [f"return [{', '.join(copied)}]"], {*names}
        self.calls: list[_Call] = []
        for call in reversed(calls):  # what no output needs is left out
            if call.fixed or not needed.isdisjoint(NAME.findall(call.left)):
                last = {*NAME.findall(f"{call.left} {call.right}")} - needed
                needed |= last
                line = f"{call.left} = {call.right}" if call.left else call.right
                lines.append(f"{line}; del {', '.join(last)}" if last else line)
                self.calls.insert(0, call)
        used = [name for name in weights if name in needed]
        self.weights: list[Tensor] = [weights[name] for name in used]
        lines.append(f"[{', '.join(recorder.leaves)}] = leaves")
        lines.append(f"[{', '.join(used)}] = weights")
        known = recorder.bound
        exec("def run(weights, leaves):\n    " + "\n    ".join(lines[::-1]), known)
        self.run: Callable[..., list[Tensor]] = known["run"]

    def __call__(self, leaves: Sequence[Tensor]) -> list[Tensor]:
        """Runs the calls; what is written into is a copy, or an output of the last."""
        if self.into:
            leaves, holders = list(leaves), collections.Counter(map(_place, leaves))
            for n in self.into:
                x = leaves[n]
                own = self.own.get(id(x), lambda: None)() is x
                if not own or holders[_place(x)] > 1:
                    leaves[n] = x.clone()
        outputs = self.run(self.weights, leaves)
        self.own = {id(x): weakref.ref(x) for x in outputs}
        return outputs


def _without_equal(
    recorder: Recorder, outputs: Sequence[str]
) -> tuple[list[_Call], list[str]]:
    """Keeps one of equal calls, and none of constants and views of weights.

    Masks and positions are the same in all layers. A view follows later changes of its
    weight.
    """
    first, same, rest = {}, {}, []
    weights, values = recorder.weights, recorder.values
    for call in recorder.calls:
        names = NAME.findall(call.left)
        owners = {recorder.owners[n] for n in (*names, *NAME.findall(call.right))}
        call.fixed |= not owners.isdisjoint(recorder.written)
        call.right = NAME.sub(lambda name: same.get(name[0], name[0]), call.right)
        equal = call if call.fixed else first.setdefault(call.right, call)
        known = weights.keys() >= {*NAME.findall(call.right)}
        if equal is not call:
            same.update(zip(names, NAME.findall(equal.left), strict=True))
        elif known and not call.fixed and values.keys() >= {*names}:
            weights.update((name, values[name]) for name in names)
        else:
            rest.append(call)
    return rest, [same.get(name, name) for name in outputs]


def _write_in_place(
    calls: Sequence[_Call], leaves: Sequence[str], outputs: Sequence[str]
) -> list[int]:
    """Writes into leaves instead of into their copies, where nothing else reads.

    Returns:
        The numbers of the leaves that are written into.
    """
    into, used = [], collections.Counter(outputs)
    used.update(name for call in calls for name in NAME.findall(call.right))
    for call in calls:
        copied = COPY.fullmatch(call.right)
        if copied and used[copied[1]] == 1 and call.function in CLONE:
            call.right = copied[1]
            into.append(leaves.index(call.right))
    return into


def _place(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _places(index: Sequence[Tensor | None]) -> bool:
    """Returns whether an index holds numbers of entries, and no masks."""
    return all(x is None or x.dtype in (torch.int32, torch.int64) for x in index)


def flatten(value: Nested) -> tuple[list[Tensor], Any]:
    """Returns the leaves of a structure as tensors, and the structure, hashable.

    As in `keras.tree` a dictionary is taken in the order of its keys, and an
    `OrderedDict` in its own, which is part of the structure.

    Examples:
        >>> leaves, structure = flatten({"b": 1, "a": [2.0, ()]})
        >>> [float(x) for x in leaves], structure[1]
        ([2.0, 1.0], ('a', 'b'))
        >>> rebuild(structure, iter("xy"))
        {'a': ['x', ()], 'b': 'y'}
    """
    leaves = []
    return leaves, _flatten(value, leaves)


def _flatten(value: Nested, leaves: list[Tensor]) -> Any:
    kind = type(value)
    if isinstance(value, dict):
        keys = sorted(value) if kind in (dict, collections.defaultdict) else value
        return kind, tuple(keys), *[_flatten(value[key], leaves) for key in keys]
    if isinstance(value, list | tuple):
        return kind, None, *[_flatten(x, leaves) for x in value]
    leaves.append(ops.convert_to_tensor(value))
    return None


def rebuild(structure: Any, leaves: Iterator[Any]) -> Nested:
    """Returns the structure with other leaves, an iterator over them."""
    if structure is None:
        return next(leaves)
    kind, keys, *parts = structure
    parts = [rebuild(part, leaves) for part in parts]
    if keys is not None:
        entries = zip(keys, parts, strict=True)
        return kind(None, entries) if kind is collections.defaultdict else kind(entries)
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
