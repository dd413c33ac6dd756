"""Forecast a series with features that are known in advance, such as holidays.

    python examples/forecast_covariates.py

The daily sales are generated: a weekly rhythm, noise, and a jump on each of the
irregular days of a campaign, which are known in advance. One model is given the
campaigns, the other is not. Takes about half a minute on a laptop. Source: Wen et al.
2017; course slides B (time series).
"""

import argparse

import kerasseq
import keras
import numpy as np
import pandas


def sales(days, seed=0):
    """Draws a table with the columns sales and campaign, and an index of days."""
    rng = np.random.default_rng(seed)
    campaign = (rng.random(days) < 0.15).astype("float32")
    week = 10 * np.sin(2 * np.pi * np.arange(days) / 7)
    values = 100 + week + 30 * campaign + rng.normal(0, 2, days)
    index = pandas.date_range("2023-01-01", periods=days, freq="D")
    return pandas.DataFrame({"sales": values, "campaign": campaign}, index=index)


def main(arguments=None):
    """Fits both models, and prints their errors on the last days."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=730)
    parser.add_argument("--horizon", type=int, default=14)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--units", type=int, default=32)
    options = parser.parse_args(arguments)

    table = sales(options.days)
    past, future = table[: -options.horizon], table[-options.horizon :]
    for known in ([], ["campaign"]):
        keras.utils.set_random_seed(0)
        model = kerasseq.models.Forecaster(
            "gru", horizon=options.horizon, units=options.units, known=known
        )
        model.compile(keras.optimizers.Adam(5e-3))
        columns = ["sales", *known]
        model.fit(past[columns], value="sales", epochs=options.epochs, verbose=0)
        forecast = model.forecast(known=future if known else None)
        error = np.mean(np.abs(forecast["sales"].to_numpy() - future["sales"]))
        name = "with campaigns" if known else "without"
        print(f"{name:14} mean absolute error {error:.2f}")


if __name__ == "__main__":
    main()
