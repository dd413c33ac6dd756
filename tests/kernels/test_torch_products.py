"""Products by oneDNN and by MKL."""

import types

import pytest

from kerasseq.core import backend

if backend.chosen() != "torch":
    pytest.skip("PyTorch's own path", allow_module_level=True)

import torch

from kerasseq import kernels
from kerasseq.kernels.torch import products

pytestmark = pytest.mark.once("PyTorch's own path")


@pytest.fixture
def with_onednn(monkeypatch):
    """Multiplies with oneDNN on any CPU."""
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("PyTorch without its private name for products by oneDNN")
    monkeypatch.setattr(products, "prefers_onednn", lambda: True)
    monkeypatch.setattr(products, "LARGE", 1)


@pytest.mark.usefixtures("with_onednn")
@pytest.mark.parametrize("bias", [None, torch.arange(11.0)])
def test_product_by_onednn_of_matrices_in_any_layout(bias):
    rng = torch.Generator().manual_seed(0)
    a, b = torch.randn(7, 5, generator=rng), torch.randn(5, 11, generator=rng)
    wanted = a @ b if bias is None else a @ b + bias
    for left in (a, a.t().contiguous().t()):
        for right in (b, b.t().contiguous().t()):
            torch.testing.assert_close(products.mm(left, right, bias), wanted)


@pytest.mark.usefixtures("with_onednn")
def test_onednn_never_gets_part_of_a_matrix(monkeypatch):
    """Which it multiplies by a reference loop, in 1,000 times the time."""
    product, seen = products.private.onednn_product(), []

    def watched(a, b, *more):
        seen.append(b.is_contiguous() or b.t().is_contiguous())
        return product(a, b, *more)

    monkeypatch.setattr(products.private, "onednn_product", lambda: watched)
    rng = torch.Generator().manual_seed(0)
    a, wide = torch.randn(2, 7, 5, generator=rng), torch.randn(5, 22, generator=rng)
    high = torch.randn(11, 10, generator=rng)
    for b in (wide[:, :11], wide[:, 11:], high[:, 5:].t()):
        torch.testing.assert_close(products.mm(a[0], b), a[0] @ b)
        out = torch.empty(2, 7, 11)
        at = products.multiply_at(a, b, out)
        at(0), at(1)
        torch.testing.assert_close(out, a @ b)
    assert len(seen) == 9 and all(seen)


@pytest.mark.parametrize(
    ("cpu", "capability", "name", "wanted"),
    [
        ("znver5", "AVX512", "_linear_pointwise", True),
        ("znver5", "AVX2", "_linear_pointwise", False),
        ("znver5", "AVX512", "a_name_that_is_missing", False),
        ("znver4", "AVX512", "_linear_pointwise", False),
        ("skylake-avx512", "AVX512", "_linear_pointwise", False),
        ("", "AVX512", "_linear_pointwise", False),
    ],
)
def test_cpus_on_which_onednn_multiplies(monkeypatch, cpu, capability, name, wanted):
    monkeypatch.setattr(products, "get_host_cpu_name", lambda: cpu)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    operations = types.SimpleNamespace(**{name: max})
    monkeypatch.setattr(torch.ops, "mkldnn", operations)
    assert products.prefers_onednn.__wrapped__() is wanted


@pytest.mark.usefixtures("with_onednn")
def test_projection_by_onednn_has_both_derivatives():
    """Close to float64: processors round the products of float32 differently."""
    rng = torch.Generator().manual_seed(0)
    shapes = ((3, 7, 5), (5, 11), (11,))
    inputs = [torch.randn(*s, generator=rng) for s in shapes]
    found = []
    for run, dtype in (
        (kernels.project, torch.float32),
        (lambda x, w, b: x @ w + b, torch.float64),
    ):
        parts = [x.to(dtype).requires_grad_() for x in inputs]
        y = run(*parts)
        first = torch.autograd.grad((y**2).sum(), parts, create_graph=True)
        second = torch.autograd.grad(sum((g**2).sum() for g in first), parts)
        found.append([y, *first, *second])
    for ours, exact in zip(*found, strict=True):
        error = (ours.double() - exact).abs().max() / exact.abs().max()
        assert error < 1e-6
