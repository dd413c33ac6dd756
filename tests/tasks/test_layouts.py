"""Weights divided among devices."""

import re
import subprocess
import sys

import keras
import pytest

from kerasseq import models, training
from kerasseq.core.layouts import LAYOUTS
from tests.processes import clean_environment
from tests.tasks import on_devices

pytestmark = pytest.mark.once("a process of JAX, and messages")

FLAGS = "--xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0"


def test_training_on_four_devices_is_training_on_one(tmp_path, request):
    """Losses, weights, divided optimizer states, and files that one device loads."""
    pytest.importorskip("jax")
    what = "everything" if request.config.getoption("full") else "usual"
    done = subprocess.run(
        [sys.executable, "-m", "tests.tasks.on_devices", what],
        cwd=tmp_path,
        env=clean_environment({"KERAS_BACKEND": "jax", "XLA_FLAGS": FLAGS}),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    names = on_devices.CASES if what == "everything" else on_devices.USUAL
    assert done.stdout.split() == list(names)


@pytest.mark.parametrize("name", on_devices.CASES)
def test_each_weight_has_one_layout_that_fits(name):
    make, _, _ = on_devices.CASES[name]
    model, found = make(), set()
    for weight in model.weights:
        matching = [path for path in LAYOUTS if re.fullmatch(path, weight.path)]
        assert len(matching) <= 1, weight.path
        for path in matching:
            assert len(LAYOUTS[path]) == len(weight.shape), weight.path
            # The width of the model, 6, is never divided among what computes it.
            of_model = dict(zip(LAYOUTS[path], weight.shape, strict=True))["model"]
            assert of_model != 6, weight.path
        found |= {*matching}
        is_large = (
            name != "lstm"
            and len(weight.shape) > 1
            and re.search("(block|mamba)", weight.path)
        )
        whole = "router|relative_bias|pooler"
        if is_large and not re.search(whole, weight.path):
            assert matching, f"{weight.path} would be on each device as a whole"
    if name == "lstm":
        devices = keras.distribution.DeviceMesh((1, 1), ["batch", "model"], ["cpu:0"])
        assert not len(model.get_layout_map(devices))
        return
    assert len(found) >= 4


def test_names_of_axes():
    devices = keras.distribution.DeviceMesh((1, 1), ["rows", "heads"], ["cpu:0"])
    layout = models.BERT.get_layout_map(
        devices, model_parallel_dim_name="heads", data_parallel_dim_name="rows"
    )
    found = layout["block_3/self_attention/attention_output/kernel"].axes
    assert tuple(found) == ("heads", None, "rows")
    assert layout["block_3/self_attention_layer_norm/gamma"] is None
    with pytest.raises(ValueError, match='name="model" is not one'):
        models.BERT.get_layout_map(devices)
    with pytest.raises(TypeError, match="must be a keras.distribution.DeviceMesh"):
        models.GPT.get_layout_map(3)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"parallel": "modle"}, 'Did you mean "model"?'),
        (
            {"parallel": "data", "layout_map": models.GPT.get_layout_map},
            'parallel must be "model" with a layout_map',
        ),
        ({"layout_map": models.GPT.get_layout_map}, 'or pass parallel="model"'),
    ],
)
def test_how_weights_are_divided(options, message):
    with (
        pytest.raises(ValueError, match=re.escape(message)),
        training.on_devices(1, **options),
    ):
        pass
