import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import kernels
from tests.layer_checks import assert_close

pytestmark = pytest.mark.everywhere("kernels differ between backends")

X = np.random.default_rng(0).normal(size=(2, 3)).astype("float32")


def test_any_structure():
    found = kernels.gradients(
        lambda a: ops.sum(a["x"] ** 3) + ops.sum(a["more"][0]) * 2,
        {"x": X, "more": [X, X]},
    )
    assert_close(found["x"], 3 * X**2)
    assert_close(found["more"][0], 2 * np.ones_like(X))
    assert_close(found["more"][1], np.zeros_like(X))  # on which nothing depends


def test_variables_keep_their_values():
    variable = keras.Variable(np.float32(3))

    def assigns(x):
        variable.assign(variable * 2)
        return ops.sum(x) * variable

    assert_close(kernels.gradients(assigns, X), 6 * np.ones_like(X))
    assert_close(variable, 3.0)


def test_against_differences():
    def function(x):
        return ops.sum(ops.sin(x[0]) * ops.exp(x[1]))

    expected = [np.cos(X[0]) * np.exp(X[1]), np.sin(X[0]) * np.exp(X[1])]
    assert_close(kernels.gradients(function, X), np.stack(expected))
