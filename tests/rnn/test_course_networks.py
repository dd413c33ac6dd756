"""The networks of slides C: what is read from the last output of a recurrent layer."""

import keras
import numpy as np
import pytest

from kerasseq.layers import ElmanRNN, LSTMCell, StackedRNN
from tests.layer_checks import assert_close
from tests.rnn import references

pytestmark = pytest.mark.once("layers in a model; each is tested everywhere")

X = np.random.default_rng(0).normal(size=(2, 7, 5)).astype("float32")


def classifier(*layers):
    """Returns a model of two classes, its weights before the head, and the head."""
    model = keras.Sequential([keras.Input(X.shape[1:]), *layers, keras.layers.Dense(2)])
    *weights, W, b = references.random_weights(model)
    return model, weights, lambda h: h @ W + b


def zeros(count):
    return [np.zeros((2, 3)) for _ in range(count)]


def test_elman_network_of_slides_c():
    """RecNet: ReLU, a state of zeros before the first step, a linear output."""
    model, weights, head = classifier(ElmanRNN(3))
    last, _, _ = references.run(references.elman, weights, X, zeros(1))
    assert_close(model(X), head(last))


def test_lstm_network_of_slides_c():
    """LSTMNet: stacked LSTMs, the last output through a ReLU, a linear output."""
    stack = StackedRNN([LSTMCell(3), LSTMCell(3)])
    model, weights, head = classifier(stack, keras.layers.ReLU())
    _, below, _ = references.run(references.lstm(), weights[:3], X, zeros(2))
    last, _, _ = references.run(references.lstm(), weights[3:], below, zeros(2))
    assert np.any(last < 0)  # ReLU is at work
    assert_close(model(X), head(references.relu(last)))
