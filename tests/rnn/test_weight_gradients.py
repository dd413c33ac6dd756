"""Gradients of the variants that Keras does not have, against finite differences.

One step of gradient descent at rate 1 moves each weight by its gradient. The loss of
the equations in NumPy, moved a little to either side, says what that must be.
"""

import keras
import numpy as np
import pytest

from kerasseq.layers import GRU, LSTM, GatedRNN
from tests.layer_checks import assert_close
from tests.rnn import references

pytestmark = pytest.mark.full("equations: kernels are tested everywhere")

X = np.random.default_rng(2).normal(size=(2, 7, 5)).astype("float32")
VARIANTS = {
    "gated": (GatedRNN(3), references.gated, 1),
    "diagonal": (LSTM(3, peephole="diagonal"), references.lstm("diagonal"), 2),
    "full": (LSTM(3, peephole="full"), references.lstm("full"), 2),
    "coupled": (LSTM(3, coupled=True), references.lstm(None, True), 2),
    "full and coupled": (
        LSTM(3, peephole="full", coupled=True), references.lstm("full", True), 2
    ),
    "replace": (GRU(3, update="replace"), references.gru(True, "replace"), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_each_weight_moves_by_its_gradient(name):
    layer, step, states = VARIANTS[name]
    model = keras.Sequential([keras.Input((7, 5)), layer])
    model.compile(keras.optimizers.SGD(1.0), "mse")
    weights = references.random_weights(layer)
    model.train_on_batch(X, np.zeros((2, 3), "float32"))
    moved = [w - new for w, new in zip(weights, layer.get_weights(), strict=True)]

    def loss():
        h, _, _ = references.run(step, weights, X, [np.zeros((2, 3))] * states)
        return np.mean(h**2)

    rng = np.random.default_rng(3)
    for weight, gradient in zip(weights, moved, strict=True):
        for _ in range(5):
            place = tuple(rng.integers(weight.shape))
            there, sides = weight[place], []
            for nudge in (1e-5, -1e-5):
                weight[place] = there + nudge
                sides.append(loss())
            weight[place] = there
            assert_close(gradient[place], (sides[0] - sides[1]) / 2e-5, atol=1e-5)
