"""Scores of forecasts as plain data, and printed."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import kerasseq
from kerasseq.cli import runs, verdict
from kerasseq.cli.console import Console
from kerasseq.datasets import AutoregressiveProcess

SAME = 1e-5  # of a score: a difference below it is one of rounding


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
        "verdict": sentence_of(comparison, title),
        "coverage": comparison.coverage(),
        "nominal_coverage": comparison.nominal,
        "series": len(comparison.scales),
        "undefined_mase": undefined,
    }


def beside_optimum(
    comparison: Any,
    title: str,
    process: AutoregressiveProcess,
    values: np.ndarray,
    ends: Sequence[int],
) -> dict[str, Any]:
    """Compares a model with the best possible forecasts, as plain data.

    Args:
        comparison: A `Comparison` of one series.
        title: Name of the model.
        process: What generated the series.
        values: The series.
        ends: For each origin the number of values before it.

    Returns:
        The least root mean square errors by step ahead; and the mean squared error of
        the model above that of the best forecasts, from the same origins, with its
        standard error; None where there are too few origins.
    """
    forecasts, actual = comparison.forecasts[title][0], comparison.actual[0]
    horizon, order = actual.shape[1], len(process.coefficients)
    scores: dict[str, Any] = {
        "optimum": np.sqrt(process.least_errors(horizon)).tolist(),
        "excess": None,
        "excess_error": None,
    }
    if len(ends) >= 2 * horizon:
        x = np.stack([values[end - order : end] for end in ends])
        excess = kerasseq.training.forecast_excess(forecasts, process, x, actual)
        scores |= {"excess": excess.excess, "excess_error": excess.error}
        scores["leaks"] = excess.leaks
    return scores


def sentence_of(comparison: Any, title: str) -> str:
    """Says whether a model is better than the best simple forecast, and by how much.

    The interval is that of the bootstrap over blocks of origins, each as long as a
    forecast, as the errors of neighboring origins depend on each other.

    Args:
        comparison: A `Comparison` of the model and simple forecasts.
        title: Name of the model.
    """
    score = "MAE" if np.isnan(comparison.scales).all() else "MASE"
    scores = {name: row[score] for name, row in comparison.scores().items()}
    own = scores.pop(title)
    best = min(scores, key=lambda name: scores[name])
    errors = {
        name: np.abs(y - comparison.actual).mean(axis=2)  # (series, origins)
        for name, y in comparison.forecasts.items()
    }
    gains = errors[best] - errors[title]
    if score == "MASE":
        gains = (gains / comparison.scales[:, None])[~np.isnan(comparison.scales)]
    horizon = comparison.actual.shape[2]
    blocks = np.array_split(gains, max(1, gains.shape[1] // horizon), axis=1)
    sums, sizes = (
        np.concatenate([of(block) for block in blocks])
        for of in (lambda b: b.sum(axis=1), lambda b: np.full(len(b), b.shape[1]))
    )
    better_by = verdict.difference(sums, sizes)
    origins = gains.shape[1]
    numbers = (
        f"{score} {short(own)}, {best} {short(scores[best])}, better by "
        f"{better_by.mean:+.3g} ({better_by.interval}forecasts from {origins:,} "
        f"origin{'s' * (origins > 1)})"
    )
    if abs(better_by.mean) <= SAME * scores[best]:
        return f"The forecasts are those of {best}: {score} {short(own)}."
    if better_by.is_certain:
        return f"{title} is better than the best simple forecast: {numbers}."
    if own < scores[best]:
        return (
            f"{title} is not clearly better than {best}: {numbers}. The difference may "
            "be chance."
        )
    return (
        f"{title} does not beat its baseline: {numbers}. Forecast with {best}, or name "
        "columns that are known in advance (--known), or give more values."
    )


def show(console: Console, results: runs.Results) -> None:
    """Prints the scores."""
    pairs = zip(results["errors"], results["naive_errors"], strict=True)
    rows = [
        (n, short(error), short(naive)) for n, (error, naive) in enumerate(pairs, 1)
    ]
    columns = (">steps ahead", f">{results['model']}", ">naive: last value")
    if "optimum" in results:
        best = map(short, results["optimum"])
        rows = [(*row, least) for row, least in zip(rows, best, strict=True)]
        columns = (*columns, ">best possible")
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
    if results["coverage"] is not None:
        console.write(
            f"The intervals hold {results['coverage']:.0%} of the held-out values, and "
            f"should hold {results['nominal_coverage']:.0%}."
        )
    for sentence in filter(None, (results.get("selection"), results["verdict"])):
        console.write(sentence)
    if results.get("excess") is not None:
        console.write(
            "Mean squared error above that of the best possible forecasts, from the "
            f"same origins: {results['excess']:+.3g} ± {results['excess_error']:.2g}"
            + (": the forecasts know what they must predict." * results["leaks"] or ".")
        )


def short(value: float) -> str:
    """Formats a number with four digits, and all before the point.

    Examples:
        >>> short(12345.678), short(0.012345)
        ('12,346', '0.01235')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
