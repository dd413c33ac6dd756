"""A run of `kerasseq train`: its options, its folder, and what a task does with it.

How `kerasseq train language-model` works, in the order of the calls:

1. `main.py` parses the options and turns errors into messages and exit codes.
2. `train.run` makes a `Run`, from the options or from the folder of a run (`runs.py`).
3. `language_model.train` reads the text, encodes it (`tokenize.py`) and builds the
   model.
4. `fitting.fit` restores the last checkpoint, trains in intervals with
   `keras.Model.fit`, and saves a checkpoint after each (`training/checkpoint.py`).
5. `language_model.train` compares it with n-gram models and draws the figures
   (`figures.py`).

The folder is never overwritten, and its files are replaced atomically:

    run.json         task, arguments, backend, versions, source of the data
    checkpoint.npz   all that is needed to resume, after each interval
    best.npz         the weights of the best step, with a validation part
    history.json     loss and metrics of each interval
    progress.jsonl   what the command does, and loss and metrics, twice a second
    stop             a request to stop, from another process
    results.json     final results; if it exists, the run is finished
    training_rows.npy  checksums of the training rows of a classifier or tagger
    model.keras      the trained model
    codebook/        of a model that draws: what was trained before it, as a run
    *.png            figures

Loads no Keras.
"""

import datetime
import hashlib
import importlib.metadata
import itertools
import os
import pathlib
import platform
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

import kerasseq
from kerasseq.cli import devices, figures, options
from kerasseq.cli.console import Console, note, status
from kerasseq.cli.control import Reporter
from kerasseq.cli.runs import HISTORY, RESULTS, RUN, History, Results
from kerasseq.core import backend
from kerasseq.core.files import replacing, write_json

if TYPE_CHECKING:
    import keras

    from kerasseq.training.batches import NumberedBatches

ROWS, ROW_BYTES = "training_rows.npy", 8


class DryRun(Exception):
    """Ends a dry run, whose arguments are what it says in place of results."""


