"""How many training steps a model takes to reach a value of a metric."""

from collections.abc import Mapping, Sequence
from typing import Any

from kerasseq.core import checks


def steps_to_reach(
    history: Sequence[Mapping[str, float]] | Mapping[str, Sequence[float]] | Any,
    metric: str = "accuracy",
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    lasting: bool = False,
) -> int | None:
    """Finds the first step at which a metric reaches a value.

    Args:
        history: Rows with "step" and metrics, as in the folder of a run; or a
            `keras.callbacks.History` or its dictionary, whose steps are epochs, from 1.
        metric: The name of the metric.
        at_least: The value, if more is better.
        at_most: The value, if less is better, as for a loss.
        lasting: Whether all later values must reach it as well.

    Returns:
        The step, or None if the value is not reached.

    Raises:
        ValueError: If not exactly one value is given, or there is no such metric.

    Examples:
        >>> history = [{"step": 100, "accuracy": 0.6}, {"step": 200, "accuracy": 0.9}]
        >>> steps_to_reach(history, at_least=0.8)
        200
        >>> steps_to_reach({"loss": [0.7, 0.2, 0.4]}, "loss", at_most=0.3)
        2
    """
    if (at_least is None) == (at_most is None):
        raise ValueError(
            "give either at_least or at_most, received "
            f"at_least={at_least}, at_most={at_most}"
        )
    reached = [
        (step, value >= at_least if at_most is None else value <= at_most)
        for step, value in _values(getattr(history, "history", history), metric)
    ]
    if lasting:  # only what comes after the last value that does not reach it
        misses = [n for n, (_, is_reached) in enumerate(reached) if not is_reached]
        last = max(misses, default=-1)
        reached = reached[last + 1 :]
    return next((int(step) for step, is_reached in reached if is_reached), None)


def _values(history, metric) -> list[tuple[float, float]]:
    """Returns the steps and values of a metric."""
    if isinstance(history, Mapping):
        known, values = list(history), list(enumerate(history.get(metric, ()), 1))
    else:
        known = sorted({name for row in history for name in row})
        values = [(row["step"], row[metric]) for row in history if metric in row]
    if known and not values:
        checks.one_of("metric", metric, known)
    return values
