"""The code that the lab Memory race shows."""

RACE = """
import keras
import kerasseq

strings = kerasseq.datasets.parentheses(
    20_000, colors={colors}, lengths={lengths}, kind={kind}, seed={seed}
)
tests = {
    kind: kerasseq.datasets.parentheses(
        500, colors={colors}, lengths={lengths}, kind=kind, seed=9
    )
    for kind in ("balanced", "training", "hard")
}
for cell in {cells}:
    keras.utils.set_random_seed({seed})
    model = kerasseq.models.SequenceClassifier(
        cell, 2, vocabulary_size=2 * {colors} + 1, units={units}
    )
    model.compile(keras.optimizers.Adam({learning_rate}), metrics=["accuracy"])
    epochs = max(1, {steps} * {batch_size} // 20_000)
    model.fit(
        strings.ids, strings.labels, batch_size={batch_size}, epochs=epochs, verbose=2
    )
    for kind, test in tests.items():
        found = model.evaluate(test.ids, test.labels, verbose=0, return_dict=True)
        print(cell, kind, found["accuracy"])
"""

NOISY = (  # where some labels are wrong
    ("datasets.parentheses(", "datasets.noisy_parentheses("),
    ("colors={colors}, lengths", "colors={colors}, flipped={flipped}, lengths"),
)

SERIES = "values = kerasseq.datasets.series({source}, seed=0).values"
GENERATED = """
series = kerasseq.datasets.series({source}, seed=0)
values, least = series.values, series.process.least_errors(ahead) ** 0.5
print("best possible |", least[[0, -1]].round(2))
"""
DRAWN = """
t, rng = np.arange({length}), np.random.default_rng(0)
wave = {amplitude} * np.sin(2 * np.pi * t / {period}) + {trend} * t / 100
values = (wave + {noise} * rng.normal(size=len(t))).astype("float32")
"""
FORECAST = """
import numpy as np

import kerasseq

season, horizon, ahead = {season}, {horizon}, 48
VALUES
cut = len(values) - max(len(values) // 5, horizon)
for cell in {cells}:
    model = kerasseq.models.Forecaster(cell, horizon=horizon, units={units})
    model.compile("adam")
    x, y = model.prepare(values[:cut], season=season)
    epochs = max(1, {steps} * 32 // len(x))
    model.fit(x, y, batch_size=32, epochs=epochs, verbose=2)
    table = model.read(values)
    found = model.compare(table, [[cut]], min(ahead, len(values) - cut), [cut])
    for name, error in found.errors_by_step().items():
        print(cell, "|", name, error[[0, -1]].round(2))
"""


def race(flipped):
    """Returns the code of a race, as a template.

    Args:
        flipped: The share of labels that are wrong.
    """
    code = RACE
    for plain, noisy in NOISY if flipped else ():
        code = code.replace(plain, noisy)
    return code


def forecast(source):
    """Returns the code of a forecast, as a template.

    Args:
        source: The name of a series, or None for a curve that was drawn.
    """
    values = {None: DRAWN, "ar": GENERATED}.get(source, SERIES)
    return FORECAST.replace("VALUES", values.strip())
