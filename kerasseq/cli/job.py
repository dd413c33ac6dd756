"""A run of `kerasseq train`: what a task gets, to start, train and finish it."""

import os
import pathlib
from typing import TYPE_CHECKING, Any

from kerasseq.cli import options, runs
from kerasseq.cli.console import Console
from kerasseq.cli.reporting import Reporter
from kerasseq.core import backend

if TYPE_CHECKING:
    import keras

    from kerasseq import training

    Batches = (
        training.ArrayBatches
        | training.MaskedPairs
        | training.PairBatches
        | training.TextBatches
    )


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
    ):
        self.task: str = task
        self.backend_name: str | None = backend_name
        self.threads: int | None = threads
        self.console: Console = console
        self.folder: pathlib.Path = pathlib.Path(folder)
        self.settings: options.Settings = options.Settings(**settings)
        self.record: dict[str, Any] | None = record
        self.reporter: Reporter = Reporter(self.folder, keep=record is not None)

    @property
    def in_processes(self) -> bool:
        """Whether other processes train, so that this one need not load Keras."""
        return getattr(self.settings, "processes", 1) > 1

    def start(self, data: dict[str, Any]) -> None:
        """Creates the folder, unless the run is resumed.

        Args:
            data: Source and checksum of the data.
        """
        if self.record is None:
            arguments = vars(self.settings)
            used = backend.chosen()
            self.record = runs.create(self.folder, self.task, arguments, used, data)
            self.reporter.keep()

    def check_data(self, data: dict[str, Any]) -> None:
        """Raises a `ValueError` if the data have changed since the run was started."""
        if self.record and self.record["data"]["sha256"] != data["sha256"]:
            raise ValueError(
                f"{data['source']} has changed since the run in {self.folder} was "
                "started, so it cannot be resumed. Restore the old data, or start "
                "another run with --run"
            )

    def fit(
        self,
        model: "keras.Model",
        batches: "Batches",
        steps: int,
        metric: str | None,
    ) -> runs.History:
        """Trains and saves a model, also after Ctrl-C.

        Args:
            model: A compiled model.
            batches: Its batches, which have `stream`.
            steps: Number of training steps.
            metric: Name of the metric to show beside the loss, or None.

        Returns:
            The history: a dictionary per interval.
        """
        from kerasseq.cli import fitting  # loads Keras

        label = getattr(self.settings, "model", self.task)
        self.console.write(
            f"{label}: {model.count_params():,} parameters, on "
            f"{backend.chosen()}. The run is saved in {self.folder}"
        )
        try:
            history = fitting.fit(
                model,
                batches.stream,
                folder=self.folder,
                steps=steps,
                interval=self.settings.checkpoint_every,
                console=self.console,
                reporter=self.reporter,
                label=label,
                metric=metric,
                steps_per_epoch=batches.steps_per_epoch,
            )
        except KeyboardInterrupt:
            runs.save_model(model, self.folder)
            raise
        runs.save_model(model, self.folder)
        return history

    def finish(self, results: runs.Results) -> None:
        """Writes the results, which marks the run as finished."""
        runs.write_json(self.folder / runs.RESULTS, results)
