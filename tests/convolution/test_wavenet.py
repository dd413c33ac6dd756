"""WaveNet: its equations, its receptive field, and what a trace shows of it."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import kernels, tracing
from kerasseq.layers import WaveNet
from tests.convolution.references import array, fill, relu, wavenet

pytestmark = pytest.mark.once("weights and structure")

RNG = np.random.default_rng(2)
X = RNG.normal(size=(2, 11, 5)).astype("float32")
REAL = np.ones((2, 11), bool)
REAL[0, 7:] = REAL[1, :3] = REAL[1, 5] = False
DILATIONS = [1, 3]


def filled(**options):
    layer = WaveNet(3, dilations=DILATIONS, stacks=2, name="wavenet", **options)
    layer.build(X.shape)
    return layer, fill(layer)


@pytest.mark.everywhere("arithmetic of the backend")
def test_equations_and_trace():
    layer, weights = filled(skip_units=7)
    plain = array(layer(X, mask=REAL))
    with tracing.trace(layer) as inside:
        np.testing.assert_array_equal(array(layer(X, mask=REAL)), plain)
    for row, real in enumerate(REAL):
        y, expected = wavenet(weights, X[row, real].astype("float64"), 2 * DILATIONS)
        np.testing.assert_allclose(plain[row, real], y, atol=1e-5)
        for key, value in expected.items():
            np.testing.assert_allclose(inside[key][row, real], value, atol=1e-5)
            np.testing.assert_array_equal(inside[key][row, ~real], 0)
    assert len(inside) == 4 * 3  # hidden state, filter and gate of each block


@pytest.mark.once("the reach of the default dilations")
def test_the_blocks_alone_depend_on_exactly_1024_inputs():
    layer = WaveNet(2)
    layer.build((None, None, 2))
    layer.set_weights([0.2 + 0 * w for w in layer.get_weights()])
    passing = np.stack([np.zeros((2, 2)), np.eye(2)])  # the input of the same step
    layer.input_convolution.set_weights([passing, np.zeros(2)])
    assert layer.receptive_field == 1025  # with the step of the input convolution

    def last(x):
        return ops.sum(layer(x)[:, -1])

    x = np.full((1, 1100, 2), 0.1, "float32")
    read = np.any(array(kernels.gradients(last, x))[0] != 0, axis=-1)
    np.testing.assert_array_equal(read, np.arange(1100) >= 1100 - 1024)


@pytest.mark.once("weights")
def test_weights_and_receptive_field():
    layer = WaveNet(3, kernel_size=3, dilations=(1, 2, 4), stacks=2)
    layer.build((None, None, 5))
    blocks = 6 * (3 * 3 * 6 + 6 + 3 * 3 + 3) + 5 * (3 * 3 + 3)
    assert layer.count_params() == 3 * 5 * 3 + 3 + blocks + 3 * 3 + 3
    assert layer.receptive_field == 1 + 2 * (1 + 2 * 7)
    shapes = [tuple(state.shape) for state in layer.get_initial_state(2)]
    assert [shape[1] for shape in shapes] == [2, *(2 * [2, 4, 8])]
    assert [shape[2] for shape in shapes] == [5, *(6 * [3])]


@pytest.mark.once("the same code on every backend")
def test_a_closed_gate_leaves_the_biases():
    layer, weights = filled()
    closed = {f"block_{n}/gate": 0.0 for n in range(1, 5)}
    with tracing.intervene(layer, closed):
        y = array(layer(X, mask=REAL))
    skips = sum(weights[f"block_{n}/skip/bias"] for n in range(1, 5))
    expected = relu(skips) @ weights["output/kernel"] + weights["output/bias"]
    expected = np.tile(relu(expected), (REAL.sum(), 1))
    np.testing.assert_allclose(y[REAL], expected, atol=1e-5)


@pytest.mark.everywhere("gradients of the backend")
def test_gradient_flow_is_the_gradient_at_the_input_of_a_block():
    layer, weights = filled()
    inputs = keras.Input((None, 5))
    masked = keras.layers.Masking()(inputs)
    model = keras.Model(inputs, ops.sum(layer(masked), axis=1))
    model.compile(loss="mse")
    x = np.where(REAL[..., None], X, 0).astype("float32")
    flow = tracing.gradient_flow(model, x, np.zeros((2, 3), "float32"))
    names = [f"wavenet/block_{n}/hidden_state" for n in range(1, 5)]
    assert list(flow) == names
    t = 8  # real in the second row alone
    np.testing.assert_array_equal(flow[names[0]][~REAL.any(axis=0)], 0)
    del weights["input/kernel"]
    before = array(layer.input_convolution(X[1:, REAL[1]]))[0].astype("float64")

    def loss(nudge):
        pushed = before.copy()
        pushed[REAL[1, :t].sum()] += nudge
        identity = {"input/kernel": np.eye(3)[None], "input/bias": np.zeros(3)}
        y, _ = wavenet(weights | identity, pushed, 2 * DILATIONS)
        return np.mean(np.stack([y.sum(axis=0) ** 2, np.zeros(3)]))

    small = 1e-5 * np.eye(3)
    gradient = [(loss(e) - loss(-e)) / 2e-5 for e in small]
    np.testing.assert_allclose(flow[names[0]][t], np.linalg.norm(gradient), rtol=1e-3)


@pytest.mark.full("the layer checks compare seeds on every backend")
def test_dropout_drops_inputs_of_convolutions_in_training_only():
    layer, _ = filled(dropout=0.5, seed=3)
    np.testing.assert_array_equal(array(layer(X)), array(layer.advance(X)[0]))
    dropped = array(layer(X, training=True))
    assert np.abs(dropped - array(layer(X))).max() > 1e-3
