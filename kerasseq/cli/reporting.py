"""The progress of a run, written to its folder. Loads no Keras.

See `kerasseq.runs`, which reads it.
"""

import _thread
import contextlib
import contextvars
import os
import pathlib
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
