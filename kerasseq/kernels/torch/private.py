"""Names of PyTorch that are not public: all that kerasseq uses, and why.

Each function says which name it reads, in which versions of PyTorch it is known, and
what happens without it. The tests run each of them without its name.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import torch


@contextlib.contextmanager
def no_tracing() -> Iterator[None]:
    """Runs the block without recording it, inside `torch.jit.trace`.

    Name: `torch._C._get_tracing_state`, `torch._C._set_tracing_state`.
    Known in: PyTorch 2.6 to 2.13.
    Why: A native kernel is tried on numbers while the layer is exported.
    Without it: The trial is a part of the recorded program, which nothing uses.
    """
    get = getattr(torch._C, "_get_tracing_state", lambda: None)
    put = getattr(torch._C, "_set_tracing_state", lambda state: None)
    before = get()
    put(None)
    try:
        yield
    finally:
        put(before)


def in_dispatch_mode() -> bool:
    """Returns whether `make_fx` records operations, or `torch.func` transforms them.

    Name: `torch.utils._python_dispatch._get_current_dispatch_mode`.
    Known in: PyTorch 2.6 to 2.13.
    Why: A compiled loop is no operation that could be recorded or transformed.
    Without it: The answer is True, and the plain loop runs.
    """
    try:
        from torch.utils._python_dispatch import _get_current_dispatch_mode
    except ImportError:
        return True
    return _get_current_dispatch_mode() is not None or is_transformed()


def is_transformed() -> bool:
    """Returns whether `torch.func` transforms operations, as `torch.vmap` does.

    Name: `torch._C._are_functorch_transforms_active`.
    Known in: PyTorch 2.6 to 2.13.
    Why: `vmap` knows neither a compiled loop nor PyTorch's own kernels.
    Without it: The answer is True, and the plain loop runs.
    """
    try:
        from torch._C import _are_functorch_transforms_active
    except ImportError:
        return True
    return _are_functorch_transforms_active()


@contextlib.contextmanager
def no_dispatch_modes() -> Iterator[None]:
    """Runs the block as if no mode saw the operations inside a call to `torch`.

    Name: `torch.utils._python_dispatch._disable_current_modes`.
    Known in: PyTorch 2.6 to 2.13.
    Why: A native kernel is tried on numbers in the first step. The products of the
        trial are not among those that `remat="activations"` keeps.
    Without it: That step fails, and the next one does not.
    """
    try:
        from torch.utils._python_dispatch import _disable_current_modes
    except ImportError:
        yield
        return
    with _disable_current_modes() if in_dispatch_mode() else contextlib.nullcontext():
        yield


def onednn_product() -> Callable[..., Any] | None:
    """Returns oneDNN's product with a bias, which PyTorch does not choose itself.

    Name: `torch.ops.mkldnn._linear_pointwise`.
    Known in: PyTorch 2.6 to 2.13.
    Why: On AMD's Zen 5 it takes 0.45 of the time of MKL's.
    Without it: MKL multiplies.
    """
    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)


def dispatch_mode() -> type:
    """Returns the class of modes that see the operations inside a call to `torch`.

    Name: `torch.utils._python_dispatch.TorchDispatchMode`.
    Known in: PyTorch 2.6 to 2.13.
    Why: A recorded step must not depend on values, nor write into what is outside.
    Without it: Nothing is recorded, and each step runs in Python.
    """
    try:
        from torch.utils._python_dispatch import TorchDispatchMode
    except ImportError:
        return object
    return TorchDispatchMode


def written_by(op: Any, args: tuple[Any, ...]) -> list[Any]:
    """Returns the arguments that an operation writes into.

    Name: `torch._ops.OpOverload._schema`.
    Known in: PyTorch 2.6 to 2.13.
    Why: As for `dispatch_mode`.
    Without it: An error, for which the recorder leaves the step as it is.
    """
    about = zip(getattr(op, "_schema").arguments, args, strict=False)  # noqa: B009
    infos = [(a.alias_info, x) for a, x in about]
    return [x for info, x in infos if info is not None and info.is_write]


class _ReadBy(keras.Variable):
    """A variable whose value is elsewhere."""

    @property
    def _value(self):
        return self.read()

    def _direct_assign(self, value):
        self.write(value)

    @property
    def trainable(self):
        return self._trainable

    @trainable.setter
    def trainable(self, value):
        self._trainable = bool(value)


def read_by(
    variable: keras.Variable,
    read: Callable[[], torch.Tensor] | None,
    write: Callable[[torch.Tensor], None] | None,
) -> None:
    """Lets functions give and take the value of a variable; None ends it.

    Name: `keras.Variable._value`, `_direct_assign`, `_trainable`.
    Known in: Keras 3.0 to 3.15.
    Why: Where weights are divided among processes, a variable has no tensor of its own.
    Without it: An error says so.

    Raises:
        RuntimeError: If Keras does not read the value from there.
    """
    if "_value" not in vars(variable):
        raise RuntimeError(
            f"weights cannot be divided with Keras {keras.__version__}: its variables "
            'keep their values elsewhere. Leave parallel="model" out'
        )
    variable.__class__ = keras.Variable if read is None else _ReadBy
    vars(variable).update(read=read, write=write)
