"""What takes time says so, on stderr: a spinner on a terminal, elsewhere a line."""

import contextlib
import io
import os
import sys
import threading
import time

import rich.console
import rich.markup

SILENT = 1.5  # seconds before the first line, where no spinner can be drawn
LARGE = 5_000_000  # characters from which on a call may keep every thread waiting


@contextlib.contextmanager
def waiting(what, size=0):
    """Show what the command does until the block ends.

    Args:
        what: In words, such as "reading the text".
        size: Characters of the input: for a large one the line comes at once.

    Yields:
        Nothing.
    """
    with _stderr() as stream:
        if stream.isatty():
            console = rich.console.Console(file=stream)
            with console.status(f"{rich.markup.escape(what)} …"):
                yield
            return
        over = threading.Event()
        teller = threading.Thread(target=_tell, args=(stream, what, size, over))
        teller.start()
        try:
            yield
        finally:
            over.set()
            teller.join()


@contextlib.contextmanager
def _stderr():
    """A stream of its own: `quiet` holds back what goes to the file descriptor."""
    try:
        own = os.dup(sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):  # no stderr, or one without a file
        yield sys.stderr or io.StringIO()
        return
    with os.fdopen(own, "w", encoding="utf-8", errors="replace") as stream:
        yield stream


def _tell(stream, what, size, over):
    """Print a line at first, and again each time the wait has doubled."""
    begun, pause = time.monotonic(), SILENT
    if size < LARGE and over.wait(pause):
        return
    with contextlib.suppress(OSError, ValueError):  # stderr may be closed by now
        print(f"kerasseq: {what} …", file=stream, flush=True)
        while not over.wait(max(pause, 5)):
            pause = time.monotonic() - begun
            print(f"kerasseq: {what}, {pause:.0f} s …", file=stream, flush=True)
