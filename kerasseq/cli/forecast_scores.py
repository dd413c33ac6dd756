"""Scores of forecasts as plain data, and printed."""

import math
from typing import Any

import numpy as np

from kerasseq.cli import runs
from kerasseq.cli.console import Console


def scores_of(comparison: Any, title: str) -> dict[str, Any]:
    """Returns the scores as plain data; None where MASE is undefined."""
    errors = comparison.errors_by_step()
    undefined = int(np.isnan(comparison.scales).sum())
    return {
        "scores": {
            name: {k: None if math.isnan(v) else v for k, v in row.items()}
            for name, row in comparison.scores().items()
        },
        "errors": errors[title].tolist(),
        "naive_errors": errors["naive"].tolist(),
        "not_beaten": comparison.not_beaten(title),
        "verdict": comparison.verdict(title),
        "series": len(comparison.scales),
        "undefined_mase": undefined,
    }


def show(console: Console, results: runs.Results) -> None:
    """Prints the scores."""
    pairs = zip(results["errors"], results["naive_errors"], strict=True)
    rows = [
        (n, short(error), short(naive)) for n, (error, naive) in enumerate(pairs, 1)
    ]
    columns = (">steps ahead", f">{results['model']}", ">naive: last value")
    console.table("Root mean square error on held-out values", columns, rows)
    rows = [
        (name, *("undefined" if v is None else short(v) for v in row.values()))
        for name, row in results["scores"].items()
    ]
    columns = ("forecast", ">MAE", ">RMSE", ">MASE")
    console.table("Errors on held-out values, over all steps", columns, rows)
    undefined, count = results["undefined_mase"], results["series"]
    if undefined:
        of = f" for {undefined} of the {count} series, which it leaves out"
        console.write(
            f"MASE is undefined{of if undefined < count else ''}: the seasonal naive "
            "forecast makes no error on the training part, or the part is no longer "
            "than a season."
        )
    if results["verdict"]:
        console.write(results["verdict"])


def short(value: float) -> str:
    """Formats a number with four digits, and all before the point.

    Examples:
        >>> short(12345.678), short(0.012345)
        ('12,346', '0.01235')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
