"""`kerasseq train forecast`: forecasts of a series, several steps ahead."""

import functools
from typing import TYPE_CHECKING

import numpy as np

import kerasseq
from kerasseq.cli import figures, options, runs
from kerasseq.cli.console import Console, note, set_seed, status
from kerasseq.cli.runs import sha256
from kerasseq.datasets import series, windows

if TYPE_CHECKING:
    from kerasseq.cli.train import Job

SERIES = ("ar", "sunspots", "co2")
FILE = None  # there are no data of the user
DEFAULTS = {
    "model": "lstm",
    "data": "sunspots",
    "units": 32,
    "num_layers": 1,
    "sequence_length": 24,
    "batch_size": 32,
    "learning_rate": 3e-3,
    "steps": 1000,
    "checkpoint_every": 100,
    "horizon": 12,
    "seed": 0,
}


def add_task(add: options.Add, tasks: options.Subparsers) -> None:
    """Adds the task to the parser of `kerasseq train`."""
    parser = add(
        "forecast",
        "predict the next values of a series",
        """\
Train a model to predict the next value of a series; longer forecasts feed its
predictions back as inputs. The last fifth is held out. The errors there are printed by
steps ahead, beside those of a naive forecast that repeats the last value.""",
        """\
examples:
  kerasseq train forecast --data ar
  kerasseq train forecast --data sunspots --model lstm --units 32 --horizon 24""",
        tasks=tasks,
    )
    options.add_resume(parser)
    name = options.one_of("series", SERIES)
    options.add(parser, DEFAULTS, "--data", name, ", ".join(SERIES), "NAME")
    text = "steps ahead to forecast"
    options.add(parser, DEFAULTS, "--horizon", options.length, text)
    options.add_model(parser, DEFAULTS)
    options.add_training(parser, DEFAULTS, "training steps (default: 1000)")
    options.add_location(parser, "runs/forecast-MODEL-N")


def train(job: "Job") -> runs.Results:
    """Trains the model, evaluates its forecasts and draws the figures.

    Args:
        job: The `Job` of `kerasseq train`.

    Returns:
        The results, as plain data.
    """
    from kerasseq.cli.fitting import check_memory  # loads Keras

    settings = job.settings
    values = series(settings.data, seed=settings.seed).values
    data = {"source": settings.data, "sha256": sha256(values.tobytes())}
    job.check_data(data)
    cut = len(values) - len(values) // 5
    length, horizon = settings.sequence_length, settings.horizon
    if len(values) - cut < horizon or cut < length + 1:
        raise ValueError(
            f"the series {settings.data} has {len(values)} values, too few for "
            f"--sequence-length {length} and --horizon {horizon}. Choose smaller ones"
        )
    x, y = windows(values[:cut], length)
    batches = kerasseq.training.ArrayBatches(x, y, settings.batch_size, settings.seed)
    check_memory(settings, len(x))
    with status("building the model"):
        model = build(settings, values[:cut])
    job.start(data)
    job.console.write(
        f"{settings.data}: {len(values):,} values; the last {len(values) - cut:,} are "
        "held out."
    )
    history = job.fit(model, batches, settings.steps, "mae")
    with status("forecasting the held-out values"):
        errors = errors_by_step(model, values, cut, length, horizon)
    results = {
        "task": job.task,
        "model": settings.model,
        "steps": settings.steps,
        "loss": history[-1]["loss"],
        **errors,
        "run": str(job.folder),
    }
    show(job.console, results)
    draw(job, model, values, history)
    job.finish(results)
    return results


def build(
    settings: options.Settings, values: np.ndarray
) -> "kerasseq.models.Forecaster":
    """Builds and compiles the model, standardized to the training values."""
    import keras

    set_seed(settings.seed)
    model = kerasseq.models.Forecaster(
        settings.model, units=settings.units, num_layers=settings.num_layers
    )
    model.compile(keras.optimizers.Adam(settings.learning_rate, global_clipnorm=1.0))
    for name in ("standardize", "restore"):
        model.get_layer(name).set(values)
    return model


def errors_by_step(
    model: "kerasseq.models.Forecaster",
    values: np.ndarray,
    cut: int,
    length: int,
    horizon: int,
) -> dict[str, list[float]]:
    """Computes root mean square errors by steps ahead, over all held-out windows."""
    x, y = windows(values[cut - length :], length, horizon)
    forecasts = model.forecast(x, horizon)
    naive = x[:, -1:, 0]

    def rmse(forecast):
        return np.sqrt(np.mean((forecast - y) ** 2, axis=0)).tolist()

    return {"errors": rmse(forecasts), "naive_errors": rmse(naive)}


def show(console: Console, results: runs.Results) -> None:
    """Prints the errors."""
    pairs = zip(results["errors"], results["naive_errors"], strict=True)
    rows = [
        (n, f"{error:.3f}", f"{naive:.3f}") for n, (error, naive) in enumerate(pairs, 1)
    ]
    columns = (">steps ahead", f">{results['model']}", ">naive: last value")
    console.table("Root mean square error on held-out values", columns, rows)


def draw(
    job: "Job",
    model: "kerasseq.models.Forecaster",
    values: np.ndarray,
    history: runs.History,
) -> None:
    """Draws the figures, if matplotlib is installed."""
    if not figures.available():
        note(f"no figures: {figures.MISSING}")
        return
    x, y = windows(values, job.settings.sequence_length)
    x, y = x[-1:], y[-1:]
    with status("drawing the figures"):
        flow = functools.partial(kerasseq.tracing.gradient_flow, model, x, y)
        trace = figures.record(model, x)
        files = [
            figures.history(job.folder, history, "loss", "Mean squared error"),
            *figures.of_trace(job.folder, trace, None, flow, None),
        ]
    job.console.write(f"Figures: {', '.join(map(str, files))}")
