"""The schedules against NumPy, and what they refuse."""

import json

import keras
import numpy as np
import pytest

from kerasseq import kernels
from kerasseq.training import ScheduledSampling

pytestmark = pytest.mark.once("NumPy arrays: the same on all backends")

SCHEDULES = {
    "constant": ({"ratio": 0.3}, lambda i: 0.3 + 0 * i),
    "linear": ({"steps": 50}, lambda i: np.maximum(1 - i / 50, 0)),
    "exponential": ({"k": 0.99}, lambda i: 0.99**i),
    "inverse_sigmoid": (
        {"k": 30},
        lambda i: 30 / (30 + np.exp(np.minimum(i / 30, 500))),
    ),
}
STEPS = np.array([0, 1, 2, 7, 49, 50, 51, 300, 10**4, 10**9], "float64")


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("lowest", [0.0, 0.25])
def test_ratios(name, lowest):
    options, equation = SCHEDULES[name]
    schedule = ScheduledSampling(name, lowest=lowest, **options)
    wanted = np.maximum(equation(STEPS), lowest)
    found = [float(schedule.ratio(int(i))) for i in STEPS]
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    tensor = keras.ops.convert_to_tensor(STEPS.astype("int32"))
    at_once = kernels.compiled(schedule.ratio)(tensor)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(at_once), wanted, atol=1e-6)
    assert keras.backend.standardize_dtype(at_once.dtype) == "float32"


def test_ends_of_the_range():
    assert float(ScheduledSampling("linear", steps=2**40).ratio(0)) == 1
    assert float(ScheduledSampling("exponential", k=0).ratio(0)) == 1
    assert float(ScheduledSampling("exponential", k=0).ratio(1)) == 0
    assert float(ScheduledSampling("inverse_sigmoid", k=1).ratio(0)) == 0.5


@pytest.mark.parametrize("name", SCHEDULES)
def test_config(name):
    options, _ = SCHEDULES[name]
    schedule = ScheduledSampling(name, lowest=0.125, sampled=True, **options)
    saved = keras.saving.serialize_keras_object(schedule)
    copy = keras.saving.deserialize_keras_object(json.loads(json.dumps(saved)))
    config = schedule.get_config()
    assert copy.get_config() == config
    assert (config["schedule"], config["lowest"], config["sampled"]) == (
        name,
        0.125,
        True,
    )
    assert options.items() <= config.items()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"schedule": "linera", "steps": 3}, ValueError, 'Did you mean "linear"'),
        ({}, ValueError, '"inverse_sigmoid" needs k and no other'),
        (
            {"schedule": "linear", "k": 3},
            ValueError,
            "received steps=None",
        ),
        ({"schedule": "linear", "steps": 3, "k": 3}, ValueError, "received k=3"),
        ({"schedule": "linear", "steps": 0}, ValueError, "steps must be at least 1"),
        ({"schedule": "linear", "steps": 2.5}, TypeError, "steps must be a whole num"),
        ({"schedule": "constant", "ratio": 2}, ValueError, "ratio must lie between"),
        ({"schedule": "constant", "ratio": "1"}, TypeError, "ratio must be a number"),
        ({"schedule": "exponential", "k": 1.5}, ValueError, "k must lie between 0 and"),
        (
            {"k": 0.5},
            ValueError,
            "k of an inverse sigmoid must be at least 1, received 0.5",
        ),
        ({"k": float("inf")}, ValueError, "k of an inverse sigmoid"),
        ({"k": float("nan")}, ValueError, "k of an inverse sigmoid"),
        ({"k": "5"}, TypeError, "k must be a number, received '5'"),
        ({"k": 5, "lowest": -1}, ValueError, "lowest must lie between 0 and 1"),
    ],
)
def test_messages(arguments, error, message):
    with pytest.raises(error, match=message):
        ScheduledSampling(**arguments)
