"""A time limit for a part of a test."""

import contextlib
import signal


class TooLong(BaseException):
    """A timeout, which `except Exception` does not catch."""


@contextlib.contextmanager
def within(seconds):
    """Raises `TooLong` if the block takes longer; has no effect on Windows."""

    def stop(number, frame):
        raise TooLong(f"it did not end within {seconds} seconds")

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
