"""When a run stops: at the steps that are best on a validation part, or by the clock.

The losses on the validation part stand in the history, which is a part of each
checkpoint. So a run that is resumed goes on counting, and needs no other state than the
best weights.
"""

import math
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np

from kerasseq.cli import devices, options
from kerasseq.cli.reporting import Reporter
from kerasseq.training import checkpoint, parallel

if TYPE_CHECKING:
    from kerasseq.cli.job import Job

FILE = "best.npz"
LEAST_INTERVAL = 10  # steps between two validations
LOSS = "val_loss"


class Stop(NamedTuple):
    """Why a run stopped, and which weights it keeps.

    Attributes:
        reason: "patience", "steps" or "minutes".
        step: The step whose weights are kept.
        loss: Their loss on the validation part; None without one.
    """

    reason: str
    step: int
    loss: float | None = None

    def sentence(self, steps: int, patience: int | None) -> str:
        """Says which step was best and why training stopped.

        Args:
            steps: The number of steps that were trained.
            patience: Validations without a better loss that were allowed.

        Examples:
            >>> Stop("patience", 40, 0.25).sentence(90, 5)
            'Training stopped after 90 steps, as 5 validations brought no lower loss. \
The weights of step 40 are kept: validation loss 0.25.'
        """
        why = {
            "patience": f", as {patience} validations brought no lower loss",
            "minutes": ", as --max-minutes are over",
            "steps": ", the limit of --steps or --epochs",
        }[self.reason]
        first = f"Training stopped after {steps:,} steps{why}."
        if self.loss is None:
            return first
        kept = f"The weights of step {self.step:,} are kept"
        return f"{first} {kept}: validation loss {self.loss:.4g}."


def losses_of(history: Sequence[dict[str, float]]) -> list[float]:
    """Returns the validation losses of the intervals; infinity in place of NaN."""
    losses = [float(numbers.get(LOSS, math.inf)) for numbers in history]
    return [math.inf if math.isnan(loss) else loss for loss in losses]


def best_of(history: Sequence[dict[str, float]]) -> int:
    """Returns the index of the interval with the lowest validation loss.

    Examples:
        >>> best_of([{"val_loss": 3.0}, {"val_loss": 2.0}, {"val_loss": 2.5}])
        1
    """
    return int(np.argmin(losses_of(history)))


def is_over(history: Sequence[dict[str, float]], patience: int | None) -> bool:
    """Whether the last validations brought no lower loss.

    Examples:
        >>> is_over([{"val_loss": 2.0}, {"val_loss": 3.0}, {"val_loss": 2.5}], 2)
        True
    """
    if not patience or not history or LOSS not in history[-1]:
        return False
    return len(history) - 1 - best_of(history) >= patience


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
        if best_of(history) == epoch:
            file = self.saved.folder / FILE
            checkpoint.write_weights(self.model, file, history)
        if is_over(history, self.patience):
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

    @property
    def is_over(self) -> bool:
        return self.reporter.seconds >= 60 * self.minutes

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if parallel.is_any(self.is_over):
            self.model.stop_training = True


def interval(
    settings: options.Settings,
    steps_per_epoch: int,
    steps: int,
    validation: Any,
) -> int:
    """Returns the steps between two checkpoints: about an epoch with a validation part.

    Args:
        settings: Arguments of the run.
        steps_per_epoch: Steps of a pass over the data.
        steps: Steps of the run.
        validation: The validation part, or None.

    Examples:
        >>> settings = options.Settings(checkpoint_every=100)
        >>> interval(settings, 17, 900, None), interval(settings, 17, 900, "a part")
        (100, 17)
    """
    longest = min(settings.checkpoint_every, steps)
    if validation is None:
        return longest
    return min(longest, max(steps_per_epoch, LEAST_INTERVAL))


def callbacks(
    job: "Job", saved: checkpoint.Checkpoint, patience: int | None
) -> list[keras.callbacks.Callback]:
    """Returns the callbacks of a run that stop it.

    Args:
        job: The run.
        saved: The callback that saves its checkpoints.
        patience: Intervals without a lower loss after which it stops, or None.
    """
    minutes = getattr(job.settings, "max_minutes", None)
    if devices.is_worker() and job.devices.parallel == "data":
        minutes = None  # the first process stops the others
    used = [KeepBest(saved, patience)] if patience else []
    return used + ([Deadline(job.reporter, minutes)] if minutes else [])


def reason(
    history: Sequence[dict[str, float]],
    steps: int,
    patience: int | None,
    has_best: bool,
) -> Stop:
    """Returns why a run stopped, and which weights it keeps.

    Args:
        history: Its history, with the step of each interval.
        steps: The steps that were allowed.
        patience: Intervals without a lower loss that were allowed, or None.
        has_best: Whether it has the best weights.

    Examples:
        >>> losses = [{"step": 10, "val_loss": 2.0}, {"step": 20, "val_loss": 3.0}]
        >>> reason(losses, 90, 1, has_best=True)
        Stop(reason='patience', step=10, loss=2.0)
    """
    done, why = history[-1]["step"], "steps"
    if done < steps:
        why = "patience" if is_over(history, patience) else "minutes"
    if not patience:
        return Stop(why, done)
    best = history[best_of(history) if has_best else -1]
    return Stop(why, best["step"], best[LOSS])


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
    file = folder / FILE
    if not file.exists() or not history:
        return False
    if checkpoint.read(file)[1]["epochs"] != best_of(history) + 1:
        return False  # it is of a training whose checkpoint was deleted
    checkpoint.restore_weights(model, file)
    return True
