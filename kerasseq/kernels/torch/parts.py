"""Batches in parts on PyTorch: a process for each device, with the same weights.

Each process reads the same batches, and computes every N-th row of them. PyTorch's
`DistributedDataParallel` takes the mean of the gradients of N processes; where weights
are divided, `fully_shard` does, of which each process then has a part.
"""

import contextlib
import os
import random
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import torch
from keras import tree
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from kerasseq.core.types import Nested, Tensor
from kerasseq.kernels import parts as common

if TYPE_CHECKING:
    from kerasseq.kernels.torch.divided import Divided, Meeting


class _Processes:
    """The processes of an open block of `on_devices`.

    Attributes:
        rank: The number of this one.
        count: Their number.
        in_step: Whether a step runs, in which all of them take part.
        is_spare: Whether the batch has no row for this one.
        replicas: Models with what takes the mean of their gradients, by the model.
        divided: Models of which each process has a part of the weights, by the model.
        meeting: Where processes meet to read such weights; None if each has all.
    """

    def __init__(self, divides_weights: bool) -> None:
        self.rank: int = distributed.get_rank()
        self.count: int = distributed.get_world_size()
        self.in_step: bool = False
        self.is_spare: bool = False
        self.replicas: dict[int, tuple[list[int], Any]] = {}
        self.divided: dict[int, Divided] = {}
        self.meeting: Meeting | None = _meeting() if divides_weights else None

    def total(self, value: Tensor) -> Tensor:
        """Sums over all processes."""
        value = value.detach().clone()
        distributed.all_reduce(value)
        return value

    def share(self, data: Nested) -> Nested:
        """Returns the rows of this process, or else a row that does not count."""
        self.is_spare = self.rank >= len(tree.flatten(data)[0])
        first = 0 if self.is_spare else self.rank
        return common.rows_of(data, slice(first, None, self.count))

    def replica(self, model: keras.Model) -> Any:
        """Returns the model with its loss, as a module whose gradients are means."""
        trained = [id(weight) for weight in model.trainable_weights]
        known = self.replicas.get(id(model))
        if known is None or known[0] != trained:
            module = DistributedDataParallel(_Loss(model), static_graph=True)
            self.replicas[id(model)] = known = (trained, module)
        return known[1]


def _meeting():
    from kerasseq.kernels.torch.divided import Meeting  # loads a lot of PyTorch

    return Meeting()


_processes: _Processes | None = None  # of the open block


class _Loss(torch.nn.Module):
    """What `DistributedDataParallel` takes the gradients of."""

    def __init__(self, model: keras.Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, data: Nested, in_parts: bool) -> tuple[Tensor, Nested, Tensor]:
        return _loss(self.model, data, in_parts)


def _loss(model, data, in_parts):
    """Computes the loss of rows in training, the outputs, and its count.

    That number is 1 for a batch that is not in parts.
    """
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    counter = common.counting() if in_parts else contextlib.nullcontext([1.0])
    with counter as counts:
        y_pred = model(x, training=True)
        loss = model.compute_loss(x, y, y_pred, sample_weight, training=True)
    (c,) = counts
    if _processes is not None and _processes.is_spare:
        c = c * 0
    return loss, y_pred, c


def is_divided() -> bool:
    """Returns whether a step runs on the rows of this process alone."""
    return _processes is not None and _processes.in_step


def divides_rows() -> bool:
    """Returns whether there are several processes."""
    return _processes is not None


def of_device(loss: Tensor, over: Tensor) -> Tensor:
    """Weighs the loss of a process, a mean over `over`, by its share of all counts."""
    here = _processes
    if not is_divided():
        return loss
    over = over * (not here.is_spare)
    share = here.count * over / here.total(over).clamp(min=1e-30)
    return loss * share.to(loss.dtype)


def total_of_devices(count: Tensor) -> Tensor:
    """Sums the counts of all processes."""
    here = _processes
    return count if here is None else here.total(count * (not here.is_spare))


