"""Training in intervals, with a checkpoint after each, progress and Ctrl-C."""

import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import keras

from kerasseq import training
from kerasseq.cli import callbacks, options, runs
from kerasseq.cli.console import Console, note
from kerasseq.cli.errors import UsageError
from kerasseq.cli.reporting import Reporter
from kerasseq.core import checks
from kerasseq.training import checkpoint

BYTES = 4  # of a float32
COPIES = 4  # of each parameter: value, gradient and two moments of Adam
# Parameters of a layer, as a multiple of the square of its width.
SQUARES = {"elman": 2, "gated": 4, "gru": 6, "min_gru": 2, "min_lstm": 3}
SQUARES |= dict.fromkeys(("bert", "gpt", "transformer", "vit"), 12)
SQUARES |= {"linear_attention": 12, "gla": 13, "retention": 13, "delta_net": 13}
SQUARES |= {"s4d": 10, "mamba": 6, "rwkv4": 13}
SQUARES_OF_LSTM = 8


def fit(
    model: keras.Model,
    stream: Callable[[int], Iterator[Any]],
    *,
    folder: pathlib.Path,
    steps: int,
    interval: int,
    console: Console,
    reporter: Reporter,
    label: str,
    metric: str | None = None,
    steps_per_epoch: int | None = None,
) -> runs.History:
    """Trains up to a number of steps, including those before the run was stopped.

    Args:
        model: A compiled model.
        stream: A function that returns the batches from a given number on.
        folder: The folder of checkpoint and history.
        steps: Steps of the whole run.
        interval: Steps between two checkpoints.
        console: Where to show the progress.
        reporter: Where to write the progress.
        label: The name of what is trained.
        metric: Name of a metric to show beside the loss.
        steps_per_epoch: Steps of a pass over the data, for the progress.

    Returns:
        The history: a dictionary per interval.

    Raises:
        KeyboardInterrupt: After Ctrl-C. Then the model is at its last checkpoint.
    """
    interval = min(interval, steps)
    epochs, batches = training.restore(model, folder), training.batches_done(folder)
    if not epochs and not batches and (folder / runs.HISTORY).exists():
        note(f"{checkpoint.FILE} is missing in {folder}: training starts from scratch")
    parts = _parts(epochs, batches, steps, interval)
    done = parts[0].first_step if parts else steps
    reporter.rewind(done)
    reporter.update(step=done, steps=steps, parameters=model.count_params())
    if parts:
        reporter.enter("compiling")
        saved = training.Checkpoint(folder)
        progress = callbacks.Progress(console, label, steps, done, metric)
        try:
            with callbacks.Interrupt(saved, interval, done) as interrupt, progress:
                used = [
                    progress,
                    callbacks.Reported(
                        reporter, steps, done, interval, steps_per_epoch
                    ),
                    saved,
                    callbacks.History(folder, saved, steps, interval),
                    callbacks.SaveModel(folder),
                    interrupt,
                ]
                _fit(model, stream, parts, used)
        except KeyboardInterrupt:
            training.restore(model, folder)
            raise
    reporter.enter("evaluating")
    found = checkpoint.read(folder / checkpoint.FILE)[1]["history"]
    return callbacks.write_history(folder, found, steps, interval)


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


def _fit(model, stream, parts, used):
    for part in parts:
        model.fit(
            stream(part.first_step),
            initial_epoch=part.first,
            epochs=part.last,
            steps_per_epoch=part.size,
            verbose=0,
            shuffle=False,
            callbacks=used,
        )


def cosine(
    rate: float, steps: int, warm_up: int = 0, *, first: float = 0.0, last: float = 0.0
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Returns a learning rate that rises, and then falls by a cosine.

    Args:
        rate: The highest learning rate.
        steps: Training steps.
        warm_up: The steps in which it rises.
        first: The learning rate of the first step, if it rises.
        last: The learning rate of the last step, as a fraction of `rate`.

    Examples:
        >>> schedule = cosine(0.5, steps=10, warm_up=2)
        >>> [round(float(schedule(step)), 3) for step in (0, 1, 2, 6, 10)]
        [0.0, 0.25, 0.5, 0.25, 0.0]
    """
    decay = keras.optimizers.schedules.CosineDecay
    if not warm_up:
        return decay(rate, max(steps, 1), last)
    rising = {"warmup_target": rate, "warmup_steps": warm_up}
    return decay(first, max(steps - warm_up, 1), last, **rising)


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
    names = settings.model if isinstance(settings.model, list) else [settings.model]
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
