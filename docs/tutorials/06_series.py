# %% [markdown] title
# # Time series: forecasts, and what they are worth

# %% [markdown] goals
# After this tutorial you will be able to
#
# - cut a series into windows, and split it in time and not at random;
# - fit an autoregressive model by least squares, and train a GRU to forecast;
# - measure a forecast by horizon, and compare it with simple forecasts by MASE.

# %% [markdown] imports_text
# The tutorial needs kerasseq with the extra `data`, whose package statsmodels contains
# the measurements. It downloads nothing.

# %% imports
import os

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import kerasseq

# %% [markdown] settings_text
# These are the settings: how many months are forecast, from how many points in time,
# and the training of the networks.

# %% settings
season, horizon, num_origins = 12, 24, 10
units, epochs = 32, 20
seeds = (0, 1)

# %% small tags=["small"]
if "KERASSEQ_SMALL" in os.environ:
    horizon, num_origins = 3, 2
    units, epochs, seeds = 3, 1, (0,)

# %% [markdown] question
# ## The question
#
# A series is a number per time step: sales per day, temperature per hour. A forecast
# continues it. **When is a forecast good?** An error alone doesn't tell: whether half a
# unit is little or much depends on the series, on how far ahead the forecast looks, and
# on what the simplest forecasts achieve.
#
# The series of this tutorial is the carbon dioxide in the air of Mauna Loa, Hawaii,
# measured since 1958, in parts per million. It has a trend and a season: plants take up
# CO₂ in summer and give it back in winter.

# %% [markdown] data_text
# The measurements are weekly; the next cell computes the mean of each month. The last
# years are the test set. A time series is never split at random, because a model must
# not be trained on values that come after those it has to forecast.

# %% data
weekly = kerasseq.datasets.series("co2")
months = weekly.dates.astype("datetime64[M]")
dates, month = np.unique(months, return_inverse=True)
values = np.bincount(month, weights=weekly.values) / np.bincount(month)
first = len(values) - horizon - season * (num_origins - 1)
ends = [first + season * n for n in range(num_origins)]  # values known at each origin
train = values[:first]
print(len(values), "months,", dates[0], "to", dates[-1])
print("training:", len(train), "months, to", dates[first - 1])
print("forecasts:", num_origins, "of", horizon, "months, one origin a year")

# %% series tags=["figure"]
figure, axis = plt.subplots(figsize=(7, 3))
axis.plot(dates[:first], train, color="C0", linewidth=1, label="training")
axis.plot(dates[first:], values[first:], color="C1", linewidth=1, label="test")
axis.set_xlabel("year")
axis.set_ylabel("CO₂ in parts per million")
axis.legend()
plt.close(figure)
figure

# %% [markdown] series_caption
# Line of the CO₂ concentration by month, rising, with a regular wave of one year.
#
# The series: a trend that grows steeper, and a season of nearly constant shape.

# %% [markdown] equation
# ## The equation
#
# Let $y_1, \dots, y_T$ be the values so far, and $\hat y_{T+k}$ the forecast $k$ steps
# ahead; $k$ is the **horizon**. The two simplest forecasts repeat the last value, or
# the last season of $m$ steps:
#
# $$
# \hat y_{T+k} = y_T \quad \text{(naive)} \qquad
# \hat y_{T+k} = y_{T+k-m}, \; k \le m \quad \text{(seasonal naive)}
# $$
#
# An **autoregressive model** AR($p$) is a weighted sum of the last $p$ values:
#
# $$
# \hat y_{T+1} = c + \sum_{i=1}^{p} \phi_i\, y_{T+1-i}
# $$
#
# It looks one step ahead. For the next step its own forecast takes the place of the
# unknown value, and so on: forecasts are **fed back**. A recurrent network can do the
# same. Or it returns all steps of the horizon at once, $W h_T + b$, where $h_T$ is its
# state after the window of known values: a **direct** forecast.
#
# To compare errors of different series, Hyndman and Koehler divide the mean absolute
# error by the one of the seasonal naive forecast on the training set of $N$ values:
#
# $$
# \mathrm{MASE} = \frac{\frac{1}{K} \sum_{k=1}^{K} |y_{T+k} - \hat y_{T+k}|}
# {\frac{1}{N - m} \sum_{t=m+1}^{N} |y_t - y_{t-m}|}
# $$

# %% [markdown] scratch_text
# An AR model from scratch. Each row of the matrix `X` is a window of $p$ values and a
# 1 for $c$; least squares finds the weights for which `X` times the weights is closest
# to the values after the windows.


