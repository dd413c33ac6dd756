"""Ctrl-C, SIGTERM and SIGHUP stop a run, also one that another program started."""

import _thread
import contextlib
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

# A program in the background of a shell, or one whose parent ignores Ctrl-C, starts
# with SIGINT ignored.
SIGNALS = (signal.SIGINT, signal.SIGTERM)
HANG_UP = getattr(signal, "SIGHUP", None)  # of a closed terminal; not on Windows
OUTPUTS = (1, 2)  # file descriptors
AGAIN = 0.05  # seconds until an interrupt that was lost is raised again


class Stopped(KeyboardInterrupt):
    """Ctrl-C at the end of a step, when a checkpoint is saved.

    If processes divide the weights, it is raised in each of them.
    """


@contextlib.contextmanager
def handled(handler: Callable[..., Any] = signal.default_int_handler) -> Iterator[None]:
    """Handles the signals until the block ends.

    SIGHUP is handled once, as shell and terminal may each send it. It stays ignored if
    it was before, as by `nohup`.

    Args:
        handler: The handler; by default one that raises `KeyboardInterrupt`.

    Yields:
        Nothing. Outside the main thread, where Python allows no handlers, this does
        nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = dict.fromkeys(SIGNALS, handler)
    if HANG_UP is not None and signal.getsignal(HANG_UP) is not signal.SIG_IGN:
        handlers[HANG_UP] = _HangUp(handler)
    before = {number: signal.signal(number, new) for number, new in handlers.items()}
    try:
        yield
    finally:
        for number, old in before.items():
            handled_once = signal.getsignal(number) is signal.SIG_IGN
            if not (handled_once and isinstance(old, _HangUp)):
                signal.signal(number, signal.SIG_DFL if old is None else old)


class _HangUp:
    """Handles the first SIGHUP, and ignores the others."""

    def __init__(self, handler: Callable[..., Any]):
        self.handler: Callable[..., Any] = handler

    def __call__(self, number: int, frame: Any) -> None:
        signal.signal(number, signal.SIG_IGN)
        _leave_terminal()
        self.handler(number, frame)


def _leave_terminal():
    """Discards further output to a terminal, as writing to a closed one fails."""
    null = os.open(os.devnull, os.O_WRONLY)
    for output in OUTPUTS:
        with contextlib.suppress(OSError):  # it may be closed
            if stat.S_ISCHR(os.fstat(output).st_mode):
                os.dup2(null, output)
    os.close(null)


def interrupt_at_once() -> None:
    """Lets the next signal raise `KeyboardInterrupt`, until the block of `handled`."""
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)


@contextlib.contextmanager
def none_lost() -> Iterator[None]:
    """Raises each `KeyboardInterrupt` again that Python drops, until the block ends.

    A handler runs between any two instructions, also inside a callback of the garbage
    collector (JAX has one), of a weak reference or in `__del__`. Python passes an error
    that is raised there to `sys.unraisablehook`, and the program goes on.

    Yields:
        Nothing.
    """
    before = sys.unraisablehook
    pending: list[threading.Timer] = []

    def hook(dropped):
        if dropped.exc_type is not KeyboardInterrupt:
            before(dropped)
            return
        # Not at once: the hook itself runs inside the callback.
        pending.append(threading.Timer(AGAIN, _thread.interrupt_main))
        pending[-1].daemon = True
        pending[-1].start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
        for timer in pending:
            timer.cancel()
