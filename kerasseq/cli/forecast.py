"""`kerasseq train forecast`: forecasts of a series, several steps ahead.

Train a model to predict the next values of a series, with an interval from the
quantile 0.1 to 0.9. The last fifth is held out. MAE, RMSE and MASE there are printed
beside those of simple forecasts: naive (the last value), seasonal naive (the value one
season before) and AR (autoregression). Then the values after the end are forecast.

Examples:
  kerasseq train forecast --file sales.csv --value sales --horizon 6
  kerasseq train forecast --file shops.csv --group shop --known price,holiday
  kerasseq train forecast --data sunspots --model gru --horizon 24

A column of --known must also be filled in for the rows to forecast: these are the rows
at the end of the table without a value. A column without numbers, such as the names of
holidays, has categories.
"""

import argparse
import copy
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import kerasseq
from kerasseq.cli import figures, options, runs, schedule, tables, text_tables
from kerasseq.cli.commands import Option, shared, task_defaults, task_table
from kerasseq.cli.console import note, set_seed, status
from kerasseq.cli.errors import UsageError, about
from kerasseq.cli.forecast_scores import beside_optimum, scores_of, short, show
from kerasseq.cli.run import Run
from kerasseq.core import checks
from kerasseq.core.files import replacing, sha256
from kerasseq.datasets import Series, series

if TYPE_CHECKING:
    from kerasseq.models import Forecaster

FILE = "file"  # the argument that names the user's data
SERIES = ("sunspots", "ar", "co2", "market", "weather")
MISSING = ("error", "interpolate", "forward")
QUANTILES = (0.1, 0.5, 0.9)  # the median, and the ends of an 80 % interval
HELD_OUT = 5  # one part in five
MAX_ORIGINS = 200  # from which the held-out values are forecast
MAX_FORECASTS = 20_000  # of them, over all series
MAX_SERIES = 1000  # that are compared with simple forecasts
SHOWN_ROWS = 48  # of a forecast, on the terminal
FORECAST = "forecast.csv"


def gaps(name: str) -> str:
    """Checks how the gaps of a series are treated.

    Examples:
        >>> gaps("skip")
        Traceback (most recent call last):
        ...
        argparse.ArgumentTypeError: "skip" is not for series, whose steps must be \
even. Choose interpolate or forward
    """
    if name == "skip":
        raise argparse.ArgumentTypeError(
            '"skip" is not for series, whose steps must be even. Choose interpolate or '
            "forward"
        )
    return options.one_of("choice", MISSING)(name)


_ONE = "(default: the one that fits)"
_KNOWN = "columns that are known in advance, such as price,holiday; numbers or "
_KNOWN += "categories, as is --with"
_CALENDAR = "features of the dates: day,month,year,weekday,hour"
_GAPS = f"empty cells and missing dates: {', '.join(MISSING)}"
_SEASON = "steps of a season (default: by the dates, such as 12 for months)"
OPTIONS = task_table(
    shared("model", "lstm", names=options.CAUSAL),
    shared("file", None, f"a table: {text_tables.KINDS}"),
    shared("data", names=SERIES),
    shared("encoding", None, "encoding of the file (default: utf-8, then cp1252)"),
    Option("--value COLUMN", "data", str, f"the column to forecast {_ONE}"),
    Option("--date COLUMN", "data", str, f"the column of dates {_ONE}"),
    Option("--group COLUMN", "data", str, "the column that tells several series apart"),
    Option("--with A,B", "data", str, "columns that are known up to the last value"),
    Option("--known A,B", "data", str, _KNOWN),
    Option("--calendar A,B", "data", str, _CALENDAR),
    Option("--missing NAME", "data", gaps, _GAPS, "error"),
    Option("--season N", "data", options.length, _SEASON),
    shared("units", 32),
    shared("num_layers", 1),
    shared(
        "sequence_length",
        None,
        "time steps in an example (default: two seasons, at least 24, "
        "at most half of the series)",
    ),
    shared("batch_size", 32),
    shared("learning_rate", 2e-3),
    shared(
        "steps", None, "training steps (default: as many as help on a validation part)"
    ),
    shared("max_minutes"),
    shared("checkpoint_every", 100),
    Option("--horizon N", "", options.length, "steps ahead to forecast", 12),
    shared("seed", 0),
)
DEFAULTS = task_defaults(OPTIONS)


