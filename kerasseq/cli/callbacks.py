"""What `fit` does after each step: shows and reports the progress, and obeys Ctrl-C."""

import pathlib
import time
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any, Self

import keras
import rich.progress

from kerasseq import training
from kerasseq.cli import runs, signals
from kerasseq.cli.console import MAX_SILENCE, Console, bars_of_steps, clock, note
from kerasseq.cli.reporting import Reporter
from kerasseq.core.progress import SAVE

PLAIN_LINES = 20  # of a run, if the output is not a terminal


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
    """

    def __init__(self, folder: pathlib.Path):
        super().__init__()
        self.folder: pathlib.Path = folder

    def on_train_batch_end(
        self, batch: int, logs: dict[str, float] | None = None
    ) -> None:
        request = self.folder / SAVE
        if request.exists():
            runs.write_model(self.model, self.folder)
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
        self.handled: AbstractContextManager[None] = signals.handled(self.request)
        self.handled.__enter__()
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self.handled.__exit__(*exc_info)

    def request(self, signum: int, frame: FrameType | None) -> None:
        """Handles the first Ctrl-C."""
        signals.interrupt_at_once()
        self.requested = True
        note("stopping after this step; Ctrl-C again stops at once")

    def on_train_batch_end(
        self, batch: int, logs: dict[str, float] | None = None
    ) -> None:
        self.done += 1
        is_last = batch + 1 == self.params["steps"]  # then `saved` saves a checkpoint
        if not is_last and self.requested:
            self.saved.save(self.done % self.interval)
            raise KeyboardInterrupt

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if self.requested:
            raise KeyboardInterrupt
