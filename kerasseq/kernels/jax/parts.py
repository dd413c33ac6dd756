"""Batches in parts on JAX, where arrays are global: Keras' loss is that of all devices.

The gradient of parts is added up by `jax.lax.scan`, which is compiled once and holds
the activations of one part.
"""

import atexit
import contextlib
import inspect
import os
import random
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import keras
import numpy as np
from jax import numpy as jnp
from jax.experimental import multihost_utils
from keras import distribution, tree

from kerasseq.core.types import Nested, Shape, Tensor
from kerasseq.kernels import parts as common
from kerasseq.kernels.jax.divided import Kept

DAY = 24 * 60 * 60  # seconds that a process waits for the others before it ends
# What an error of the network says, after another process was lost.
LOST = re.compile(r"gloo .*failed|nccl|connection (reset|closed)", re.IGNORECASE)


def of_device(loss: Tensor, over: Tensor) -> Tensor:
    """Returns the loss, which is one of all devices already."""
    return loss


def total_of_devices(count: Tensor) -> Tensor:
    """Returns the count, which is one of all devices already."""
    return count


def train_step(
    model: keras.Model,
    step: Callable[..., Nested],
    parts: int,
    state: tuple[Any, ...],
    data: Nested,
) -> tuple[Any, tuple[Any, ...]]:
    """Trains on a batch in `parts`, and returns the metrics and the new state."""
    data = divided(data)
    if parts == 1:
        return step(state, data)
    with common.in_parts(model, data, parts):
        return _step_in_parts(model, parts, state, data)


def _step_in_parts(model, parts, state, data):
    trained, fixed, of_optimizer, metrics = state
    gradient = jax.value_and_grad(_loss(model), has_aux=True)

    counters = [id(v) for v in common.counters(model)]
    is_counter = [id(v) in counters for v in model.non_trainable_variables]
    first = fixed

    def add_part(carry, rows):
        mean, count, fixed, metrics = carry
        each = zip(is_counter, first, fixed, strict=True)
        fixed = [before if is_one else now for is_one, before, now in each]
        (_, aux), d = gradient(trained, fixed, metrics, of_optimizer, rows)
        over, fixed, metrics = aux
        count = count + over
        r = over / jnp.maximum(count, 1e-30)

        def add(m, x):
            return jnp.where(over > 0, m + (r * (x - m)).astype(m.dtype), m)

        mean = tree.map_structure(add, mean, d)
        return (mean, count, fixed, metrics), ()

    zeros = tree.map_structure(jnp.zeros_like, trained)
    carry = (zeros, jnp.zeros(()), fixed, metrics)
    size, rest = divmod(len(tree.flatten(data)[0]), parts)
    if size:  # each part has rows of all devices

        def stack(x):
            rows = x[: size * parts].reshape(size, parts, *x.shape[1:])
            return rows.swapaxes(0, 1)

        # JAX's maps leave out None, as for no weights.
        carry, _ = jax.lax.scan(add_part, carry, jax.tree.map(stack, data))
    if rest:
        carry, _ = add_part(carry, common.rows_of(data, slice(-rest, None)))
    gradients, _, fixed, metrics = carry
    trained, of_optimizer = model.optimizer.stateless_apply(
        of_optimizer, gradients, trained
    )
    with _scope(model.metrics_variables, metrics):
        logs = model.get_metrics_result()
    return logs, (trained, fixed, of_optimizer, metrics)


def evaluation_step(
    model: keras.Model, step: Callable[..., Nested], state: Any, data: Nested
) -> Nested:
    """Evaluates a batch, whose rows are divided among devices."""
    return step(state, divided(data))


def predict_step(step: Callable[..., Nested], state: Any, data: Nested) -> Nested:
    """Predicts the rows of a batch, of which each process gets all outputs."""
    outputs, fixed = step(state, divided(data))
    return _in_each_process(outputs), fixed


def _in_each_process(outputs):
    """Lets each process have all outputs, of which it could not read a part."""
    chosen = distribution.distribution()
    if not isinstance(chosen, _WholeBatches) or jax.process_count() == 1:
        return outputs
    return tree.map_structure(
        lambda y: distribution.distribute_tensor(y, chosen.get_data_layout(y.shape)),
        outputs,
    )


