"""Records a function of tensors on PyTorch as a list of operations.

Keras handles layers, masks and scopes at each call: milliseconds for a Transformer, and
more than its products where one token is read. Recorded operations run without that,
and need no compiler. Generation uses them; `programs.py` drops them when the model has
changed. In a training step of GPT they gained nothing (0.94 of the speed without, AMD
EPYC with AVX2), so `fit` does not use them.
"""

import collections
import contextlib
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from keras import ops

from kerasseq.core.types import Nested, Tensor
from kerasseq.kernels.torch import passes

if TYPE_CHECKING:
    from torch.fx import GraphModule

EAGER_CALLS = 8  # before a shape is worth the recording, which costs a few calls
SHAPES = 64  # that are kept, those used last: a recording holds on to memory


def recorded(
    function: Callable[..., Nested], *, donated: bool = False
) -> Callable[..., Nested]:
    """Returns the function, which runs as a list of operations after `EAGER_CALLS`.

    Args:
        function: Function of structures of tensors, the same at each call, that gives
            one, without effects. It is recorded anew for each new shape, and the last
            `SHAPES` are kept. What cannot be recorded, since it decides by a value,
            runs as it is.
        donated: Whether what came out and goes in again is given up: entries of a
            cache are then written into it, not into a copy.

    Returns:
        A function of the same arguments.
    """
    import torch

    made = collections.OrderedDict()

    def call(*args: Nested) -> Nested:
        leaves, structure = flatten(args)
        key = structure, *[(x.shape, x.dtype, x.device) for x in leaves]
        calls = made.get(key)
        if calls is None:
            calls = made[key] = _Calls(function, structure, donated)
            if len(made) > SHAPES:
                made.popitem(last=False)
        made.move_to_end(key)
        with torch.no_grad():
            return calls(leaves)

    return call


def as_it_is(function: Callable[..., Nested]) -> Callable[..., Nested]:
    """Returns the function without gradients; each call runs all of its Python."""
    import torch

    def call(*args: Nested) -> Nested:
        leaves, structure = flatten(args)
        with torch.no_grad():
            return function(*rebuild(structure, iter(leaves)))

    return call


def flatten(value: Nested) -> tuple[list[Tensor], Any]:
    """The leaves of a structure as tensors, and the structure, hashable.

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
    """The structure with other leaves, an iterator over them."""
    if structure is None:
        return next(leaves)
    kind, keys, *parts = structure
    parts = [rebuild(part, leaves) for part in parts]
    if keys is not None:
        entries = zip(keys, parts, strict=True)
        return kind(None, entries) if kind is collections.defaultdict else kind(entries)
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


def one_fake_mode() -> contextlib.AbstractContextManager[Any]:
    """Lets PyTorch describe all values of a recording by the same mode.

    It makes one for each value otherwise, with a trace of the stack, which takes as
    long as the recording itself. There is no public name for this: where the private
    ones are missing, it takes that long.
    """
    try:
        from torch._guards import TracingContext, tracing
        from torch._subclasses.fake_tensor import FakeTensorMode

        return tracing(TracingContext(FakeTensorMode()))
    except (ImportError, TypeError):
        return contextlib.nullcontext()


class _Calls:
    """Calls with arguments of one structure, and of the same shapes."""

    def __init__(
        self, function: Callable[..., Nested], structure: Any, donated: bool
    ) -> None:
        self.function, self.left = function, EAGER_CALLS
        self.donated = donated
        self.args = structure
        self.graph = self.outputs = None
        self.written, self.own = [], {}

    def __call__(self, leaves: list[Tensor]) -> Nested:
        if self.left:
            self.left -= 1
            if not self.left:
                self.graph = self._record(leaves)
        if self.graph is None:
            return self.function(*rebuild(self.args, iter(leaves)))
        if not self.written:
            return rebuild(self.outputs, iter(self.graph(*leaves)))
        outputs = self.graph(*self._writable(leaves))
        self.own = {id(x): weakref.ref(x) for x in outputs}
        return rebuild(self.outputs, iter(outputs))

    def _writable(self, leaves: list[Tensor]) -> list[Tensor]:
        """The leaves, with copies of those that are written into but not our own."""
        leaves = list(leaves)
        holders = collections.Counter(x.untyped_storage().data_ptr() for x in leaves)
        for n in self.written:
            x = leaves[n]
            own = self.own.get(id(x), lambda: None)() is x
            if not own or holders[x.untyped_storage().data_ptr()] > 1:
                leaves[n] = x.clone()
        return leaves

    def _record(self, leaves: list[Tensor]) -> "GraphModule | None":
        """The operations, or None if they cannot be recorded."""
        import torch
        from torch.fx.experimental.proxy_tensor import make_fx

        def flat(*leaves):
            outputs = self.function(*rebuild(self.args, iter(leaves)))
            outputs, self.outputs = flatten(outputs)
            return outputs

        try:
            with warnings.catch_warnings(), one_fake_mode():
                warnings.simplefilter("ignore")
                graph = make_fx(torch.func.functionalize(flat))(*leaves)
            return self._spared(graph)
        except Exception:  # whatever the reason, it runs as it is
            return None

    def _spared(self, graph: "GraphModule") -> "GraphModule":
        graph = passes.fold_constants(passes.eliminate_common_subexpressions(graph))
        if self.donated:
            graph, self.written = passes.write_in_place(graph)
        return passes.bind_builtins(graph)
