"""The names of PyTorch, not public, that kerasseq uses."""

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def no_tracing() -> Iterator[None]:
    """Runs the block without recording it, inside `torch.jit.trace`.

    Since PyTorch 1.0. Without it what is computed there is a part of the recorded
    program that nothing uses.
    """
    before = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)
    try:
        yield
    finally:
        torch._C._set_tracing_state(before)


def in_dispatch_mode() -> bool:
    """Whether a mode such as `make_fx` records operations.

    Where the name is missing, the answer is True, and the plain loop runs.
    """
    try:
        from torch.utils._python_dispatch import _get_current_dispatch_mode
    except ImportError:
        return True
    return _get_current_dispatch_mode() is not None