# %% scratch tags=["scratch"]
def windows(y, length):
    """All windows (N, length) of a series (T,), and the value after each (N,)."""
    start = np.arange(len(y) - length)[:, None]
    return y[start + np.arange(length)], y[length:]


def fit_ar(y, order):
    """Weights of an AR model: phi of the oldest value first, then c."""
    mean, deviation = y.mean(), y.std()  # scaling keeps float32 exact
    x, target = windows((y - mean) / deviation, order)
    X = ops.concatenate([x, np.ones((len(x), 1))], axis=1)
    X, target = ops.cast(X, "float32"), ops.cast(target[:, None], "float32")
    weights = ops.lstsq(X, target)[:, 0]
    phi, c = ops.convert_to_numpy(weights[:-1]), float(weights[-1])
    return phi, c * deviation + mean * (1 - phi.sum())


def forecast_ar(y, phi, c, steps):
    """Forecasts (steps,), where each one is fed back."""
    y = list(y[-len(phi) :])
    for _ in range(steps):
        y.append(float(c + phi @ np.array(y[-len(phi) :])))
    return np.array(y[-steps:])


# %% [markdown] scratch_after
# Windows are all that a forecasting model is trained on, whether it is linear or a
# network: the input is a window, the target is what comes after it.

# %% [markdown] library
# ## The same with kerasseq
#
# `kerasseq.text.AutoRegression` fits the same model in float64. We compare AR(2), which
# sees two months, and AR(13), which sees a month more than a year.

# %% library_ar
ar = {order: fit_ar(train, order) for order in (2, 13)}
for order, (phi, c) in ar.items():
    theirs = kerasseq.text.AutoRegression(order).fit(train)
    ours = forecast_ar(train, phi, c, horizon)
    difference = np.abs(theirs.forecast(horizon).mean - ours).max()
    print(f"AR({order}): max difference of the forecasts {difference:.3f} ppm")
print("AR(2): phi", ar[2][0][::-1].round(2), " c", round(ar[2][1], 2))

# %% [markdown] library_gru_text
# The forecasts differ by little more than the rounding of float32. The same task for a
# network: `kerasseq.models.Forecaster` cuts windows, scales them and trains. It adds
# to an autoregression; with `baseline="season"` it adds to the value of a year before,
# which shows what a network does alone. We train
# a GRU that looks one month ahead, to be fed back, and one that returns the whole
# horizon. `backtest` trains a copy on the values before the first origin, forecasts
# from each origin and scores, beside simple models.


# %% library_gru
def train_gru(horizon, seed=0):
    """Trains a GRU that forecasts this many months at once."""
    keras.utils.set_random_seed(seed)
    model = kerasseq.models.Forecaster(
        "gru", horizon=horizon, units=units, baseline="season"
    )
    model.fit(train, season=season, epochs=epochs, verbose=0)
    return model


one_step, direct = train_gru(1), train_gru(horizon)
options = {"origins": num_origins, "steps": horizon, "stride": season}
scores = direct.backtest(values, season=season, epochs=epochs, verbose=0, **options)
print(scores.round(2))

# %% [markdown] library_gru_after
# A MASE below 1 means: better than repeating last year was on the training set. The
# last row is an autoregressive model, whose order `backtest` chooses by itself.

# %% [markdown] inside
# ## Look inside
#
# What does the state of the GRU contain? We trace it while it reads the window before
# the first origin, and draw the units whose state changes most in the last year.

# %% states tags=["figure"]
window, _ = direct.prepare(train)
with kerasseq.tracing.trace(direct) as trace:
    direct(window[-1:])
key = next(key for key in trace if key.endswith("hidden_state"))
states = trace[key][0]  # (time, units)
chosen = np.argsort(-states[-season:].std(axis=0))[:4]  # in the last year
figure, (above, below) = plt.subplots(2, 1, figsize=(6.5, 4), sharex=True)
above.plot(window[-1, :, 0], "o-", color="C3", markersize=3)
above.set_ylabel("scaled CO₂")
for n, unit in enumerate(chosen):
    below.plot(states[:, unit], color="C" + str(n))
below.set_ylabel("state of four units")
below.set_xlabel("month of the window")
for axis in (above, below):
    axis.grid(alpha=0.3)
plt.close(figure)
figure