def train_step(
    model: keras.Model, step: Callable[..., Nested], parts: int, data: Nested
) -> Nested:
    """Trains on a batch in `parts`, and returns the metrics of all processes."""
    if _processes is None and parts == 1:
        return step(data)
    divided = None if _processes is None else _processes.divided.get(id(model))
    if divided is not None:
        return _divided_step(divided, parts, data)
    with _shared(model, data) as rows, common.in_parts(model, rows, parts):
        model.zero_grad()
        count = _backward(model, parts, rows)
        weights = model.trainable_weights
        gradients = [w.value.grad for w in weights]
        with torch.no_grad():
            if parts > 1:
                gradients = _of_all_processes(gradients, count)
            model.optimizer.apply(gradients, weights)
    return model.get_metrics_result()


def _divided_step(divided, parts, data):
    """Returns a step in which each process changes its part of the weights."""
    model, here = divided.model, _processes
    parts = min(parts, -(-len(tree.flatten(data)[0]) // here.count))  # of the first
    with _shared(model, data) as rows, common.in_parts(model, rows, parts):
        divided.zero_grad()
        with divided.step():
            _add_gradients(divided, parts, rows)
        gradients = [_mean_of_all(d) for d in divided.gradients()]
        with divided.update():
            model.optimizer.apply(gradients, model.trainable_weights)
    return model.get_metrics_result()


def _add_gradients(divided, parts, data):
    """Computes the gradients of all processes, which divide those of each part."""
    model, here, count = divided.model, _processes, 0.0
    size, in_parts = len(tree.flatten(data)[0]), parts > 1
    counters = common.counters(model)
    first = [v.value.detach().clone() for v in counters]
    for n in range(parts):
        for variable, value in zip(counters, first, strict=True):
            variable.assign(value)
        is_given = n < size  # otherwise a row takes part that does not count
        rows = common.rows_of(data, slice(n if is_given else 0, None, parts))
        before = divided.gradients()  # the root has its weights whole after the loss
        metrics = [v.value.detach().clone() for v in model.metrics_variables]
        loss, y_pred, c = divided.loss(lambda r=rows: _loss(model, r, in_parts))
        if in_parts:
            c = c * is_given
            of_all = here.total(c)
            count = count + of_all
            share = here.count * c / of_all.clamp(min=1e-30)
            r = of_all / count.clamp(min=1e-30)
            for d in before:
                if d is not None:
                    _local(d).mul_((1 - r).to(d.dtype))
            loss = loss * (share * r).to(loss.dtype)
        model.optimizer.scale_loss(loss).backward()
        if not is_given:
            for variable, value in zip(model.metrics_variables, metrics, strict=True):
                variable.assign(value)
        else:
            x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(rows)
            model.compute_metrics(x, y, y_pred, sample_weight)


def _local(d):
    return d.to_local() if hasattr(d, "to_local") else d


def _mean_of_all(d):
    """Takes the mean over the processes; of a divided weight it is one already."""
    if d is None or hasattr(d, "to_local"):
        return d
    return _processes.total(d) / _processes.count


def _of_all_processes(gradients, count):
    """Sums the gradients of the parts of each process to those of the whole batch.

    Parts are added up here, as PyTorch's DDP would add up after each of them.
    """
    here = _processes
    if here is None:
        return gradients
    r = count / here.total(count).clamp(min=1e-30)
    return [d if d is None else here.total(d * r.to(d.dtype)) for d in gradients]


def evaluation_step(
    model: keras.Model, step: Callable[..., Nested], data: Nested
) -> Nested:
    """Evaluates the rows of this process, and returns the metrics of all rows."""
    if _processes is None:
        return step(data)
    with _shared(model, data) as rows:
        step(rows)
    return model.get_metrics_result()


def _backward(model, parts, data):
    """Sets the gradients of the loss, and returns the number of its steps."""
    here, size, in_parts = _processes, len(tree.flatten(data)[0]), parts > 1
    loss_of = _Loss(model) if here is None else here.replica(model)
    if here is not None and in_parts:  # the gradients are added up after the last part
        loss_of = loss_of.module
    parts, count = min(parts, size), 0.0
    counters = common.counters(model)
    first = [v.value.detach().clone() for v in counters]
    for n in range(parts):
        for variable, value in zip(counters, first, strict=True):
            variable.assign(value)
        rows = common.rows_of(data, slice(n, None, parts))
        loss, y_pred, c = loss_of(rows, in_parts)
        count = count + c
        if in_parts:
            loss = loss * _add_share(model, c, count).to(loss.dtype)
        model.optimizer.scale_loss(loss).backward()
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(rows)
        model.compute_metrics(x, y, y_pred, sample_weight)
    return count


def _add_share(model, c, count):
    """Takes the share of a part off the gradients before it, and returns it."""
    r = c / count.clamp(min=1e-30)
    for w in model.trainable_weights:
        if w.value.grad is not None:
            w.value.grad.mul_((1 - r).to(w.value.grad.dtype))
    return r


@contextlib.contextmanager
def _shared(model: keras.Model, data: Nested) -> Iterator[Nested]:
    """Yields the rows of this process; metrics count those of all after the block."""
    here = _processes
    if here is None:
        yield data
        return
    variables = model.metrics_variables
    before = [v.value.detach().clone() for v in variables]
    here.in_step = True
    try:
        yield here.share(data)
        added = [v.value - b for v, b in zip(variables, before, strict=True)]
        flat = torch.cat([a.reshape(-1).double() for a in added])
        flat = here.total(flat * (not here.is_spare))
        new = flat.split([a.numel() for a in added])
        for v, b, a in zip(variables, before, new, strict=True):
            v.assign(b + a.reshape(b.shape).to(b.dtype))
    finally:
        here.in_step = False


def is_first_process() -> bool:
    """Returns whether this process is the first one, which writes the files."""
    return int(os.environ.get("RANK", 0)) == 0


def divide_weights(
    model: keras.Model, blocks: Callable[[keras.Model], Sequence[keras.Layer]]
) -> None:
    """Divides weights and state of the optimizer among the processes, once."""
    here = _processes
    if here is None or here.meeting is None or not type(model).divides_weights:
        return
    known = here.divided.get(id(model))
    trained = [id(weight) for weight in model.trainable_weights]
    if known is not None and known.trained != trained:
        known.put_together(in_each=True)
        known = None
    if known is None:
        from kerasseq.kernels.torch.divided import Divided

        here.divided[id(model)] = Divided(model, blocks(model), here.meeting)
    else:
        known.divide_optimizer()


def divides_weights() -> bool:
    """Returns whether several processes hold parts of the weights."""
    return _processes is not None and bool(_processes.divided)


def is_any(value: bool) -> bool:
    """Returns whether a value is true in any process."""
    if not divides_weights():
        return value
    return bool(_processes.total(torch.tensor(float(value))))


@contextlib.contextmanager
def on_devices(count: int | None, parallel: str, layout: Any) -> Iterator[None]:
    """Divides each batch among `count` devices inside the block, all if None.

    Each process is a device, and divides the weights too with parallel="model".
    """
    global _processes
    if layout is not None:
        raise ValueError(common.only_jax("layout_map"))
    world_size = int(os.environ.get("WORLD_SIZE", 1))
    if count is not None and count != world_size:
        raise ValueError(
            "on PyTorch each device has a process of its own: devices must be their "
            f"number, {world_size}, received {count}. Start the program with  torchrun "
            f"--nproc-per-node {count} PROGRAM"
        )
    if world_size == 1:
        yield
        return
    begins = not distributed.is_initialized()
    if begins:
        _begin()
    outer = _processes
    try:
        _share_random_state()
        _processes = _Processes(parallel == "model")
        yield
        for divided in _processes.divided.values():
            divided.put_together(in_each=outer is not None)
    finally:
        _processes = outer
        if begins:
            distributed.destroy_process_group()


def _begin():
    """Connects the processes that torchrun has started, each with its device."""
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")


def _share_random_state():
    """Gives all processes the random state of the first, for the order of the data."""
    state = [random.getstate(), np.random.get_state(), torch.get_rng_state()]
    distributed.broadcast_object_list(state)
    random.setstate(state[0])
    np.random.set_state(state[1])
    torch.set_rng_state(state[2])
