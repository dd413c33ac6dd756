import keras
import numpy as np
import pytest
from hypothesis import example, given

from kerasseq.layers import ElmanCell, ElmanRNN, SimpleRNN
from tests.layer_checks import assert_close
from tests.rnn import peers, references

pytestmark = pytest.mark.full("equations: kernels are tested everywhere")


@given(peers.options())
@example(peers.with_dropout())
@peers.FEW
def test_is_the_simple_rnn_of_keras(options):
    peers.check_equal(SimpleRNN, keras.layers.SimpleRNN, *options)


@pytest.mark.everywhere("training through the recurrence kernel")
def test_trains_as_in_keras():
    peers.check_training_step(SimpleRNN, keras.layers.SimpleRNN)


def test_one_step_follows_the_equation():
    cell = ElmanCell(3)
    cell.build((None, 5))
    weights = references.random_weights(cell)
    rng = np.random.default_rng(1)
    x, h = rng.normal(size=(2, 5)), rng.normal(size=(2, 3))
    expected, _ = references.elman(weights, x, [h])
    actual, new_state = cell(x.astype("float32"), h.astype("float32"))
    assert_close(actual, expected)
    assert_close(new_state, expected)  # a state alone stays alone
    assert np.any(expected == 0) and np.any(expected > 0)  # ReLU is at work


@pytest.mark.parametrize(("x", "h"), [(-5.0, 0.0), (2.0, 3.0)])
def test_a_unit_by_hand(x, h):
    layer = ElmanRNN(1)
    layer.build((1, 1, 1))
    layer.set_weights(
        [np.array(w) for w in ([[2.0]], [[-1.0]], [1.0])]
    )  # relu(2 x - h + 1)
    y = layer(np.full((1, 1, 1), x), initial_state=np.full((1, 1), h))
    assert_close(y, [[max(0.0, 2 * x - h + 1)]])
