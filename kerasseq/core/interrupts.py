"""Ctrl-C that waits for the end of a block."""

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def deferred_interrupt() -> Iterator[None]:
    """Delays Ctrl-C until the end of a block, which then raises `KeyboardInterrupt`.

    An update of weights that is interrupted halfway may lose them: on JAX the arrays
    before it are deleted. Outside the main thread, which has no signals, it does
    nothing.

    Examples:
        >>> with deferred_interrupt():
        ...     x = 3
        >>> x
        3
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(
        before
    ):
        yield
        return
    received = []
    signal.signal(signal.SIGINT, lambda *signals: received.append(signals))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if received:
            before(*received[0])
