"""The progress of a run, which another process can follow, and stop. Loads no Keras.

`progress.jsonl` has one JSON object on each line. The process that trains holds a lock
on it, which the system releases when the process ends, even if it is killed. So a run
that was killed is told from one that is slow, and two processes cannot train one run.
"""

import contextlib
import json
import math
import os
import pathlib
import sys
import time
from typing import Any, NamedTuple

from kerasseq.core.types import FilePath

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

FILE, STOP, SAVE = "progress.jsonl", "stop", "save"
ENDS = ("stopped", "finished", "failed")  # states in which no process trains
KILLED = "killed"
LARGEST = 2**24  # bytes that are read at a time
TAIL = 2**16  # bytes in which the last line is looked up
SILENCE = 30  # seconds without a line, where a file system has no locks
FIRST_FREE = 2**62  # on Windows a locked byte cannot be read: lock one after the end
PATIENCE = 1.0  # seconds, as a reader holds the lock for a moment

Line = dict[str, Any]


class Progress(NamedTuple):
    """What was added to the progress of a run.

    Attributes:
        lines: The new lines, a dictionary each.
        offset: Where the next call continues.
        restarted: Whether the run was resumed from an earlier step than the last one
            that was read. Then `lines` begins with the first line of the file, and
            replaces all lines that were read before.
    """

    lines: list[Line]
    offset: int
    restarted: bool


class RunState(NamedTuple):
    """Where a run stands.

    Attributes:
        state: "starting", "compiling", "training", "evaluating", "stopped", "finished",
            "failed" or "killed".
        running: Whether a process trains or evaluates it now.
        line: The last line of its progress.
    """

    state: str
    running: bool
    line: Line


def read_progress(folder: FilePath, offset: int = 0) -> Progress:
    r"""Reads the progress of a run of `kerasseq train`, which may be training.

    Each line has "state", "pid", "time" (seconds since 1970) and "seconds" (of the run,
    without pauses), and as far as they are known "phase" (what the command does),
    "step", "steps" (of the whole run), "parameters" (how many the model has) and
    "message" (of a run that failed). While the run trains, a line about every half
    second also has "loss" (the mean of the steps since the line before that has it),
    the metrics (the means since the last checkpoint) and "epoch" (passes over the
    data). A number that is not finite is None.

    Args:
        folder: The folder of the run.
        offset: The `offset` of the call before; 0 for all lines.

    Returns:
        A `Progress`. It has no lines if the run has written none yet. Lines that are
        damaged or not complete are left out.

    Raises:
        ValueError: If `offset` is negative.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "progress.jsonl")
        ...     _ = file.write_text('{"step": 1}\n{"step": 2}\n{"st')
        ...     read_progress(folder, offset=12)
        Progress(lines=[{'step': 2}], offset=24, restarted=False)
    """
    if offset < 0:
        raise ValueError(f"offset must be at least 0, received {offset}")
    try:
        with open(pathlib.Path(folder, FILE), "rb") as file:
            restarted = not _continues(file, offset)
            offset = 0 if restarted else offset
            file.seek(offset)
            data = file.read(LARGEST)
    except FileNotFoundError:
        return Progress([], 0, offset > 0)
    data = data[: data.rfind(b"\n") + 1]
    return Progress(_parsed(data), offset + len(data), restarted)


def read_state(folder: FilePath) -> RunState | None:
    r"""Reads where a run of `kerasseq train` stands.

    Args:
        folder: The folder of the run.

    Returns:
        A `RunState`; None if there is no progress of a run.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "progress.jsonl")
        ...     _ = file.write_text('{"state": "training", "pid": 1}\n')
        ...     read_state(folder).state
        'killed'
    """
    try:
        with open(pathlib.Path(folder, FILE), "rb") as file:
            locked = _lock(file, shared=True)
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            lines = _parsed(file.read())
    except FileNotFoundError:
        return None
    if not lines:
        return None
    state, written = str(lines[-1].get("state")), lines[-1].get("time", 0)
    recent = state not in ENDS and time.time() - written < SILENCE
    running = recent if locked is None else not locked
    if not running and state not in ENDS:
        state = KILLED
    return RunState(state, running, lines[-1])


def request_stop(folder: FilePath) -> None:
    """Stops a run of `kerasseq train` after its current step, as Ctrl-C does.

    The run saves a checkpoint and its model, and can be resumed. This writes a file
    `stop` into the folder, which the run deletes.

    Args:
        folder: The folder of the run.

    Raises:
        FileNotFoundError: If there is no such folder.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     request_stop(folder)
        ...     os.listdir(folder)
        ['stop']
    """
    pathlib.Path(folder, STOP).touch()


