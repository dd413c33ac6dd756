"""How others follow a run and stop it: its progress in a file, requests and signals.

The progress is written to the folder of the run: see `kerasseq.runs`, which reads it.
Another process stops the run by the file `stop`, or by Ctrl-C, SIGTERM or SIGHUP. Loads
no Keras.
"""

import _thread
import contextlib
import contextvars
import os
import pathlib
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

from kerasseq.cli import errors
from kerasseq.core.progress import STOP, Line, ProgressFile

INTERVAL = 0.5  # seconds between two lines, while steps are done
SILENCE = 0.9  # seconds after which a line is written in any case
POLL = 0.1  # seconds between two looks for the file `stop`
_current: contextvars.ContextVar["Reporter | None"] = contextvars.ContextVar(
    "reporter", default=None
)
# A program in the background of a shell, or one whose parent ignores Ctrl-C, starts
# with SIGINT ignored.
SIGNALS = (signal.SIGINT, signal.SIGTERM)
HANG_UP = getattr(signal, "SIGHUP", None)  # of a closed terminal; not on Windows
OUTPUTS = (1, 2)  # file descriptors
AGAIN = 0.05  # seconds until an interrupt that was lost is raised again


class Reporter:
    """Writes the progress of a run until the block ends.

    Until `keep` is called, an error removes what was written, and the folders that were
    made for it: a wrong argument leaves nothing behind.

    Args:
        folder: The folder of the run, created if necessary.
        keep: Whether the folder is already one of a run.
        on_line: Called with each line that is written.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        keep: bool = False,
        on_line: Callable[[Line], None] | None = None,
    ):
        self.folder: pathlib.Path = pathlib.Path(folder)
        self.kept: bool = keep
        self.on_line: Callable[[Line], None] | None = on_line
        self.state: str = "starting"
        self.phase: str | None = None
        self.fields: Line = {}

    def __enter__(self) -> Self:
        self._made = _missing(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._file = ProgressFile(self.folder)
        # The wall time before, if the run is resumed.
        self._start = time.monotonic() - self._file.last.get("seconds", 0)
        self._stop = self.folder / STOP
        self._stop.unlink(missing_ok=True)
        self._main = threading.current_thread() is threading.main_thread()
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._written = 0.0
        self._token = _current.set(self)
        self.write()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        _current.reset(self._token)
        self._ended.set()
        self._thread.join()
        self.phase = None
        if error is None:
            self.state = "finished"
        elif isinstance(error, KeyboardInterrupt):
            self.state = "stopped"
        else:
            self.state = "failed"
            self.fields["message"] = errors.exit_code_and_message(error)[1]
        self.write()
        self._file.close()
        if not self.kept:
            self._remove()

    def keep(self) -> None:
        """Keeps the folder from now on, whatever happens."""
        self.kept = True

    def rewind(self, step: int) -> None:
        """Deletes the progress after a step, from which the run is repeated."""
        with self._lock:
            self._file.rewind(step)

    def enter(self, state: str, **numbers: float) -> None:
        """Changes the state, and writes a line."""
        self.state = state
        self.write(**numbers)

    def update(self, **fields: Any) -> None:
        """Changes fields that each line has from now on."""
        with self._lock:  # the other thread may be writing them
            self.fields |= fields

    @property
    def seconds(self) -> float:
        """How long the run has taken, with the time before it was resumed."""
        return time.monotonic() - self._start

    @property
    def is_due(self) -> bool:
        """Whether some time has passed since the last line."""
        return time.monotonic() - self._written >= INTERVAL

    def write(self, **numbers: float) -> None:
        """Writes a line. A disk that is full stops no training.

        Args:
            **numbers: What this line alone has, such as the loss.
        """
        with self._lock:
            now = time.monotonic()
            line = {
                "state": self.state,
                **({} if self.phase is None else {"phase": self.phase}),
                **self.fields,
                **{name: _rounded(number) for name, number in numbers.items()},
                "seconds": round(now - self._start, 3),
                "time": round(time.time(), 3),
                "pid": os.getpid(),
            }
            with contextlib.suppress(OSError):
                self._file.append(line)
            self._written = now
        if self.on_line is not None:
            self.on_line(line)

    def _watch(self):
        while not self._ended.wait(POLL):
            if self._main and self._stop.exists():
                self._obey()
            if time.monotonic() - self._written > SILENCE:
                self.write()

    def _obey(self):
        with contextlib.suppress(OSError):
            self._stop.unlink(missing_ok=True)
        _thread.interrupt_main()  # as Ctrl-C

    def _remove(self):
        with contextlib.suppress(OSError):
            self._file.path.unlink()
            for folder in self._made:
                folder.rmdir()


def _rounded(number: float) -> float:
    """Rounds to six digits, which a curve needs at most.

    Examples:
        >>> _rounded(3.2393312454223633)
        3.23933
    """
    return float(f"{number:.6g}")


def _missing(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns a folder and those above it, as far as they do not exist."""
    return [path for path in (folder, *folder.parents) if not path.exists()]


@contextlib.contextmanager
def phase(what: str) -> Iterator[None]:
    """Names in the progress of the current run what is done until the block ends."""
    reporter = _current.get()
    if reporter is None:
        yield
        return
    before, reporter.phase = reporter.phase, what
    reporter.write()
    try:
        yield
    finally:
        reporter.phase = before


# Signals


class Stopped(KeyboardInterrupt):
    """Ctrl-C at the end of a step, when a checkpoint is saved.

    If processes divide the weights, it is raised in each of them.
    """


@contextlib.contextmanager
def signals_handled(
    handler: Callable[..., Any] = signal.default_int_handler,
) -> Iterator[None]:
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
    """Lets the next signal raise `KeyboardInterrupt`; in `signals_handled`."""
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)


@contextlib.contextmanager
def no_signal_lost() -> Iterator[None]:
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
