"""What a program needs to make the inputs of a `Forecaster`, and read its outputs."""

from collections.abc import Mapping
from typing import Any

CONFIG = ("horizon", "quantiles", "past", "known", "calendar", "categories")
FITTED = ("length", "season", "missing", "frequency", "columns", "shifts", "order")
CALENDAR = {
    "day": "(day of the month - 1) / 30",
    "month": "(month - 1) / 11",
    "year": "(year - 2000) / 100",
    "weekday": "day of the week / 6, from 0 for Monday",
    "hour": "hour / 23",
}
ROW = (
    "each row has the features in this order: the value as (value - mean) / deviation "
    "of its series, numbers as they are, 1 for the category of the row and 0 for the "
    "others; a deviation of 0 counts as 1"
)
AHEAD = (
    "after `length` rows follow `horizon` rows of the future, with 0 for the value and "
    "for the columns in past"
)
OUTPUTS = "the outputs are mean + deviation * output"
SORTED = "sort the outputs of each step, one for each of the quantiles"
SHIFTED = (
    "add shifts, one for each step and quantile; then no quantile below the median may "
    "exceed it, and none above it may be smaller"
)


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the scales and columns of a table, and how inputs and outputs are made.

    Args:
        config: The config of a `Forecaster`.

    Returns:
        "features" are the names of the inputs of a step, in their order; "calendar"
        says how those of dates are computed; "inputs" and "answer" are instructions.
        Without a table, "scaled" is False.

    Examples:
        >>> from kerasseq.models import Forecaster
        >>> settings_of(Forecaster("gru", horizon=2, units=3).get_config())["scaled"]
        False
    """
    settings = {name: config.get(name) for name in CONFIG}
    settings["calendar"] = {name: CALENDAR[name] for name in config["calendar"]}
    fitted = config.get("fitted")
    if fitted is None:
        return {**settings, "scaled": False}
    settings |= {name: fitted.get(name) for name in FITTED}
    ahead = config["known"] or config["calendar"]
    answer = [SORTED] * bool(config["quantiles"])
    answer += [SHIFTED] * (fitted.get("shifts") is not None)
    return settings | {
        "scaled": True,
        "scales": [
            {"series": name, "mean": mean, "deviation": deviation}
            for name, mean, deviation in fitted["scales"]
        ],
        "features": _features(config, fitted["columns"]),
        "inputs": [ROW, AHEAD] if ahead else [ROW],
        "answer": [*answer, OUTPUTS],
    }


def _features(config, columns):
    """Names of the features of a row: the value, past, known and calendar."""
    categories = columns.get("categories") or {}
    names = ["value"]
    for name in (*columns["past"], *columns["known"]):
        listed = categories.get(name)
        if listed is None:
            names.append(name)
        else:
            names += [f"{name}={category}" for category in listed]
    return names + list(config["calendar"])
