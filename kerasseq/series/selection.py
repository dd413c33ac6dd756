"""How many training steps help: chosen on windows at the end of the training part."""

import dataclasses
from typing import Any

import keras
import numpy as np

LEAST_GAIN = 0.03  # by which a network must reduce the errors of its baseline
STEPS = 400  # of training, at most, unless there are many windows
LEAST_EPOCHS = 3  # of many windows
CHECKS = 40  # of the errors on the validation part
MAX_CHECKED, MAX_STEPS = 1000, 250_000  # windows that are checked, and their steps
EXACT = 1e-6  # of the deviation of the series: an error that cannot be reduced
PARTS = 5  # of the windows, of which the last is the validation part


@dataclasses.dataclass(frozen=True)
class Selection:
    """How many training steps help, as found on a validation part.

    Attributes:
        steps: The training steps; 0 if the network does not help.
        gain: By which part the errors of the baseline get smaller at best; None if
            there was no validation part.
        windows: Windows of the validation part.
        every: Training steps from one check to the next.

    Examples:
        >>> Selection(steps=0, gain=0.012).sentence("lstm", "AR(9)")
        'lstm adds nothing to AR(9) here: on the validation part it reduces the errors \
by 1.2 %, less than 3 %.'
        >>> Selection(steps=70, gain=0.25).sentence("lstm", "AR(9)")
        'lstm reduces the errors of AR(9) on the validation part by 25 %, after 70 \
training steps.'
    """

    steps: int
    gain: float | None = None
    windows: int = 0
    every: int = 10

    def sentence(self, title: str, baseline: str) -> str:
        """Says what was chosen.

        Args:
            title: Name of the network.
            baseline: Name of the baseline.
        """
        if self.gain is None:
            return (
                f"{title} was not trained: the series is too short for a validation "
                f"part, and the forecast is that of {baseline}."
            )
        size = f"{100 * self.gain:.2g} %"
        if self.steps:
            return (
                f"{title} reduces the errors of {baseline} on the validation part by "
                f"{size}, after {self.steps} training steps."
            )
        if self.gain <= 0:
            why = "does not reduce the errors"
        elif self.gain < LEAST_GAIN:
            why = f"reduces the errors by {size}, less than {100 * LEAST_GAIN:g} %"
        else:
            why = f"reduces the errors by {size}, no more than chance does"
        return (
            f"{title} adds nothing to {baseline} here: on the validation part it {why}."
        )


def split_counts(counts: list[int], horizon: int) -> list[tuple[int, int]]:
    """Divides the windows of each series into two parts.

    Args:
        counts: Windows of each series.
        horizon: Steps of a target.

    Returns:
        For each series how many windows are trained on, and from which one on the rest
        is the validation part. The last fifth is, at least `horizon` windows, and the
        windows whose targets overlap with it are left out. If all series are too short
        for that, every fifth one is in the validation part.

    Examples:
        >>> split_counts([30, 4], horizon=3)
        [(22, 24), (4, 4)]
        >>> split_counts([2, 2, 2, 2, 2], horizon=3)
        [(2, 2), (2, 2), (2, 2), (2, 2), (0, 0)]
    """
    parts = []
    for count in counts:
        held = max(count // PARTS, horizon)
        trained = count - held - horizon + 1
        parts.append((trained, count - held) if trained > 0 else (count, count))
    if all(start == count for (_, start), count in zip(parts, counts, strict=True)):
        parts = [
            (0, 0) if number % PARTS == PARTS - 1 else part
            for number, part in enumerate(parts)
        ]
    return parts


def rows_of_parts(
    counts: list[int], parts: list[tuple[int, int]]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the indices of the windows to train on, and of the validation part.

    Args:
        counts: Windows of each series, which follow each other.
        parts: As from `split_counts`.

    Examples:
        >>> trained, held = rows_of_parts([4, 3], [(2, 3), (1, 2)])
        >>> trained.tolist(), held.tolist()
        ([0, 1, 4], [3, 6])
    """
    first = np.cumsum([0, *counts])
    pairs = list(zip(parts, first, first[1:], strict=False))
    trained = [np.arange(begin, begin + count) for (count, _), begin, _ in pairs]
    held = [np.arange(begin + start, end) for (_, start), begin, end in pairs]
    return np.concatenate(trained), np.concatenate(held)


class BestStep(keras.callbacks.Callback):
    """Keeps the forecasts of the validation part at its least error.

    Args:
        predict: Function from windows to forecasts, `(windows, horizon, quantiles)`.
        median: Function from these to the forecasts that are scored.
        x: Windows of the validation part.
        y: Targets.
        every: Training steps of an epoch.
    """

    def __init__(
        self, predict: Any, median: Any, x: np.ndarray, y: np.ndarray, every: int
    ) -> None:
        super().__init__()
        self.predict: Any = predict
        self.median: Any = median
        self.x: np.ndarray = x
        self.y: np.ndarray = y
        self.every: int = every
        self.first: np.ndarray = predict(x)
        self.forecasts: np.ndarray = self.first
        self.start: np.ndarray = self._errors(self.first)
        self.errors: np.ndarray = self.start
        self.steps: int = 0

    def _errors(self, forecasts):
        return np.mean(np.abs(self.median(forecasts) - self.y), axis=1)

    @property
    def is_exact(self) -> bool:
        """Whether the baseline makes no errors that could be reduced."""
        return bool(self.start.mean() <= EXACT)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        forecasts = self.predict(self.x)
        errors = self._errors(forecasts)
        if errors.mean() < self.errors.mean():
            self.forecasts, self.errors = forecasts, errors
            self.steps = (epoch + 1) * self.every

    def selection(self, windows: int) -> Selection:
        """Returns what was found; without a gain, forecasts are the baseline's.

        Args:
            windows: Windows of the validation part, of which some are checked.
        """
        gain = 0.0
        if not self.is_exact:
            gain = float(1 - self.errors.mean() / self.start.mean())
        independent = windows / self.y.shape[1]  # as the targets overlap
        is_certain = exceeds_chance(self.start - self.errors, independent)
        if gain < LEAST_GAIN or not is_certain:
            self.forecasts, self.steps = self.first, 0
        return Selection(self.steps, gain, windows, self.every)


def exceeds_chance(differences: np.ndarray, independent: float) -> bool:
    """Returns whether a mean is larger than its standard error.

    Args:
        differences: Numbers that depend on each other.
        independent: How many numbers would be as certain if they did not.

    Examples:
        >>> y = np.array([1.0, 2.0, 3.0, 4.0])
        >>> exceeds_chance(y, 4.0), exceeds_chance(y - 2, 4.0), exceeds_chance(y, 1.0)
        (True, False, False)
    """
    if independent <= 1:
        return False
    error = np.std(differences) / np.sqrt(independent - 1)
    return bool(np.mean(differences) > error)


def checked_windows(count: int, length: int) -> np.ndarray:
    """Returns which windows are checked: all, or of many some at even distances.

    Args:
        count: Number of windows.
        length: Steps of a window.

    Examples:
        >>> len(checked_windows(77, 25)), len(checked_windows(100_000, 25))
        (77, 1000)
    """
    most = max(1, min(count, MAX_CHECKED, MAX_STEPS // length))
    return np.linspace(0, count - 1, most).astype(int)
