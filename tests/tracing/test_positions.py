"""Criteria of position encodings: which layer meets which; faults are detected."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import layers, tracing
from kerasseq.positions.base import PositionEncoding

pytestmark = pytest.mark.once("arguments, messages and files")

L, D = 16, 8
NAMES = ["unique", "relation", "length", "width", "deterministic"]
# What slides A say of the first three; True where a criterion is met.
EXPECTED = {
    "AmplitudePosition": (1, 1, 1, 0, 1),
    "BinaryPosition": (1, 0, 1, 0, 1),
    "SinePositionEncoding": (1, 1, 1, 1, 1),
    "PositionEmbedding": (1, 0, 0, 1, 0),
    "RotaryEmbedding": (1, 1, 1, 0, 1),
    "AlibiBias": (1, 1, 1, 1, 1),
    "RelativePositionBias": (1, 1, 1, 1, 0),
    "TransformerXLPosition": (1, 1, 1, 1, 0),
}


def build(name):
    return getattr(layers, name)(*([L] if name == "PositionEmbedding" else []))


@pytest.mark.parametrize("name", EXPECTED)
def test_criteria_of_each_layer(name):
    keras.utils.set_random_seed(0)
    layer = build(name)
    built = layer.built
    found = tracing.position_criteria(layer, length=L, width=D)
    assert list(found) == NAMES
    assert [c.holds for c in found.values()] == list(map(bool, EXPECTED[name]))
    assert layer.built == built and len(layer.weights) == 0


def test_measured_values():
    def value(name, criterion, **options):
        return tracing.position_criteria(build(name), **options)[criterion].value

    assert value("AmplitudePosition", "unique", length=8, width=4) == 2
    assert value("BinaryPosition", "unique", length=8, width=4) == 1
    # From 0 to 1 changes one digit, from 3 to 4 three, which is the most.
    expected = (3**0.5 - 1) / 3**0.5
    assert value("BinaryPosition", "relation", length=8) == pytest.approx(expected)
    assert value("BinaryPosition", "length", length=8, width=6) == 64
    assert value("SinePositionEncoding", "length", length=8) == 16 * 8
    assert value("PositionEmbedding", "length", length=8) == 16
    assert value("RotaryEmbedding", "width", length=8) == (3, 5)
    assert value("AmplitudePosition", "width", length=8) == (2, 3, 5, 8, 32)
    assert value("BinaryPosition", "width", length=8) == (2, 5, 8, 32)


def test_built_layer_is_measured_with_its_weights():
    layer = layers.PositionEmbedding(L)
    layer.build((None, None, D))
    same = np.ones((L, D), "float32")
    same[5:] = np.arange(L - 5)[:, None] + 2
    layer.set_weights([same])
    found = tracing.position_criteria(layer, length=L, width=D)
    assert found["unique"] == (False, 0)
    assert found["relation"].value > 0.01


@keras.saving.register_keras_serializable("tests")
class Wave(PositionEncoding):
    """One sine: after 8 positions all begins anew."""

    def encode(self, p, D):
        angle = ops.cast(p, "float32")[..., None] * np.pi / 4
        return ops.concatenate([ops.sin(angle), ops.cos(angle)] * D, -1)[..., :D]


def test_periodic_encoding_fails():
    found = tracing.position_criteria(Wave(), length=8, width=4)
    assert found["unique"].holds and found["relation"].holds
    assert found["length"] == (False, 8) and not found["width"].holds
    assert not tracing.position_criteria(Wave(), length=16, width=4)["unique"].holds


def test_messages_of_wrong_layers():
    with pytest.raises(
        TypeError, match="must be a layer of positions, received 'sine'"
    ):
        tracing.position_criteria("sine")
    for function in (tracing.position_code, tracing.position_relation):
        with pytest.raises(TypeError, match="must be a layer of positions"):
            function("sine", 7)
    with pytest.raises(
        ValueError, match="must be a layer of positions, .* Received Dense"
    ):
        tracing.position_criteria(keras.layers.Dense(3))
    with pytest.raises(ValueError, match="encodes 7 positions"):
        tracing.position_criteria(layers.PositionEmbedding(7), length=8)
    layer = layers.PositionEmbedding(20)
    layer.build((None, None, 5))
    with pytest.raises(ValueError, match="expected axis -1 .* to have value 5"):
        tracing.position_criteria(layer, length=8, width=6)


def test_positions_that_are_compared_with_contents_are_refused():
    with pytest.raises(ValueError, match="DisentangledPosition, which compares them"):
        tracing.position_criteria(layers.DisentangledPosition(), length=4, width=4)
