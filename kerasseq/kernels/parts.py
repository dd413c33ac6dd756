r"""A batch in parts: on several devices at once, or one after another on one device.

The loss of a batch is a mean over C steps or rows. A part d has the mean $L_d$ over
$c_d$ of them, so the parts do not count alike:

$$L = \sum_d \frac{c_d}{C} L_d \qquad C = \sum_d c_d$$

One after another, the mean of the first parts is kept, and not a sum of $c_d L_d$,
which float16 could not hold: part d changes it by $r (L_d - L)$ with $r = c_d / C$.

Of several losses k each is a mean over other numbers $c_{kd}$, so $C_k$ is counted
before the first part. The mean is one over rows, $r = n_d / N$, and the loss of a part

$$L_d = \sum_k \frac{c_{kd}}{C_k} \frac{N}{n_d} L_{kd}$$
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
from keras import ops

from kerasseq.core.types import Nested, Tensor
from kerasseq.kernels.operations import backend_module

# What the losses of a part are means over, while a step adds up parts one by one.
_counts: contextvars.ContextVar[list[Tensor] | None] = contextvars.ContextVar(
    "counts", default=None
)
# The rows of the batch, and what its losses are means over, by output.
_totals: contextvars.ContextVar[Mapping[str, Tensor] | None] = contextvars.ContextVar(
    "totals", default=None
)
ROWS = "rows of the batch"  # no output has a name with spaces

GONE = (
    "the weights of this model were divided among processes, and after the block of "
    "on_devices only the first process has them, received a call of another. Use the "
    "model if training.is_first_process(), or inside the block"
)
ALONE = (
    "the weights are divided among processes, so all of them must read or save these "
    "at the same place of the program, but one does not. Call save, get_weights and "
    "predict in each process, or after the block of on_devices in the first"
)
LOST = (
    "another process of the training has ended, or computes something else, so this "
    "one stops. Start all of them again: with training.Checkpoint and "
    "training.restore, training resumes from the last checkpoint"
)


def only_jax(argument: str) -> str:
    """Returns the message about an argument that another backend does not take."""
    also = ', or pass parallel="model"' * (keras.backend.backend() == "torch")
    return (
        f"{argument} divides the weights among devices, which Keras can on JAX alone, "
        f"received it on {keras.backend.backend()}. Set KERAS_BACKEND=jax, or leave "
        f"it out{also}"
    )


def of_part(loss: Tensor, over: Tensor | int) -> Tensor:
    """Weighs the loss on a device so that gradients become those of the whole batch.

    Outside a step of training on several devices it is the loss.

    Args:
        loss: The loss of a part of the batch, without a factor for the devices.
        over: What it is a mean over. The loss of a device without rows counts nothing.

    Examples:
        >>> float(of_part(keras.ops.array(3.0), 5))
        3.0
    """
    over = ops.stop_gradient(ops.cast(over, "float32"))
    counts = _counts.get()
    if counts is not None:
        counts.append(over)
        return loss
    return backend_module("parts").of_device(loss, over)


def of_output(loss: Tensor, over: Tensor, name: str, rows: Tensor | int) -> Tensor:
    """Weighs one of several losses of a part; see `of_part`.

    Args:
        loss: The loss of an output.
        over: What it is a mean over.
        name: The name of the output.
        rows: The rows of the part.

    Examples:
        >>> float(of_output(keras.ops.array(3.0), keras.ops.array(5.0), "a", 2))
        3.0
    """
    totals = _totals.get()
    if _counts.get() is None or totals is None:
        return of_part(loss, over)
    share = over / ops.maximum(totals[name], 1e-30)
    share = share * totals[ROWS] / ops.maximum(ops.cast(rows, "float32"), 1)
    return loss * ops.cast(ops.stop_gradient(share), loss.dtype)


@contextlib.contextmanager
def in_parts(model: keras.Model, data: Nested, parts: int) -> Iterator[None]:
    """Opens a step that computes a batch in parts, one after another.

    Args:
        model: A model whose `loss_means` tell what its losses are means over.
        data: The batch.
        parts: The number of parts; 1 for a step that computes all rows at once.
    """
    means = getattr(model, "loss_means", None)
    if parts == 1 or means is None:
        yield
        return
    rows = ops.cast(ops.shape(keras.tree.flatten(data)[0])[0], "float32")
    totals = {ROWS: rows, **means.totals(model, data)}
    of_devices = backend_module("parts").total_of_devices
    token = _totals.set({name: of_devices(count) for name, count in totals.items()})
    try:
        yield
    finally:
        _totals.reset(token)


def is_part() -> bool:
    """Returns whether a step computes a part of a batch, which may have no rows.

    Examples:
        >>> is_part()
        False
    """
    return _counts.get() is not None or is_divided()


def rows_of(data: Nested, rows: slice) -> Nested:
    """Returns some rows of a batch; None, as for no weights, stays.

    Examples:
        >>> rows_of((np.arange(5), None), slice(1, None, 2))
        (array([1, 3]), None)
    """
    return keras.tree.map_structure(lambda x: None if x is None else x[rows], data)


def divides_rows() -> bool:
    """Returns whether devices get rows of their own in `fit`: TensorFlow and PyTorch.

    Examples:
        >>> divides_rows()
        False
    """
    if keras.backend.backend() == "jax":
        return False
    return backend_module("parts").divides_rows()


def counters(model: keras.Model) -> list[keras.Variable]:
    """Returns the variables that count batches: all parts of one read the same number.

    Args:
        model: A model with layers that have set `counts_batches` on a variable.

    Examples:
        >>> counters(keras.Sequential([keras.layers.Dense(3)]))
        []
    """
    fixed = model.non_trainable_variables
    return [v for v in fixed if getattr(v, "counts_batches", False)]


def is_divided() -> bool:
    """Returns whether a step runs whose batch is divided among devices.

    Examples:
        >>> is_divided()
        False
    """
    if keras.backend.backend() == "jax":
        return False
    return backend_module("parts").is_divided()


def unscaled(loss: Tensor) -> Tensor:
    """Takes the factor off that Keras gives to losses for the devices of TensorFlow."""
    if keras.backend.backend() != "tensorflow":
        return loss
    return backend_module("parts").unscaled(loss)


@contextlib.contextmanager
def counting() -> Iterator[list[Tensor]]:
    """Yields a list to which `of_part` adds the counts, and leaves the losses alone."""
    token = _counts.set([])
    try:
        yield _counts.get()
    finally:
        _counts.reset(token)


def train_step(
    model: keras.Model, step: Callable[..., Nested], parts: int, *args: Nested
) -> Nested:
    """Runs a step of training: as Keras makes it, on several devices, or in parts.

    Args:
        model: The model.
        step: `train_step` of Keras.
        parts: In how many parts the gradient of a batch is computed, one after another.
        *args: The arguments of `train_step` on this backend.

    Returns:
        What `train_step` returns on this backend.
    """
    return backend_module("parts").train_step(model, step, parts, *args)


def evaluation_step(
    model: keras.Model, step: Callable[..., Nested], *args: Nested
) -> Nested:
    """Runs a step of evaluation, on several devices too; arguments as `train_step`."""
    if keras.backend.backend() == "tensorflow":
        return step(*args)
    return backend_module("parts").evaluation_step(model, step, *args)


def predict_step(step: Callable[..., Nested], *args: Nested) -> Nested:
    """Runs a step of prediction; on PyTorch each process predicts all rows."""
    if keras.backend.backend() != "jax":
        return step(*args)
    return backend_module("parts").predict_step(step, *args)


def unrepeated(outputs: Nested, x: Nested) -> Nested:
    """Returns the outputs of a batch once, of which each device has computed all.

    Keras' `predict_on_batch` on TensorFlow puts those of all devices together.

    Args:
        outputs: Outputs of `predict_on_batch`.
        x: Its inputs.

    Examples:
        >>> unrepeated(np.ones((3, 2)), np.ones((3, 5))).shape
        (3, 2)
    """
    rows = len(keras.tree.flatten(x)[0])
    return keras.tree.map_structure(lambda output: output[:rows], outputs)


def restartable(stream: Callable[[], Iterator[Any]]) -> Any:
    """Returns batches for `fit`: a stream, or what can be read from its start again.

    On several devices of TensorFlow Keras reads some batches before it trains, and
    begins again.

    Args:
        stream: Makes the generator of batches.

    Examples:
        >>> next(restartable(lambda: iter([3, 5])))
        3
    """
    if keras.backend.backend() != "tensorflow":
        return stream()
    return backend_module("parts").restartable(stream)


def on_devices(
    count: int | None, parallel: str, layout: Any
) -> contextlib.AbstractContextManager[None]:
    """Divides each batch among devices inside a block; see `training.on_devices`.

    Args:
        count: The number of devices; all if None.
        parallel: "data", or "model" if the weights are divided too.
        layout: Function from a mesh to a `keras.distribution.LayoutMap` for "model";
            None for that of the backend.
    """
    return backend_module("parts").on_devices(count, parallel, layout)


def divide_weights(
    model: keras.Model, blocks: Callable[[keras.Model], Sequence[keras.Layer]]
) -> None:
    """Divides weights and state of the optimizer, in a block of `on_devices` for it.

    On JAX they are made divided.

    Args:
        model: A model with an optimizer.
        blocks: Returns its layers of which one at a time needs its weights whole.
    """
    if keras.backend.backend() == "torch":
        backend_module("parts").divide_weights(model, blocks)


def build_optimizer(model: keras.Model) -> None:
    """Makes the variables of the optimizer of a model, unless it has them.

    Args:
        model: A compiled model.

    Examples:
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        >>> model.compile("sgd", "mse")
        >>> build_optimizer(model)
        >>> model.optimizer.built
        True
    """
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    if keras.backend.backend() == "jax":
        backend_module("parts").track(model)


def divides_weights() -> bool:
    """Returns whether all processes must take part where a weight is read.

    Examples:
        >>> divides_weights()
        False
    """
    return keras.backend.backend() != "tensorflow" and (
        backend_module("parts").divides_weights()
    )


def is_any(value: bool) -> bool:
    """Returns whether a value is true in any process, where all must do the same then.

    Examples:
        >>> is_any(True)
        True
    """
    if keras.backend.backend() == "tensorflow":
        return value
    return backend_module("parts").is_any(value)


def make_virtual_devices(count: int) -> None:
    """Divides a CPU into devices, unless the backend has begun or has a GPU.

    On PyTorch each process is a device. On JAX several processes have those that they
    have, and are connected.
    """
    if keras.backend.backend() != "torch":
        backend_module("parts").make_virtual_devices(count)


def is_first_process() -> bool:
    """Returns whether this process writes the files: the first of several."""
    return backend_module("parts").is_first_process()
