"""Competitors, a model with a seed each: trained one by one, or in processes.

The race between architectures, `kerasseq compare`, `compare cells`, `compare
translators` and `scale` are contests. What a competitor found is stored, in a file or
in a run folder of its own, so that a contest that was stopped goes on with the next.
"""

import functools
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

import rich.progress

from kerasseq.cli import runs
from kerasseq.cli.console import MAX_SILENCE, bars_of_steps, note, progress
from kerasseq.cli.run import Run, write_record
from kerasseq.core.files import read_json, write_csv, write_json
from kerasseq.core.progress import read_progress, read_state, request_stop

if TYPE_CHECKING:
    import keras

T = TypeVar("T")
Follow = Callable[[dict[str, Any]], None]  # gets the lines of a progress
POLL = 0.2  # seconds between two looks at the progress of processes
OF_PROCESS = ("pid", "time", "seconds", "steps")  # not the same in all processes


def names(models: Sequence[str], seeds: Sequence[int]) -> list[str]:
    """Returns the names of the competitors: for each seed, each model.

    Examples:
        >>> names(["gru", "lstm"], [0])
        ['gru-seed0', 'lstm-seed0']
    """
    return [f"{model}-seed{seed}" for seed in seeds for model in models]


def parts(name: str) -> tuple[str, int]:
    """Returns the model and the seed of a competitor.

    Examples:
        >>> parts("gru-seed0")
        ('gru', 0)
    """
    model, _, seed = name.rpartition("-seed")
    return model, int(seed)


def train_all(
    run: Run,
    competitors: Sequence[str],
    stored: Callable[[str], T | None],
    train: Callable[[str, Follow], object],
    steps: int = 1,
) -> dict[str, dict[int, T]]:
    """Trains the competitors that are not finished.

    Args:
        run: The run of the contest.
        competitors: Their names, from `names`.
        stored: Reads what a competitor found, by its name; None if it is not finished.
        train: Trains a competitor in this process, and passes on its progress.
        steps: Training steps of each.

    Returns:
        What each found, by model and seed.
    """
    results = {name: stored(name) for name in competitors}
    remaining = [name for name in competitors if results[name] is None]
    board = Board(run, {name: name not in remaining for name in competitors}, steps)
    if run.in_processes:
        folders = [run.folder / name for name in remaining]
        with board:
            run_all(folders, run.settings.processes, run.threads, board.follow)
    for name in remaining:
        if not run.in_processes:
            board.follow(name, {"state": "training"})
            train(name, functools.partial(board.follow, name))
            board.follow(name, {"state": "finished", "step": steps})
        results[name] = stored(name)
    by_model: dict[str, Any] = {}
    for name, each in results.items():
        model, seed = parts(name)
        by_model.setdefault(model, {})[seed] = each
    return by_model


def train_in_folders(
    run: Run,
    competitors: Sequence[str],
    own: Callable[[str], dict[str, Any]],
    stored: Callable[[pathlib.Path], T | None],
    train: Callable[[Run], object],
) -> dict[str, dict[int, T]]:
    """Trains competitors that have a run folder each, in that of the contest.

    Each can also be resumed, followed and inspected alone: its record is that of a
    contest with one competitor, marked as "competitor".

    Args:
        run: The run of the contest.
        competitors: Their names, from `names`.
        own: Returns the arguments by which the run of a model differs, beside the seed.
        stored: Reads what was found from the folder of a competitor, as `train_all`.
        train: Trains a competitor, given its run.
    """
    runs_of = {name: _create(run, name, own) for name in competitors}

    def train_one(name, follow):
        each = runs_of[name]
        each.reporter.on_line = follow
        with each.reporter:
            train(each)

    words = lambda name: stored(run.folder / name), train_one, run.settings.steps
    return train_all(run, competitors, *words)


def _create(run, name, own):
    """Creates the run of a competitor, or finds it."""
    folder = run.folder / name
    if not (folder / runs.RUN).exists():
        model, seed = parts(name)
        alone = {**own(model), "seeds": [seed], "processes": 1}
        arguments, of_contest = {**vars(run.settings), **alone}, run.record
        words = of_contest["backend"], of_contest["data"]
        write_record(folder, run.task, arguments, *words, competitor=True)
    record = runs.read(folder)
    return Run(run.task, record["arguments"], folder, run.console, record=record)


def measure_all(
    run: Run,
    competitors: Sequence[str],
    folder: str,
    measure: Callable[[str], tuple[dict[str, Any], str]],
    stored: Callable[[pathlib.Path], T | None],
) -> dict[str, dict[int, T]]:
    """Trains competitors in this process, with a JSON file of what each found.

    Args:
        run: The run of the contest.
        competitors: Their names, from `names`.
        folder: The folder of the files, in that of the contest.
        measure: Trains a competitor, by its name, and returns what it found, and a
            line about it.
        stored: Reads such a file, as `train_all`.
    """
    files = {name: run.folder / folder / f"{name}.json" for name in competitors}

    def train_one(name, follow):
        try:
            result, line = measure(name)
        except KeyboardInterrupt:
            kept = sum(file.exists() for file in files.values())
            note(
                f"{kept} of {len(competitors)} models are stored; {name}, which was "
                "trained, begins anew when the run is resumed"
            )
            raise
        files[name].parent.mkdir(exist_ok=True)
        write_json(files[name], result)
        count = f"({competitors.index(name) + 1} of {len(competitors)})"
        run.console.info(f"{line} {count}")

    return train_all(run, competitors, lambda name: stored(files[name]), train_one)


