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
from collections.abc import Callable, Sequence
from typing import Any

import keras
import torch
from torch.overrides import TorchFunctionMode

from kerasseq.core.types import Nested, Tensor
from kerasseq.kernels.torch import private
from kerasseq.kernels.torch.structures import flatten, rebuild

SHAPES = 64  # that are kept, those used last: a recording holds on to memory
LOOP = 64  # steps of a loop over time: a longer one is not written out
PLAIN = (bool, int, str, types.NoneType, types.EllipsisType)
NAME = re.compile(r"\b[lvw]\d+\b")  # of a leaf, a result and a tensor from outside
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
    made = collections.OrderedDict()

    def call(*args: Nested) -> Nested:
        leaves, structure = flatten(args)
        key = structure, *[(x.shape, x.stride(), x.dtype, x.device) for x in leaves]
        calls = made.get(key)
        if calls is None:
            calls = made[key] = _Calls(function, structure, donated)
            if len(made) > SHAPES:
                made.popitem(last=False)
        made.move_to_end(key)
        with torch.no_grad():
            return calls(leaves)

    return call


def check_loop(x: Tensor) -> None:
    """Raises while a function is recorded whose loop over time is too long.

    Its steps, one after the other, would take longer than a loop of compiled code,
    which runs while nothing is recorded.
    """
    if _recording.get() and len(x) > LOOP:
        raise NotRecordableError(f"a loop of {len(x)} steps")


class _Calls:
    """Calls of a function with arguments of one structure, and of the same shapes."""

    def __init__(
        self, function: Callable[..., Nested], structure: Any, donated: bool
    ) -> None:
        self.function, self.args, self.donated = function, structure, donated
        self.run, self.fresh = None, True
        self.weights, self.written, self.own = [], [], {}

    def __call__(self, leaves: list[Tensor]) -> Nested:
        if self.fresh:
            self.fresh = False
            try:
                return self._record(leaves)
            except Exception:  # whatever the reason, it runs as it is
                self.run = None
        if self.run is None:
            return self.function(*rebuild(self.args, iter(leaves)))
        outputs = self.run(self.weights, self._writable(leaves))
        self.own = {id(x): weakref.ref(x) for x in outputs}
        return rebuild(self.outputs, iter(outputs))

    def _record(self, leaves: list[Tensor]) -> Nested:
        """Runs the function, and builds a function of weights and leaves from it."""
        leaves = [x.detach() for x in leaves]  # one tensor may be there twice
        recorder = Recorder(leaves)
        token = _recording.set(True)
        try:
            with recorder, recorder.watch:
                outputs = self.function(*rebuild(self.args, iter(leaves)))
                outputs, self.outputs = flatten(outputs)
        finally:
            _recording.reset(token)
        program = Program(recorder, outputs, self.donated)
        self.run, self.weights, self.written = program.run, program.values, program.into
        return rebuild(self.outputs, iter(outputs))

    def _writable(self, leaves: list[Tensor]) -> list[Tensor]:
        """The leaves, with copies of those that are written into but not our own."""
        if not self.written:
            return leaves
        leaves = list(leaves)
        holders = collections.Counter(map(_place, leaves))
        for n in self.written:
            x = leaves[n]
            own = self.own.get(id(x), lambda: None)() is x
            if not own or holders[_place(x)] > 1:
                leaves[n] = x.clone()
        return leaves


class NotRecordableError(Exception):
    """What a function does cannot be written down as calls to `torch`."""


@dataclasses.dataclass(eq=False)
class _Call:
    """`names = function(...)`: the code, the names that it uses, what it came to.

    `value` is kept of constants and of views of weights. `memory` are the names of the
    tensors that own what is read and returned. A `fixed` call writes or draws.
    """

    function: Any
    text: str
    uses: list[str]
    names: list[str]
    memory: set[str]
    fixed: bool
    value: Tensor | None = None
    many: bool = False

    def line(self) -> str:
        left = "".join(f"{name}, " for name in self.names)
        left = left if self.many else left.removesuffix(", ")
        return f"{left} = {self.text}" if left else self.text


