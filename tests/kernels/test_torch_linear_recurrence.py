"""The linear recurrence on PyTorch: compiled, plain operations, the reference."""

import numpy as np
import pytest

from kerasseq.core import backend

if backend.chosen() != "torch":
    pytest.skip("PyTorch's own path", allow_module_level=True)

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from kerasseq import kernels
from kerasseq.kernels.reference import linear_recurrence as reference
from kerasseq.kernels.torch import compile
from kerasseq.kernels.torch import linear_recurrence as fast
from tests.kernels.test_linear_recurrence import D, T, arrays, in_numpy

pytestmark = pytest.mark.everywhere("kernels differ between backends")

needs_llvmlite = pytest.mark.skipif(
    not compile.is_available(), reason="llvmlite is not installed"
)


def slopes(a, b, h):
    inputs = [torch.tensor(x, requires_grad=True) for x in (a, b, h)]
    path, last = fast.run(*inputs)
    weights = torch.linspace(-1, 1, path.numel()).reshape(path.shape)
    return [
        torch.autograd.grad(loss, inputs, retain_graph=True)
        for loss in ((weights * path).sum(), last.square().sum())
    ]


@needs_llvmlite
def test_compiled_and_plain_operations_compute_the_same(monkeypatch):
    parts = arrays("float32")
    strided = parts[0].transpose(1, 0, 2).copy().transpose(1, 0, 2), *parts[1:]
    compiled, views = slopes(*parts), slopes(*strided)
    monkeypatch.setattr(compile, "llvmlite", None)
    for plain in (slopes(*parts), views):
        for expected, found in zip(compiled, plain, strict=True):
            for x, y in zip(expected, found, strict=True):
                np.testing.assert_allclose(x, y, atol=1e-5, rtol=1e-5)


@needs_llvmlite
def test_vanished_gradients_are_0_and_not_denormal():
    a, b = torch.full((1, 101, D), 0.4), torch.ones(1, 101, D, requires_grad=True)
    _, last = kernels.linear_recurrence(a, b)
    (d_b,) = torch.autograd.grad(last.sum(), b)
    assert d_b[0, 50].all()
    assert not d_b[0, 0].any()


@pytest.mark.parametrize("compiled", [True, False])
def test_nan_is_not_hidden(monkeypatch, compiled):
    if not compiled:
        monkeypatch.setattr(compile, "llvmlite", None)
    a, b, h = map(torch.tensor, arrays("float32"))
    b[1, 2] = torch.nan
    b.requires_grad_()
    path, last = fast.run(a, b, h)
    assert path[1, 2:].isnan().all()
    assert not path[0].isnan().any()
    d_path = torch.zeros_like(path)
    d_path[0, -1] = torch.nan
    (d_b,) = torch.autograd.grad(path, b, d_path)
    assert d_b[0].isnan().all()
    assert not d_b[1].any()


def test_a_recorded_graph_has_the_reference():
    first, other = arrays("float32"), arrays("float32", seed=1)
    graph = make_fx(fast.run)(*map(torch.tensor, first))
    for parts in (first, other):
        found = graph(*map(torch.tensor, parts))
        for x, y in zip(found, in_numpy(*parts), strict=True):
            np.testing.assert_allclose(x, y, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_second_derivatives(dtype):
    found = []
    for run in (fast.run, reference.run):
        inputs = [torch.tensor(x, requires_grad=True) for x in arrays(dtype)]
        path, last = run(*inputs)
        loss = ((path * path).sum() + (last**3).sum()).abs()
        first = torch.autograd.grad(loss, inputs, create_graph=True)
        curve = sum((d * d.conj()).real.sum() for d in first)
        found.append([*first, *torch.autograd.grad(curve, inputs)])
    for x, y in zip(*found, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_few_steps(steps):
    parts = [x[:, :steps] for x in arrays("float32")[:2]]
    first = arrays("float32")[2]
    inputs = [torch.tensor(x, requires_grad=True) for x in (*parts, first)]
    path, last = fast.run(*inputs)
    expected, h = [], inputs[2]
    for t in range(steps):
        h = inputs[0][:, t] * h + inputs[1][:, t]
        expected.append(h)
    loss = (torch.stack(expected, 1) ** 3).sum() + (h**2).sum()
    wanted = torch.autograd.grad(loss, inputs)
    found = torch.autograd.grad((path**3).sum() + (last**2).sum(), inputs)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b)


def test_batch_of_size_0():
    a = torch.ones(0, T, D, requires_grad=True)
    path, last = kernels.linear_recurrence(a, a)
    assert (tuple(path.shape), tuple(last.shape)) == ((0, T, D), (0, D))
    assert not torch.autograd.grad(path.sum(), a)[0].numel()
