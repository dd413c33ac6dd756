"""One line for several devices, alike on the three backends."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from kerasseq import kernels
from kerasseq.core import checks

# For the command, which divides a run.
make_virtual_devices: Callable[[int], None] = kernels.make_virtual_devices
restartable: Callable[[Callable[[], Iterator[Any]]], Any] = kernels.restartable


@contextlib.contextmanager
def on_devices(
    devices: int | None = None,
    *,
    layout_map: Callable[..., Any] | None = None,
) -> Iterator[None]:
    """Divides each batch of `fit` among devices; the results are those of one device.

    The loss is the sum over all devices by the number of steps or rows of all, however
    these are distributed. Models are made inside the block.

    - JAX: `keras.distribution.DataParallel`, or `ModelParallel`. A batch that the
      devices do not divide is computed whole on each.
    - TensorFlow: `tf.distribute.MirroredStrategy`.
    - PyTorch: `DistributedDataParallel`, in as many processes as devices, which
      `torchrun` starts. Each computes every N-th row of the same batches; all start
      with the random state and the weights of the first.

    Without a GPU the devices are virtual ones: parts of the CPU, to try a program.

    Args:
        devices: Their number N. All that the backend finds if None, or the processes of
            `torchrun`.
        layout_map: `get_layout_map` of the class of the model, on JAX: then each device
            holds a part of each large weight, and computes with all rows.

    Yields:
        Nothing.

    Raises:
        TypeError: If `devices` is not an integer.
        ValueError: If there are not so many devices or processes; if weights cannot be
            divided on this backend, or a weight not by the number of devices.

    Examples:
        >>> import kerasseq
        >>> with on_devices(1):
        ...     model = kerasseq.models.LanguageModel("lstm", vocabulary_size=11)
        >>> model.count_params() > 0
        True

    References:
        Li et al. 2020, PyTorch Distributed.
    """
    if devices is not None:
        devices = checks.size("devices", devices)
    with kernels.on_devices(devices, layout_map):
        yield


def is_first_process() -> bool:
    """Whether this process prints and writes files: on PyTorch the first of several.

    Examples:
        >>> is_first_process()
        True
    """
    return kernels.is_first_process()
