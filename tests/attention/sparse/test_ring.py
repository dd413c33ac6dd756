"""`BlockwiseAttention(devices=P)`: the numbers of one device, and the plan."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import layers
from tests.attention.sparse import on_devices
from tests.attention.sparse.comparing import output_and_gradients, random_weights
from tests.layer_checks import assert_close

pytestmark = pytest.mark.once("the plan and the arguments are those of each backend")

B, T, D, N, K, V = 2, 13, 7, 4, 6, 3
X = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
ON_JAX = keras.backend.backend() == "jax"


@pytest.mark.everywhere("JAX runs over devices")
@pytest.mark.skipif(not ON_JAX, reason="JAX only")
def test_a_ring_equals_one_device():
    """With other numbers of devices than this process has."""
    out = on_devices.run(
        "grouped_heads_in_a_window",
        "memory_of_each_device_falls",
        "plan_counts_what_is_sent",
    )
    assert out.count("passed") == 3


@pytest.mark.full("the same loop as another case", cheap=False)
@pytest.mark.parametrize(
    "name",
    ["biases_and_masks", "training_is_that_of_one_device", "other_types_and_caches"],
)
def test_rest_of_a_ring_equals_one_device(name):
    assert "passed" in on_devices.run(name)


@pytest.mark.everywhere("one device computes on TensorFlow and PyTorch")
@pytest.mark.skipif(ON_JAX, reason="JAX needs the devices")
def test_one_device_computes_elsewhere():
    made = [layers.BlockwiseAttention(N, K, block_size=5, devices=p) for p in (1, 3)]
    one, ring = random_weights(made, X.shape, X.shape)
    expected = output_and_gradients(one, X, X, use_causal_mask=True)
    found = output_and_gradients(ring, X, X, use_causal_mask=True)
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b)


@pytest.mark.everywhere("JAX finds fewer devices than the file needs")
def test_a_file_for_more_devices_can_be_loaded(tmp_path):
    layer = layers.BlockwiseAttention(N, K, devices=100, name="ring")
    inputs = keras.Input((101, D), batch_size=1)
    model = keras.Model(inputs, layer(inputs, inputs))
    model.save(tmp_path / "ring.keras")
    loaded = kerasseq.load_model(tmp_path / "ring.keras")
    found = loaded.get_layer("ring")
    assert found.get_config()["devices"] == found.devices == 100
    x = np.ones((1, 101, D), "float32")
    if ON_JAX:
        message = r"devices must be at most \d+, .* received devices=100. Set `layer"
        with pytest.raises(ValueError, match=message):
            found(x, x)
    found.devices = 1
    assert np.isfinite(keras.ops.convert_to_numpy(loaded(x))).all()


def test_plan():
    layer = layers.BlockwiseAttention(
        *(N, K),
        **{"num_key_value_heads": 2, "value_dim": V, "block_size": 2},
        **{"devices": 4, "position": layers.AlibiBias()},
    )
    plan = layer.plan(B, T, 9)
    assert plan.devices == 4
    assert plan.queries == ((0, 3), (4, 7), (8, 11), (12, 12))
    # Parts of 9 / 4 keys, so two blocks of 2.
    assert plan.keys == ((0, 3), (4, 7), (8, 8), None)
    assert plan.reads[1] == (1, 0, 3, 2)
    assert plan.bytes_per_step == B * 4 * 2 * (K + V) * 4 + 4 * 4  # and positions
    assert plan.bytes_per_device == 3 * plan.bytes_per_step
    masked = layer.plan(B, T, 9, masked=True)
    assert masked.bytes_per_step == B * 4 * (2 * (K + V) * 4 + 1 + 4)
    lines = str(plan).splitlines()
    assert lines[2].split() == ["1", "4–7", "4–7", "4–7", "0–3", "–", "8"]
    assert lines[-1].startswith(f"Each device sends {plan.bytes_per_step} bytes to")
    assert "<td>12</td><td>–</td>" in plan._repr_html_()
    layer.devices = 1
    assert str(layer.plan(B, T)).endswith("One device sends nothing.")


def test_figure_of_a_plan():
    layer = layers.BlockwiseAttention(N, K, devices=3)
    axes = layer.plan(B, T).plot().axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "device 0: 0–4",
        "device 1: 5–9",
        "device 2: 10–12",
    ]
    texts = {text.get_position(): text.get_text() for text in axes.texts}
    assert [texts[i, 0] for i in range(3)] == ["0–4", "10–12", "5–9"]
    colors = {tuple(bar.get_facecolor()) for bar in axes.patches if bar.get_width()}
    assert len(colors) == 3
    layer.devices = 17  # more than can be written, or have colors of their own
    bars = layer.plan(B, 170).plot().axes[0].patches
    assert len({tuple(bar.get_facecolor()) for bar in bars}) == 17


@pytest.mark.parametrize(
    ("devices", "error", "message"),
    [
        (0, ValueError, "devices must be at least 1, received 0"),
        (1.5, TypeError, "devices must be a whole number, received 1.5"),
        ("2", TypeError, "devices must be a whole number, received '2'"),
        (True, TypeError, "devices must be a whole number, received True"),
    ],
)
def test_wrong_devices(devices, error, message):
    with pytest.raises(error, match=message):
        layers.BlockwiseAttention(2, 3, devices=devices)
    layer = layers.BlockwiseAttention(2, 3)
    with pytest.raises(error, match=message):
        layer.devices = devices
    assert layer.devices == 1


def test_what_a_ring_refuses():
    with pytest.raises(ValueError, match="dropout must be 0 with devices=2, received"):
        layers.BlockwiseAttention(2, 3, dropout=0.1, devices=2)
    layer = layers.BlockwiseAttention(2, 3, devices=4)
    with pytest.raises(ValueError, match="value_length must be at least devices=4, re"):
        layer.plan(2, 13, 3)
    with pytest.raises(TypeError, match="length must be a whole number, received 1.5"):
        layer.plan(2, 1.5)
    with pytest.raises(ValueError, match="batch must be at least 1, received 0"):
        layer.plan(0, 13)
    with pytest.raises(TypeError, match="masked must be True or False, received 'yes'"):
        layer.plan(2, 13, masked="yes")