class Run:
    """A run: its task, its arguments and its folder.

    Args:
        task: Name of the task.
        settings: Arguments of the run by name.
        folder: The folder of the run.
        console: Where to print.
        backend_name: The backend that the user named, or None.
        record: The content of `run.json`, if the run is resumed.
        threads: Number of threads that compute, or None.
        dry: Whether to end before anything is written.

    Attributes:
        devices: What it computes with.
        reporter: What writes its progress.
        seconds: How long `fit` has trained.
        stop: Why `fit` stopped, for the results, and which step is kept.
    """

    def __init__(
        self,
        task: str,
        settings: dict[str, Any],
        folder: str | os.PathLike[str],
        console: Console,
        backend_name: str | None = None,
        record: dict[str, Any] | None = None,
        threads: int | None = None,
        dry: bool = False,
    ):
        self.task: str = task
        self.backend_name: str | None = backend_name
        self.threads: int | None = threads
        self.console: Console = console
        self.folder: pathlib.Path = pathlib.Path(folder)
        self.settings: options.Settings = options.Settings(**settings)
        self.record: dict[str, Any] | None = record
        self.dry: bool = dry
        self.devices: devices.Devices = devices.Devices()
        self.seconds: float = 0.0
        self.stop: dict[str, Any] = {}
        self.reporter: Reporter = Reporter(self.folder, keep=record is not None)

    @property
    def in_processes(self) -> bool:
        """Whether other processes train, so that this one need not load Keras."""
        return getattr(self.settings, "processes", 1) > 1

    def read(self, what: str, read: Callable[[Any], tuple[Any, dict[str, Any]]]) -> Any:
        """Reads the data of a run, checked, and returns them with their record.

        Args:
            what: What they are, for the terminal.
            read: Function from the settings to data and record.
        """
        with status(f"reading {what}"):
            rows, data = read(self.settings)
        self.check_data(data)
        return rows, data

    def check_data(self, data: dict[str, Any]) -> None:
        """Raises a `ValueError` if the data have changed since the run was started."""
        if self.record and self.record["data"]["sha256"] != data["sha256"]:
            raise ValueError(
                f"{data['source']} has changed since the run in {self.folder} was "
                "started, so it cannot be resumed. Restore the old data, or start "
                "another run with --run"
            )

    def start(
        self,
        data: dict[str, Any],
        text: str | None = None,
        rows: Iterable[str | bytes] = (),
    ) -> None:
        """Creates the folder, unless the run is resumed.

        Args:
            data: Source and checksum of the data.
            text: What to print about them.
            rows: The training rows, whose checksums are kept.
        """
        if not self.dry and self.record is None:
            arguments, used = vars(self.settings), backend.chosen()
            self.record = write_record(self.folder, self.task, arguments, used, data)
            self.reporter.keep()
        if not self.dry and rows:
            keep_rows(self.folder, rows)
        if text is not None:
            self.console.info(text)

    def end_dry_run(self, what: str, **more: Any) -> None:
        """Ends a dry run before anything is trained.

        Args:
            what: What would be trained, for the user.
            **more: The same as plain data.
        """
        if self.dry:
            self.console.write(
                f"Dry run: {what} would be trained on {backend.chosen()} and kept in "
                f"{self.folder}. Nothing is written."
            )
            raise DryRun(
                {"dry_run": True, "task": self.task, **more, "run": str(self.folder)}
            )

    def fit(
        self,
        model: "keras.Model",
        batches: "NumberedBatches",
        steps: int,
        metric: str | None,
        label: str | None = None,
        validation: Any = None,
        saved: "keras.Model | None" = None,
    ) -> History:
        """Trains and saves a model, also after Ctrl-C.

        Args:
            model: A compiled model.
            batches: Its batches, which have `stream`.
            steps: Number of training steps.
            metric: Name of the metric to show beside the loss, or None.
            label: The name of what is trained. That of the run if None, which is
                printed with its number of parameters.
            validation: The part of the data on which the best step is chosen, as for
                `validation_data` of `fit`; None trains all steps.
            saved: The model that is kept, if `model` is what trains it.

        Returns:
            The history: a dictionary per interval.
        """
        from kerasseq.cli import fitting  # loads Keras

        saved = model if saved is None else saved
        if label is None:
            label = self._announce(saved.count_params(), steps)
        if not steps:
            return self._without_training(saved)
        start = time.perf_counter()
        try:
            words = steps, label, metric, validation, saved
            with self.devices.in_fit(model, self.folder):
                history, stop = fitting.fit(self, model, batches, *words)
        except KeyboardInterrupt:
            fitting.save_model(saved, self.folder)
            raise
        self.seconds = time.perf_counter() - start
        fitting.save_model(saved, self.folder)
        done = history[-1]["step"]
        self.stop = {"steps": done, "stopped_by": stop.reason}
        if stop.loss is not None:
            self.stop |= {"best_step": stop.step, "validation_loss": stop.loss}
        if validation is not None or stop.reason != "steps":
            patience = getattr(self.settings, "patience", None)
            self.console.info(stop.sentence(done, patience))
        return history

    @property
    def trained(self) -> str:
        """The name of what is trained: the model, the method or the task."""
        of_task = getattr(self.settings, "method", self.task)
        return getattr(self.settings, "model", of_task)

    @property
    def title(self) -> str:
        """The title of its figures: what is trained, and on which data."""
        return f"{self.trained} on {self.record['data']['source']}"

    def _announce(self, count, steps):
        """Prints what is trained, with how many parameters, or ends a dry run."""
        what = f"{self.trained} with {count:,} parameters and {steps:,} steps"
        more = {"model": self.trained, "parameters": count, "steps": steps}
        self.end_dry_run(what, **more)
        devices, parallel, _ = self.devices
        shared = "batches" if parallel == "data" else "weights"
        where = f", whose {devices} devices share the {shared}" if devices > 1 else ""
        self.console.info(
            f"{self.trained}: {count:,} parameters, on {backend.chosen()}{where}. The "
            f"run is saved in {self.folder}"
        )
        return self.trained

    def _without_training(self, model):
        """Saves a model that no step makes better."""
        from kerasseq.cli import fitting  # loads Keras

        fitting.save_model(model, self.folder)
        write_json(self.folder / HISTORY, [])
        self.stop = {"steps": 0, "stopped_by": "selection"}
        return []

    def results(
        self, model: "keras.Model", history: History, steps: int, **more: Any
    ) -> Results:
        """Returns the results that all tasks have, and others."""
        name = {"model": self.settings.model} if hasattr(self.settings, "model") else {}
        return more | {
            "task": self.task,
            **name,
            "parameters": model.count_params(),
            "steps": steps,
            **self.stop,
            "loss": history[-1]["loss"] if history else None,
            "run": str(self.folder),
        }

    def draw(self, make: Callable[[], Iterable[Any]]) -> None:
        """Draws figures, if matplotlib is installed; `make` returns their files."""
        if not figures.available():
            note(f"no figures: {figures.MISSING}")
            return
        with status("drawing the figures"):
            files = make()
        self.console.info(f"Figures: {', '.join(map(str, files))}")

    def finish(self, results: Results) -> Results:
        """Writes the results, which marks the run as finished, and returns them."""
        write_json(self.folder / RESULTS, results)
        return results


