"""Train a model in intervals, each with a checkpoint, and go on from the last one."""

import keras

from kerasseq import training
from kerasseq.cli import runs
from kerasseq.cli.console import note
from kerasseq.cli.interrupt import Interrupt
from kerasseq.cli.progress import Progress
from kerasseq.training import checkpoint


class _History(keras.callbacks.Callback):
    """Write the history beside each checkpoint."""

    def __init__(self, folder, saved, steps, interval):
        super().__init__()
        self.folder, self.saved = folder, saved
        self.steps, self.interval = steps, interval

    def on_epoch_end(self, epoch, logs=None):
        write_history(self.folder, self.saved.history, self.steps, self.interval)


def fit(model, stream, *, folder, steps, interval, console, label, metric=None):
    """Train until `steps` steps are done, counting those of a run that was stopped.

    Args:
        model: A compiled model.
        stream: Function of the number of a batch that gives the batches from there on.
        folder: Where checkpoint and history are kept.
        steps: Steps of the whole run.
        interval: Steps between two checkpoints.
        console: Where to show the progress.
        label: What is trained, in words.
        metric: Name of a metric to show beside the loss.

    Returns:
        The history: a dictionary per interval.

    Raises:
        KeyboardInterrupt: After Ctrl-C. Then the model is at its last checkpoint.
    """
    interval = min(interval, steps)
    epochs = training.restore(model, folder)
    if not epochs and (folder / runs.HISTORY).exists():
        note(f"{folder} has lost its {checkpoint.FILE}: the training starts anew")
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
    """Whole intervals first; what is left over is a shorter one."""
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


def write_history(folder, intervals, steps, interval):
    """Write `history.json`, with the steps done at the end of each interval."""
    history = [
        {"step": min((n + 1) * interval, steps), **numbers}
        for n, numbers in enumerate(intervals)
    ]
    runs.write_json(folder / runs.HISTORY, history)
    return history
