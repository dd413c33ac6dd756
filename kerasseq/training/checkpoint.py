"""Checkpoints from which training resumes as if it had not been interrupted.

One file holds the weights, the state of the optimizer and of the seed generators, the
number of epochs done, and the history; within an epoch also the batches done and the
state of the metrics. It is replaced atomically, so that a kill at any moment leaves the
last complete one. The position in the data is the number of epochs and batches done:
see `training.batches`.
"""

import json
import pathlib
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from kerasseq import kernels
from kerasseq.core.files import regular, replacing
from kerasseq.core.types import FilePath

FILE = "checkpoint.npz"


class Checkpoint(keras.callbacks.Callback):
    """Saves the state of training after each epoch.

    If processes divide the weights, each needs the callback, and the first writes.

    Args:
        folder: Folder of the file, created if necessary.
        in_each_process: Whether the others write it as well, to folders of their own.

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

    def __init__(self, folder: FilePath, *, in_each_process: bool = False) -> None:
        super().__init__()
        self.folder: pathlib.Path = pathlib.Path(folder)
        self.in_each_process: bool = in_each_process
        self.history: list[dict[str, float]] = []
        self._metrics: list[np.ndarray] = []  # of an epoch that is continued

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / FILE
        if file.exists():
            arrays, state = read(file)
            self.history = state["history"]
            self._metrics = _numbered(arrays, "m")
        else:
            self.history, self._metrics = [], []

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        if epoch != len(self.history):
            self._metrics = []

    def on_train_batch_end(
        self, batch: int, logs: Mapping[str, Any] | None = None
    ) -> None:
        if not self._metrics:
            return
        # Only now, as on TensorFlow the first batch makes the variables. Sums and
        # counts, which metrics consist of, are added.
        variables, values = self.model.metrics_variables, self._metrics
        _check_shapes(self.folder / FILE, variables, values)
        for variable, value in zip(variables, values, strict=True):
            variable.assign(variable + keras.ops.cast(value, variable.dtype))
        self._metrics = []

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        numbers = {name: float(value) for name, value in (logs or {}).items()}
        self.history = [*self.history[:epoch], numbers]
        self._write({"epochs": epoch + 1})

    def save(self, batches: int) -> None:
        """Saves the state within an epoch, such as in another callback.

        To continue, fit the rest of the epoch, with `initial_epoch=restore(…)` and
        `steps_per_epoch` reduced by `batches_done(…)`: its logs are then those of the
        whole epoch.

        Args:
            batches: Batches of the epoch that are done.
        """
        state = {"epochs": len(self.history), "batches": batches}
        self._write(state, self.model.metrics_variables)

    def _write(self, state: dict[str, Any], metrics: Sequence[Any] = ()) -> None:
        variables = _variables(self.model)
        arrays = {f"v{n}": _array(v) for n, v in enumerate(variables)}
        arrays |= {f"m{n}": _array(v) for n, v in enumerate(metrics)}
        state |= {"history": self.history, "paths": [v.path for v in variables]}
        state["padding"] = "last"
        is_spare = kernels.divides_weights() and not kernels.is_first_process()
        if self.in_each_process or not is_spare:
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
    state = _restore(file, _variables(model))
    if state.get("padding") != "last" and hasattr(model, "move_padding_last"):
        model.move_padding_last()
    return state["epochs"]


def write_weights(
    model: keras.Model, file: FilePath, history: Sequence[Mapping[str, float]]
) -> None:
    """Writes the weights of a model alone, without its optimizer.

    Args:
        model: The model.
        file: The file.
        history: The logs of the epochs that are done.
    """
    arrays = {f"v{n}": _array(v) for n, v in enumerate(model.variables)}
    write(file, arrays, {"epochs": len(history), "history": [*map(dict, history)]})


def restore_weights(model: keras.Model, file: FilePath) -> None:
    """Sets the weights that `write_weights` wrote.

    Raises:
        ValueError: If the file is damaged, or of another model.
    """
    _restore(pathlib.Path(file), model.variables)


def _restore(file, variables):
    """Sets variables to the values in a file, and returns its other data."""
    arrays, state = read(file)
    values = _numbered(arrays, "v")
    _check_shapes(file, variables, values)
    for variable, value in zip(variables, values, strict=True):
        variable.assign(keras.ops.cast(value, variable.dtype))
    return state


def batches_done(folder: FilePath) -> int:
    """Reads how many batches of the next epoch are done, after `Checkpoint.save`.

    Args:
        folder: Folder given to `Checkpoint`.

    Returns:
        The number; 0 after whole epochs, or without a checkpoint.

    Raises:
        ValueError: If the file is damaged.

    Examples:
        >>> batches_done("runs/none")
        0
    """
    file = pathlib.Path(folder) / FILE
    return read(file)[1].get("batches", 0) if file.exists() else 0


def _check_shapes(
    file: pathlib.Path, variables: Sequence[Any], values: Sequence[np.ndarray]
) -> None:
    if [tuple(v.shape) for v in variables] != [value.shape for value in values]:
        raise ValueError(
            f"{file} is of another model or optimizer: it has {len(values)} variables, "
            f"this model has {len(variables)}, and not all shapes agree"
        )


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
    batches = state.get("batches", 0)
    if type(batches) is not int or batches < 0:
        raise ValueError(f"batches must be a number from 0, received {batches!r}")
    if type(epochs) is not int or epochs < (0 if batches else 1):
        raise ValueError(f"epochs must be a number from 1, received {epochs!r}")
    if not isinstance(history, list) or len(history) != epochs:
        raise ValueError(f"history must be a list of {epochs} epochs")
    for numbers in history:
        if not isinstance(numbers, dict) or not all(
            isinstance(value, int | float) for value in numbers.values()
        ):
            raise ValueError("history must be a list of numbers by name")
    metrics = sum(name.startswith("m") for name in arrays)
    expected = {f"v{n}" for n in range(len(arrays) - metrics)}
    expected |= {f"m{n}" for n in range(metrics)}
    if set(arrays) != expected:
        missing = ", ".join(sorted(expected - set(arrays)))
        raise ValueError(f"it lacks the variables {missing}")


def _numbered(arrays: Mapping[str, np.ndarray], letter: str) -> list[np.ndarray]:
    """Returns the arrays `v0`, `v1` …, or those of another letter, in order."""
    count = sum(name.startswith(letter) for name in arrays)
    return [arrays[f"{letter}{n}"] for n in range(count)]


def _array(variable: Any) -> np.ndarray:
    array = keras.ops.convert_to_numpy(variable)
    return array.astype(_plain(variable.dtype), copy=False)


def _variables(model: keras.Model) -> list[keras.Variable]:
    """Returns all variables that training changes, in a fixed order."""
    kernels.build_optimizer(model)
    return [*model.variables, *model.optimizer.variables]


def _plain(dtype: str) -> str:
    """Returns a dtype for NumPy's files, which have no bfloat16."""
    return "float32" if dtype == "bfloat16" else dtype