class Watch(private.dispatch_mode()):
    """Notes what the operations of PyTorch inside one call to `torch` do."""

    inside = False

    def begin(self, constant: bool) -> None:
        self.inside, self.constant = True, constant
        self.draws, self.written = False, []

    def __torch_dispatch__(
        self, op: Any, kinds: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if not self.inside and any(isinstance(x, torch.Tensor) for x in args):
            raise NotRecordableError(f"{op} is not called through torch")
        by_value = not BY_VALUE.isdisjoint(op.tags) and not self.constant
        if by_value and not (op is torch.ops.aten.index.Tensor and _places(args[1])):
            raise NotRecordableError(f"{op} depends on a value")
        self.draws |= torch.Tag.nondeterministic_seeded in op.tags
        self.written += private.written_by(op, args)
        return op(*args, **(kwargs or {}))


class Recorder(TorchFunctionMode):
    """Writes down the calls to `torch` inside its block."""

    def __init__(self, leaves: Sequence[Tensor]) -> None:
        super().__init__()
        self.watch = Watch()
        self.calls: list[_Call] = []
        self.bound: dict[str, Any] = {}  # functions, types and the like, by name
        self.weights: dict[str, Tensor] = {}  # tensors from outside
        self.owners: dict[str, str] = {}  # of the memory of each name
        self.known: dict[int, tuple[Callable[[], Any], str]] = {}
        self.constants: set[str] = set()
        self.written: set[str] = set()  # owners
        self.leaves = [self._new_name("l", x, {}) for x in leaves]

    def _new_name(self, letter: str, x: Tensor, owners: dict[int, str]) -> str:
        name = f"{letter}{len(self.owners)}"
        self.known[id(x)] = weakref.ref(x), name
        self.owners[name] = owners.get(_place(x), name)
        return name

    def name_of(self, x: Tensor) -> str:
        """The name of a tensor; one that was not seen comes from outside."""
        known, name = self.known.get(id(x), (lambda: None, ""))
        if known() is not x:
            name = self._new_name("w", x, {})
            self.weights[name] = x
        return name

    def _text(self, value: Any, uses: dict[str, Tensor]) -> str:
        """The code of an argument."""
        kind = type(value)
        if isinstance(value, keras.Variable):
            with self:
                value = value.value
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
        text = f"{self._text(function, uses)}({', '.join(parts)})"
        constant = self.constants.issuperset(uses)
        if getattr(function, "__name__", "") in BY_MEMORY and not constant:
            raise NotRecordableError(f"{function} reads values")
        self.watch.begin(constant)
        try:
            result = function(*args, **kwargs)
        finally:
            self.watch.inside = False
        if not self.watch.written and any(result is x for x in uses.values()):
            return result  # as `x.to(dtype)` of this type
        self._write_down(_Call(function, text, [*uses], [], set(), False), result, uses)
        return result

    def _write_down(self, call: _Call, result: Any, uses: dict[str, Tensor]) -> None:
        owners = {_place(x): self.owners[name] for name, x in uses.items()}
        written = {owners.get(_place(x)) for x in self.watch.written} - {None}
        if not written.isdisjoint((*self.weights, *self.leaves)):
            raise NotRecordableError(f"{call.function} writes into an argument")
        self.written |= written
        call.fixed = bool(written) or self.watch.draws
        call.many = isinstance(result, list | tuple) and type(result) is not torch.Size
        results = result if call.many else [result]
        if any(isinstance(x, torch.Tensor) for x in results):
            if not all(isinstance(x, torch.Tensor) for x in results):
                raise NotRecordableError(f"{call.function} returns {results}")
            call.names = [self._new_name("v", x, owners) for x in results]
        elif not call.fixed:  # a shape or a type
            return
        call.memory = {self.owners[name] for name in (*uses, *call.names)}
        if not call.fixed and self.constants.issuperset(uses):
            self.constants.update(call.names)
        if not call.many and call.memory <= self.constants | self.weights.keys():
            call.value = result
        self.calls.append(call)


class Program:
    """A function of weights and leaves from what a recorder wrote down."""

    def __init__(
        self, recorder: Recorder, outputs: Sequence[Tensor], donated: bool
    ) -> None:
        self.recorder, self.weights = recorder, recorder.weights
        self.outputs = [recorder.name_of(x) for x in outputs]
        self.calls = recorder.calls
        for call in self.calls:
            call.fixed |= not call.memory.isdisjoint(recorder.written)
        self.eliminate_common_subexpressions()
        self.fold_constants()
        self.eliminate_dead_code()
        self.into = self.write_in_place() if donated else []
        self.run = self.compile()

    def eliminate_common_subexpressions(self) -> None:
        """Removes equal calls: masks and positions are the same in all layers."""
        first, same = {}, {}
        for call in self.calls:
            call.text = NAME.sub(lambda m: same.get(m[0], m[0]), call.text)
            call.uses = [same.get(name, name) for name in call.uses]
            equal = call if call.fixed else first.setdefault(call.text, call)
            if equal is not call:
                same.update(zip(call.names, equal.names, strict=True))
        self.calls = [c for c in self.calls if same.keys().isdisjoint(c.names)]
        self.outputs = [same.get(name, name) for name in self.outputs]

    def fold_constants(self) -> None:
        """Computes once what depends on nothing, and views of weights.

        A view follows later changes of its weight.
        """
        rest = []
        for call in self.calls:
            known = self.weights.keys() >= {*call.uses}
            if known and call.value is not None and not call.fixed:
                self.weights[call.names[0]] = call.value
            else:
                rest.append(call)
        self.calls = rest

    def eliminate_dead_code(self) -> None:
        """Removes what no output needs: after prompts, the last layer's outputs."""
        needed, rest = {*self.outputs}, []
        for call in reversed(self.calls):
            if call.fixed or needed.intersection(call.names):
                needed.update(call.uses)
                rest.append(call)
        self.calls = rest[::-1]

    def write_in_place(self) -> list[int]:
        """Writes into leaves instead of into their copies, where nothing else reads.

        Returns:
            The numbers of the leaves that are written into.
        """
        into, leaves = [], self.recorder.leaves
        used = collections.Counter(name for call in self.calls for name in call.uses)
        used.update(self.outputs)
        for call in self.calls:
            leaf = call.uses[0] if call.uses else None
            if call.function not in (torch.clone, torch.Tensor.clone):
                continue
            if leaf in leaves and used[leaf] == 1 and call.text.endswith(f"({leaf})"):
                call.text = leaf
                into.append(leaves.index(leaf))
        return into

    def compile(self) -> Callable[[list[Tensor], list[Tensor]], list[Tensor]]:
        """The program as Python; each tensor is freed after its last use."""
        last = {
            name: n for n, c in enumerate(self.calls) for name in (*c.uses, *c.names)
        }
        gone = collections.defaultdict(list)
        for name, n in last.items():
            if name not in self.outputs:
                gone[n].append(name)
        used = [*last, *self.outputs]
        used = [name for name in dict.fromkeys(used) if name in self.weights]
        self.values = [self.weights[name] for name in used]
        lines = [
            f"[{', '.join(names)}] = {source}"
            for names, source in ((used, "weights"), (self.recorder.leaves, "leaves"))
        ]
        for n, call in enumerate(self.calls):
            lines.append(call.line())
            if gone[n]:
                lines[-1] += f"; del {', '.join(gone[n])}"
        # What comes out may be written into by the next call.
        owners = self.recorder.owners
        outputs = [
            f"{name}.clone()" if owners[name] in self.weights else name
            for name in self.outputs
        ]
        lines.append(f"return [{', '.join(outputs)}]")
        names = dict(self.recorder.bound)
        exec("def run(weights, leaves):\n    " + "\n    ".join(lines), names)
        return names["run"]


def _place(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _places(index: Sequence[Tensor | None]) -> bool:
    """Whether an index holds numbers of entries, and no masks."""
    return all(x is None or x.dtype in (torch.int32, torch.int64) for x in index)
