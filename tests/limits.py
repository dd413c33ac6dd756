"""A limit on how long a piece of a test may take."""

import contextlib
import signal


class TooLong(BaseException):
    """No `except Exception` on the way catches it."""


@contextlib.contextmanager
def within(seconds):
    """Raise `TooLong` if the block takes longer; nothing is limited on Windows."""

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
