"""Training in intervals, with a checkpoint after each, progress and Ctrl-C."""

import pathlib
from typing import TYPE_CHECKING, NamedTuple

import keras

from kerasseq import training
from kerasseq.cli import callbacks, options, runs
from kerasseq.cli.console import note
from kerasseq.cli.errors import UsageError
from kerasseq.core import checks
from kerasseq.training import checkpoint

if TYPE_CHECKING:
    from kerasseq.cli.job import Batches, Job

BYTES = 4  # of a float32
COPIES = 4  # of each parameter: value, gradient and two moments of Adam
# Parameters of a layer, as a multiple of the square of its width.
SQUARES = {"elman": 2, "gated": 4, "gru": 6, "min_gru": 2, "min_lstm": 3}
SQUARES |= dict.fromkeys(("bert", "gpt", "transformer", "vit"), 12)
SQUARES |= {"linear_attention": 12, "gla": 13, "retention": 13, "delta_net": 13}
SQUARES |= {"s4d": 10, "mamba": 6, "rwkv4": 13}
SQUARES_OF_LSTM = 8


def fit(
    job: "Job",
    model: keras.Model,
    batches: "Batches",
    steps: int,
    label: str,
    metric: str | None = None,
) -> runs.History:
    """Trains up to a number of steps, including those before the run was stopped.

    Args:
        job: The run: its folder, and where it shows and writes its progress.
        model: A compiled model.
        batches: Its batches.
        steps: Steps of the whole run.
        label: The name of what is trained.
        metric: Name of a metric to show beside the loss.

    Returns:
        The history: a dictionary per interval.

    Raises:
        KeyboardInterrupt: After Ctrl-C. Then the model is at its last checkpoint.
    """
    folder, reporter = job.folder, job.reporter
    interval = min(job.settings.checkpoint_every, steps)
    epochs, rest = training.restore(model, folder), training.batches_done(folder)
    if not epochs and not rest and (folder / runs.HISTORY).exists():
        note(f"{checkpoint.FILE} is missing in {folder}: training starts from scratch")
    parts = _parts(epochs, rest, steps, interval)
    done = parts[0].first_step if parts else steps
    reporter.rewind(done)
    reporter.update(step=done, steps=steps, parameters=model.count_params())
    if parts:
        reporter.enter("compiling")
        saved = training.Checkpoint(folder)
        progress = callbacks.Progress(job.console, label, steps, done, metric)
        per_epoch = batches.steps_per_epoch
        try:
            with callbacks.Interrupt(saved, interval, done) as interrupt, progress:
                used = [
                    progress,
                    callbacks.Reported(reporter, steps, done, interval, per_epoch),
                    saved,
                    keras.callbacks.LambdaCallback(
                        on_epoch_end=lambda epoch, logs: write_history(
                            folder, saved.history, steps, interval
                        )
                    ),
                    callbacks.SaveModel(folder),
                    interrupt,
                ]
                for part in parts:
                    model.fit(
                        batches.stream(part.first_step),
                        initial_epoch=part.first,
                        epochs=part.last,
                        steps_per_epoch=part.size,
                        verbose=0,
                        shuffle=False,
                        callbacks=used,
                    )
        except KeyboardInterrupt:
            training.restore(model, folder)
            raise
    reporter.enter("evaluating")
    found = checkpoint.read(folder / checkpoint.FILE)[1]["history"]
    return write_history(folder, found, steps, interval)


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
) -> keras.optimizers.Optimizer:
    """Returns Adam, whose learning rate rises, and then falls by a cosine.

    Args:
        rate: The highest learning rate.
        steps: Training steps.
        warm_up: The steps in which it rises.
        first: The learning rate of the first step, if it rises.
        last: The learning rate of the last step, as a fraction of `rate`.
        weight_decay: That of AdamW, which is used if it is given.

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
    if weight_decay is None:
        return keras.optimizers.Adam(schedule, global_clipnorm=1.0)
    return keras.optimizers.AdamW(
        schedule, weight_decay=weight_decay, global_clipnorm=1.0
    )


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
