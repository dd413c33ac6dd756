"""A run of `kerasseq train`: what a task gets, to start, train and finish it.

How `kerasseq train language-model` works, in the order of the calls:

1. `main.py` parses the options and turns errors into messages and exit codes.
2. `train.run` makes a `Job`, from the options or from the folder of a run (`runs.py`).
3. `language_model.train` reads the text, encodes it (`tokenize.py`) and builds the
   model.
4. `fitting.fit` restores the last checkpoint, trains in intervals with
   `keras.Model.fit`, and saves a checkpoint after each (`training/checkpoint.py`).
5. `language_model.train` compares it with n-gram models and draws the figures
   (`figures.py`).
"""

import os
import pathlib
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kerasseq.cli import devices, figures, options, runs
from kerasseq.cli.console import Console, note, status
from kerasseq.cli.reporting import Reporter
from kerasseq.core import backend

if TYPE_CHECKING:
    import keras

    from kerasseq import training

    Batches = (
        training.batches.NumberedBatches
        | training.ArrayBatches
        | training.MaskedPairs
        | training.PairBatches
        | training.TextBatches
    )


class DryRun(Exception):
    """Ends a dry run, whose arguments are what it says in place of results."""


class Job:
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
            arguments = vars(self.settings)
            used = backend.chosen()
            self.record = runs.create(self.folder, self.task, arguments, used, data)
            self.reporter.keep()
        if not self.dry and rows:
            runs.keep_rows(self.folder, rows)
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
        batches: "Batches",
        steps: int,
        metric: str | None,
        label: str | None = None,
        validation: Any = None,
        saved: "keras.Model | None" = None,
    ) -> runs.History:
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
        count = saved.count_params()
        if label is None:
            of_task = getattr(self.settings, "method", self.task)
            label = getattr(self.settings, "model", of_task)
            what = f"{label} with {count:,} parameters and {steps:,} steps"
            self.end_dry_run(what, model=label, parameters=count, steps=steps)
            self.console.info(
                f"{label}: {count:,} parameters, on {self._where()}. The run is saved "
                f"in {self.folder}"
            )
        if not steps:
            return self._without_training(saved)
        start = time.perf_counter()
        try:
            words = steps, label, metric, validation, saved
            with self.devices.in_fit(model, self.folder):
                history, stop = fitting.fit(self, model, batches, *words)
        except KeyboardInterrupt:
            runs.save_model(saved, self.folder)
            raise
        self.seconds = time.perf_counter() - start
        runs.save_model(saved, self.folder)
        done = history[-1]["step"]
        self.stop = {"steps": done, "stopped_by": stop.reason}
        if stop.loss is not None:
            self.stop |= {"best_step": stop.step, "validation_loss": stop.loss}
        if validation is not None or stop.reason != "steps":
            patience = getattr(self.settings, "patience", None)
            self.console.info(stop.sentence(done, patience))
        return history

    def _where(self):
        count, parallel, _ = self.devices
        what = "batches" if parallel == "data" else "weights"
        on = f", whose {count} devices share the {what}" if count > 1 else ""
        return f"{backend.chosen()}{on}"

    def _without_training(self, model):
        """Saves a model that no step makes better."""
        runs.save_model(model, self.folder)
        runs.write_json(self.folder / runs.HISTORY, [])
        self.stop = {"steps": 0, "stopped_by": "selection"}
        return []

    def results(
        self, model: "keras.Model", history: runs.History, steps: int, **more: Any
    ) -> runs.Results:
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

    def finish(self, results: runs.Results) -> runs.Results:
        """Writes the results, which marks the run as finished, and returns them."""
        runs.write_json(self.folder / runs.RESULTS, results)
        return results
