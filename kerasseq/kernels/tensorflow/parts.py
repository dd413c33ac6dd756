"""Batches in parts on TensorFlow: the replicas of a `tf.distribute` strategy.

The gradients of replicas are added up by Keras' optimizers.
"""

import contextlib
import json
import os
import random
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import tree

from kerasseq.core.types import Nested, Tensor
from kerasseq.kernels import parts as common

UNSEEDED = 87654321  # what TensorFlow returns in place of a global seed


def is_divided() -> bool:
    """Returns whether this is code of one replica of several."""
    count = tf.distribute.get_strategy().num_replicas_in_sync
    return count > 1 and not tf.distribute.in_cross_replica_context()


def divides_rows() -> bool:
    """Returns whether there are several replicas."""
    return tf.distribute.get_strategy().num_replicas_in_sync > 1


def unscaled(loss: Tensor) -> Tensor:
    """Multiplies a loss by the number of replicas, by which Keras divides it."""
    count = tf.distribute.get_strategy().num_replicas_in_sync
    return loss if count == 1 else loss * tf.cast(count, loss.dtype)


def of_device(loss: Tensor, over: Tensor) -> Tensor:
    """Weighs the loss of a replica, a mean over `over`, by its share of all counts."""
    if not is_divided():
        return loss
    return loss * tf.cast(over / total_of_devices(over), loss.dtype)


def total_of_devices(count: Tensor) -> Tensor:
    """Sums the counts of all replicas; see `kerasseq.kernels.in_parts`."""
    if is_divided():
        context = tf.distribute.get_replica_context()
        count = context.all_reduce(tf.distribute.ReduceOp.SUM, count)
    return tf.maximum(count, 1e-30)


def train_step(
    model: keras.Model, step: Callable[..., Nested], parts: int, data: Nested
) -> Nested:
    """Trains on a batch in `parts`, and returns the metrics."""
    if parts == 1 and not is_divided():
        return step(data)
    with common.in_parts(model, data, parts):
        return _step_in_parts(model, parts, data)


def _step_in_parts(model, parts, data):
    weights = model.trainable_weights
    mean, count = [None] * len(weights), tf.zeros(())
    counters = common.counters(model)
    first = [tf.identity(v.value) for v in counters]
    for n in range(parts):
        # One after another, so that the activations of one part are in memory.
        with tf.control_dependencies([count, *(m for m in mean if m is not None)]):
            for variable, value in zip(counters, first, strict=True):
                variable.assign(value)
            rows = common.rows_of(data, slice(n, None, parts))
            d, over = _gradients(model, weights, rows, parts > 1)
        count += over
        r = over / tf.maximum(count, 1e-30)
        mean = [_mean(m, x, r) for m, x in zip(mean, d, strict=True)]
    if parts > 1 and is_divided():
        share = count / total_of_devices(count)
        mean = [d if d is None else d * tf.cast(share, d.dtype) for d in mean]
    if is_divided():
        mean = _of_all_devices(mean, model.optimizer)
    model.optimizer.apply_gradients(zip(mean, weights, strict=True))
    return model.get_metrics_result()


def _gradients(model, weights, data, in_parts):
    """Returns the gradients of a loss, and the number of its steps; 1 if not in parts.

    On several devices it is the share of one in the loss of all.
    """
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    counter = common.counting() if in_parts else contextlib.nullcontext([1.0])
    with tf.GradientTape() as tape, counter as counts:
        y_pred = model(x, training=True)
        loss = model.compute_loss(x, y, y_pred, sample_weight, training=True)
        loss = model.optimizer.scale_loss(loss)
    (c,) = counts
    model.compute_metrics(x, y, y_pred, sample_weight)
    d = tape.gradient(loss, [w.value for w in weights])
    return [None if each is None else tf.convert_to_tensor(each) for each in d], c


def _of_all_devices(gradients, optimizer):
    """Returns the gradients of all devices, clipped, by the number of devices.

    Keras' optimizers clip those of each device before they add them up. These are
    clipped already, and so are left as they are.
    """
    context = tf.distribute.get_replica_context()
    present = [d for d in gradients if d is not None]
    total = context.all_reduce(tf.distribute.ReduceOp.SUM, present)
    if optimizer.global_clipnorm:
        total, _ = tf.clip_by_global_norm(total, optimizer.global_clipnorm)
    elif optimizer.clipnorm:
        total = [tf.clip_by_norm(d, optimizer.clipnorm) for d in total]
    elif optimizer.clipvalue:
        c = optimizer.clipvalue
        total = [tf.clip_by_value(d, -c, c) for d in total]
    each = iter(d / context.num_replicas_in_sync for d in total)
    return [None if d is None else next(each) for d in gradients]


def _mean(mean, d, r):
    """Adds a part with the share r to the mean; a part may have no rows."""
    if d is None:
        return mean
    mean = tf.zeros_like(d) if mean is None else mean
    return tf.where(r > 0, mean + tf.cast(r, d.dtype) * (d - mean), mean)


def restartable(stream: Callable[[], Iterator[Any]]) -> Any:
    """Returns batches that can be read from their start again, on several devices."""
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return stream()
    signature = tree.map_structure(_spec, next(stream()))
    return tf.data.Dataset.from_generator(stream, output_signature=signature)


