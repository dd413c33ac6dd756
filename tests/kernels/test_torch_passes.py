"""What recorded graphs are spared, pass by pass: the numbers stay the same."""

import numpy as np
import pytest
from keras import ops

from kerasseq.core import backend

if backend.chosen() != "torch":
    pytest.skip("records on PyTorch", allow_module_level=True)

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from kerasseq.kernels.torch.graph import EAGER_CALLS, recorded
from kerasseq.kernels.torch.passes import (
    bind_builtins,
    eliminate_common_subexpressions,
    fold_constants,
)

pytestmark = pytest.mark.everywhere("kernels differ between backends")


def graph_of(function, *args):
    return make_fx(torch.func.functionalize(function))(*args)


def names(graph):
    return [str(node.target) for node in graph.graph.nodes]


def count(graph, word):
    return sum(word in name for name in names(graph))


def test_nothing_is_computed_twice_but_what_is_drawn():
    def function(x):
        a, b = ops.exp(x) + 1, ops.exp(x) + 1
        noise = torch.rand(3) - torch.rand(3)
        return a * b + 0 * noise, noise, torch.clone(x)

    graph = bind_builtins(
        eliminate_common_subexpressions(graph_of(function, torch.ones(3)))
    )
    assert count(graph, "exp") == 1
    assert count(graph, "rand") == 2
    assert not count(graph, "clone")
    product, noise, x = graph(torch.full((3,), 2.0))
    np.testing.assert_allclose(product, (np.exp(2) + 1) ** 2, rtol=1e-6)
    assert float(abs(noise).max()) > 0 and x.tolist() == [2, 2, 2]


def test_what_changes_no_shape_is_left_out():
    def function(x):
        y = x.view(2, 3).expand(2, 3).view(3, 2).view(6).view(2, 3)
        return y.expand(5, 2, 3) + x.t().reshape(2, 3)

    x = torch.arange(6.0).view(2, 3)
    graph = bind_builtins(eliminate_common_subexpressions(graph_of(function, x)))
    assert count(graph, "expand") == 1  # the one that makes five of one
    assert count(graph, "view") + count(graph, "reshape") <= 2
    np.testing.assert_array_equal(graph(x), function(x))


def test_a_view_of_what_lies_otherwise_is_no_view_of_it():
    def function(x):
        return torch.ops.aten.view.default(x.t().view(3, 1, 2), [3, 2]) * 1

    x = torch.arange(6.0).view(2, 3)
    graph = bind_builtins(eliminate_common_subexpressions(graph_of(function, x)))
    np.testing.assert_array_equal(graph(x), x.t())


def test_views_of_weights_show_what_is_written_into_them():
    weight = torch.nn.Parameter(torch.arange(6.0).view(2, 3))

    def function(x):
        return (x @ weight.t().reshape(3, 2)) * weight.exp().sum() + weight.view(6)[0]

    x = torch.ones(5, 3)
    graph = fold_constants(eliminate_common_subexpressions(graph_of(function, x)))
    graph = bind_builtins(graph)
    assert not count(graph, "permute") and not count(graph, "transpose")
    assert count(graph, "exp") == 1  # no view
    for _ in range(2):
        with torch.no_grad():
            np.testing.assert_array_equal(graph(x), function(x))
            weight.mul_(0.5)


def test_what_is_made_of_nothing_is_made_once():
    def function(x):
        places = torch.arange(3, dtype=torch.float32)[:, None] + torch.ones(3)
        return torch.where(x > 0, x, torch.zeros_like(x)) + places

    x = torch.tensor([1.0, -1.0, 2.0])
    graph = fold_constants(eliminate_common_subexpressions(graph_of(function, x)))
    graph = bind_builtins(graph)
    assert not any(count(graph, word) for word in ("arange", "ones", "zeros"))
    for sign in (1, -1):
        np.testing.assert_array_equal(graph(sign * x), function(sign * x))


def test_noise_is_drawn_each_time():
    graph = bind_builtins(fold_constants(graph_of(lambda x: x + torch.rand(3), ONES)))
    assert not torch.equal(graph(ONES), graph(ONES))


ONES = torch.ones(3)


def test_what_comes_out_is_no_constant():
    def function(x, cache):
        at = ops.convert_to_tensor(0)
        after = cache.index_put((at[None],), x[None])
        return after, torch.zeros(2, 3)

    call = recorded(function, donated=True)
    cache = torch.zeros(2, 3)
    for n in range(2 * EAGER_CALLS):
        old, cache = cache, torch.zeros(2, 3)
        written, cache = call(torch.full((3,), float(n)), cache)
        written, zeros = call(torch.ones(3), cache)  # into what came out
        assert written[0].tolist() == [1, 1, 1] and not zeros.any()
        cache = old


OPERATIONS = {
    "to another type": lambda x: (x * 3).to(torch.int32).to(torch.float64),
    "norm": lambda x: torch.nn.functional.layer_norm(x, (3,), eps=1e-5),
    "activations": lambda x: torch.nn.functional.gelu(x) + torch.relu(x),
    "sums": lambda x: x.sum(-1, keepdim=True) + x.mean(0) + x.amax(1)[:, None],
    "choice": lambda x: torch.where(x > 0, x, -x).masked_fill(x > 1, 7.0),
    "parts": lambda x: torch.cat([*x.split(1, dim=1), x[:, ::2]], 1).unbind(0)[1],
    "order": lambda x: x.sort(dim=-1, descending=True)[0] + x.topk(1, dim=-1)[0],
    "places": lambda x: x.gather(1, x.argmax(-1, keepdim=True)) + x[[1, 0, 1, 4, 2]],
    "powers": lambda x: x.abs() ** 0.5 + torch.softmax(x, -1) / (1 + x.square()),
    "spread": lambda x: x.var(-1, correction=0, keepdim=True) + x.std(),
    "bounds": lambda x: x.clamp(-0.5, 0.5) + x.clamp(min=0) + torch.maximum(x, x * 2),
    "new": lambda x: x.new_zeros(3) + torch.full((3,), 2.0) + torch.ones_like(x),
    "triangle": lambda x: torch.tril(x @ x.t()) + torch.eye(5).roll(1, 0),
    "running": lambda x: x.cumsum(0) - x.flip(1).repeat(1, 2)[:, :3],
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_bound_operations_give_the_same(name):
    function = OPERATIONS[name]
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    call = recorded(function)
    for _ in range(EAGER_CALLS + 2):
        found = call(x.clone())
    wanted = function(x.clone())
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
