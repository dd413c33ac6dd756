"""Weights divided among processes, by PyTorch's `fully_shard` (FSDP2).

`fully_shard` divides the parameters of a module. The parameters here are those of units
beside the layers: one for each block, which has all its weights during its call, and
one for the rest of the model, which has them during the step. The variables of Keras
read what the units hold. So a process keeps 1/N of weights, gradients and state of the
optimizer. Zhao et al. 2023, PyTorch FSDP.
"""

import contextlib
import datetime
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
)
from torch.distributed.tensor.experimental import implicit_replication

from kerasseq.core.types import Nested, Tensor
from kerasseq.kernels import parts as common
from kerasseq.kernels.torch import private

WAIT = datetime.timedelta(minutes=5)  # until all processes read a weight
LEAVING = -1  # in place of the number of a weight


class Meeting:
    """Where processes meet before they put a divided weight together.

    Attributes:
        group: What connects them outside the steps of training.
        mesh: The devices of the processes.
    """

    def __init__(self) -> None:
        kind = "cuda" if torch.cuda.is_available() else "cpu"
        self.mesh: Any = init_device_mesh(kind, (distributed.get_world_size(),))
        self.group: Any = distributed.new_group(timeout=WAIT, backend="gloo")

    def at(self, number: int) -> None:
        """Waits for the others, which must read the same weight or leave as well.

        Raises:
            RuntimeError: If they do not.
        """
        own = torch.tensor([number])
        numbers = [torch.empty_like(own) for _ in range(self.mesh.size())]
        try:
            distributed.all_gather(numbers, own, group=self.group)
            is_same = all(other == number for other in numbers)
        except RuntimeError as error:
            if "imed out" not in str(error):
                raise
            is_same = False
        if not is_same:
            raise RuntimeError(common.ALONE)


class _Unit(torch.nn.Module):
    """Weights that a process has whole at the same time: those of one block."""

    def __init__(self, weights: Sequence[keras.Variable], device: Any) -> None:
        super().__init__()
        for n, weight in enumerate(weights):
            whole = weight.value.detach().to(device).contiguous()
            self.register_parameter(f"w{n}", torch.nn.Parameter(whole))

    def forward(self, function: Callable, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)


class _Part:
    """A weight, or a state of the optimizer, of which this process has a part.

    Attributes:
        variable: The variable.
        get: Returns the part, a `DTensor`; the whole weight if the unit has it.
        placements: How it is divided.
    """

    def __init__(
        self, model: "Divided", variable: keras.Variable, get: Callable[[], Tensor]
    ) -> None:
        self.model, self.get = model, get
        self.variable: keras.Variable = variable
        self.placements: Any = get().placements
        self.number: int = len(model.parts)
        self.kept: Tensor = variable.value
        private.read_by(variable, self.read, self.write)
        self.kept.data = self.kept.data.new_empty(0)  # layers of Keras refer to it

    def read(self) -> Tensor:
        """Returns the value for what runs now."""
        value = self.get()
        if not isinstance(value, DTensor) or self.model.updates:
            return value
        if self.model.is_in_step and torch.is_grad_enabled():
            count = self.model.meeting.mesh.size()
            whole = value.redistribute(placements=[Replicate()])
            whole = whole.to_local(grad_placements=[Partial()])
            whole.register_hook(lambda d: d / count)  # a mean, as that of a unit
            return whole
        if not self.model.is_in_step:
            self.model.meeting.at(self.number)
        return value.detach().full_tensor()

    def write(self, value: Tensor) -> None:
        """Takes the part of this process out of a value."""
        part = self.get()
        if not isinstance(value, DTensor):
            mesh = self.model.meeting.mesh
            value = distribute_tensor(
                value.detach().to(part.device, part.dtype),
                mesh,
                self.placements,
                src_data_rank=None,  # each process has the value
            )
        with torch.no_grad():  # the optimizer may have summed over divided rows
            value = value.redistribute(placements=self.placements)
            part.to_local().copy_(value.to_local())

    def put_together(self, keeps: bool) -> None:
        """Gives the variable its whole value again, in one process or all."""
        whole = self.get().detach().full_tensor()
        if keeps:
            self.kept.data = whole
            self.kept.grad = None
            private.read_by(self.variable, None, None)
        else:
            private.read_by(self.variable, _gone, _gone)


def _gone(*_):
    raise ValueError(common.GONE)


