"""One bar over a whole run, or a plain line now and then where there is no terminal."""

import time

import keras
import rich.progress

PLAIN_LINES = 20  # of a run, where no bar can be drawn
LONGEST_SILENCE = 15  # seconds between two of them


class Progress(keras.callbacks.Callback):
    """Show step, loss, steps per second and the time that is left.

    Args:
        console: Where to show it.
        label: What is trained.
        total: Steps of the whole run.
        done: Steps that were done before, by a run that was stopped.
        metric: Name of a metric to show beside the loss.
    """

    def __init__(self, console, label, total, done=0, metric=None):
        super().__init__()
        self.console, self.label, self.metric = console, label, metric
        self.total, self.done, self.first = total, done, done
        self.bar, self.started, self.shown = None, None, time.monotonic()
        self.lines = done * PLAIN_LINES // total

    def __enter__(self):
        if self.console.is_terminal:
            self.bar = rich.progress.Progress(
                rich.progress.TextColumn("{task.description}", markup=False),
                rich.progress.BarColumn(),
                rich.progress.TextColumn("{task.completed}/{task.total}"),
                rich.progress.TextColumn("{task.fields[state]}", markup=False),
                console=self.console,
            )
            self.task = self.bar.add_task(
                self.label, total=self.total, completed=self.done, state="compiling …"
            )
            self.bar.start()
        else:
            self.console.say(f"{self.label}: {self.total} steps, the first compiles …")
        return self

    def __exit__(self, *exc_info):
        if self.bar is not None:
            self.bar.stop()

    def on_train_batch_end(self, batch, logs=None):
        self.done += 1
        now = time.monotonic()
        if self.started is None:  # the first step compiles: it tells nothing of speed
            self.started, self.first = now, self.done
        if self.bar is not None and (now - self.shown > 0.2 or self.done == self.total):
            self.shown = now
            state = self.state(logs or {}, now)
            self.bar.update(self.task, completed=self.done, state=state)
        if self.bar is None and now - self.shown > LONGEST_SILENCE:
            self.say(logs, now)

    def on_epoch_end(self, epoch, logs=None):
        lines = self.done * PLAIN_LINES // self.total
        if self.bar is None and (lines > self.lines or self.done == self.total):
            self.lines = lines
            self.say(logs, time.monotonic())

    def say(self, logs, now):
        """Print a plain line."""
        self.shown = now
        state = self.state(logs or {}, now)
        self.console.say(f"{self.label}: step {self.done}/{self.total}  {state}")

    def state(self, logs, now):
        """What is known now, in words."""
        words = []
        for name in ("loss", self.metric):
            if name in logs:
                words.append(f"{name} {float(logs[name]):.3f}")
        steps, seconds = self.done - self.first, now - (self.started or now)
        if steps > 0 and seconds > 0:
            left = (self.total - self.done) * seconds / steps
            words.append(f"{steps / seconds:.1f} steps/s")
            words.append(
                f"{_clock(left)} left" if left else f"{_clock(seconds)} in all"
            )
        return "  ".join(words)


def _clock(seconds):
    """Minutes and seconds.

    Examples:
        >>> _clock(83)
        '1:23'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
