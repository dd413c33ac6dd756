"""Ctrl-C and SIGTERM: both stop a run, also one that another program started."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

# A program in the background of a shell, or one whose parent ignores Ctrl-C, starts
# with SIGINT ignored.
SIGNALS = (signal.SIGINT, signal.SIGTERM)


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
