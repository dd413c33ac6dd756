"""Training in intervals, with a checkpoint after each, progress and Ctrl-C."""

import pathlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Self

import keras
import rich.progress

from kerasseq import training
from kerasseq.cli import options, runs
from kerasseq.cli.console import MAX_SILENCE, Console, clock, note
from kerasseq.cli.errors import UsageError
from kerasseq.core import checks
from kerasseq.training import checkpoint

PLAIN_LINES = 20  # of a run, if the output is not a terminal
BYTES = 4  # of a float32
COPIES = 4  # of each parameter: value, gradient and two moments of Adam
# Parameters of a layer, as a multiple of the square of its width.
SQUARES = {"elman": 2, "gated": 4, "gru": 6, "gpt": 12, "transformer": 12}
SQUARES_OF_LSTM = 8


def fit(
    model: keras.Model,
    stream: Callable[[int], Iterator[Any]],
    *,
    folder: pathlib.Path,
    steps: int,
    interval: int,
    console: Console,
    label: str,
    metric: str | None = None,
) -> runs.History:
    """Trains up to a number of steps, including those before the run was stopped.

    Args:
        model: A compiled model.
        stream: A function that returns the batches from a given number on.
        folder: The folder of checkpoint and history.
        steps: Steps of the whole run.
        interval: Steps between two checkpoints.
        console: Where to show the progress.
        label: The name of what is trained.
        metric: Name of a metric to show beside the loss.

    Returns:
        The history: a dictionary per interval.

    Raises:
        KeyboardInterrupt: After Ctrl-C. Then the model is at its last checkpoint.
    """
    interval = min(interval, steps)
    epochs = training.restore(model, folder)
    if not epochs and (folder / runs.HISTORY).exists():
        note(f"{checkpoint.FILE} is missing in {folder}: training starts from scratch")
    saved = training.Checkpoint(folder)
    done = min(epochs * interval, steps)
    if done < steps:
        progress = Progress(console, label, steps, done, metric)
        history = _History(folder, saved, steps, interval)
        try:
            with Interrupt() as interrupt, progress:
                callbacks = [progress, saved, history, interrupt]
                _fit(model, stream, epochs, steps, interval, callbacks)
        except KeyboardInterrupt:
            training.restore(model, folder)
            raise
    found = checkpoint.read(folder / checkpoint.FILE)[1]["history"]
    return write_history(folder, found, steps, interval)


def _fit(model, stream, epochs, steps, interval, callbacks):
    """Trains the whole intervals, and then a shorter one with the remaining steps."""
    whole, rest = divmod(steps, interval)
    for first, last, size in ((epochs, whole, interval), (whole, whole + 1, rest)):
        if size and first < last:
            model.fit(
                stream(first * interval),
                initial_epoch=first,
                epochs=last,
                steps_per_epoch=size,
                verbose=0,
                shuffle=False,
                callbacks=callbacks,
            )


def write_history(
    folder: pathlib.Path,
    intervals: runs.History,
    steps: int,
    interval: int,
) -> runs.History:
    """Writes `history.json`, with the steps done at the end of each interval."""
    history = [
        {"step": min((n + 1) * interval, steps), **numbers}
        for n, numbers in enumerate(intervals)
    ]
    runs.write_json(folder / runs.HISTORY, history)
    return history


class _History(keras.callbacks.Callback):
    """Writes the history after each checkpoint."""

    def __init__(self, folder, saved, steps, interval):
        super().__init__()
        self.folder, self.saved = folder, saved
        self.steps, self.interval = steps, interval

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        write_history(self.folder, self.saved.history, self.steps, self.interval)


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
        if self.console.is_terminal:
            self.bar = rich.progress.Progress(
                rich.progress.TextColumn("{task.description}", markup=False),
                rich.progress.BarColumn(),
                rich.progress.TextColumn("{task.completed}/{task.total}"),
                rich.progress.TextColumn("{task.fields[state]}", markup=False),
                console=self.console,
            )
            self.task: rich.progress.TaskID = self.bar.add_task(
                self.label, total=self.total, completed=self.done, state="compiling …"
            )
            self.bar.start()
        else:
            self.console.write(f"{self.label}: {self.total} steps; compiling …")
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
        self.console.write(f"{self.label}: step {self.done}/{self.total}  {state}")

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


class Interrupt(keras.callbacks.Callback):
    """Delays Ctrl-C until the end of the step, so that no step is interrupted.

    A second Ctrl-C interrupts at once.
    """

    def __init__(self):
        super().__init__()
        self.requested: bool = False
        self.before: Callable[..., Any] | int | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self.before = signal.signal(signal.SIGINT, self.request)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.before is not None:
            signal.signal(signal.SIGINT, self.before)

    def request(self, signum: int, frame: FrameType | None) -> None:
        """Handles the first Ctrl-C."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.requested = True
        note("stopping after this step; Ctrl-C again stops at once")

    def on_train_batch_end(
        self, batch: int, logs: dict[str, float] | None = None
    ) -> None:
        if self.requested:
            raise KeyboardInterrupt


def check_memory(
    settings: options.Settings, rows: int, vocabulary_size: int = 0
) -> None:
    """Raises if model and batch cannot fit into the memory of this machine.

    A backend reports this in its own words, or is killed by the system. The estimate is
    a lower bound: it refuses only what cannot work.

    Args:
        settings: Arguments of the run.
        rows: Number of examples: a batch has no more.
        vocabulary_size: Width of the logits, if the model has them at each step.

    Raises:
        UsageError: If they cannot fit. The message has the sizes and the memory.
    """
    names = settings.model if isinstance(settings.model, list) else [settings.model]
    squares = min(SQUARES.get(name, SQUARES_OF_LSTM) for name in names)
    count = settings.num_layers * squares * settings.units**2
    count += 2 * vocabulary_size * settings.units
    sizes = f"--units {settings.units:,} and --num-layers {settings.num_layers:,}"
    _check_bytes(count * COPIES * BYTES, f"{sizes} need at least {count:,} parameters")
    batch = min(settings.batch_size, rows)
    time_steps = getattr(settings, "sequence_length", 1)
    width = settings.num_layers * settings.units + vocabulary_size
    values = batch * time_steps * width
    sizes = f"--batch-size {batch:,}, --sequence-length {time_steps:,}, {sizes}"
    _check_bytes(values * BYTES, f"{sizes} need at least {values:,} values in a step")


def _check_bytes(needed, what):
    if needed > checks.memory():
        raise UsageError(
            f"{what}, which take {needed / 2**30:,.0f} GiB; this machine has "
            f"{checks.memory() / 2**30:,.0f} GiB. Choose smaller sizes"
        )
