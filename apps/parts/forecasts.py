"""Forecasts of a series by the networks of the Memory race, beside simple ones."""

import pathlib
from collections.abc import Callable
from typing import Any

from parts import figures, races, run_names, runs, uploads, work

AR = "ar"  # generated, so that the least errors are known
SERIES = {  # by the steps of a season
    "sunspots": 11,
    "co2": 52,
    "market": 5,
    "weather": 52,
    AR: 6,
}
LENGTH = 300  # values of a drawn curve
ORIGINS = 25  # from which held-out values are forecast, at most
BEFORE = 60  # values that are shown before a forecast
SIMPLE = {"naive": "naive", "seasonal naive": "seasonal_naive", "AR": "ar"}  # texts
OPTIMUM = "baseline#optimum"
ACTUAL = "baseline#actual"  # gray, so that the others have the same colors in all
SHARE = 5  # the last fifth is held out, as `kerasseq train forecast` does


def curve(amplitude: float, period: int, trend: float, noise: float) -> list[float]:
    """Returns a curve: a wave, a line and noise.

    Args:
        amplitude: The height of the wave.
        period: Its length, in steps.
        trend: What the line gains in 100 steps.
        noise: The standard deviation of the noise.

    Examples:
        >>> [round(value, 1) for value in curve(2.0, 4, 100.0, 0.0)[:4]]
        [0.0, 3.0, 2.0, 1.0]
    """
    import numpy as np

    t, rng = np.arange(LENGTH), np.random.default_rng(0)
    wave = amplitude * np.sin(2 * np.pi * t / period)
    values = wave + trend * t / 100 + noise * rng.normal(size=LENGTH)
    return values.round(4).tolist()


def keep(values: list[float]) -> pathlib.Path:
    """Writes a curve to a file for the command, once, and returns the file."""
    content = "\n".join(["value", *map(str, values)]).encode() + b"\n"
    return uploads.keep(content, "csv")


def values_of(source: str) -> Any:
    """Returns a series, or the table of the file of a curve."""
    import pandas

    import kerasseq

    if source in SERIES:
        return kerasseq.datasets.series(source, seed=0)  # as the command does
    return pandas.read_csv(source)


