"""`kerasseq train forecast`: the next values of a series, forecasts fed back."""

import keras
import numpy as np

from kerasseq import models, tracing, training
from kerasseq.cli import capacity, figures, fitting, runs
from kerasseq.cli.console import note
from kerasseq.cli.quiet import set_seed
from kerasseq.cli.train import sha256
from kerasseq.cli.waiting import waiting
from kerasseq.datasets import series, windows


def train(job) -> dict:
    """Train, forecast, compare.

    Args:
        job: The `Job`.

    Returns:
        The results, as plain data.
    """
    settings = job.settings
    values, data = read_series(settings)
    job.check_data(data)
    cut = len(values) - len(values) // 5
    length = settings.sequence_length
    if len(values) - cut < settings.ahead or cut < length + 1:
        raise ValueError(
            f"the series {settings.data} has {len(values)} values, too few for "
            f"--sequence-length {length} and --ahead {settings.ahead}"
        )
    x, y = windows(values[:cut], length)
    batches = training.ArrayBatches(x, y, settings.batch_size, settings.seed)
    capacity.check(settings, len(x))
    with waiting("building the model"):
        model = build(settings, values[:cut])
    job.begin(data)
    job.console.say(
        f"{settings.data}: {len(values):,} values; the last {len(values) - cut:,} are "
        f"held out. The run is kept in {job.folder}"
    )
    try:
        history = fitting.fit(
            model,
            batches.stream,
            folder=job.folder,
            steps=settings.steps,
            interval=settings.checkpoint_every,
            console=job.console,
            label=settings.model,
            metric="mae",
        )
    except KeyboardInterrupt:
        runs.save_model(model, job.folder)
        raise
    runs.save_model(model, job.folder)
    with waiting("forecasting what is held out"):
        errors = errors_by_distance(model, values, cut, length, settings.ahead)
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


def read_series(settings):
    """The values, and where they are from."""
    values = series(settings.data, seed=settings.seed).values
    return values, {"source": settings.data, "sha256": sha256(values.tobytes())}


def build(settings, values):
    """The model, compiled, with mean and spread of the values it learns from."""
    set_seed(settings.seed)
    model = models.Forecaster(
        settings.model, units=settings.units, num_layers=settings.layers
    )
    model.compile(keras.optimizers.Adam(settings.learning_rate, global_clipnorm=1.0))
    for name in ("standardize", "restore"):
        model.get_layer(name).set(values)
    return model


def errors_by_distance(model, values, cut, length, ahead) -> dict:
    """Root mean square errors, 1 to `ahead` steps away, from every place held out."""
    x, y = windows(values[cut - length :], length, ahead)
    forecasts = model.forecast(x, ahead)
    naive = x[:, -1:, 0]

    def rms(forecast):
        return np.sqrt(np.mean((forecast - y) ** 2, axis=0)).tolist()

    return {"errors": rms(forecasts), "errors_of_last_value": rms(naive)}


def show(console, results):
    """Print the table."""
    rows = [
        (n, f"{own:.3f}", f"{naive:.3f}")
        for n, (own, naive) in enumerate(
            zip(results["errors"], results["errors_of_last_value"], strict=True), 1
        )
    ]
    columns = (">steps ahead", f">{results['model']}", ">last value repeated")
    title = "Error on held-out values (root mean square), forecasts fed back"
    console.table(title, columns, rows)


def draw(job, model, values, history):
    """Draw the figures, or say what is missing for them."""
    if not figures.possible():
        note(f"no figures: {figures.MISSING}")
        return
    x, y = windows(values, job.settings.sequence_length)
    with waiting("drawing the figures"):
        flow = tracing.gradient_flow(model, x[-1:], y[-1:])
        files = [
            figures.history(job.folder, history, "loss", "Mean square error"),
            figures.gates(job.folder, model, x[-1:], None),
            figures.flow(job.folder, flow, None),
        ]
    job.console.say(f"Figures: {', '.join(str(file) for file in files if file)}")
