"""Runs of `kerasseq train`, each in a process of its own; at most two train at once.

    <root>/<owner>/<id>.json    what was asked for: a `Request`
    <root>/<owner>/<id>.log     what the command printed
    <root>/<owner>/<id>/        the folder of the run, as `kerasseq train` makes it

Where a run stands is read from its folder (`kerasseq.runs`), so that it does not matter
whether this server, an earlier one or a terminal trains it.
"""

import atexit
import collections
import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import kerasseq
from parts import places
from parts.errors import Refused
from parts.turns import Turns

AT_ONCE = 2  # runs that train
ACTIVE_EACH, WAITING_EACH = 2, 5  # runs of one browser that train, and that wait
MOST = 40  # runs that one browser may have in one lab
MOST_WORK = 100_000  # steps × units of a run, if other computers reach the server
UNITS = 64  # of a run that does not name them
EVERYBODY = "everybody"  # owner of the models that all visitors use
POLL = 0.25  # seconds
PATIENCE = 20.0  # seconds for the runs to save, when the server ends
ACTIVE = ("waiting", "starting", "compiling", "training", "evaluating", "stopping")
_ID = re.compile(r"[a-z0-9_]+(-[a-z0-9_]+)*")
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


@dataclasses.dataclass(frozen=True)
class Request:
    """What to train.

    Attributes:
        words: The words after `kerasseq train`, without `--run` and `--backend`.
        backend: "tensorflow", "jax" or "torch".
        title: What its curve is called.
        lab: The lab that asked for it.
        details: What the lab wants to know later, as plain data.
    """

    words: tuple[str, ...]
    backend: str
    title: str = ""
    lab: str = ""
    details: dict[str, Any] = dataclasses.field(default_factory=dict, hash=False)


@dataclasses.dataclass(frozen=True)
class Run:
    """A run, and where it stands.

    Attributes:
        id: Its name.
        request: What was asked for.
        folder: Its folder, which may not exist yet.
        state: One of `ACTIVE`; or "stopped", "finished", "failed", "killed",
            "damaged".
        place: Its place in the queue, from 1; 0 if it does not wait.
        line: The last line of its progress.
        message: What the command said, if it failed.
    """

    id: str
    request: Request
    folder: pathlib.Path
    state: str
    place: int = 0
    line: dict[str, Any] = dataclasses.field(default_factory=dict)
    message: str = ""

    @property
    def is_active(self) -> bool:
        """Whether it trains, or waits for its turn."""
        return self.state in ACTIVE

    @property
    def curve(self) -> pathlib.Path:
        """The folder with its steps; the competitor of a race has one of its own."""
        part = self.folder / str(self.request.details.get("part", ""))
        return part if (part / "progress.jsonl").exists() else self.folder

    @property
    def share(self) -> float:
        """How much of it is done, from 0 to 1."""
        return min(1.0, self.line.get("step", 0) / max(1, self.line.get("steps", 1)))


