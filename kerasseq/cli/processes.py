"""Several runs at the same time, each in a process of its own. Loads no Keras."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from kerasseq.cli.console import note
from kerasseq.core.progress import read_progress, read_state, request_stop

POLL = 0.2  # seconds between two looks at the progress


class Child:
    """A process that trains or resumes a run.

    A run that another process trains already is only followed.

    Args:
        folder: The folder of the run, which has its record.
        threads: Number of threads that compute.
    """

    def __init__(self, folder: pathlib.Path, threads: int):
        self.folder: pathlib.Path = folder
        self.offset: int = read_progress(folder).offset
        self.process: subprocess.Popen[bytes] | None = None
        self.errors: Any = tempfile.TemporaryFile()  # noqa: SIM115
        state = read_state(folder)
        if state is None or not state.running:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kerasseq", "train", "--resume", str(folder),
                 "--threads", str(threads)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self.errors,
                start_new_session=True,  # so that Ctrl-C reaches this process only
            )  # fmt: skip

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        if self.process is not None:
            return self.process.poll() is None
        state = read_state(self.folder)
        return state is not None and state.running

    def stop(self) -> None:
        """Stops the run after its current step."""
        if self.process is None or sys.platform == "win32":
            request_stop(self.folder)
        else:  # a request is lost if it is made before the run starts
            self.process.terminate()

    def close(self) -> None:
        """Kills the process, if it has not ended, and forgets what it printed."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.errors.close()

    def new_lines(self) -> list[dict[str, Any]]:
        """Returns what was added to the progress since the last call."""
        lines, self.offset, _ = read_progress(self.folder, self.offset)
        return lines

    def stopped(self) -> bool:
        """Whether the process, which has ended, was stopped before its end.

        Raises:
            ValueError: If it failed, or was killed.
        """
        state = read_state(self.folder)
        code = 0 if self.process is None else self.process.wait()
        ended = state is not None and state.state in ("finished", "stopped")
        if ended and code in (0, 130):
            return state.state == "stopped"
        raise ValueError(
            f"{self.folder}: {self._message(state)}. Resume the race to repeat it"
        )

    def _message(self, state):
        if state is not None and "message" in state.line:
            return state.line["message"]
        if self.process is None:
            return "its process was killed"
        self.errors.seek(0)
        lines = self.errors.read().decode("utf-8", "replace").splitlines()
        ended = f"its process ended with code {self.process.returncode}"
        return f"{ended}: {lines[-1]}" if lines else ended


def run_all(
    folders: Sequence[pathlib.Path],
    count: int,
    threads: int | None,
    follow: Callable[[str, dict[str, Any]], None],
) -> None:
    """Trains several runs, a number of them at the same time.

    Args:
        folders: The folders of the runs, which have their records.
        count: How many run at the same time.
        threads: Threads of each; as many as cores are left for it if None.
        follow: Called with the name of a run and each new line of its progress.

    Raises:
        KeyboardInterrupt: After Ctrl-C. Then all runs are stopped, and can be resumed.
        ValueError: If a run failed. The others are trained first.
    """
    if threads is None:
        threads = max(1, (os.cpu_count() or 1) // count)
    waiting, running, ended = list(folders), [], []
    try:
        _train(waiting, running, ended, count, threads, follow)
        if any([child.stopped() for child in ended]):  # all, as one may have failed
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        _stop(running, follow)
        raise
    finally:
        for child in (*running, *ended):
            child.close()


def _train(waiting, running, ended, count, threads, follow):
    """Starts runs, and follows them until the last has ended."""
    while waiting or running:
        while waiting and len(running) < count:
            running.append(Child(waiting.pop(0), threads))
        time.sleep(POLL)
        for child in list(running):
            is_running = child.running  # before its last lines are read
            _follow(child, follow)
            if not is_running:
                running.remove(child)
                ended.append(child)


def _stop(running, follow):
    """Stops runs after their current step; a second Ctrl-C kills them."""
    for child in running:
        child.stop()
    if running:
        note(f"stopping {len(running)} processes; Ctrl-C again kills them")
    while any([child.running for child in running]):
        time.sleep(POLL)
    for child in running:
        _follow(child, follow)


def _follow(child, follow):
    for line in child.new_lines():
        follow(child.folder.name, line)
