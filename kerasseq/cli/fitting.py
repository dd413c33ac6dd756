"""Restores the last checkpoint, and trains in intervals, each with a checkpoint."""

import os
import pathlib
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import keras
import rich.progress

from kerasseq import training
from kerasseq.cli import control, devices, schedule
from kerasseq.cli.console import (
    MAX_SILENCE,
    Console,
    bars_of_steps,
    clock,
    note,
    quiet,
    status,
)
from kerasseq.cli.control import Reporter
from kerasseq.cli.runs import HISTORY, MODEL, History
from kerasseq.core.files import replacing, write_json
from kerasseq.core.progress import SAVE
from kerasseq.training import checkpoint, parallel

if TYPE_CHECKING:
    from kerasseq.cli.run import Run
    from kerasseq.training.batches import NumberedBatches

PLAIN_LINES = 20  # of a run, if the output is not a terminal


def fit(
    run: "Run",
    model: keras.Model,
    batches: "NumberedBatches",
    steps: int,
    label: str,
    metric: str | None,
    validation: Any,
    saved_model: keras.Model,
) -> tuple[History, schedule.Stop]:
    """Trains up to a number of steps, including those before the run was stopped.

    Args:
        run: The run: its folder, and where it shows and writes its progress.
        model: A compiled model.
        batches: Its batches.
        steps: Steps of the whole run.
        label: The name of what is trained.
        metric: Name of a metric to show beside the loss, or None.
        validation: The part on which the best step is chosen, for `validation_data` of
            `fit`; without it, training takes all steps.
        saved_model: The model that is kept: another one if `model` only trains it.

    Returns:
        The history, a dictionary per interval; and why training stopped.

    Raises:
        KeyboardInterrupt: After Ctrl-C. Then the model has the best weights so far, or
            those of its last checkpoint.
    """
    folder, reporter = run.folder, run.reporter
    patience = None if validation is None else run.settings.patience
    per_epoch = batches.steps_per_epoch
    interval = schedule.interval(run.settings, per_epoch, steps, validation)
    epochs, rest = training.restore(model, folder), training.batches_done(folder)
    if not epochs and not rest and (folder / HISTORY).exists():
        note(f"{checkpoint.FILE} is missing in {folder}: training starts from scratch")
    parts = _parts(epochs, rest, steps, interval)
    before = checkpoint.read(folder / checkpoint.FILE)[1]["history"] if epochs else []
    if schedule.is_over(before, patience):
        parts = []
    done = parts[0].first_step if parts else steps
    reporter.rewind(done)
    reporter.update(step=done, steps=steps, parameters=saved_model.count_params())
    if parts:
        reporter.enter("compiling")
        saved = training.Checkpoint(folder, in_each_process=True)
        shown = Progress(run.console, label, steps, done, metric)
        held_out = {} if validation is None else {"validation_data": validation}
        try:
            with Interrupt(saved, interval, done) as interrupt, shown:
                used = [
                    shown,
                    Reported(reporter, steps, done, interval, per_epoch),
                    *_limits(run, saved, patience),
                    saved,
                    keras.callbacks.LambdaCallback(
                        on_epoch_end=lambda epoch, logs: write_history(
                            folder, saved.history, steps, interval
                        )
                    ),
                    SaveModel(folder, saved_model),
                    interrupt,
                ]
                for part in parts:
                    model.fit(
                        _stream(batches, part.first_step),
                        initial_epoch=part.first,
                        epochs=part.last,
                        steps_per_epoch=part.size,
                        verbose=0,
                        shuffle=False,
                        callbacks=used,
                        **held_out,
                    )
                    if model.stop_training:
                        break
        except KeyboardInterrupt:
            training.restore(model, folder)
            restore_best(model, folder, saved.history)
            raise
    reporter.enter("evaluating")
    intervals = checkpoint.read(folder / checkpoint.FILE)[1]["history"]
    history = write_history(folder, intervals, steps, interval)
    has_best = restore_best(model, folder, intervals)
    if patience and not has_best:
        note(f"{schedule.BEST} is missing in {folder}: the last weights are kept")
    return history, schedule.reason(history, steps, patience, has_best)