class Runs:
    """The runs of a server: starts them in turn, and stops them.

    Args:
        root: The folder of all runs.
        at_once: How many train at once.
    """

    def __init__(self, root: pathlib.Path, at_once: int = AT_ONCE):
        self.root = root
        self.at_once = at_once
        self._queue = Turns(EVERYBODY)
        self._processes: dict[tuple[str, str], subprocess.Popen[bytes]] = {}
        self._until: dict[tuple[str, str], int] = {}
        self._stopping: set[tuple[str, str]] = set()
        self._begun: dict[tuple[str, str], float] = {}  # when a process was started
        self._lock = threading.RLock()
        self._changed = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        atexit.register(self.close)

    # What a page asks for

    def start(self, owner: str, request: Request, name: str = "") -> str:
        """Puts a new run into the queue, and returns its id.

        Args:
            owner: The name of a browser's folder, or `EVERYBODY`.
            request: What to train.
            name: The id; numbered by lab if it is empty. A run of that name that
                trains, waits or is finished is not started again.

        Raises:
            Refused: As `start_all`.
        """
        with self._lock:
            if name and self._exists(owner, name):
                return self.resume(owner, name)
            return self._start(owner, [request], name)[0]

    def start_all(self, owner: str, requests: Sequence[Request]) -> list[str]:
        """Puts new runs into the queue, all or none, and returns their ids.

        Raises:
            Refused: If a browser would have too many runs, in a lab or that train and
                wait; if one is too much work for a server that others reach.
        """
        with self._lock:
            return self._start(owner, requests, "")

    def _start(self, owner, requests, name):
        if owner != EVERYBODY:
            self._check_count(owner, len(requests))
            self._check_work(requests)
        labs = collections.Counter(request.lab for request in requests)
        taken = {lab: self._ids(owner, lab) for lab in labs}
        if not name and any(len(taken[lab]) + labs[lab] > MOST for lab in labs):
            raise Refused("too_many_runs", most=MOST)
        names = []
        for request in requests:
            numbers = [int(i.rpartition("-")[2]) for i in taken[request.lab]]
            names.append(name or f"{request.lab}-{max(numbers, default=0) + 1}")
            taken[request.lab].append(names[-1])
            folder = self.folder(owner, names[-1])
            folder.parent.mkdir(parents=True, exist_ok=True)
            content = json.dumps(dataclasses.asdict(request), ensure_ascii=False)
            folder.with_suffix(".json").write_text(content, encoding="utf-8")
            self._enqueue(owner, names[-1])
        return names

    def _check_count(self, owner, more):
        """Refuses runs that are more than a browser may have train and wait."""
        pending = self._queue.of(owner) + sum(
            key[0] == owner for key in self._processes
        )
        if pending + more > ACTIVE_EACH + WAITING_EACH:
            limits = {"active": ACTIVE_EACH, "waiting": WAITING_EACH}
            raise Refused("too_many_at_once", more=more, pending=pending, **limits)

    def _check_work(self, requests):
        """Refuses long runs on a server that other computers reach."""
        found = max(map(work_of, requests), default=0)
        if found > MOST_WORK and not places.is_local():
            raise Refused("too_much_work", found=found, most=MOST_WORK)

    def resume(self, owner: str, name: str, until: int | None = None) -> str:
        """Continues a run, up to a step if `until` is given.

        Raises:
            Refused: If too many runs of this browser train and wait.
        """
        with self._lock:
            run = self.run(owner, name)
            if run.state != "finished" and not run.is_active:
                if owner != EVERYBODY:
                    self._check_count(owner, 1)
                self._enqueue(owner, name)
            if until is not None:
                self._until[owner, name] = until
            else:
                self._until.pop((owner, name), None)
            return name

    def stop(self, owner: str, name: str) -> None:
        """Stops a run after its step, or takes it out of the queue."""
        with self._lock:
            if (owner, name) in self._queue:
                self._queue.remove((owner, name))
                return
            folder = self.folder(owner, name)
            self._stopping.add((owner, name))
            if folder.is_dir():
                kerasseq.runs.request_stop(folder)
            elif process := self._processes.get((owner, name)):
                process.terminate()  # SIGINT is ignored below a background process

    def remove(self, owner: str, name: str) -> None:
        """Deletes the files of a run that does not train."""
        with self._lock:
            if self._run_or_damaged(owner, name).is_active:
                return
            folder = self.folder(owner, name)
            shutil.rmtree(folder, ignore_errors=True)
            for suffix in (".json", ".log"):
                folder.with_suffix(suffix).unlink(missing_ok=True)

    def of(self, owner: str, lab: str) -> list[Run]:
        """Returns the runs of a browser in a lab, in the order of their start."""
        return [self._run_or_damaged(owner, name) for name in self._ids(owner, lab)]

    def _run_or_damaged(self, owner, name):
        try:
            return self.run(owner, name)
        except Refused:
            nothing = Request((), "", name, name.rpartition("-")[0])
            return Run(name, nothing, self.folder(owner, name), "damaged")

    def run(self, owner: str, name: str) -> Run:
        """Returns a run.

        Raises:
            Refused: If there is none of that name, or its record is damaged.
        """
        folder = self.folder(owner, name)
        try:
            content = json.loads(folder.with_suffix(".json").read_text("utf-8"))
            request = Request(**content | {"words": tuple(content["words"])})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise Refused("run_damaged", name=name) from error
        with self._lock:
            key = owner, name
            place = self._order().index(key) + 1 if key in self._queue else 0
            process = self._processes.get(key)
            stopping = key in self._stopping
            begun = self._begun.get(key, 0.0)
        found = kerasseq.runs.read_state(folder)
        line = _flat(found.line) if found else {}
        if place:
            return Run(name, request, folder, "waiting", place, line)
        running = found is not None and found.running
        ended = found is not None and found.line.get("time", 0) > begun
        if running or (process and process.poll() is None and not ended):
            state = found.state if running else "starting"
            state = "stopping" if stopping else state
            return Run(name, request, folder, state, 0, line)
        if found:
            message = str(line.get("message", ""))
            return Run(name, request, folder, found.state, 0, line, message)
        message = _last_line(folder.with_suffix(".log"))
        return Run(
            name, request, folder, "failed" if message else "stopped", 0, {}, message
        )

    def folder(self, owner: str, name: str) -> pathlib.Path:
        """Returns the folder of a run; a name cannot leave the root.

        Raises:
            Refused: If the name is not one that `start` gives.
        """
        if not (_ID.fullmatch(owner) and _ID.fullmatch(name)):
            raise Refused("run_damaged", name=name[:40])
        return self.root / owner / name

    def close(self) -> None:
        """Stops all processes as Ctrl-C does, and waits until they have saved."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._queue.clear()
            running = [p for p in self._processes.values() if p.poll() is None]
        self._changed.set()
        for process in running:
            process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + PATIENCE
        for process in running:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()

    # What goes on behind the pages

    def _exists(self, owner, name):
        return self.folder(owner, name).with_suffix(".json").exists()

    def _ids(self, owner, lab):
        found = (self.root / owner).glob(f"{lab}-*.json")
        names = [f.stem for f in found if f.stem.rpartition("-")[2].isdecimal()]
        return sorted(names, key=lambda name: int(name.rpartition("-")[2]))

    def _enqueue(self, owner, name):
        self._stopping.discard((owner, name))
        self._queue.add((owner, name))
        self._advance()
        self._changed.set()

    def _watch(self):
        while not self._closed:
            with self._lock:
                self._advance()
                idle = not self._queue and not self._processes
            self._changed.wait(None if idle else POLL)
            self._changed.clear()

    def _advance(self):
        """Starts what may start, and stops what has done its steps."""
        for key, process in list(self._processes.items()):
            if process.poll() is not None:
                del self._processes[key]
                self._until.pop(key, None)
            elif key in self._until:
                self._stop_at(key)
        while len(self._processes) < self.at_once and not self._closed:
            key = next((k for k in self._order() if self._may_start(k)), None)
            if key is None:
                break
            self._queue.begin(key)
            with contextlib.suppress(OSError, Refused):
                self._begun[key] = time.time()
                self._processes[key] = self._spawn(*key)

    def _order(self):
        return self._queue.order(owner for owner, _ in self._processes)

    def _may_start(self, key):
        """Whether its process before has ended, and its owner has not enough runs."""
        active = sum(owner == key[0] for owner, _ in self._processes)
        enough = key[0] != EVERYBODY and active >= ACTIVE_EACH
        return key not in self._processes and not enough

    def _stop_at(self, key):
        found = kerasseq.runs.read_state(self.folder(*key))
        if found and found.running and found.line.get("step", 0) >= self._until[key]:
            del self._until[key]
            kerasseq.runs.request_stop(self.folder(*key))

    def _spawn(self, owner, name):
        run = self.run(owner, name)
        words = command(run.request, run.folder)
        nice = shutil.which("nice")
        environment = {
            **os.environ,
            **_ONE_THREAD,
            "KERAS_BACKEND": run.request.backend,
        }
        with open(run.folder.with_suffix(".log"), "wb") as log:
            return subprocess.Popen(
                [*([nice, "-n", "10"] if nice else []), *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C of the terminal is for the server. In a session of its own, a
                # run would get as much of the processors as the server (autogroup).
                process_group=0,
            )


def work_of(request: Request) -> int:
    """Returns the steps of a run times its units, a measure of how long it takes.

    Examples:
        >>> work_of(Request(("forecast", "--steps=30", "--units", "8"), "torch"))
        240
    """
    found = {"steps": 1, "units": UNITS}
    words = [part for word in request.words for part in word.split("=", 1)]
    for name, value in itertools.pairwise(words):
        if name.removeprefix("--") in found and value.isdecimal():
            found[name.removeprefix("--")] = int(value)
    return found["steps"] * found["units"]


def command(request: Request, folder: pathlib.Path) -> list[str]:
    """Returns the command that starts or continues a run."""
    program = [sys.executable, "-m", "kerasseq", "train"]
    if (folder / "run.json").exists():
        return [*program, "--resume", str(folder), "--threads", "1"]
    return [*program, *request.words, "--threads", "1", "--run", str(folder)]


def _flat(line):
    """Returns a line with loss and metrics, also that of a race of one competitor."""
    competitors = line.get("competitors") or {}
    if len(competitors) != 1:
        return dict(line)
    (only,) = competitors.values()
    return {**only, **line}


def results(folder: pathlib.Path) -> dict[str, Any]:
    """Reads the results of a finished run.

    Raises:
        Refused: If they are damaged.
    """
    try:
        found = json.loads((folder / "results.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise Refused("run_damaged", name=folder.name) from error
    if not isinstance(found, dict):
        raise Refused("run_damaged", name=folder.name)
    return found


def _last_line(file):
    """Returns what a command that failed said last; "" after Ctrl-C or kill."""
    with contextlib.suppress(OSError):
        lines = file.read_text("utf-8", "replace").strip().splitlines()
        for line in reversed(lines):
            if "error:" in line:
                return line.partition("error:")[2].strip()[:400]
    return ""


class Curves:
    """The progress of runs, read as it grows.

    Attributes:
        lines: The lines of each run, by its folder.
    """

    def __init__(self) -> None:
        self.lines: dict[pathlib.Path, list[dict[str, Any]]] = {}
        self._offsets: dict[pathlib.Path, int] = {}

    def update(self, folder: pathlib.Path) -> list[dict[str, Any]]:
        """Reads what is new, and returns all lines with a loss."""
        before = self.lines.get(folder, [])
        try:
            found = kerasseq.runs.read_progress(folder, self._offsets.get(folder, 0))
        except OSError:
            return before
        self._offsets[folder] = found.offset
        new = [line for line in found.lines if line.get("loss") is not None]
        self.lines[folder] = new if found.restarted else before + new
        return self.lines[folder]


def thinned(lines: list[Any], most: int = 300) -> Iterator[Any]:
    """Yields every n-th line and the last one, so that charts stay light.

    Examples:
        >>> list(thinned([0, 1, 2, 3, 4, 5], most=3))
        [0, 2, 4, 5]
    """
    step = max(1, -(-len(lines) // most))
    yield from lines[::step]
    if lines and (len(lines) - 1) % step:
        yield lines[-1]