class Divided:
    """A model of which each process has a part of the weights.

    Attributes:
        model: The model.
        meeting: Where the processes meet to read a weight.
        parts: Its divided weights and states of the optimizer, in order.
        is_in_step: Whether a step of training runs.
        updates: Whether the optimizer runs, which computes with parts.
    """

    def __init__(
        self, model: keras.Model, blocks: Sequence[keras.Layer], meeting: Meeting
    ) -> None:
        self.model: keras.Model = model
        self.meeting: Meeting = meeting
        self.parts: list[_Part] = []
        self.is_in_step: bool = False
        self.updates: bool = False
        self.blocks = [*blocks]
        self.optimizer: Any = None
        self.trained: list[int] = [id(w) for w in model.trainable_weights]
        for variable in model.variables:
            distributed.broadcast(variable.value.detach(), 0)
        self._divide()
        self.divide_optimizer()

    def _divide(self):
        """Makes the units, of which the rest of the model is the root."""
        left = {id(w): w for w in self.model.trainable_weights if len(w.shape)}
        units, weights = [], []
        for block in self.blocks:
            own = [left.pop(id(w)) for w in block.trainable_weights if id(w) in left]
            if own:
                unit = self._unit(own)
                units.append(unit)
                weights.append((unit, own))
                # Not an attribute for Keras, which would look for layers in it.
                run = functools.partial(self._call, unit, block.forward)
                vars(block)["forward"] = run
        rest = [*left.values()]
        self.root: Any = self._unit(rest, units)
        for unit, own in [*weights, (self.root, rest)]:
            for n, weight in enumerate(own):
                self._add(weight, functools.partial(getattr, unit, f"w{n}"))

    def _unit(self, weights, units=()):
        mesh = self.meeting.mesh
        unit = _Unit(weights, mesh.device_type)
        unit.units = torch.nn.ModuleList(units)
        place = functools.partial(_axis, mesh.size())
        return fully_shard(unit, mesh=mesh, shard_placement_fn=place)

    def _add(self, variable, get):
        self.parts.append(_Part(self, variable, get))

    def _call(self, unit, function, *args, **kwargs):
        if self.is_in_step:
            return unit(function, *args, **kwargs)
        return function(*args, **kwargs)

    def divide_optimizer(self) -> None:
        """Divides the state of the optimizer as its weights, or makes it divided.

        A state of another shape than its weight, as the means over rows and columns of
        Adafactor, is whole in each process.
        """
        optimizer = self.model.optimizer
        if optimizer is self.optimizer or optimizer is None:
            return
        self.optimizer = optimizer
        weights = {part.variable.path: part for part in self.parts}
        known = {id(part.variable) for part in self.parts}
        if not optimizer.built:
            # The one inside, if another scales the loss, has states of the weights.
            inner = getattr(optimizer, "inner_optimizer", optimizer)
            add = inner.add_variable_from_reference

            def add_divided(reference, *args, **kwargs):
                state = add(reference, *args, **kwargs)
                weight = weights.get(reference.path)
                self._divide_state(state, weight)
                known.add(id(state))
                return state

            vars(inner)[add.__name__] = add_divided
            optimizer.build(self.model.trainable_variables)
            del vars(inner)[add.__name__]
        for state in optimizer.variables:
            if id(state) not in known and len(state.shape):
                self._divide_state(state, _reference(state, weights))

    def _divide_state(self, state, weight):
        is_alike = weight is not None and state.shape == weight.variable.shape
        placements = weight.placements if is_alike else [Replicate()]
        mesh, whole = self.meeting.mesh, state.value.detach()
        whole = whole.to(mesh.device_type)
        value = distribute_tensor(whole, mesh, placements, src_data_rank=None)
        value = DTensor.from_local(  # a copy, as the whole one is let go
            value.to_local().clone(),
            mesh,
            placements,
            run_check=False,
            shape=value.shape,
            stride=value.stride(),
        )
        self._add(state, lambda: value)

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Lets the units have their weights whole in calls inside the block."""
        self.is_in_step = True
        try:
            yield
        finally:
            self.is_in_step = False

    def loss(self, function: Callable[[], Nested]) -> Nested:
        """Computes a loss, of which `backward` divides the gradients too."""
        return self.root(function)

    @contextlib.contextmanager
    def update(self) -> Iterator[None]:
        """Lets variables be parts inside the block, with which PyTorch computes."""
        self.updates = True
        try:
            with torch.no_grad(), implicit_replication():
                yield
        finally:
            self.updates = False

    def gradients(self) -> list[Tensor | None]:
        """Returns the gradients of the trained weights: parts, as the weights."""
        with self.update():
            return [w.value.grad for w in self.model.trainable_weights]

    def zero_grad(self) -> None:
        """Forgets the gradients."""
        self.root.zero_grad()
        for weight in self.model.trainable_weights:
            if not len(weight.shape):
                weight.value.grad = None

    def put_together(self, in_each: bool) -> None:
        """Ends the division: the first process, or each, has the whole weights.

        Args:
            in_each: Whether all processes have them then.
        """
        self.meeting.at(LEAVING)
        keeps = in_each or distributed.get_rank() == 0
        for part in self.parts:
            part.put_together(keeps)
        for block in self.blocks:
            vars(block).pop("forward", None)
        self.parts.clear()


def _axis(count, weight):
    """Chooses the axis of a weight to divide: one that the processes divide evenly."""
    sizes = [*weight.shape]
    even = [n for n, size in enumerate(sizes) if size % count == 0]
    if not even or 0 in even:
        return Shard(0)
    return Shard(max(even, key=sizes.__getitem__))


def _reference(state, weights):
    """Returns the weight that a state of the optimizer belongs to, by its name."""
    name = state.path.rpartition("/")[2]
    paths = [path for path in weights if name.startswith(f"{path.replace('/', '_')}_")]
    return weights[max(paths, key=len)] if paths else None
