"""The losses of the outputs of a model, and what each is weighed by."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops


def weights_of_losses(loss: Any, given: Any, outputs: Any) -> dict[str, Any]:
    """Returns the weights of the losses of several outputs, by the name of the output.

    None of losses by name or of your own functions: their batches count by rows.
    """
    if not isinstance(outputs, Mapping) or len(outputs) == 1:
        return {}
    losses = dict(loss) if isinstance(loss, Mapping) else dict.fromkeys(outputs, loss)
    losses = {name: each for name, each in losses.items() if each is not None}
    are_known = all(isinstance(each, keras.losses.Loss) for each in losses.values())
    if len(losses) == 1 or not are_known:
        return {}
    if given is not None and not isinstance(given, Mapping):
        given = keras.tree.pack_sequence_as(losses, keras.tree.flatten(given))
    return {name: 1.0 if given is None else given[name] for name in losses}


def only_loss(
    loss: Any, y: Any, y_pred: Any, sample_weight: Any
) -> tuple[Any, ...] | None:
    """Returns loss, labels, outputs and weights if one output has a loss, or None."""
    if all(isinstance(part, Mapping) for part in (loss, y, y_pred)):
        names = [name for name in loss if loss[name] is not None]
        if len(names) != 1 or names[0] not in y:
            return None
        loss, y, y_pred = (part[names[0]] for part in (loss, y, y_pred))
        if isinstance(sample_weight, Mapping):
            sample_weight = sample_weight.get(names[0])
    parts = [keras.tree.flatten(part) for part in (loss, y, y_pred)]
    if any(len(part) != 1 for part in parts):
        return None
    return (*(part for (part,) in parts), keras.tree.flatten(sample_weight)[0])


def copied(sample_weight: Any) -> Any:
    """Returns copies of weights: Keras multiplies its own by a mask on PyTorch."""
    return keras.tree.map_structure(
        lambda weight: None if weight is None else ops.copy(weight), sample_weight
    )


def weights_of_positions(ids: Any, sample_weight: Any) -> Any:
    """Returns weights of positions: that of a row counts for each of its own.

    Keras would divide the sum over positions by the sum of the weights of rows.

    Args:
        ids: `(B, T)`.
        sample_weight: `(B,)`, `(B, 1)`, `(B, T)`, or None.

    Examples:
        >>> weights = weights_of_positions(np.ones((2, 3)), np.array([0.5, 2.0]))
        >>> keras.ops.convert_to_numpy(weights).tolist()
        [[0.5, 0.5, 0.5], [2.0, 2.0, 2.0]]
    """
    if sample_weight is None:
        return None
    ones = ops.ones_like(ids, dtype="float32")
    weight = ops.cast(sample_weight, ones.dtype)
    return ones * ops.reshape(weight, (ops.shape(ones)[0], -1))
