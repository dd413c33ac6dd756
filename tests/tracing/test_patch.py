"""Activation patching: equal to runs that need no patching, and its control."""

import keras
import numpy as np
import pytest

from kerasseq import layers, models, tracing
from kerasseq.tracing.gradient_flow import States
from kerasseq.tracing.listeners import listening
from tests.tracing.test_trace import array, randomize

pytestmark = pytest.mark.once("one case is everywhere, with senses")

X = np.array([[3, 1, 4, 1, 5], [2, 7, 1, 8, 2], [6, 6, 2, 6, 0]])
OTHER = np.array([[3, 9, 0, 1, 5], [2, 7, 1, 9, 2], [7, 6, 2, 6, 0]])
AT = [1, 3, 0]
ROWS = np.arange(3)


def gpt(attention="multi_head", **options):
    position = "learned" if attention == "multi_head" else None
    model = models.GPT(
        vocabulary_size=11,
        num_layers=1 if attention == "multi_head" else 2,
        num_heads=2,
        hidden_dim=6,
        max_sequence_length=7,
        attention=attention,
        position=position,
        **options,
    )
    randomize(model)
    return model


@pytest.mark.parametrize("attention", ["multi_head", "gru", "mamba", "rwkv4", "gla"])
def test_embeddings_of_other_tokens_are_those_of_their_sentence(attention):
    model = gpt(attention)
    spliced = X.copy()
    spliced[ROWS, AT] = OTHER[ROWS, AT]
    y = tracing.patch(model, X, OTHER, "block_0/input", AT)
    np.testing.assert_allclose(y, array(model(spliced)), atol=1e-5)
    assert np.abs(y - array(model(X)))[ROWS, AT].max() > 1e-2


@pytest.mark.parametrize("name", ["mamba", "rwkv4", "gla", "gru", "s4d"])
def test_a_state_is_continued_from(name):
    """The states of all steps up to one give the states after it, of one layer."""
    make = {"mamba": layers.Mamba, "rwkv4": layers.RWKV4TimeMix, "s4d": layers.S4D}
    layer = make[name]() if name in make else None
    if name == "gla":
        layer = layers.GatedLinearAttention(2, 3)
    if name == "gru":
        layer = layers.GRU(6, return_sequences=True)
    rng = np.random.default_rng(0)
    x, other = rng.normal(size=(2, 3, 5, 6)).astype("float32")
    layer.build(x.shape)
    randomize(layer)
    y = tracing.patch(layer, x, other, "hidden_state", [1, 3, 0])
    with listening(States(layer)) as inside:
        layer(other)
    own = array(layer(x))

    def same(value, t):
        for row, step in enumerate([1, 3, 0]):
            if t == step:
                value[row] = inside["hidden_state"][row, step]
        return value

    with tracing.intervene(layer, {"hidden_state": same}):
        expected = array(layer(x))
    np.testing.assert_allclose(y, expected, atol=1e-5)
    assert np.abs(y - own)[2, 1:].max() > 1e-3
    np.testing.assert_allclose(y[1, :3], own[1, :3], atol=1e-5)


def test_all_states_of_recurrent_layers_are_all_that_is_read_later():
    model = models.LanguageModel("gru", vocabulary_size=11, units=5, num_layers=2)
    randomize(model)
    keys = ["gru_1/hidden_state", "gru_2/hidden_state"]
    y = tracing.patch(model, X, OTHER, keys, 2)
    spliced = np.concatenate([OTHER[:, :3], X[:, 3:]], axis=1)
    np.testing.assert_allclose(y[:, 2:], array(model(spliced))[:, 2:], atol=1e-5)


def test_heads_scores_and_several_positions():
    model = gpt()
    with tracing.trace(model) as inside:
        model(OTHER)
    key = "block_0/self_attention/heads"
    y = tracing.patch(model, X, OTHER, key, [[1, 2], [3, 0], [0, 4]])
    heads = inside[key]

    def replaced(value, t):
        for row, steps in enumerate([[1, 2], [3, 0], [0, 4]]):
            value[row][:, steps] = heads[row][:, steps]
        return value

    with tracing.intervene(model, {key: replaced}):
        np.testing.assert_allclose(y, array(model(X)), atol=1e-6)


def test_positions_in_the_other_input_may_differ():
    model = gpt("gru")
    shifted = np.roll(OTHER, 1, axis=1)
    spliced = X.copy()
    spliced[ROWS, AT] = shifted[ROWS, [2, 0, 4]]
    y = tracing.patch(model, X, shifted, "block_0/input", AT, other_positions=[2, 0, 4])
    np.testing.assert_allclose(y, array(model(spliced)), atol=1e-5)


def test_noise_has_the_norm_of_the_difference():
    identity = keras.layers.Activation("linear")

    class Shown(keras.layers.Layer):
        def call(self, x):
            return tracing.record(self, "value", identity(x))

    layer = Shown()
    rng = np.random.default_rng(0)
    x, other = rng.normal(size=(2, 3, 5, 7)).astype("float32")
    layer(x)
    y = tracing.patch(layer, x, other, "value", AT, noise_seed=0)
    noise, difference = (y - x)[ROWS, AT], (other - x)[ROWS, AT]
    norms = [np.linalg.norm(each, axis=-1) for each in (noise, difference)]
    np.testing.assert_allclose(*norms, rtol=1e-5)
    assert np.abs(noise - difference).max() > 0.1
    np.testing.assert_array_equal((y - x)[0, 2:], 0)
    again = tracing.patch(layer, x, other, "value", AT, noise_seed=0)
    np.testing.assert_array_equal(again, y)


def test_a_value_outside_of_its_domain_is_refused():
    layer = layers.Mamba()
    rng = np.random.default_rng(0)
    x, other = rng.normal(size=(2, 3, 5, 6)).astype("float32")
    layer(x)
    randomize(layer)
    tracing.patch(layer, x, other, "decay", AT)
    with pytest.raises(ValueError, match=r"'decay' must be from 0 to 1, received"):
        tracing.patch(layer, x, 9 * other, "decay", AT, noise_seed=0)


def test_messages():
    model = gpt()
    key = "block_0/output"

    def patch(x=X, x_other=OTHER, key=key, positions=0, **options):
        return lambda: tracing.patch(model, x, x_other, key, positions, **options)

    for wrong, error, message in (
        (patch(key="block_0/outptu"), KeyError, "Did you mean"),
        (patch(positions=5), ValueError, "from 0 to 4, as 'block_0/output' has 5"),
        (patch(positions=[0, 1]), ValueError, r"\(3,\) or \(3, K\)"),
        (patch(positions=0.5), TypeError, "positions must be whole numbers"),
        (patch(positions=[[0], [1, 2]]), TypeError, "positions must be whole numbers"),
        (patch(x_other=OTHER[:2]), ValueError, "x_other must give"),
        (patch(other_positions=[[0, 1]] * 3), ValueError, "shape of positions"),
        (patch("abc"), TypeError, "no tokenizer"),
        (patch(key=7), TypeError, "`key` must be"),
        (patch(noise_seed="x"), TypeError, "noise_seed must be"),
    ):
        with pytest.raises(error, match=message):
            wrong()
    layer = layers.RWKV4TimeMix()
    x = np.ones((2, 5, 6))
    layer(x)
    with pytest.raises(ValueError, match="rows and steps, received 'decay', one with"):
        tracing.patch(layer, x, x, "decay", 0)