# %% [markdown] states_caption
# Above the values of a window, a wave; below the states of four units of the GRU.
#
# Above: two years of CO₂, as the network reads them. Below: the state of four units at
# each month.

# %% [markdown] inside_after
# In the first months the states have to leave their initial value 0. Then most of them
# move with the season. Compare their peaks with those of the series above: where a
# state is ahead of or behind another one, the two together tell in which part of the
# year the window ends. No date is among the inputs of the network.

# %% [markdown] misconception
# ## A misconception
#
# *"My model predicts the next value almost exactly. So its forecasts are good."*
#
# Plots of one-step forecasts are convincing, as the two lines lie on each other. But
# the last value is close to the next one in nearly every series, so the naive forecast
# has a small one-step error as well. If a small one-step error were enough, the model
# with the smaller one should also be better two years ahead.

# %% [markdown] experiment
# ## The experiment
#
# From each origin all models forecast {{ horizon | integer }} months. The error is the
# root mean square over the origins, for each horizon by itself.


# %% experiment_forecasts
def forecasts_from(y):
    """Forecasts of all models after the values y, by name."""
    last_year = y[-season:]
    return {
        "naive": np.full(horizon, y[-1]),
        "seasonal naive": np.tile(last_year, horizon)[:horizon],
        "AR(2), fed back": forecast_ar(y, *ar[2], horizon),
        "AR(13), fed back": forecast_ar(y, *ar[13], horizon),
        "GRU, fed back": one_step.forecast(y, horizon),
        "GRU, direct": direct.forecast(y, horizon),
    }


found = [forecasts_from(values[:end]) for end in ends]
errors = {}
for name in found[0]:
    pairs = zip(ends, found, strict=True)
    misses = [values[end : end + horizon] - each[name] for end, each in pairs]
    errors[name] = np.sqrt(np.mean(np.square(misses), axis=0))  # (horizon,)
print("RMSE in ppm        1 month  6 months  all")
for name, rmse in errors.items():
    mean = np.sqrt(np.mean(rmse**2))
    print(f"{name:18} {rmse[0]:7.2f} {rmse[min(5, horizon - 1)]:9.2f} {mean:4.2f}")

# %% horizons tags=["figure"]
figure, axis = plt.subplots(figsize=(7, 4))
labels = [
    "naive",
    "seasonal naive",
    "AR(2), fed back",
    "AR(13), fed back",
    "GRU, fed back",
    "GRU, direct",
]
styles = [":", ":", "--", "--", "-", "-"]
for label, rmse, style in zip(labels, errors.values(), styles, strict=True):
    axis.plot(np.arange(horizon) + 1, rmse, linestyle=style, label=label)
axis.set_xlabel("months ahead")
axis.set_ylabel("RMSE in parts per million")
axis.set_ylim(0)
axis.grid(alpha=0.3)
axis.legend(fontsize="small")
plt.close(figure)
figure

# %% [markdown] horizons_caption
# Lines of the error of six models against the number of months ahead.
#
# At one month all errors are small. What happens to the right of it decides which
# forecast is useful.

# %% experiment_numbers
half = min(5, horizon - 1)  # six months ahead
naive_one, naive_six = float(errors["naive"][0]), float(errors["naive"][half])
seasonal_one = float(errors["seasonal naive"][0])
seasonal_six = float(errors["seasonal naive"][half])
ar_one = float(errors["AR(2), fed back"][0])
ar_six = float(errors["AR(2), fed back"][half])
ar_all, naive_all, seasonal_all = (
    float(np.sqrt(np.mean(errors[name] ** 2)))
    for name in ("AR(2), fed back", "naive", "seasonal naive")
)
mase = [float(scores.loc["gru", "MASE"])]
for seed in seeds[1:]:
    keras.utils.set_random_seed(seed)
    again = direct.backtest(values, season=season, epochs=epochs, verbose=0, **options)
    mase.append(float(again.loc["gru", "MASE"]))
result, result_name = float(np.mean(mase)), "MASE of the direct GRU"
seasonal_mase = float(scores.loc["seasonal naive", "MASE"])
print("MASE of the direct GRU:", [round(m, 2) for m in mase])

