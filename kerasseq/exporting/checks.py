"""Compares files, run by their runtime, with the model that they come from."""

from collections.abc import Callable

import keras
import numpy as np

from kerasseq.exporting import inputs

Run = Callable[[list[np.ndarray]], list[np.ndarray]]  # inputs to outputs, in order

CASES = ((3, 11), (2, 17), (1, 5))  # batch and steps
TOLERANCE = 1e-4  # of the largest output: rounding differs between runtimes


def largest_difference(
    model: keras.Model, run: Run, length: int | None, *, batch: int | None = None
) -> float:
    """Returns how far the outputs of a file are from those of its model.

    Args:
        model: The model.
        run: Runs the file.
        length: Number of steps that the file takes; None if any.
        batch: Number of rows that it takes; None if any.

    Returns:
        The largest difference at several batch sizes and lengths, relative to the
        largest output.

    Raises:
        ValueError: If an output has another shape or is not finite.
    """
    differences = [
        _difference(model, run, batch or rows, steps, seed)
        for seed, (rows, steps) in enumerate(cases(model, length))
    ]
    return max(differences)


def cases(model: keras.Model, length: int | None) -> list[tuple[int, int]]:
    """Returns batch sizes and lengths at which a file is compared.

    Args:
        model: The model.
        length: Number of steps that the file takes; None if any.
    """
    if length is not None:
        return [(rows, length) for rows, _ in CASES[::2]]
    most = inputs.longest(model)
    unit = inputs.samples_of_step(model)
    least = 1 + (model.get_config().get("horizon") or 0)  # of known features
    return [
        (rows, unit * max(steps if most is None else min(steps, most), least))
        for rows, steps in CASES
    ]


def _difference(model, run, rows, steps, seed):
    x = inputs.examples(model, rows, steps, seed)
    expected, received = inputs.outputs_of(model, x), run(x)
    if len(expected) != len(received):
        raise ValueError(f"it has {len(received)} outputs, the model {len(expected)}")
    return max(map(relative_difference, expected, received))


def relative_difference(expected: np.ndarray, received: np.ndarray) -> float:
    """Returns the largest difference, relative to the largest value.

    Raises:
        ValueError: If the shapes differ, or a value is not finite.

    Examples:
        >>> round(relative_difference(np.array([1.0, -4.0]), np.array([1.0, -3.0])), 3)
        0.25
    """
    if expected.shape != received.shape:
        raise ValueError(
            f"an output has the shape {received.shape}, that of the model is "
            f"{expected.shape}"
        )
    if not np.isfinite(expected).all():
        raise ValueError(
            "an output of the model itself is not finite, so that no file can be "
            "compared with it. Train it again, with a smaller learning rate"
        )
    if not np.isfinite(received).all():
        raise ValueError("an output is not finite")
    if not expected.size:
        return 0.0
    largest = float(np.abs(expected).max()) or 1.0
    return float(np.abs(expected - received).max()) / largest