def forecast(
    folder: pathlib.Path, source: str, season: int, steps: int, start: float
) -> dict[str, Any]:
    """Forecasts held-out values, each from those before it and its own forecasts.

    Args:
        folder: The run of the model.
        source: The name of the series, or the file of a curve.
        season: Steps of a season.
        steps: Steps of a forecast.
        start: Where it begins in the held-out part, from 0 to 1.

    Returns:
        "first", the index of the first value in "values", the values before and during
        the forecast; "origin", the index of the first value forecast; "forecasts", by
        name, that of the model first; "errors", by name the root mean square error at
        each step, over all origins; "origins", their number; "optimum", the least
        errors that are possible, or None.
    """
    import numpy as np

    model = work.model(folder)
    series = values_of(source)
    process = getattr(series, "process", None)
    table = model.read(series)
    count = len(table.series[0].values)
    cut = count - max(count // SHARE, model.get_config()["horizon"])
    last = count - steps  # of the origins
    ends = np.unique(np.linspace(min(cut, last), last, ORIGINS).astype(int)).tolist()
    origin = ends[round(start * (len(ends) - 1))]
    over_all = model.compare(table, [[end] for end in ends], steps, [min(cut, last)])
    at = ends.index(origin)
    values = table.series[0].values
    first = max(0, origin - BEFORE)
    return {
        "first": first,
        "values": np.asarray(values[first : origin + steps], "float64"),
        "origin": origin,
        "forecasts": {name: y[0, at] for name, y in over_all.forecasts.items()},
        "errors": over_all.errors_by_step(),
        "origins": len(ends),
        "optimum": None if process is None else process.least_errors(steps) ** 0.5,
    }


def request(cell: str, title: str, source: str, season: int, **sizes: Any) -> Any:
    """Returns what one network trains: a run of `kerasseq train forecast`."""
    data = {"data": source} if source in SERIES else {"file": source, "value": "value"}
    options = {**data, "model": cell, "season": season, **sizes}
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    details = {
        "cell": cell,
        "source": source,
        "season": season,
        "steps": sizes["steps"],
        "settings": {"series": source if source in SERIES else "drawn", **sizes},
    }
    return runs.Request(
        ("forecast", *words), work.backend(), title, "race_forecast", details
    )


def series_of(here: Any) -> tuple[str, int, dict[str, Any]]:
    """Draws the choice of a series.

    Returns:
        Its name or its file, its season, and the values of its code.
    """
    with here.controls():
        name = here.choice("series", (*SERIES, "drawn"), wide=True)
    if name != "drawn":
        return name, SERIES[name], {"source": name}
    with here.controls():
        amplitude = here.slider("amplitude", 0.0, 10.0, 5.0, 0.5)
        period = here.slider("period", 4, 60, 24)
        trend = here.slider("trend", -10.0, 10.0, 1.0, 0.5)
        noise = here.slider("noise", 0.0, 3.0, 0.5, 0.1)
    found = here.compute(curve, amplitude, period, trend, noise)
    rows = [{"time": n, "value": v, "of": "drawn"} for n, v in enumerate(found)]
    titles = {key: here.text(f"title_{key}") for key in ("time", "value")}
    chart = figures.lines(here.style, rows, "time", "value", "of", titles=titles)
    here.picture("curve", chart, rows, titles)
    drawn = {"amplitude": amplitude, "period": period, "trend": trend, "noise": noise}
    return str(keep(found)), period, {**drawn, "length": LENGTH}


def body(here: Any, code: Callable[[str | None], str], names: dict[str, str]) -> None:
    """Draws the page: the runs, and what the networks forecast.

    Args:
        here: The lab.
        code: Returns the code of a series, or of a curve that was drawn.
        names: How the networks are called.
    """
    source, season, series = series_of(here)
    with here.controls():
        cells = here.several("cells", list(names), ("elman", "lstm"), labels=names)
        steps = here.steps("updates", (20, 100, 300, 1000, 3000), 300)
        horizon = here.steps("horizon", (1, 3, 6, 12, 24), 12)
        units = here.steps("width", (8, 16, 32, 64), 32)
    sizes = {"steps": steps, "horizon": horizon, "units": units}
    wanted = [request(c, names[c], source, season, **sizes) for c in cells]
    if source == "market":
        here.say("random_walk")
    template = code(series.get("source"))
    here.code(template, cells=cells, season=season, **series, **sizes)
    draw = races.curves(here, ("loss",))
    found = here.runs(wanted, draw, "start_forecasts", part="forecast")
    done = [
        run
        for run in found
        if run.state == "finished" and run.request.details["source"] == source
    ]
    if done:
        results(here, done, run_names.names(here, found), source, season)
    else:
        here.say("no_forecast")


def results(
    here: Any, done: list[runs.Run], called: dict[str, str], source: str, season: int
) -> None:
    """Draws the forecasts of finished runs, and their errors by step.

    Args:
        here: The lab.
        done: The runs.
        called: Their names.
        source: The name of the series, or the file of a curve.
        season: Steps of a season.
    """
    with here.controls():
        steps = here.slider("ahead", 2, 60, 48)
        start = here.slider("begin", 0.0, 1.0, 0.0, 0.05)
    rows, errors, names, found = [], [], {}, {}
    for run in done:
        found = here.compute(forecast, run.folder, source, season, steps, start)
        own, *simple = found["forecasts"]
        key = races.name_of(run)
        names[key] = called[run.id]
        kinds = {own: key} | ({} if run is not done[0] else {s: s for s in simple})
        for name, line in kinds.items():
            values = enumerate(found["forecasts"][name], found["origin"])
            rows += [{"time": t, "value": float(v), "line": line} for t, v in values]
            by_step = enumerate(found["errors"][name], 1)
            errors += [{"step": n, "error": float(e), "line": line} for n, e in by_step]
    for name in simple:
        names[name] = here.text(SIMPLE[name.partition("(")[0]])
    if found["optimum"] is not None:
        names[OPTIMUM] = here.text("optimum")
        least = enumerate(found["optimum"], 1)
        errors += [{"step": n, "error": float(e), "line": OPTIMUM} for n, e in least]
    names[ACTUAL] = here.text("actual")
    values = enumerate(found["values"], found["first"])
    rows = [{"time": t, "value": float(v), "line": ACTUAL} for t, v in values] + rows
    for name, table, x, y in (
        ("forecasts", rows, "time", "value"),
        ("errors", errors, "step", "error"),
    ):
        titles = {key: here.text(f"title_{key}") for key in table[0]}
        options = {"titles": titles, "names": names}
        chart = figures.lines(here.style, table, x, y, "line", **options)
        shown = [{**row, "line": names[row["line"]]} for row in table]
        here.picture(name, chart, shown, titles)