def _stream(batches, first_step):
    return parallel.restartable(lambda: batches.stream(first_step))


def _limits(run, saved, patience):
    """Returns the callbacks that stop a run: by patience, and by the clock."""
    minutes = getattr(run.settings, "max_minutes", None)
    if devices.is_worker() and run.devices.parallel == "data":
        minutes = None  # the first process stops the others
    used = [KeepBest(saved, patience)] if patience else []
    return used + ([Deadline(run.reporter, minutes)] if minutes else [])


def write_history(
    folder: pathlib.Path, intervals: History, steps: int, interval: int
) -> History:
    """Writes `history.json`, with the steps done at the end of each interval."""
    history = [
        {"step": min((n + 1) * interval, steps), **numbers}
        for n, numbers in enumerate(intervals)
    ]
    write_json(folder / HISTORY, history)
    return history


class _Part(NamedTuple):
    """Intervals of the same number of steps: what one `fit` trains."""

    first: int
    last: int
    size: int
    first_step: int


def _parts(epochs, batches, steps, interval) -> list[_Part]:
    """Divides the remaining steps: an interval to end, whole ones, and a shorter one.

    Examples:
        >>> [tuple(part) for part in _parts(1, 4, 25, 10)]
        [(1, 2, 6, 14), (2, 3, 5, 20)]
        >>> [tuple(part) for part in _parts(0, 0, 20, 10)]
        [(0, 2, 10, 0)]
    """
    whole, rest = divmod(steps, interval)
    parts = []
    if batches:
        size = (interval if epochs < whole else rest) - batches
        if size <= 0:
            raise ValueError(
                f"{checkpoint.FILE} is damaged: {batches} batches of an interval of "
                f"{size + batches} cannot be done. Delete it to start from scratch"
            )
        parts.append(_Part(epochs, epochs + 1, size, epochs * interval + batches))
        epochs += 1
    parts.append(_Part(epochs, whole, interval, epochs * interval))
    parts.append(_Part(max(epochs, whole), whole + 1, rest, whole * interval))
    return [part for part in parts if part.size and part.first < part.last]


def restore_best(
    model: keras.Model, folder: pathlib.Path, history: Sequence[dict[str, float]]
) -> bool:
    """Sets the best weights of a history, and returns whether the run has them.

    Args:
        model: The model, with the last weights.
        folder: The folder of the run.
        history: Its history.

    Raises:
        ValueError: If the file is damaged, or of another model.
    """
    file = folder / schedule.BEST
    if not file.exists() or not history:
        return False
    if checkpoint.read(file)[1]["epochs"] != schedule.best_of(history) + 1:
        return False  # it is of a training whose checkpoint was deleted
    checkpoint.restore_weights(model, file)
    return True


def save_model(model: keras.Model, folder: str | os.PathLike[str]) -> None:
    """Saves a model, and shows that it does."""
    with status("saving the model"):
        write_model(model, folder)


def write_model(model: keras.Model, folder: str | os.PathLike[str]) -> None:
    """Writes the file of a model, atomically."""
    file = pathlib.Path(folder) / MODEL
    with replacing(file) as temporary, quiet():
        model.save(temporary)  # which loads TensorFlow, if it is installed


# What `fit` does after each step


