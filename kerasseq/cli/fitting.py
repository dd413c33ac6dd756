"""Restores the last checkpoint, and trains in intervals, each with a checkpoint."""

import pathlib
import time
from contextlib import AbstractContextManager
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import keras
import rich.progress

from kerasseq import training
from kerasseq.cli import options, runs, signals, stopping
from kerasseq.cli.console import MAX_SILENCE, Console, bars_of_steps, clock, note
from kerasseq.cli.errors import UsageError
from kerasseq.cli.reporting import Reporter
from kerasseq.core import checks
from kerasseq.core.progress import SAVE
from kerasseq.training import checkpoint, parallel

if TYPE_CHECKING:
    from kerasseq.cli.job import Batches, Job

PLAIN_LINES = 20  # of a run, if the output is not a terminal
BYTES = 4  # of a float32
COPIES = 4  # of each parameter: value, gradient and two moments of Adam
# Parameters of a layer, as a multiple of the square of its width.
SQUARES = {"elman": 2, "gated": 4, "gru": 6, "min_gru": 2, "min_lstm": 3, "bag": 0}
SQUARES |= dict.fromkeys(("bert", "gpt", "transformer", "vit", *options.SPARSE), 12)
SQUARES |= {"linear_attention": 12, "gla": 13, "retention": 13, "delta_net": 13}
SQUARES |= {"mlstm": 13, "s4d": 10, "mamba": 6, "rwkv4": 13, "rwkv7": 12}
SQUARES["conformer"] = 24
SQUARES_OF_LSTM = 8


