"""Ctrl-C and SIGTERM: both stop a run, also one that another program started."""

import _thread
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

# A program in the background of a shell, or one whose parent ignores Ctrl-C, starts
# with SIGINT ignored.
SIGNALS = (signal.SIGINT, signal.SIGTERM)
AGAIN = 0.05  # seconds until an interrupt that was lost is raised again


@contextlib.contextmanager
def handled(handler: Callable[..., Any] = signal.default_int_handler) -> Iterator[None]:
    """Handles both signals until the block ends.

    Args:
        handler: The handler; by default one that raises `KeyboardInterrupt`.

    Yields:
        Nothing. Outside the main thread, where Python allows no handlers, this does
        nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, signal.SIG_DFL if old is None else old)


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