def request_model(folder: FilePath) -> None:
    """Saves the model of a run of `kerasseq train` after its current step.

    The run goes on, and `model.keras` can be used meanwhile. This writes a file `save`
    into the folder, which the run deletes when the model is saved. A run that ends or
    is stopped saves its model in any case.

    Args:
        folder: The folder of the run; of a race, that of a competitor.

    Raises:
        FileNotFoundError: If there is no such folder.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     request_model(folder)
        ...     os.listdir(folder)
        ['save']
    """
    pathlib.Path(folder, SAVE).touch()


class ProgressFile:
    """The file of a run, for the process that trains it. Use it as a context manager.

    A file that exists is continued, without its damaged end.

    Args:
        folder: The folder of the run, which exists.

    Raises:
        ValueError: If another process trains the run.
        OSError: If the file cannot be written.
    """

    def __init__(self, folder: FilePath) -> None:
        self.path: pathlib.Path = pathlib.Path(folder, FILE)
        self.file: Any = open(self.path, "a+b", buffering=0)  # noqa: SIM115
        deadline = time.monotonic() + PATIENCE
        while _lock(self.file) is False:
            if time.monotonic() > deadline:
                self.file.close()
                raise ValueError(self._in_use())
            time.sleep(0.05)  # short for a person, and long for a processor
        data = self._read()
        whole = _without_damaged_end(data)
        self.file.truncate(len(whole))
        lines = _parsed(whole)
        self.last: Line = lines[-1] if lines else {}

    def _in_use(self):
        state = read_state(self.path.parent)
        pid = state.line.get("pid") if state else None
        return (
            f"the run in {self.path.parent} is being trained by another process"
            f"{f' ({pid})' if pid else ''}. Stop that one first, or wait for its end"
        )

    def _read(self):
        self.file.seek(0)
        return self.file.readall()

    def append(self, line: Line) -> None:
        """Writes a line.

        Raises:
            OSError: If the disk is full. What was written of the line is removed.
        """
        data = (json.dumps(_finite(line), ensure_ascii=False) + "\n").encode(
            "utf-8", "backslashreplace"
        )
        end = os.fstat(self.file.fileno()).st_size
        try:
            written = self.file.write(data)
            if written < len(data):
                raise OSError(f"{self.path} could not be written")
        except OSError:
            self.file.truncate(end)
            raise
        self.last = line

    def rewind(self, step: int) -> None:
        """Deletes the lines after a step, from which the run is repeated."""
        data = self._read()
        kept = b"".join(
            text
            for text in data.splitlines(keepends=True)
            if all(line.get("step", 0) <= step for line in _parsed(text))
        )
        same = len(os.path.commonprefix([data, kept]))
        if same < len(data):
            self.file.truncate(same)
            self.file.write(kept[same:])

    def close(self) -> None:
        """Closes the file and releases its lock."""
        self.file.close()

    def __enter__(self) -> "ProgressFile":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _continues(file, offset):
    """Returns whether the file seems to have what was read up to an offset."""
    if offset == 0:
        return True
    file.seek(offset - 1)
    return file.read(1) == b"\n"


def _parsed(data: bytes) -> list[Line]:
    """Returns the lines that are JSON objects."""
    parsed = []
    for text in data.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            line = json.loads(text)
            if isinstance(line, dict):
                parsed.append(line)
    return parsed


def _without_damaged_end(data: bytes) -> bytes:
    r"""Removes the end of the file after its last line that can be read.

    Examples:
        >>> _without_damaged_end(b'{"step": 1}\n{"st\n{"st')
        b'{"step": 1}\n'
    """
    lines = data.splitlines(keepends=True)
    while lines and not (lines[-1].endswith(b"\n") and _parsed(lines[-1])):
        lines.pop()
    return b"".join(lines)


def _finite(value: Any) -> Any:
    """Replaces numbers that JSON does not have by None.

    Examples:
        >>> _finite({"loss": float("nan"), "step": 3})
        {'loss': None, 'step': 3}
    """
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _lock(file: Any, shared: bool = False) -> bool | None:
    """Locks an open file until it is closed.

    Returns:
        True, False if another process has locked it, None if the file system has no
        locks.
    """
    try:
        if sys.platform == "win32":
            file.seek(FIRST_FREE)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            fcntl.flock(file.fileno(), how | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return None
    return True
