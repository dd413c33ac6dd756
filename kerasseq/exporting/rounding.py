"""Files with weights of 8 bits beside those of float32: size, time and answers."""

import pathlib
import statistics
import time
from types import ModuleType
from typing import Any

import keras
import numpy as np

from kerasseq.exporting import inputs
from kerasseq.exporting.checks import Run, relative_difference

ROWS = 256  # of random inputs
MAX_ROWS = 1000  # of the inputs of the user
REPEATS = 31  # calls that are timed


def compare(
    model: keras.Model,
    folder: pathlib.Path,
    module: ModuleType,
    length: int | None,
    samples: Any = None,
) -> dict[str, Any]:
    """Writes the file of 8 bits, and compares it with that of float32.

    Args:
        model: The model.
        folder: The folder, which has the file of float32.
        module: The module of the format, with `FILES`, `quantize` and `load`.
        length: Number of steps of the file; None if it is free.
        samples: Inputs of the model as its `predict` takes them; None for random ones.

    Returns:
        The values of `Rounded`.
    """
    module.quantize(model, folder, length)
    files = [folder / name for name in module.FILES]
    precise, rounded = (module.load(model, file) for file in files)
    batches = _batches(model, samples, length)
    counts = _changes(model, precise, rounded, batches)
    first = [x[:1] for x in batches[0][0]]
    return {
        "file": files[1].name,
        "sizes": [file.stat().st_size for file in files],
        "milliseconds": _times([precise, rounded], first),
        "data": "random inputs" if samples is None else "the given inputs",
        **counts,
    }


def _batches(model, samples, length):
    """Returns inputs, each with which steps of an output are real, or None."""
    if samples is None:
        steps = length or inputs.fixed_length(model)
        arrays = [inputs.examples(model, ROWS, min(steps, 32), seed=1)]
    else:
        arrays = _of_samples(model, samples)
    if length is not None:
        arrays = [inputs.padded(model, x, length) for x in arrays]
    return [(x, _real(model, x)) for x in arrays]


def _of_samples(model, samples):
    """Returns the arrays of raw inputs, in batches of about equal lengths."""
    samples = samples[:MAX_ROWS]
    rows = model.rows_of(samples) if hasattr(model, "rows_of") else None
    if rows is None:
        dtypes = [each.dtype for each in inputs.inputs_of(model)]
        parts = samples if len(dtypes) > 1 else [samples]
        return [[np.asarray(x, t) for x, t in zip(parts, dtypes, strict=True)]]
    if rows.lengths is None:
        return [list(map(np.asarray, keras.tree.flatten(rows.batch())))]
    return [
        list(map(np.asarray, keras.tree.flatten(x)))
        for _, x in rows.by_length(MAX_ROWS)
    ]


def _real(model, x):
    """Returns which steps are not padding, for a model with an answer at each step."""
    if not getattr(model, "per_step", False):
        return None
    return x[0] != inputs.padding_of(model)


def _changes(model, precise: Run, rounded: Run, batches) -> dict[str, Any]:
    """Counts the answers that differ."""
    rows = answers = changed = 0
    difference, has_labels = 0.0, _has_labels(model)
    for x, real in batches:
        expected, received = precise(x), rounded(x)
        difference = max(difference, *map(relative_difference, expected, received))
        rows += len(x[0])
        wrong = _answers(model, expected[0]) != _answers(model, received[0])
        if real is not None and wrong.shape == real.shape:
            wrong = wrong[real]
        answers, changed = answers + wrong.size, changed + int(wrong.sum())
    if not has_labels:
        return {
            "rows": rows,
            "answers": rows,
            "changed": None,
            "difference": difference,
        }
    counts = {"rows": rows, "answers": answers, "changed": changed}
    return {**counts, "difference": difference}


def _has_labels(model):
    """Returns whether an output is a choice: of a label, or of a token."""
    return getattr(model, "labels", None) is not None or hasattr(model, "generate")


def _answers(model, y):
    """Returns the most probable label, or whether each label is probable."""
    if getattr(model, "multi_label", False):
        return model.probabilities(y) >= 0.5
    return np.argmax(y, axis=-1)


def _times(runs: list[Run], x: list[np.ndarray]) -> list[float]:
    """Returns the median milliseconds of a call of each, called in turns."""
    seconds: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run(x)
    for _ in range(REPEATS):
        for run, times in zip(runs, seconds, strict=True):
            start = time.perf_counter()
            run(x)
            times.append(time.perf_counter() - start)
    return [1000 * statistics.median(times) for times in seconds]