# %% [markdown] experiment_after
# One month ahead AR(2) has an error of {{ ar_one | number(2) }} ppm, the naive forecast
# {{ naive_one | number(2) }}, and the seasonal naive forecast
# {{ seasonal_one | number(2) }}. Six months ahead the same three have
# {{ ar_six | number(2) }}, {{ naive_six | number(2) }} and
# {{ seasonal_six | number(2) }}, and over all {{ horizon | integer }} months
# {{ ar_all | number(2) }}, {{ naive_all | number(2) }} and
# {{ seasonal_all | number(2) }}. The order at one month does not tell the order further
# ahead.
#
# The reason is that one step ahead every model is given the last value, which contains
# most of the answer. Further ahead a model has to know what moves the series, here the
# season and the trend. AR(2) sees two months, which are not enough to tell when
# summer comes; AR(13) sees a year and can. And where forecasts are fed back, errors are
# fed back as well: each of them shifts the window that the next forecast is computed
# from. The GRU that was trained for one month shows it, beside the one that was trained
# for the whole horizon.
#
# Over all {{ horizon | integer }} months the direct GRU has a MASE of
# {{ result | number(2) }}, the mean over seeds; the seasonal naive forecast has
# {{ seasonal_mase | number(2) }} on the same months. Compare it with the AR model of
# the table before you call the network necessary.

# %% [markdown] exercises
# ## Exercises
#
# **1.** Compute MASE of the seasonal naive forecast from its definition, and compare it
# with the table of `backtest`.

# %% solution_mase tags=["solution"]
scale = np.abs(train[season:] - train[:-season]).mean()
misses = [
    np.abs(values[end : end + horizon] - forecasts["seasonal naive"]).mean()
    for end, forecasts in zip(ends, found, strict=True)
]
print("by hand:", round(float(np.mean(misses) / scale), 4))
print("backtest:", round(seasonal_mase, 4))

# %% [markdown] exercise_roots
# **2.** The forecasts of an AR model are governed by the roots of
# $z^p - \phi_1 z^{p-1} - \dots - \phi_p$: a root of size $r$ contributes a part that
# changes like $r^k$, and an angle is an oscillation. Which periods do the largest roots
# of AR(13) have?

# %% solution_roots tags=["solution"]
roots = kerasseq.text.AutoRegression(13).fit(train).roots
for root in sorted(roots[roots.imag >= 0], key=abs, reverse=True)[:4]:
    angle = abs(np.angle(root))
    period = 2 * np.pi / angle if angle > 1e-6 else np.inf
    print(f"size {abs(root):.3f}, period {period:.1f} months")

# %% [markdown] exercise_random
# **3.** What happens if the split is random? Fit AR(13) on half of the windows, chosen
# at random, and then on the first half; compare the one-step errors on the rest.

# %% solution_random tags=["solution"]
x, target = windows(values, 13)
X = np.concatenate([x, np.ones((len(x), 1))], axis=1)
order = np.random.default_rng(0).permutation(len(X))
for name, rows in [("random", order), ("in time", np.arange(len(X)))]:
    fitted, rest = np.array_split(rows, 2)
    weights = np.linalg.lstsq(X[fitted], target[fitted], rcond=None)[0]
    misses = X[rest] @ weights - target[rest]
    print(f"{name:8} RMSE {np.sqrt(np.mean(misses**2)):.3f}")

# %% [markdown] summary
# ## What we saw
#
# - A forecasting model is trained on windows and the values after them, and tested on
#   later times than it was trained on.
# - One month ahead AR(2) has an error of {{ ar_one | number(2) }} ppm and the seasonal
#   naive forecast {{ seasonal_one | number(2) }} ppm; over {{ horizon | integer }}
#   months it is {{ ar_all | number(2) }} and {{ seasonal_all | number(2) }} ppm.
# - MASE compares with the seasonal naive forecast: the direct GRU has
#   {{ result | number(2) }}.
# - A forecast is judged at the horizon at which it is used, against simple forecasts.

# %% [markdown] questions
# ## Questions that the code can answer
#
# - Which order does an AR model need for the season? Change the orders `(2, 13)`.
# - Is an LSTM or a Transformer better than a GRU here? Replace `"gru"` in `train_gru`.
# - Does it help to train again before each origin? Pass `refit="always"` to `backtest`.

# %% [markdown] references
# ## References
#
# - Yule, "On a Method of Investigating Periodicities in Disturbed Series", 1927.
# - Tashman, "Out-of-sample tests of forecasting accuracy", 2000.
# - Hyndman and Koehler, "Another look at measures of forecast accuracy", 2006.
# - Keeling and Whorf, "Atmospheric CO₂ records from sites in the SIO air sampling
#   network", 2004.
# - Slides B (series of day, month, year and value; forecasts fed back) and C
#   (autoregressive models).