class Source(NamedTuple):
    """What is forecast.

    Attributes:
        table: A DataFrame or a `datasets.Series`.
        columns: The columns `value`, `date` and `group`.
        data: Source and checksum, for `run.json`.
        categories: Columns of `--with` and `--known` that have categories.
    """

    table: Any
    columns: dict[str, str | None]
    data: dict[str, Any]
    categories: Sequence[str] = ()


def train(run: Run) -> runs.Results:
    """Trains the model, evaluates its forecasts and draws the figures.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    settings = run.settings
    source = read(settings)
    run.check_data(source.data)
    model = build(settings, source.categories)
    with about(settings.file), status("reading the series"):
        table = model.read(source.table, missing=settings.missing, **source.columns)
        cuts = held_out(table, settings.horizon)
    with about(settings.file), status("preparing the windows"):
        sizes = {"season": settings.season, "length": settings.sequence_length}
        x, y = model.prepare(table.until(cuts), **sizes)
    schedule.check_memory(_sized(settings, x.shape[1]), len(x))
    batches = kerasseq.training.ArrayBatches(x, y, settings.batch_size, settings.seed)
    run.start(source.data, describe(source, table, cuts))
    # The model learns from the first part alone, and continues the whole: also if the
    # run is stopped.
    model.set_history(table)
    steps = settings.steps or chosen_steps(run, model, table.until(cuts))
    history = run.fit(model, batches, steps, "mae")
    comparison = compare(run, model, table, cuts)
    scores = scores_of(comparison, model.title)
    scores |= {"baseline": model.baseline, "selection": model.training_verdict()}
    if isinstance(source.table, Series) and source.table.process is not None:
        ends = [end for (end,) in origins(table, cuts, settings)]
        words = source.table.process, table.series[0].values, ends
        scores |= beside_optimum(comparison, model.title, *words)
    results = run.results(model, history, steps, **scores)
    show(run.console, results)
    future = known_steps(table, settings)
    if future:
        write_forecast(run, model, source, future)
    run.draw(lambda: draw(run, model, table, history, future))
    return run.finish(results)


def chosen_steps(run: Run, model: "Forecaster", part: Any) -> int:
    """Returns how many steps help on a validation part, and calibrates the intervals.

    Args:
        run: The run.
        model: The model.
        part: The series up to the held-out values.
    """
    what = f"{run.settings.model} beside {model.baseline}, for as many steps as help,"
    run.end_dry_run(what, model=run.settings.model, baseline=model.baseline)
    with status("finding how many steps help on a validation part"):
        return model.choose_steps(part, batch_size=run.settings.batch_size).steps


def read(settings: options.Settings) -> Source:
    """Reads the table or the series, and guesses the columns that are not named."""
    if settings.file is None:
        settings.data = settings.data or SERIES[0]
        table = series(settings.data, seed=settings.seed)
        checksum = sha256(table.values.tobytes())
        return Source(table, {}, {"source": settings.data, "sha256": checksum})
    frame = tables.read_table(settings.file, settings.encoding)
    with about(settings.file):
        columns = guess_columns(settings, frame)
    data = {"source": settings.file, "sha256": frame.attrs["sha256"]}
    return Source(frame, columns, data, category_columns(settings, frame))


def category_columns(settings: options.Settings, frame: Any) -> list[str]:
    """Returns the named columns without numbers whose cells repeat; notes them."""
    pandas, columns = text_tables.require_pandas(), []
    for name in [*names(getattr(settings, "with")), *names(settings.known)]:
        cells = frame[name].dropna()
        is_number = pandas.to_numeric(cells, errors="coerce").notna()
        if len(cells) and not is_number.any() and cells.nunique() <= len(cells) / 2:
            columns.append(name)
            note(f"{name} has {cells.nunique()} categories, such as {cells.iloc[0]!r}")
    return columns


def names(text: str | None) -> list[str]:
    """Splits the names of columns.

    Examples:
        >>> names("price, holiday"), names(None)
        (['price', 'holiday'], [])
    """
    return [name.strip() for name in text.split(",")] if text else []


def guess_columns(settings: options.Settings, frame: Any) -> dict[str, str | None]:
    """Returns the columns `value`, `date` and `group`; notes those that are guessed."""
    check_columns(settings, frame)
    taken = [settings.group, *names(getattr(settings, "with")), *names(settings.known)]
    date = settings.date
    if date is None:
        taken_or_value = [*taken, settings.value]
        fitting = [n for n in tables.date_columns(frame) if n not in taken_or_value]
        date = _only("date", fitting, frame) if fitting else None
        if date is None:
            note("no column has dates: the rows are taken as evenly spaced")
    value = settings.value
    if value is None:
        taken = [*taken, date]
        fitting = [n for n in tables.number_columns(frame) if n not in taken]
        value = _only("value", fitting, frame)
    guessed = [(n, c) for n, c in (("value", value), ("date", date))
               if c is not None and getattr(settings, n) is None]  # fmt: skip
    if guessed:
        words = " ".join(f"--{name} {column}" for name, column in guessed)
        note(f"columns found: {words}")
    return {"value": value, "date": date, "group": settings.group}


def check_columns(settings: options.Settings, frame: Any) -> None:
    """Raises a `UsageError` if a column that was named does not exist."""
    for option in ("value", "date", "group", "with", "known"):
        text = getattr(settings, option)
        several = option in ("with", "known")
        for name in names(text) if several else [text]:
            if name is not None and name not in frame.columns:
                listed = ", ".join(map(str, frame.columns))
                raise UsageError(
                    f"--{option}: there is no column {name!r}."
                    f"{checks.nearest(name, frame.columns)} The columns are {listed}"
                )


def _only(role, fitting, frame):
    if len(fitting) == 1:
        return fitting[0]
    fit = ", ".join(map(str, fitting)) or "none"
    raise UsageError(
        f"expected --{role}, as not exactly one column fits: {fit}. The columns are "
        f"{', '.join(map(str, frame.columns))}"
    )


def build(settings: options.Settings, categories: Sequence[str] = ()) -> "Forecaster":
    """Builds and compiles the model."""
    import keras

    schedule.check_memory(_sized(settings, 1), settings.batch_size)
    set_seed(settings.seed)
    with status("building the model"):
        model = kerasseq.models.Forecaster(
            settings.model,
            horizon=settings.horizon,
            units=settings.units,
            num_layers=settings.num_layers,
            past=names(getattr(settings, "with")),
            known=names(settings.known),
            calendar=names(settings.calendar),
            quantiles=QUANTILES,
            categories=categories,
        )
    adam = keras.optimizers.Adam(settings.learning_rate, global_clipnorm=1.0)
    model.compile(adam)
    return model


def _sized(settings, length):
    sized = copy.copy(settings)
    sized.sequence_length = length
    return sized


def held_out(table: Any, horizon: int) -> list[int]:
    """Returns the number of values of each series before the held-out part.

    Raises:
        ValueError: If a series is too short.
    """
    cuts = []
    for one in table.series:
        count = len(one.values)
        cut = count - max(count // HELD_OUT, horizon)
        if cut < horizon + 2:
            raise ValueError(
                f"{one.title} has {count} values, too few for --horizon {horizon}: it "
                f"needs at least {2 * horizon + 2}. Choose a smaller horizon"
            )
        cuts.append(cut)
    return cuts


def origins(table: Any, cuts: list[int], settings: options.Settings) -> list[list[int]]:
    """Chooses the origins of forecasts of the held-out part, alike for all series."""
    rests = [len(one.values) - cut for one, cut in zip(table.series, cuts, strict=True)]
    last = min(rests) - settings.horizon  # steps from the first origin to the last
    stride = 1 + last // max(1, min(MAX_ORIGINS, MAX_FORECASTS // len(rests)))
    return [[cut + step for cut in cuts] for step in range(0, last + 1, stride)]


def compare(run: Run, model: "Forecaster", table: Any, cuts: list[int]) -> Any:
    """Compares forecasts of the held-out values with those of simple models.

    Of many series some are compared, chosen at random.
    """
    settings, count = run.settings, len(table.series)
    chosen = np.arange(count)
    if count > MAX_SERIES:
        rng = np.random.default_rng(settings.seed)
        chosen = np.sort(rng.permutation(count)[:MAX_SERIES])
        run.console.write(
            f"{MAX_SERIES:,} of the {count:,} series, chosen at random, are compared "
            "with simple forecasts."
        )
    some = dataclasses.replace(table, series=[table.series[n] for n in chosen])
    cuts = [cuts[n] for n in chosen]
    with status("forecasting the held-out values"):
        times = origins(some, cuts, settings)
        return model.compare(some, times, settings.horizon, cuts)


def describe(source: Source, table: Any, cuts: list[int]) -> str:
    """Describes what is forecast."""
    counts = [len(one.values) for one in table.series]
    words = f"{source.data['source']}: {sum(counts):,} values"
    if len(counts) > 1:
        words += f" of {len(counts)} series"
    if table.frequency is not None:
        words += f", {table.frequency}"
        first = min(one.dates[0] for one in table.series)
        last = max(one.dates[len(one.values) - 1] for one in table.series)
        words += f" from {first.astype('M8[D]')} to {last.astype('M8[D]')}"
    lines = [f"{words}; the last {sum(counts) - sum(cuts):,} are held out."]
    future = sum(len(one.others) - len(one.values) for one in table.series)
    if future:
        lines.append(f"{future:,} rows at the end have no value: the future.")
    parts = zip(table.series, cuts, strict=True)
    constant = sum(not np.ptp(one.values[:cut]) for one, cut in parts)
    if constant:
        lines.append(
            f"{constant} of the {len(counts)} series are constant before the held-out "
            "part: the model does not learn from them, and forecasts the constant."
        )
    return "\n".join(lines)


def known_steps(table: Any, settings: options.Settings) -> int:
    """Returns the steps after the end that can be forecast."""
    if not settings.known:
        return settings.horizon
    future = min(len(one.others) - len(one.values) for one in table.series)
    if not future:
        note(
            f"no forecast after the end: the table has no rows with {settings.known} "
            "and without a value at its end"
        )
    return min(future, settings.horizon)


def note_start(model: "Forecaster") -> None:
    """Notes where the forecast after the end starts."""
    ends = list(model.last_steps().values())
    first, last = (
        end if isinstance(end, int) else np.datetime_as_string(end, unit="auto")
        for end in (min(ends), max(ends))
    )
    where = f"value {first:,}" if isinstance(first, int) else first
    if first != last:
        where = f"the last value of each series, from {first} to {last}"
    note(f"the forecast starts after {where}")


def write_forecast(run: Run, model: "Forecaster", source: Source, steps: int) -> None:
    """Prints the forecast after the end; that of a table is written, too."""
    with status("forecasting the values after the end"):
        forecast = model.forecast(steps)
    if isinstance(forecast, np.ndarray):
        values, columns = forecast.tolist(), [f"quantile {q:g}" for q in QUANTILES]
    else:
        file = run.folder / FORECAST
        with replacing(file) as temporary:
            forecast.to_csv(temporary, index=False)
        text_tables.note_formulas(file, forecast.to_numpy("object").ravel())
        if (date := source.columns.get("date")) is not None:
            forecast[date] = forecast[date].astype(str).str.removesuffix(" 00:00:00")
        shown, columns = forecast[:SHOWN_ROWS], forecast.columns
        values = shown.to_numpy("object").tolist()
    rows = [[short(v) if isinstance(v, float) else v for v in row] for row in values]
    heads = [h if isinstance(v, str) else f">{h}" for h, v in zip(
        map(str, columns), values[0], strict=True)]  # fmt: skip
    run.console.table("Forecast after the last value", heads, rows)
    if more := len(forecast) - len(values):
        run.console.write(f"and {more:,} more rows, in {FORECAST}")


def draw(
    run: Run, model: "Forecaster", table: Any, history: runs.History, future: int
) -> list[Any]:
    """Draws the forecast, the training, and what happens inside the model."""
    x, y = model.last_example()
    horizon = run.settings.horizon
    flow = figures.flow_of(model, x, y)
    ends = [len(one.values) - horizon for one in table.series]
    files = []
    if future:
        plot = model.plot(future)
        files.append(figures.save(plot, run.folder / "forecast.png"))
    of_training = []  # without training there is no history
    if history:
        title = "Loss on scaled values"
        of_training = [figures.history(run.folder, history, "loss", title)]
    held = model.plot_held_out(table, ends, horizon)
    return [
        *files,
        figures.save(held, run.folder / "held_out.png"),
        *of_training,
        *figures.of_trace(run.folder, figures.record(model, x), None, flow, None),
    ]
