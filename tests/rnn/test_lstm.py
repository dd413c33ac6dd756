import itertools

import keras
import numpy as np
import pytest
from hypothesis import example, given

from kerasseq.layers import LSTM, RNN, LSTMCell, PeepholeLSTM
from tests.layer_checks import assert_close
from tests.rnn import peers, references

pytestmark = pytest.mark.full("equations: kernels are tested everywhere")

KINDS = list(itertools.product([None, "diagonal", "full"], [False, True]))
RNG = np.random.default_rng(1)
X = RNG.normal(size=(2, 5)).astype("float32")
H, C = RNG.normal(size=(2, 2, 3)).astype("float32")


@given(peers.options("unit_forget_bias"))
@example(peers.with_dropout())
@peers.FEW
def test_is_the_lstm_of_keras(options):
    peers.check_equal(LSTM, keras.layers.LSTM, *options)


@pytest.mark.everywhere("training through the recurrence kernel")
def test_trains_as_in_keras():
    peers.check_training_step(LSTM, keras.layers.LSTM)


@pytest.mark.parametrize(("peephole", "coupled"), KINDS)
def test_one_step_follows_the_equations(peephole, coupled):
    cell = LSTMCell(3, peephole=peephole, coupled=coupled)
    cell.build((None, 5))
    weights = references.random_weights(cell)
    expected = references.lstm(peephole, coupled)(weights, X, [H, C])
    h, (h_again, c) = cell(X, [H, C])
    assert_close(h, expected[0])
    assert_close(h_again, expected[1][0])
    assert_close(c, expected[1][1])


@pytest.mark.parametrize(("peephole", "coupled"), KINDS)
def test_shapes_of_the_weights(peephole, coupled):
    cell = LSTMCell(3, peephole=peephole, coupled=coupled)
    cell.build((None, 5))
    gates = 3 if coupled else 4
    shapes = [(5, gates * 3), (3, gates * 3), (gates * 3,)]
    seeing = {None: [], "diagonal": [(gates - 1, 3)], "full": [(3, (gates - 1) * 3)]}
    assert [w.shape for w in cell.weights] == shapes + seeing[peephole]


class WithNewGate(LSTMCell):
    """The output gate of the state, a fifth block of the kernels."""

    gates = 5

    def step(self, projected, states, training=False):
        h, c = states
        z = projected + self.recurrent_product(h, training)
        *i, f, g, o, n = keras.ops.split(z, self.gates, axis=-1)
        i = 1 - self.sigma(f) if self.coupled else self.sigma(i[0])
        c = self.sigma(f) * c + i * self.phi(g)
        h = self.sigma(o) * self.phi(c) * self.sigma(n)
        return h, [h, c]


@pytest.mark.once("a subclass runs as it is derived everywhere")
@pytest.mark.parametrize("coupled", [False, True])
def test_a_gate_that_a_subclass_adds(coupled):
    layer = keras.layers.RNN(WithNewGate(3, coupled=coupled), return_sequences=True)
    x = RNG.normal(size=(2, 7, 5)).astype("float32")
    found = layer(x)
    assert layer.cell.kernel.shape == (5, (4 if coupled else 5) * 3)
    ours = RNN(layer.cell, return_sequences=True)
    assert_close(ours(x), found)


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("unit_forget_bias", [False, True])
def test_the_forget_bias_alone_starts_at_1(coupled, unit_forget_bias):
    cell = LSTMCell(
        2, coupled=coupled, unit_forget_bias=unit_forget_bias, bias_initializer="zeros"
    )
    cell.build((None, 5))
    forget = [1.0, 1.0] if unit_forget_bias else [0.0, 0.0]
    expected = [*forget, 0, 0, 0, 0] if coupled else [0, 0, *forget, 0, 0, 0, 0]
    assert_close(cell.bias, expected)


def test_initial_bias_is_that_of_keras():
    biases = []
    for cell in (LSTMCell(3, bias_initializer="ones"), keras.layers.LSTMCell(3)):
        cell.build((None, 5))
        biases.append(keras.ops.convert_to_numpy(cell.bias))
    np.testing.assert_array_equal(biases[0], 1)
    assert_close(biases[1], [0] * 3 + [1] * 3 + [0] * 6)
    ours = LSTMCell(3)
    ours.build((None, 5))
    assert_close(ours.bias, biases[1])


def test_peephole_lstm_is_the_diagonal_one():
    layers = [PeepholeLSTM(3, seed=2), LSTM(3, peephole="diagonal", seed=2)]
    x = np.ones((2, 4, 5), "float32")
    for layer in layers:
        layer.build(x.shape)
        references.random_weights(layer)
    assert_close(layers[0](x), layers[1](x))
    assert layers[0].get_config()["peephole"] == "diagonal"


def test_zero_peepholes_equal_no_peepholes():
    x = RNG.normal(size=(2, 4, 5)).astype("float32")
    plain = LSTM(3)
    plain.build(x.shape)
    for kind in ("diagonal", "full"):
        peeping = LSTM(3, peephole=kind)  # they start at zero
        peeping.build(x.shape)
        *shared, peepholes = peeping.get_weights()
        assert not peepholes.any()
        peeping.set_weights([*plain.get_weights(), peepholes])
        assert_close(peeping(x), plain(x))


def test_options_of_the_peepholes_take_effect():
    layer = LSTM(
        3,
        peephole="diagonal",
        peephole_initializer="ones",
        peephole_regularizer=keras.regularizers.L1(0.5),
        peephole_constraint="non_neg",
    )
    layer.build((None, 4, 5))
    peepholes = layer.weights[-1]
    assert_close(peepholes, np.ones((3, 3)))
    assert_close(sum(layer.losses), 4.5)
    assert_close(peepholes.constraint(-peepholes), np.zeros((3, 3)))


def test_wrong_peephole():
    for make in (LSTM, LSTMCell):
        with pytest.raises(ValueError, match='peephole="diagnal".*Did you mean "diago'):
            make(3, peephole="diagnal")