# The folder


def free_folder(folder: str | os.PathLike[str] | None, default: str) -> pathlib.Path:
    """Chooses the folder of a new run.

    Args:
        folder: The folder that the user named, or None.
        default: If it is None, a number is appended to this name.

    Returns:
        The path of a folder that does not exist or is empty.

    Raises:
        ValueError: If the folder that the user named is not empty.
    """
    if folder is None:
        return next(path for path in _numbered(default) if not path.exists())
    folder = pathlib.Path(folder)
    if (folder / RUN).exists():
        raise ValueError(
            f"{folder} already contains a run, and nothing is overwritten. Resume it "
            f"with  kerasseq train --resume {folder}  or choose another --run"
        )
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: choose a new folder with --run")
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(
            f"{folder} is not empty, and nothing is overwritten. Choose another folder "
            "with --run"
        )
    return folder


def _numbered(default):
    """Yields `race-1`, `race-2` for `race-`; `mine`, `mine-2`, `mine-3` for `mine`."""
    first = 1
    if not default.endswith("-"):
        yield pathlib.Path(default)
        default, first = default + "-", 2
    for n in itertools.count(first):
        yield pathlib.Path(f"{default}{n}")


def write_record(
    folder: pathlib.Path,
    task: str,
    arguments: dict[str, Any],
    backend: str,
    data: dict[str, Any],
    **more: Any,
) -> dict[str, Any]:
    """Creates the folder of a run and its `run.json`, and returns the record in it.

    Args:
        folder: The folder.
        task: Name of the task.
        arguments: All arguments of the run.
        backend: Name of the backend.
        data: Source and checksum of the data.
        **more: What else the record has.
    """
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "task": task,
        "arguments": arguments,
        "backend": backend,
        "data": data,
        **more,
        "versions": versions(),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    write_json(folder / RUN, record)
    return record


def versions() -> dict[str, str | None]:
    """Returns the versions of the packages used; None for one that is not installed."""
    by_package = {"python": platform.python_version(), "kerasseq": kerasseq.__version__}
    for name in ("keras", "numpy", "tensorflow", "jax", "torch", "matplotlib"):
        try:
            by_package[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            by_package[name] = None
    return by_package


def keep_rows(folder: pathlib.Path, rows: Iterable[str | bytes]) -> None:
    """Writes the checksums of the training rows, 8 bytes each, into a run's folder."""
    checksums = np.unique(_checksums(rows))
    with replacing(folder / ROWS) as temporary:
        np.save(temporary, checksums)


def repeated_rows(
    folder: str | pathlib.Path, rows: Iterable[str | bytes]
) -> int | None:
    """Counts the rows that a run was trained on; None if it does not keep any.

    Args:
        folder: The folder of a run; those of earlier versions keep no rows.
        rows: Other rows, in the form of those that were kept.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     keep_rows(pathlib.Path(folder), ["a", "b", "b"])
        ...     repeated_rows(folder, ["b", "c", "b"])
        2
    """
    file = pathlib.Path(folder) / ROWS
    if not file.exists():
        return None
    try:
        known = np.load(file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(
            f"{file} is damaged: {error}. Delete it to evaluate without it"
        ) from error
    return int(np.isin(_checksums(rows), known).sum())


def _checksums(rows):
    """Returns checksums, uint64 `(rows,)`."""
    parts = [
        hashlib.blake2b(
            row if isinstance(row, bytes) else row.encode("utf-8", "surrogatepass"),
            digest_size=ROW_BYTES,
        ).digest()
        for row in rows
    ]
    return np.frombuffer(b"".join(parts), "<u8")
