"""How long a run trains: arguments that tasks share, and the number of steps they mean.

Loads no Keras.
"""

import math
from types import SimpleNamespace
from typing import Any

EPOCHS = 10  # if neither --epochs nor --steps is given
# Defaults of tasks that count in epochs.
TRAINED: dict[str, Any] = {"epochs": None, "steps": None, "checkpoint_every": 100}
TRAINED |= {"seed": 0}
# Of those that stop where a validation part is best: steps and epochs are limits there.
PATIENCE = 5
STOPPED: dict[str, Any] = {"epochs": None, "steps": None, "patience": PATIENCE}
STOPPED |= {"max_minutes": None, "checkpoint_every": 100, "seed": 0}
LONG_EPOCHS, FEW_STEPS = 60, 3000  # if no limit is given, the shorter of the two


def set_patience(settings: SimpleNamespace, is_own: bool) -> None:
    """Sets the patience if it is not given: 5 for the user's own data, else 0.

    Args:
        settings: Arguments of the run.
        is_own: Whether it has a file of the user.

    Examples:
        >>> settings = SimpleNamespace(patience=None)
        >>> set_patience(settings, is_own=True)
        >>> settings.patience
        5
    """
    if settings.patience is None:
        settings.patience = PATIENCE if is_own else 0


def number_of_steps(
    settings: SimpleNamespace,
    steps_per_epoch: int,
    epochs: float = EPOCHS,
    at_least: int = 1,
) -> int:
    """Returns the number of training steps that `--steps` or `--epochs` mean.

    With `--patience` they are a limit: if none is given, that of small data is higher.

    Args:
        settings: Arguments of the run.
        steps_per_epoch: Steps of a pass over the data.
        epochs: Passes, if neither is given.
        at_least: The least number of steps, if neither is given.

    Examples:
        >>> settings = SimpleNamespace(steps=None, epochs=None, patience=5)
        >>> number_of_steps(settings, 17), number_of_steps(settings, 1000)
        (1020, 10000)
    """
    if settings.steps:
        return settings.steps
    if getattr(settings, "patience", 0) and not settings.epochs:
        epochs = max(epochs, min(LONG_EPOCHS, FEW_STEPS / steps_per_epoch))
    least = 1 if settings.epochs else at_least
    return max(least, math.ceil((settings.epochs or epochs) * steps_per_epoch))