class Progress(keras.callbacks.Callback):
    """Shows step, loss, steps per second and the remaining time.

    On a terminal this is a progress bar over the whole run, elsewhere some lines.

    Args:
        console: Where to show it.
        label: The name of what is trained.
        total: Steps of the whole run.
        done: Steps that are done already.
        metric: Name of a metric to show beside the loss.
    """

    def __init__(
        self,
        console: Console,
        label: str,
        total: int,
        done: int = 0,
        metric: str | None = None,
    ):
        super().__init__()
        self.console: Console = console
        self.label: str = label
        self.total: int = total
        self.metric: str | None = metric
        self.done: int = done
        self.first: int = done
        self.bar: rich.progress.Progress | None = None
        self.started: float | None = None
        self.shown: float = time.monotonic()
        self.lines: int = done * PLAIN_LINES // total

    def __enter__(self) -> Self:
        if self.console.shows_bars:
            self.bar = bars_of_steps(self.console)
            self.task: rich.progress.TaskID = self.bar.add_task(
                self.label, total=self.total, completed=self.done, state="compiling …"
            )
            self.bar.start()
        else:
            self.console.info(f"{self.label}: {self.total} steps; compiling …")
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def on_train_batch_end(
        self, batch: int, logs: dict[str, float] | None = None
    ) -> None:
        self.done += 1
        now = time.monotonic()
        if self.started is None:  # the first step compiles and is not timed
            self.started, self.first = now, self.done
        if self.bar is not None and (now - self.shown > 0.2 or self.done == self.total):
            self.shown = now
            state = self.state(logs or {}, now)
            self.bar.update(self.task, completed=self.done, state=state)
        if self.bar is None and now - self.shown > MAX_SILENCE:
            self.write_line(logs, now)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        lines = self.done * PLAIN_LINES // self.total
        if self.bar is None and (lines > self.lines or self.done == self.total):
            self.lines = lines
            self.write_line(logs, time.monotonic())

    def write_line(self, logs: dict[str, float] | None, now: float) -> None:
        """Prints the progress as a plain line."""
        self.shown = now
        state = self.state(logs or {}, now)
        self.console.info(f"{self.label}: step {self.done}/{self.total}  {state}")

    def state(self, logs: dict[str, float], now: float) -> str:
        """Returns loss, metric, speed and remaining time as text."""
        words = []
        for name in ("loss", self.metric):
            if name in logs:
                words.append(f"{name} {float(logs[name]):.3f}")
        steps, seconds = self.done - self.first, now - (self.started or now)
        if steps > 0 and seconds > 0:
            left = (self.total - self.done) * seconds / steps
            words.append(f"{steps / seconds:.1f} steps/s")
            words.append(
                f"{clock(left)} left" if left else f"{clock(seconds)} in total"
            )
        return "  ".join(words)


class Reported(keras.callbacks.Callback):
    """Reports step, loss and metrics twice a second.

    Args:
        reporter: Where to write them.
        total: Steps of the whole run.
        done: Steps that are done already.
        interval: Steps after which Keras begins new means.
        steps_per_epoch: Steps of a pass over the data, or None.
    """

    def __init__(
        self,
        reporter: Reporter,
        total: int,
        done: int,
        interval: int,
        steps_per_epoch: int | None,
    ):
        super().__init__()
        self.reporter: Reporter = reporter
        self.total: int = total
        self.done: int = done
        self.interval: int = interval
        self.steps_per_epoch: int | None = steps_per_epoch
        # Sum of the losses that are not reported yet, and their number.
        self.sum: float = 0.0
        self.count: int = 0
        # Of this interval, reported or not; None if the steps before are not known.
        self.added: tuple[float, int] | None = None if done % interval else (0.0, 0)
        self.first: bool = True

    def on_train_batch_end(
        self, batch: int, logs: dict[str, float] | None = None
    ) -> None:
        self.done += 1
        first = self.reporter.state != "training"
        if first or self.reporter.is_due or self.done == self.total:
            self.report(logs or {})

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._add(float((logs or {})["loss"]))
        self.added = (0.0, 0)

    def report(self, logs: dict[str, float]) -> None:
        """Reports the mean loss of the steps since the report before, and metrics."""
        numbers = {name: float(value) for name, value in logs.items()}
        self._add(numbers.pop("loss"))
        numbers = {"loss": self.sum / self.count, **numbers}
        self.sum, self.count = 0.0, 0
        if self.steps_per_epoch:
            numbers = {"epoch": self.done / self.steps_per_epoch, **numbers}
        self.reporter.update(step=self.done)
        self.reporter.enter("training", **numbers)

    def _add(self, mean):
        """Adds the steps that are in the mean of this interval, and not added yet."""
        count = (self.done - 1) % self.interval + 1
        if self.added is None and self.first:  # the mean is still that of one step
            self.sum, self.count, self.first = mean, 1, False
            return
        before, added = self.added or (0.0, 0)
        self.sum += count * mean - before
        self.count += count - added
        self.added = (count * mean, count)