def _loss(model):
    """Computes the mean over the steps of a part, their number and the new states."""

    def loss(trained, fixed, metrics, of_optimizer, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with common.counting() as counts:
            L, (_, y_pred, fixed, metrics) = model.compute_loss_and_updates(
                trained,
                fixed,
                metrics,
                x,
                y,
                sample_weight,
                training=True,
                optimizer_variables=of_optimizer,
            )
        (c,) = counts
        with _scope(model.metrics_variables, metrics) as scope:
            model.compute_metrics(x, y, y_pred, sample_weight)
        metrics = [scope.get_current_value(v) for v in model.metrics_variables]
        return L, (c, fixed, metrics)

    return loss


def _scope(variables, values):
    return keras.StatelessScope(state_mapping=[*zip(variables, values, strict=True)])


def divided(data: Nested) -> Nested:
    """Divides the rows of a batch among the devices of `on_devices`.

    A batch that they do not divide is computed whole on each of them. Keras would give
    all batches the layout of the first.
    """
    chosen = distribution.distribution()
    if not isinstance(chosen, _WholeBatches):
        return data

    def divide(x):
        if x is None:
            return None
        layout = chosen.layout_of_rows(x.shape)
        return x if layout is None else distribution.distribute_tensor(x, layout)

    return tree.map_structure(divide, data)


class _WholeBatches:
    """Gives each device the whole batch; `divided` then takes the rows of each."""

    def get_data_layout(self, data_shape: Shape) -> distribution.TensorLayout:
        return distribution.TensorLayout([None] * len(data_shape), self.device_mesh)

    def layout_of_rows(self, shape: Shape) -> distribution.TensorLayout | None:
        axis = self.device_mesh.axis_names.index(self.batch_dim_name)
        if shape[0] % self.device_mesh.shape[axis]:
            return None
        axes = [self.batch_dim_name, *[None] * (len(shape) - 1)]
        return distribution.TensorLayout(axes, self.device_mesh)


class _DataParallel(_WholeBatches, distribution.DataParallel):
    """`keras.distribution.DataParallel` for batches of any size."""


class _ModelParallel(_WholeBatches, distribution.ModelParallel):
    """`keras.distribution.ModelParallel` that says which weight it cannot divide.

    Attributes:
        kept: The variables of the block if processes divide them, else None.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.kept: Kept | None = Kept() if jax.process_count() > 1 else None

    def get_variable_layout(self, variable: Any) -> Any:
        layout = super().get_variable_layout(variable)
        self._check(variable, layout)
        self.keep(variable, any(axis is not None for axis in layout.axes))
        return layout

    def keep(self, variable: Any, is_divided: bool) -> None:
        """Notes a variable of the block, if it is to be put together at the end."""
        if self.kept is not None:
            self.kept.add(variable, is_divided)

    def _check(self, variable, layout):
        sizes = dict(
            zip(self.device_mesh.axis_names, self.device_mesh.shape, strict=True)
        )
        for size, axis in zip(variable.shape, layout.axes, strict=True):
            if axis is not None and size % sizes[axis]:
                raise ValueError(
                    f"devices={sizes[axis]} must divide the heads, the width of the "
                    "feed-forward network and the vocabulary size, received a size of "
                    f"{size} in {variable.path} {tuple(variable.shape)}. Choose other "
                    "sizes or devices, or leave layout_map out"
                )


@contextlib.contextmanager
def on_devices(count: int | None, parallel: str, layout: Any) -> Iterator[None]:
    """Divides each batch among `count` devices inside the block, all if None.

    With parallel="model", `layout` maps a mesh to the axes of divided weights.
    """
    _connect()
    devices = _devices(count)
    # Each process reads the same batches, of which the step takes the rows of each.
    options = {"auto_shard_dataset": False}
    if parallel == "data":
        chosen = _DataParallel(devices=devices, **options)
    else:
        sizes = (1, len(devices))
        mesh = distribution.DeviceMesh(sizes, ["batch", "model"], devices)
        options |= {"layout_map": layout(mesh), "batch_dim_name": "batch"}
        chosen = _ModelParallel(**options)
    outer = distribution.distribution()
    try:
        with chosen.scope():
            yield
    except Exception as error:
        if jax.process_count() == 1:
            raise
        # The others wait for this process, which must not wait for them at its end.
        atexit.register(_end)
        if not LOST.search(str(error)):
            raise
        raise RuntimeError(common.LOST) from error
    if isinstance(chosen, _ModelParallel) and chosen.kept is not None:
        chosen.kept.put_together(outer)


def _end():
    sys.stdout.flush()
    os._exit(1)


def track(model: keras.Model) -> None:
    """Notes the optimizer of a model where processes divide it as the weights."""
    if divides_weights():
        for state in model.optimizer.variables:
            is_divided = not state.value.is_fully_replicated
            distribution.distribution().keep(state, is_divided)


def divides_weights() -> bool:
    """Returns whether several processes hold parts of the weights."""
    chosen = distribution.distribution()
    return isinstance(chosen, _ModelParallel) and chosen.kept is not None


def is_any(value: bool) -> bool:
    """Returns whether a value is true in any process."""
    chosen = distribution.distribution()
    if not isinstance(chosen, _WholeBatches) or jax.process_count() == 1:
        return value
    return bool(multihost_utils.process_allgather(np.array(value)).any())


def _connect():
    """Connects the processes that Keras' variables of the environment name.

    As `keras.distribution.initialize`, after which a process would end 5 minutes after
    another, and have its own random state if it is seeded.
    """
    if not _is_one_of_several() or jax.distributed.is_initialized():
        return
    read = os.environ.get
    waits = inspect.signature(jax.distributed.initialize).parameters
    options = {"shutdown_timeout_seconds": DAY}
    try:
        jax.distributed.initialize(
            read("KERAS_DISTRIBUTION_JOB_ADDRESSES", "").partition(",")[0] or None,
            int(read("KERAS_DISTRIBUTION_NUM_PROCESSES")),
            int(read("KERAS_DISTRIBUTION_PROCESS_ID")),
            **{name: value for name, value in options.items() if name in waits},
        )
    except RuntimeError as error:
        if "must be called before" not in str(error):
            raise
        raise RuntimeError(
            "on_devices connects the processes that KERAS_DISTRIBUTION_NUM_PROCESSES "
            "counts, which JAX allows before the first model or array alone, received "
            "a call after it. Open the block at the start of the program"
        ) from error
    _share_random_state()


def _share_random_state():
    """Gives all processes a seed of the first, unless their random states agree."""
    state = zlib.crc32(repr((random.getstate(), np.random.get_state())).encode())
    own = np.array([state, random.getrandbits(31)], "uint32")
    gathered = multihost_utils.process_allgather(own)  # (processes, 2)
    if len({*gathered[:, 0].tolist()}) > 1:
        keras.utils.set_random_seed(int(gathered[0, 1]))


def _is_one_of_several():
    return int(os.environ.get("KERAS_DISTRIBUTION_NUM_PROCESSES", 1)) > 1


def is_first_process() -> bool:
    """Returns whether this process is the first one, which writes the files."""
    if jax.distributed.is_initialized():
        return jax.process_index() == 0
    return int(os.environ.get("KERAS_DISTRIBUTION_PROCESS_ID", 0)) == 0


def make_virtual_devices(count: int) -> None:
    """Divides a CPU into devices, or connects this process to the others."""
    if _is_one_of_several():
        _connect()
        return
    with contextlib.suppress(RuntimeError):  # as JAX has begun
        if jax.config.jax_num_cpu_devices < 1:
            jax.config.update("jax_num_cpu_devices", count)


def _devices(count):
    if count is not None and not jax.distributed.is_initialized():
        make_virtual_devices(count)
    devices = distribution.list_devices()
    if jax.process_count() > 1 and count not in (None, len(devices)):
        raise ValueError(
            f"devices must be {len(devices)}, the number of all devices of the "
            f"{jax.process_count()} processes, received {count}. Leave it out"
        )
    if count is not None and len(devices) < count:
        raise ValueError(
            f"devices must be at most {len(devices)}, the number that JAX has here, "
            f"received {count}. On a CPU, virtual devices are made if on_devices comes "
            "before the first model or array"
        )
    return devices[:count]
