"""One line for several devices, alike on the three backends."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from kerasseq import kernels
from kerasseq.core import backend, checks, layouts

# For the command, which divides a run.
make_virtual_devices: Callable[[int], None] = kernels.make_virtual_devices
restartable: Callable[[Callable[[], Iterator[Any]]], Any] = kernels.restartable

PARALLEL = ("data", "model")


@contextlib.contextmanager
def on_devices(
    devices: int | None = None,
    *,
    parallel: str | None = None,
    layout_map: Callable[..., Any] | None = None,
) -> Iterator[None]:
    """Divides each batch of `fit` among devices; the results are those of one device.

    The loss is the sum over all devices by the number of steps or rows of all, however
    these are distributed. Models are made inside the block.

    - JAX: `keras.distribution.DataParallel`, or `ModelParallel`. A batch that the
      devices do not divide is computed whole on each. If several processes divide the
      weights, the first has the model after the block.
    - TensorFlow: `tf.distribute.MirroredStrategy`; `MultiWorkerMirroredStrategy` if
      `TF_CONFIG` names several processes.
    - PyTorch: `DistributedDataParallel`, or `fully_shard` for divided weights, in as
      many processes as devices, which `torchrun` starts. Each computes every N-th row
      of the same batches; all start with the random state and weights of the first.

    On several machines the environment says which processes there are: that of
    `torchrun`, `TF_CONFIG`, or on JAX the variables of `keras.distribution.initialize`.
    All draw the order of the data from a random state of the first.

    Without a GPU the devices are virtual ones: parts of the CPU, to try a program.

    Args:
        devices: Their number N, of all machines. All that the backend finds if None, or
            the processes of `torchrun`.
        parallel: "data": each device has all weights. "model": each has a part of the
            large weights, of their gradients and of the state of the optimizer; on JAX
            and PyTorch. "model" if there is a `layout_map`, else "data", if None.
        layout_map: `get_layout_map` of a class of models, on JAX: the axes along which
            the weights are divided. One for all models of kerasseq if None.

    Yields:
        Nothing.

    Raises:
        TypeError: If `devices` is not an integer.
        ValueError: If there are not so many devices or processes; if weights cannot be
            divided on this backend, or a weight not by the number of devices; if
            `parallel` is unknown, or "data" with a `layout_map`.
        RuntimeError: If a process was lost, or does not read the weights that the
            others read; on JAX if the block of several processes does not come first.

    Examples:
        >>> import kerasseq
        >>> with on_devices(1):
        ...     model = kerasseq.models.LanguageModel("lstm", vocabulary_size=11)
        >>> model.count_params() > 0
        True

    References:
        Li et al. 2020, PyTorch Distributed; Zhao et al. 2023, PyTorch FSDP.
    """
    if devices is not None:
        devices = checks.size("devices", devices)
    if parallel is None:
        parallel = "data" if layout_map is None else "model"
    checks.one_of("parallel", parallel, PARALLEL)
    if parallel == "data" and layout_map is not None:
        raise ValueError(
            'parallel must be "model" with a layout_map, which divides the weights, '
            'received "data". Leave one of them out'
        )
    if parallel == "model" and layout_map is None and backend.chosen() == "jax":
        layout_map = functools.partial(layouts.layout_map, None)
    with kernels.on_devices(devices, parallel, layout_map):
        yield


def is_any(value: bool) -> bool:
    """Returns whether a value is true in any process of those that share a training.

    To save what they have, all of them must do the same. On PyTorch with data
    parallelism, where each process has all weights, it is the own value.

    Examples:
        >>> is_any(False)
        False
    """
    return kernels.is_any(value)


def is_first_process() -> bool:
    """Returns whether this process prints and writes files: the first of several.

    Examples:
        >>> is_first_process()
        True
    """
    return kernels.is_first_process()