def fit(
    job: "Job",
    model: keras.Model,
    batches: "Batches",
    steps: int,
    label: str,
    metric: str | None = None,
    validation: Any = None,
    saved_model: keras.Model | None = None,
) -> tuple[runs.History, stopping.Stop]:
    """Trains up to a number of steps, including those before the run was stopped.

    Args:
        job: The run: its folder, and where it shows and writes its progress.
        model: A compiled model.
        batches: Its batches.
        steps: Steps of the whole run.
        label: The name of what is trained.
        metric: Name of a metric to show beside the loss.
        validation: The part on which the best step is chosen, for `validation_data` of
            `fit`; without it, training takes all steps.
        saved_model: The model that is kept, if `model` is what trains it.

    Returns:
        The history, a dictionary per interval; and why training stopped.

    Raises:
        KeyboardInterrupt: After Ctrl-C. Then the model has the best weights so far, or
            those of its last checkpoint.
    """
    folder, reporter = job.folder, job.reporter
    saved_model = model if saved_model is None else saved_model
    patience = None if validation is None else job.settings.patience
    interval = stopping.interval(
        job.settings, batches.steps_per_epoch, steps, validation
    )
    epochs, rest = training.restore(model, folder), training.batches_done(folder)
    if not epochs and not rest and (folder / runs.HISTORY).exists():
        note(f"{checkpoint.FILE} is missing in {folder}: training starts from scratch")
    parts = _parts(epochs, rest, steps, interval)
    before = checkpoint.read(folder / checkpoint.FILE)[1]["history"] if epochs else []
    if stopping.is_over(before, patience):
        parts = []
    done = parts[0].first_step if parts else steps
    reporter.rewind(done)
    reporter.update(step=done, steps=steps, parameters=saved_model.count_params())
    if parts:
        reporter.enter("compiling")
        saved = training.Checkpoint(folder, in_each_process=True)
        progress = Progress(job.console, label, steps, done, metric)
        per_epoch = batches.steps_per_epoch
        held_out = {} if validation is None else {"validation_data": validation}
        try:
            with Interrupt(saved, interval, done) as interrupt, progress:
                used = [
                    progress,
                    Reported(reporter, steps, done, interval, per_epoch),
                    *stopping.callbacks(job, saved, patience),
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
            stopping.restore_best(model, folder, saved.history)
            raise
    reporter.enter("evaluating")
    intervals = checkpoint.read(folder / checkpoint.FILE)[1]["history"]
    history = write_history(folder, intervals, steps, interval)
    has_best = stopping.restore_best(model, folder, intervals)
    if patience and not has_best:
        note(f"{stopping.FILE} is missing in {folder}: the last weights are kept")
    return history, stopping.reason(history, steps, patience, has_best)


def _stream(batches, first_step):
    return parallel.restartable(lambda: batches.stream(first_step))


def write_history(
    folder: pathlib.Path, intervals: runs.History, steps: int, interval: int
) -> runs.History:
    """Writes `history.json`, with the steps done at the end of each interval."""
    history = [
        {"step": min((n + 1) * interval, steps), **numbers}
        for n, numbers in enumerate(intervals)
    ]
    runs.write_json(folder / runs.HISTORY, history)
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


def adam(
    rate: float,
    steps: int,
    warm_up: int = 0,
    *,
    first: float = 0.0,
    last: float = 0.0,
    weight_decay: float | None = None,
    beta_2: float = 0.999,
) -> keras.optimizers.Optimizer:
    """Returns Adam, whose learning rate rises, and then falls by a cosine.

    Args:
        rate: The highest learning rate.
        steps: Training steps.
        warm_up: The steps in which it rises.
        first: The learning rate of the first step, if it rises.
        last: The learning rate of the last step, as a fraction of `rate`.
        weight_decay: That of AdamW, which is used if it is given.
        beta_2: How much of the mean square of the gradients each step keeps.

    Examples:
        >>> [float(adam(0.5, 10, warm_up).learning_rate) for warm_up in (0, 2)]
        [0.5, 0.0]
    """
    decay = keras.optimizers.schedules.CosineDecay
    if warm_up:
        rising = {"warmup_target": rate, "warmup_steps": warm_up}
        schedule = decay(first, max(steps - warm_up, 1), last, **rising)
    else:
        schedule = decay(rate, max(steps, 1), last)
    options = {"beta_2": beta_2, "global_clipnorm": 1.0}
    if weight_decay is None:
        return keras.optimizers.Adam(schedule, **options)
    return keras.optimizers.AdamW(schedule, weight_decay=weight_decay, **options)


def check_memory(
    settings: options.Settings,
    rows: int,
    vocabulary_size: int = 0,
    patches: int | None = None,
) -> None:
    """Raises if model and batch cannot fit into the memory of this machine.

    A backend reports this in its own words, or is killed by the system. The estimate is
    a lower bound: it refuses only what cannot work.

    Args:
        settings: Arguments of the run.
        rows: Number of examples: a batch has no more.
        vocabulary_size: Width of the logits, if the model has them at each step.
        patches: For images the number of patches, which are the time steps.

    Raises:
        UsageError: If they cannot fit. The message has the sizes and the memory.
    """
    model = getattr(settings, "model", "transformer")  # of pictures and captions
    names = model if isinstance(model, list) else [model]
    squares = min(SQUARES.get(name, SQUARES_OF_LSTM) for name in names)
    count = settings.num_layers * squares * settings.units**2
    count += 2 * vocabulary_size * settings.units
    sizes = f"--units {settings.units:,} and --num-layers {settings.num_layers:,}"
    _check_bytes(count * COPIES * BYTES, f"{sizes} need at least {count:,} parameters")
    batch = min(settings.batch_size, rows)
    time_steps = getattr(settings, "sequence_length", 1)
    length = f"--sequence-length {time_steps:,}"
    if patches is not None:
        time_steps, length = patches, f"{patches:,} patches of --patch-size"
    width = settings.num_layers * settings.units + vocabulary_size
    values = batch * time_steps * width
    sizes = f"--batch-size {batch:,}, {length}, {sizes}"
    _check_bytes(values * BYTES, f"{sizes} need at least {values:,} values in a step")


def _check_bytes(needed, what):
    if needed > checks.memory():
        raise UsageError(
            f"{what}, which take {needed / 2**30:,.0f} GiB; this machine has "
            f"{checks.memory() / 2**30:,.0f} GiB. Choose smaller sizes"
        )


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
            runs.write_model(model, self.folder)
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
        if not is_last and parallel.is_any(self.requested):
            self.saved.save(self.done % self.interval)
            raise signals.Stopped

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if parallel.is_any(self.requested):
            raise signals.Stopped