def read_stored(file: pathlib.Path, to: str, check: Callable[[Any], T]) -> T | None:
    """Reads what a competitor has stored; None if it is not finished.

    Args:
        file: The file.
        to: What happens if the user deletes it, such as "train this cell again".
        check: Returns what is read of the content.

    Raises:
        ValueError: If something in it is missing or wrong.
    """
    if not file.exists():
        return None
    try:
        return check(read_json(file))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} is damaged: {error}. Delete it to {to}") from error


def fit(model: "keras.Model", batches: Iterable[Any], steps: int, what: str) -> None:
    """Fits a compiled model, and shows how many steps are done.

    Args:
        model: The model.
        batches: Its batches, without an end.
        steps: The number of steps.
        what: What is trained, for the progress.
    """
    import keras

    with progress(f"training {what}, steps", steps) as show:
        shown = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: show(batch + 1)
        )
        words = {"verbose": 0, "shuffle": False, "callbacks": [shown]}
        model.fit(batches, steps_per_epoch=steps, **words)


def write_table(
    run: Run,
    name: str,
    columns: Sequence[str],
    rows: Iterable[Mapping[str, object]],
    what: str = "Scores",
) -> None:
    """Writes the table of a contest, and says where.

    Args:
        run: The run of the contest.
        name: The name of the file.
        columns: The columns of the table.
        rows: Its rows.
        what: What is in it.
    """
    write_csv(run.folder / name, columns, rows)
    run.console.info(f"{what}: {run.folder / name}")


def seeds_of(seeds: Sequence[int]) -> str:
    """Says for a title of which seeds the scores are.

    Examples:
        >>> seeds_of([0, 1, 2]), seeds_of([7])
        ('mean of 3 seeds', 'seed 7')
    """
    return f"mean of {len(seeds)} seeds" if len(seeds) > 1 else f"seed {seeds[0]}"


class Board:
    """Where the competitors stand: in the progress of the contest.

    As a context, it also shows a bar for each; elsewhere than on a terminal, lines.

    Args:
        run: The run of the contest.
        finished: For each competitor whether it is finished already.
        steps: Training steps of each.
    """

    def __init__(self, run: Run, finished: dict[str, bool], steps: int):
        self.run: Run = run
        self.steps: int = steps
        self.rows: dict[str, dict[str, Any]] = {
            name: {"state": "finished", "step": steps}
            if done
            else {"state": "waiting", "step": 0}
            for name, done in finished.items()
        }
        self.bars: rich.progress.Progress | None = None
        self.is_shown: bool = False
        self.shown: float = time.monotonic()
        run.reporter.update(steps=steps * len(finished))
        self.report()
        run.reporter.enter("training")

    def __enter__(self) -> Self:
        self.is_shown = True
        if self.run.console.shows_bars:
            self.bars = bars_of_steps(self.run.console)
            self.tasks: dict[str, rich.progress.TaskID] = {
                name: self.bars.add_task(name, total=self.steps, state="")
                for name in self.rows
            }
            self.bars.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.bars is not None:
            self.bars.stop()

    def report(self) -> None:
        """Puts the states into the progress of the contest."""
        steps = sum(row["step"] for row in self.rows.values())
        self.run.reporter.update(step=steps, competitors=dict(self.rows))

    def follow(self, name: str, line: dict[str, Any]) -> None:
        """Adds a line of the progress of a competitor, and shows it."""
        before = self.rows[name]
        kept = {key: value for key, value in line.items() if key not in OF_PROCESS}
        row = self.rows[name] = {**before, "phase": None, **kept}
        self.report()
        console = self.run.console
        if self.bars is not None:
            task = self.tasks[name]
            self.bars.update(task, completed=row["step"], state=describe(row))
        elif self.is_shown and row["state"] == "finished" != before["state"]:
            console.info(f"{name}: {describe(row)}")
        elif self.is_shown and time.monotonic() - self.shown > MAX_SILENCE:
            self.shown = time.monotonic()
            for each, row in self.rows.items():
                where = f"step {row['step']}/{self.steps}"
                console.info(f"{each}: {where}  {describe(row)}")


def describe(row: dict[str, Any]) -> str:
    """Describes the state of a competitor in a few words.

    Examples:
        >>> describe({"state": "training", "step": 5, "loss": 0.51, "accuracy": 0.7})
        'training  loss 0.510  accuracy 0.700'
    """
    words = [row["state"]]
    for name in ("loss", "accuracy"):
        if row.get(name) is not None:
            words.append(f"{name} {row[name]:.3f}")
    return "  ".join(words)


# In processes


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
        """Returns whether the process, which has ended, was stopped before its end.

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
