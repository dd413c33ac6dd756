"""The states of the seed generators of a model, in its file of weights."""

from typing import Any

import keras
import numpy as np

PREFIX = "seed_"


def save(model: keras.Model, store: Any) -> None:
    """Writes the states of a model into a group of its file."""
    for n, state in enumerate(_states(model)):
        store[f"{PREFIX}{n}"] = state


def load(model: keras.Model, store: Any) -> None:
    """Reads the states of a model from a group, if it has any."""
    names = set(store.keys())
    for n, state in enumerate(_states(model)):
        if f"{PREFIX}{n}" in names:
            state.assign(np.array(store[f"{PREFIX}{n}"]))


def without(store: Any) -> dict[str, Any]:
    """Returns what a group has beside the states.

    Examples:
        >>> without({"0": 3.0, "seed_0": 5})
        {'0': 3.0}
    """
    names = [name for name in store.keys() if not name.startswith(PREFIX)]  # noqa: SIM118
    return {name: store[name] for name in names}


def _states(model):
    """Returns integer variables that are no weights."""
    weights = {id(weight) for weight in model.weights}
    others = [v for v in model.variables if id(v) not in weights]
    return [v for v in others if not keras.backend.is_float_dtype(v.dtype)]