def _spec(rows):
    rows = np.asarray(rows)
    dtype = "float32" if rows.dtype == "float64" else rows.dtype
    return tf.TensorSpec((None,) * rows.ndim, dtype)


class _AnyBatch:
    """A strategy for batches that the devices do not divide."""

    def reduce(self, reduce_op: Any, value: Nested, axis: int | None) -> Nested:
        # Of the first batch Keras takes the mean over the devices, for its shapes
        # alone. Shares of unequal length have none.
        parts = [self.experimental_local_results(v) for v in tree.flatten(value)]
        if all(part.shape == own[0].shape for own in parts for part in own):
            return super().reduce(reduce_op, value, axis)
        return tree.pack_sequence_as(value, [own[0] for own in parts])


class _OneMachine(_AnyBatch, tf.distribute.MirroredStrategy):
    """`MirroredStrategy` for any batch."""


class _Machines(_AnyBatch, tf.distribute.MultiWorkerMirroredStrategy):
    """`MultiWorkerMirroredStrategy` for any batch."""

    def reduce(self, reduce_op: Any, value: Nested, axis: int | None) -> Nested:
        # Keras takes a mean of the first batch, and of the numbers in the progress
        # bar, as if these had an axis. At the end of an epoch metrics are sums.
        if reduce_op == "MEAN":
            return tree.map_structure(self._own, value)
        return tf.distribute.Strategy.reduce(self, reduce_op, value, axis)

    def _own(self, value):
        return self.experimental_local_results(value)[0]


def _cluster():
    """Returns the workers that TF_CONFIG names, and the number of this one."""
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    workers = [*config.get("cluster", {}).get("worker", ())]
    return workers, int(config.get("task", {}).get("index", 0))


def is_first_process() -> bool:
    """Returns whether this process is the first one, which writes the files."""
    return _cluster()[1] == 0


@contextlib.contextmanager
def on_devices(count: int | None, parallel: str, layout: Any) -> Iterator[None]:
    """Divides each batch among `count` devices inside the block, all if None.

    The weights are on each device whole.
    """
    if layout is not None:
        raise ValueError(common.only_jax("layout_map"))
    if parallel == "model":
        raise ValueError(
            'parallel="model" divides the weights, which TensorFlow does not here, '
            "received it on tensorflow. Set KERAS_BACKEND=jax or torch, or leave it out"
        )
    is_open = isinstance(outer := tf.distribute.get_strategy(), _AnyBatch)
    if is_open and count not in (None, outer.num_replicas_in_sync):
        raise ValueError(
            f"a block of on_devices with {outer.num_replicas_in_sync} devices is open, "
            f"and on TensorFlow an inner one has as many, received {count}"
        )
    if is_open:
        yield
        return
    with _strategy(count).scope():
        yield


def _strategy(count):
    """Returns the devices of this process, or those of all that TF_CONFIG names."""
    workers, _ = _cluster()
    if len(workers) < 2:
        return _OneMachine(_devices(count))
    strategy = _Machines()
    here = strategy.num_replicas_in_sync
    if count not in (None, here):
        raise ValueError(
            f"devices must be {here}, the number of all devices of the {len(workers)} "
            f"processes in TF_CONFIG, received {count}. Leave it out"
        )
    _share_random_state(strategy)
    return strategy


def _share_random_state(strategy):
    """Gives all processes a seed of the first, unless their random states agree.

    The order of the data follows from it, which must be the same in each of them.
    """
    is_seeded = _seed_of_tensorflow() != UNSEEDED
    states = [random.getstate(), np.random.get_state(), _seed_of_tensorflow()]
    state = zlib.crc32(repr(states).encode()) if is_seeded else 0
    own = tf.constant([[state, random.getrandbits(31)]], tf.int64)

    @tf.function
    def exchanged():
        return strategy.run(
            lambda: tf.distribute.get_replica_context().all_gather(own, axis=0)
        )

    here, *_ = strategy.experimental_local_results(exchanged())
    gathered = here.numpy()  # (devices, 2)
    if not is_seeded or len({*gathered[:, 0]}) > 1:
        keras.utils.set_random_seed(int(gathered[0, 1]))


def _seed_of_tensorflow():
    """Returns the global seed; `UNSEEDED` if there is none."""
    return tf.compat.v1.random.get_seed(1)[0]


def make_virtual_devices(count: int) -> None:
    """Divides a CPU into devices, unless TensorFlow has begun or has a GPU."""
    if _kind() == "CPU":
        parts = [tf.config.LogicalDeviceConfiguration()] * count
        with contextlib.suppress(RuntimeError):  # as TensorFlow has begun
            cpu = tf.config.list_physical_devices("CPU")[0]
            tf.config.set_logical_device_configuration(cpu, parts)


def _kind():
    return "GPU" if tf.config.list_physical_devices("GPU") else "CPU"


def _devices(count):
    if count is not None:
        make_virtual_devices(count)
    devices = tf.config.list_logical_devices(_kind())
    if count is not None and len(devices) < count:
        raise ValueError(
            f"devices must be at most {len(devices)}, the number that TensorFlow has "
            f"here, received {count}. On a CPU, virtual devices are made if on_devices "
            "comes before the first model or tensor"
        )
    return [device.name for device in devices[:count]]
