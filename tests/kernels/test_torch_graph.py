"""Functions recorded on PyTorch: what is recorded, and what is not."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq.core import backend

if backend.chosen() != "torch":
    pytest.skip("records on PyTorch", allow_module_level=True)

import torch

from kerasseq.kernels.torch_graph import EAGER_CALLS, recorded, shortened


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


def test_nothing_is_computed_twice_but_what_is_drawn():
    from torch.fx.experimental.proxy_tensor import make_fx

    def function(x):
        a, b = ops.exp(x) + 1, ops.exp(x) + 1
        noise = torch.rand(3) - torch.rand(3)
        return a * b + 0 * noise, noise, torch.clone(x)

    graph = shortened(make_fx(function)(torch.ones(3)))
    targets = [str(node.target) for node in graph.graph.nodes]
    assert sum("exp" in one for one in targets) == 1
    assert sum("rand" in one for one in targets) == 2
    assert not any("clone" in one for one in targets)
    product, noise, x = graph(torch.full((3,), 2.0))
    np.testing.assert_allclose(product, (np.exp(2) + 1) ** 2, rtol=1e-6)
    assert float(abs(noise).max()) > 0 and x.tolist() == [2, 2, 2]


def test_what_writes_into_its_own_things():
    def function(x):
        y = torch.zeros(3)
        z = torch.zeros(3)
        y[1] = x[0]
        z[1] += 5
        return y + 0, z + y, x

    call = recorded(function)
    for n in range(2 * EAGER_CALLS):
        y, z, x = call(np.float32([n, 1]))
        assert (y.tolist(), z.tolist()) == ([0, n, 0], [0, n + 5, 0])
        assert x.tolist() == [n, 1]