class SaveModel(keras.callbacks.Callback):
    """Saves the model after a step if `kerasseq.runs.request_model` asked for it.

    Args:
        folder: The folder of the run.
        saved_model: The model; the one that is trained if None.
    """

    def __init__(self, folder: pathlib.Path, saved_model: keras.Model | None = None):
        super().__init__()
        self.folder: pathlib.Path = folder
        self.saved_model: keras.Model | None = saved_model

    def on_train_batch_end(
        self, batch: int, logs: dict[str, float] | None = None
    ) -> None:
        request = self.folder / SAVE
        if parallel.is_any(request.exists()):
            model = self.model if self.saved_model is None else self.saved_model
            write_model(model, self.folder)
            request.unlink(missing_ok=True)

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        # Then the command saves the model without being asked.
        (self.folder / SAVE).unlink(missing_ok=True)


class Interrupt(keras.callbacks.Callback):
    """Delays Ctrl-C until the end of the step, so that no step is interrupted.

    Then it saves a checkpoint and raises `KeyboardInterrupt`. A second Ctrl-C
    interrupts at once.

    Args:
        saved: The callback that saves checkpoints; it comes before this one.
        interval: Steps after which `saved` saves a checkpoint.
        done: Steps that are done already.
    """

    def __init__(self, saved: training.Checkpoint, interval: int, done: int):
        super().__init__()
        self.saved: training.Checkpoint = saved
        self.interval: int = interval
        self.done: int = done
        self.requested: bool = False

    def __enter__(self) -> Self:
        self.handled: AbstractContextManager[None] = control.signals_handled(
            self.request
        )
        self.handled.__enter__()
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self.handled.__exit__(*exc_info)

    def request(self, signum: int, frame: FrameType | None) -> None:
        """Handles the first Ctrl-C."""
        control.interrupt_at_once()
        self.requested = True
        note("stopping after this step; Ctrl-C again stops at once")

    def on_train_batch_end(
        self, batch: int, logs: dict[str, float] | None = None
    ) -> None:
        self.done += 1
        is_last = batch + 1 == self.params["steps"]  # then `saved` saves a checkpoint
        if not is_last and parallel.is_any(self.requested):
            self.saved.save(self.done % self.interval)
            raise control.Stopped

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if parallel.is_any(self.requested):
            raise control.Stopped


class KeepBest(keras.callbacks.Callback):
    """Keeps the best weights in a file, and stops when no better ones come.

    Args:
        saved: The callback that saves checkpoints; it comes after this one, so that no
            checkpoint is without its best weights.
        patience: Intervals without a lower loss after which training stops.
    """

    def __init__(self, saved: checkpoint.Checkpoint, patience: int) -> None:
        super().__init__()
        self.saved: checkpoint.Checkpoint = saved
        self.patience: int = patience

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        history = [*self.saved.history[:epoch], dict(logs or {})]
        if schedule.best_of(history) == epoch:
            file = self.saved.folder / schedule.BEST
            checkpoint.write_weights(self.model, file, history)
        if schedule.is_over(history, self.patience):
            self.model.stop_training = True


class Deadline(keras.callbacks.Callback):
    """Stops at the end of an interval if the minutes are over.

    Args:
        reporter: What counts the seconds, also those before the run was resumed.
        minutes: The limit.
    """

    def __init__(self, reporter: Reporter, minutes: float) -> None:
        super().__init__()
        self.reporter: Reporter = reporter
        self.minutes: float = minutes

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if parallel.is_any(self.reporter.seconds >= 60 * self.minutes):
            self.model.stop_training = True
