import keras
import numpy as np
import pytest

from kerasseq.layers import GatedCell, GatedRNN
from tests.layer_checks import assert_close
from tests.rnn import references

pytestmark = pytest.mark.full("equations: kernels are tested everywhere")

RNG = np.random.default_rng(1)
X = RNG.normal(size=(2, 5)).astype("float32")
H = RNG.normal(size=(2, 3)).astype("float32")


def cell_with_gate(value):
    """A cell whose gate the bias holds at 0 or 1."""
    cell = GatedCell(3)
    cell.build((None, 5))
    kernel, recurrent, bias = references.random_weights(cell)
    bias[:3] = 1000 if value else -1000
    cell.set_weights([kernel, recurrent, bias])
    return cell, [w[..., 3:] for w in (kernel, recurrent, bias)]


def test_one_step_follows_the_equations():
    cell = GatedCell(3)
    cell.build((None, 5))
    weights = references.random_weights(cell)
    expected, _ = references.gated(weights, X, [H])
    actual, (state,) = cell(X, [H])
    assert_close(actual, expected)
    assert_close(state, expected)


def test_a_gate_at_1_copies_the_state_exactly():
    cell, _ = cell_with_gate(1)
    h, _ = cell(X, [H])
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(h), H)


def test_a_gate_at_0_makes_an_elman_network():
    cell, elman = cell_with_gate(0)
    expected, _ = references.elman(elman, X, [H])
    assert_close(cell(X, [H])[0], expected)


@pytest.mark.parametrize("recurrent_activation", ["sigmoid", "hard_sigmoid"])
def test_over_time(recurrent_activation):
    layer = GatedRNN(
        3, recurrent_activation=recurrent_activation, return_sequences=True
    )
    x = RNG.normal(size=(2, 7, 5)).astype("float32")
    layer.build(x.shape)
    weights = references.random_weights(layer)
    _, expected, _ = references.run(references.gated, weights, x, [np.zeros((2, 3))])
    same = recurrent_activation == "sigmoid"
    actual = keras.ops.convert_to_numpy(layer(x))
    assert np.allclose(actual, expected, atol=1e-5) == same
