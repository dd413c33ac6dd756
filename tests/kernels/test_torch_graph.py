"""Functions recorded on PyTorch: what is recorded, and what is not."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq.core import backend

if backend.chosen() != "torch":
    pytest.skip("records on PyTorch", allow_module_level=True)

from kerasseq.kernels.torch_graph import EAGER_CALLS, recorded


def counting(function):
    calls = []

    def count(*args):
        calls.append(args)
        return function(*args)

    return recorded(count), calls


def test_python_runs_until_it_is_recorded_and_again_for_another_shape():
    call, calls = counting(lambda x: x + 1)
    for n in range(2 * EAGER_CALLS):
        assert float(call(np.float32([n]))[0]) == n + 1
    assert len(calls) == EAGER_CALLS  # the last of them to record
    assert call(np.zeros(3, "float32")).shape == (3,)
    assert call(np.zeros(1, "int32")).dtype != call(np.zeros(1, "float32")).dtype
    assert len(calls) == EAGER_CALLS + 2


def test_what_depends_on_a_value_runs_as_it_is():
    call, calls = counting(lambda x: x if float(x[0]) > 0 else -x)
    for n in range(-EAGER_CALLS, EAGER_CALLS):
        assert float(call(np.float32([n]))[0]) == abs(n)
    assert len(calls) >= 2 * EAGER_CALLS


def test_an_error_of_the_function_is_its_own():
    def broken(x):
        raise ValueError("no")

    call, _ = counting(broken)
    for _ in range(2 * EAGER_CALLS):
        with pytest.raises(ValueError, match="no"):
            call(np.zeros(3, "float32"))


def test_no_gradients():
    layer = keras.layers.Dense(3)
    layer.build((None, 2))
    call = recorded(layer)
    for _ in range(2 * EAGER_CALLS):
        assert not call(ops.ones((5, 2))).requires_grad
