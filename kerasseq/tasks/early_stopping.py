"""Training that stops, and keeps the weights that are best on a validation part."""

from typing import Any

import keras
import numpy as np

from kerasseq.core import checks
from kerasseq.datasets.splitting import split_by_class
from kerasseq.training.label_batches import Rows

HELD_OUT = 0.15  # of the data, for validation, if the user names no part


def with_early_stopping(
    *, patience: int | None = None, **options: Any
) -> dict[str, Any]:
    """Returns arguments for `keras.Model.fit`, with a callback for `patience`.

    Args:
        patience: Epochs without a lower validation loss after which training stops.
            Then, and after the last epoch, the weights become those of the epoch with
            the lowest. None trains all epochs.
        **options: Other arguments of `fit`.

    Raises:
        ValueError: If there are no data for validation.

    Examples:
        >>> options = with_early_stopping(patience=3, validation_split=0.1)
        >>> options["callbacks"][0].patience
        3
    """
    if patience is None:
        return options
    checks.whole_number("patience", patience)
    data = options.get("validation_data")
    if needs_part(patience, options.get("validation_split"), data):
        raise ValueError(
            f"patience={patience} needs data for validation, received neither "
            "validation_data nor validation_split"
        )
    callbacks = options.get("callbacks") or []
    if not isinstance(callbacks, list | tuple):  # one, or a `CallbackList`
        callbacks = getattr(callbacks, "callbacks", [callbacks])
    best = keras.callbacks.EarlyStopping(patience=patience, restore_best_weights=True)
    return {**options, "callbacks": [*callbacks, best]}


def needs_part(patience: int | None, fraction: float | None, data: Any) -> bool:
    """Whether `patience` is given to `fit`, and no data for validation are.

    Args:
        patience: The argument of `fit`.
        fraction: The `validation_split`.
        data: The `validation_data`.

    Examples:
        >>> needs_part(3, 0.0, None), needs_part(3, 0.1, None)
        (True, False)
    """
    return patience is not None and not fraction and data is None


def validation_part(rows: Rows, fraction: float, seed: int) -> tuple[Rows, Rows]:
    """Splits rows into those to train on and those for validation.

    Args:
        rows: The rows, with labels.
        fraction: The fraction for validation, the last rows; 0 for 15 % of each class
            at random, or of all rows if a row has not one label.
        seed: Seed of the random choice.

    Raises:
        ValueError: If no rows are left on a side.

    Examples:
        >>> rows = Rows(np.arange(20.0), np.array([0, 1] * 10))
        >>> training, held_out = validation_part(rows, 0.0, seed=0)
        >>> len(training), sorted(held_out.y.tolist())
        (16, [0, 0, 1, 1])
    """
    if fraction:
        return rows.split(fraction)
    y = rows.y
    if getattr(y, "ndim", None) != 1 or not np.issubdtype(y.dtype, np.integer):
        y = np.zeros(len(rows), int)
    training, held_out = split_by_class(y.tolist(), HELD_OUT, seed)
    if not len(held_out):
        raise ValueError(
            "patience needs two rows of a label, to hold one out for validation, "
            "received one of each. Give validation_data"
        )
    return rows.part(training), rows.part(held_out)
