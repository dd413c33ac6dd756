"""Checkpoints from which training resumes as if it had not been interrupted.

One file holds the weights, the state of the optimizer and of the seed generators, the
number of epochs done, and the history. It is replaced atomically, so that a kill at any
moment leaves the last complete one. The position in the data is the number
of epochs done: see `training.batches`.
"""

import json
import pathlib
import zipfile
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from kerasseq.core.files import regular, replacing
from kerasseq.core.types import FilePath

FILE = "checkpoint.npz"


class Checkpoint(keras.callbacks.Callback):
    """Saves the state of training after each epoch.

    Args:
        folder: Folder of the file, created if necessary.

    Examples:
        >>> import tempfile
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile("adam", "mse")
        >>> x = np.ones((4, 2))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = model.fit(x, x[:, :1], verbose=0, callbacks=[Checkpoint(folder)])
        ...     restore(model, folder)
        1
    """

    def __init__(self, folder: FilePath) -> None:
        super().__init__()
        self.folder: pathlib.Path = pathlib.Path(folder)
        self.history: list[dict[str, float]] = []

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / FILE
        self.history = read(file)[1]["history"] if file.exists() else []

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        numbers = {name: float(value) for name, value in (logs or {}).items()}
        self.history = [*self.history[:epoch], numbers]
        state = {"epochs": epoch + 1, "history": self.history}
        arrays = {
            f"v{n}": keras.ops.convert_to_numpy(keras.ops.cast(v, _plain(v.dtype)))
            for n, v in enumerate(_variables(self.model))
        }
        state["paths"] = [v.path for v in _variables(self.model)]
        write(self.folder / FILE, arrays, state)


def restore(model: keras.Model, folder: FilePath) -> int:
    """Restores the state of training that a `Checkpoint` saved.

    Args:
        model: The model, built and compiled as it was.
        folder: Folder given to `Checkpoint`.

    Returns:
        The number of epochs done, for `initial_epoch` of `fit`; 0 without a checkpoint.

    Raises:
        ValueError: If the file is damaged, or of another model.
    """
    file = pathlib.Path(folder) / FILE
    if not file.exists():
        return 0
    arrays, state = read(file)
    variables = _variables(model)
    shapes = [tuple(v.shape) for v in variables]
    saved = [arrays[f"v{n}"].shape for n in range(len(arrays))]
    if shapes != saved:
        raise ValueError(
            f"{file} is of another model or optimizer: it has {len(saved)} variables, "
            f"this model has {len(shapes)}, and not all shapes agree"
        )
    for n, variable in enumerate(variables):
        variable.assign(keras.ops.cast(arrays[f"v{n}"], variable.dtype))
    return state["epochs"]


def write(
    file: FilePath, arrays: Mapping[str, np.ndarray], state: dict[str, Any]
) -> None:
    """Writes arrays and plain data to one file, atomically."""
    with replacing(file) as temporary, open(temporary, "wb") as out:
        np.savez(out, state=np.array(json.dumps(state)), **arrays)


def read(file: FilePath) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Reads the arrays and the plain data that `write` wrote.

    Raises:
        ValueError: If the file is damaged or something else.
    """
    try:
        with (
            regular(file).open("rb") as opened,
            np.load(opened, allow_pickle=False) as stored,
        ):
            arrays = {name: stored[name] for name in stored.files}
        state = json.loads(str(arrays.pop("state")))
        _check(arrays, state)
        return arrays, state
    except (
        ValueError,
        KeyError,
        AttributeError,  # a single array instead of an archive
        EOFError,
        OSError,
        RecursionError,
        zipfile.BadZipFile,
    ) as error:
        raise ValueError(
            f"{file} is damaged or not a checkpoint of kerasseq ({error}). Delete it "
            "to start from scratch"
        ) from error


def _check(arrays: Mapping[str, np.ndarray], state: object) -> None:
    """Raises a `ValueError` unless this is the content of a checkpoint."""
    if not isinstance(state, dict):
        raise ValueError(f"its state must be an object, received {str(state)[:60]}")
    epochs, history = state.get("epochs"), state.get("history")
    if type(epochs) is not int or epochs < 1:
        raise ValueError(f"epochs must be a number from 1, received {epochs!r}")
    if not isinstance(history, list) or len(history) != epochs:
        raise ValueError(f"history must be a list of {epochs} epochs")
    for numbers in history:
        if not isinstance(numbers, dict) or not all(
            isinstance(value, int | float) for value in numbers.values()
        ):
            raise ValueError("history must be a list of numbers by name")
    expected = {f"v{n}" for n in range(len(arrays))}
    if set(arrays) != expected:
        missing = ", ".join(sorted(expected - set(arrays)))
        raise ValueError(f"it lacks the variables {missing}")


def _variables(model: keras.Model) -> list[keras.Variable]:
    """Returns all variables that training changes, in a fixed order."""
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    return [*model.variables, *model.optimizer.variables]


def _plain(dtype: str) -> str:
    """Returns a dtype for NumPy's files, which have no bfloat16."""
    return "float32" if dtype == "bfloat16" else dtype
