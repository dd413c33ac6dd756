"""Training that stops, and keeps the weights that are best on a validation part."""

from typing import Any

import keras

from kerasseq.core import checks


def with_early_stopping(
    patience: int | None, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Returns arguments for `keras.Model.fit`, with a callback for `patience`.

    Args:
        patience: Epochs without a lower validation loss after which training stops.
            Then, and after the last epoch, the weights become those of the epoch with
            the lowest. None trains all epochs.
        arguments: The arguments.

    Raises:
        ValueError: If there are no data for validation.

    Examples:
        >>> arguments = with_early_stopping(3, {"validation_split": 0.1})
        >>> arguments["callbacks"][0].patience
        3
    """
    if patience is None:
        return arguments
    checks.whole_number("patience", patience)
    data, fraction = arguments.get("validation_data"), arguments.get("validation_split")
    if data is None and not fraction:
        raise ValueError(
            f"patience={patience} needs data for validation, received neither "
            "validation_data nor validation_split"
        )
    best = keras.callbacks.EarlyStopping(patience=patience, restore_best_weights=True)
    return with_callback(arguments, best)


def with_callback(
    arguments: dict[str, Any], callback: keras.callbacks.Callback
) -> dict[str, Any]:
    """Returns arguments for `keras.Model.fit` with one more callback.

    Args:
        arguments: The arguments, whose callbacks are a list, one or a `CallbackList`.
        callback: The callback.

    Examples:
        >>> one = keras.callbacks.TerminateOnNaN()
        >>> len(with_callback({"callbacks": one}, one)["callbacks"])
        2
    """
    callbacks = arguments.get("callbacks") or []
    if not isinstance(callbacks, list | tuple):
        callbacks = getattr(callbacks, "callbacks", [callbacks])
    return {**arguments, "callbacks": [*callbacks, callback]}
