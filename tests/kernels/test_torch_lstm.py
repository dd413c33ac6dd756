"""The LSTM on PyTorch: all ways it multiplies and computes, and long sequences."""

import numpy as np
import pytest

from kerasseq.core import backend

if backend.chosen() != "torch":
    pytest.skip("PyTorch's own way", allow_module_level=True)

import torch
from torch.fx.experimental.proxy_tensor import make_fx

import kerasseq
from kerasseq.kernels.reference.equations import Equation
from kerasseq.kernels.torch import lstm as torch_lstm
from kerasseq.kernels.torch import native as torch_native
from kerasseq.kernels.torch import product as torch_product
from kerasseq.kernels.torch import recurrence as torch_recurrence
from kerasseq.kernels.torch.recurrence import _without_denormals
from tests.kernels.test_recurrence import B, H, T, assert_same, case, dropout_for

pytestmark = pytest.mark.everywhere("kernels differ between backends")

MASK = np.array([[0, 1, 0], [0, 1, 1], [0, 0, 1], [0, 1, 1], [0, 1, 0]], bool)
DROPOUTS = {"none": None, "one": lambda e: dropout_for(e)[0], "each": dropout_for}


def by_mkl(monkeypatch):
    monkeypatch.setattr(torch_product, "on_intel", lambda: True)


def by_onednn(monkeypatch):
    monkeypatch.setattr(torch_product, "on_intel", lambda: False)


def by_mkl_and_large(monkeypatch):
    by_mkl(monkeypatch)
    monkeypatch.setattr(torch_product, "LARGE", 1)


def without_numpy(monkeypatch):
    by_mkl(monkeypatch)
    monkeypatch.setattr(torch_lstm, "library_for", lambda like: (torch, lambda a: a))


@pytest.mark.parametrize("dropout", DROPOUTS)
@pytest.mark.parametrize("peephole", [None, "diagonal"])
@pytest.mark.parametrize("way", [by_mkl, by_onednn, by_mkl_and_large, without_numpy])
def test_all_ways_give_the_equation(way, peephole, dropout, monkeypatch):
    way(monkeypatch)
    equation = Equation("lstm", "tanh", peephole=peephole)
    masks = DROPOUTS[dropout] and DROPOUTS[dropout](equation)
    for mask in (None, MASK):
        assert_same(equation, case(equation), mask, masks)


def test_oneDNN_multiplies_where_it_is_the_faster_one(monkeypatch):
    U = torch.ones(4, 3, 3)
    for way, at_once in ((by_mkl, False), (by_onednn, True), (by_mkl_and_large, True)):
        way(monkeypatch)
        product = torch_product.GateProduct(U, None, B)
        assert product.at_once is at_once
        assert not torch_product.GateProduct(U, torch.ones(B, 3), B).at_once


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("backwards", [True, False])
@pytest.mark.parametrize("way", [by_mkl, by_onednn])
def test_layer_is_the_one_that_goes_step_by_step(way, backwards, use_bias, monkeypatch):
    way(monkeypatch)
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(B, 11, 5)).astype("float32"), requires_grad=True)
    options = {
        "use_bias": use_bias,
        "return_state": True,
        "go_backwards": backwards,
        "bias_initializer": "normal",
        "peephole_initializer": "normal",
    }
    fast = kerasseq.layers.PeepholeLSTM(7, **options)
    slow = kerasseq.layers.PeepholeLSTM(7, unroll=True, **options)
    fast.build(x.shape)
    slow.build(x.shape)
    slow.set_weights(fast.get_weights())

    def run(layer):
        outputs = layer(x)
        loss = sum((k + 1) * (y**2).sum() for k, y in enumerate(outputs))
        weights = [v.value for v in layer.trainable_variables]
        return [*outputs, *torch.autograd.grad(loss, [x, *weights])]

    for a, b in zip(run(fast), run(slow), strict=True):
        np.testing.assert_allclose(a.detach(), b.detach(), atol=1e-5, rtol=1e-4)


def test_nothing_that_others_see_is_written_over():
    layer = kerasseq.layers.PeepholeLSTM(7)
    x, h, c = torch.randn(B, T, 5), torch.randn(B, 7), torch.randn(B, 7)
    layer.build(x.shape)
    weights = [v.value for v in layer.trainable_variables]
    kept = [w.detach().clone() for w in (x, h, c, *weights)]
    y = layer(x, initial_state=[h, c])
    first, again = (
        torch.autograd.grad((y**2).sum(), weights, retain_graph=True) for _ in range(2)
    )
    for a, b in zip((x, h, c, *weights, *again), (*kept, *first), strict=True):
        np.testing.assert_array_equal(a.detach(), b)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "name", ["ElmanRNN", "GatedRNN", "LSTM", "PeepholeLSTM", "GRU"]
)
def test_no_sequence_at_all(name, masked):
    layer = getattr(kerasseq.layers, name)(7)
    mask = torch.ones(0, T, dtype=torch.bool) if masked else None
    y = layer(torch.zeros(0, T, 5), mask=mask)
    assert tuple(y.shape) == (0, 7)
    weights = [v.value for v in layer.trainable_variables]
    gradients = torch.autograd.grad(y.sum(), weights, allow_unused=True)
    assert all(g is None or not g.any() for g in gradients)


@pytest.mark.parametrize("peephole", [None, "diagonal", "full"])
def test_chunks_of_steps_are_one_whole(peephole, monkeypatch):
    monkeypatch.setattr(torch_recurrence, "IN_CACHE", 2 * B * H)  # two steps
    equation = Equation("lstm", "tanh", peephole=peephole)
    assert_same(equation, case(equation), MASK)


def test_numbers_that_overflow_are_no_warning():
    layer = kerasseq.layers.PeepholeLSTM(7, return_sequences=True)
    x = torch.randn(B, 11, 5, requires_grad=True)
    with np.errstate(all="raise"):
        (layer(x) * 3e38).sum().backward()
    assert not torch.isfinite(x.grad).all()


def test_recorded_operations_are_those_of_pytorch():
    layer = kerasseq.layers.PeepholeLSTM(7, peephole_initializer="normal")
    x, other = torch.randn(2, B, 3, 5).unbind()
    layer.build(x.shape)
    with torch.no_grad():
        graph = make_fx(layer)(x)
        for y in (x, other):
            np.testing.assert_allclose(graph(y), layer(y), atol=1e-6)


def test_exported_program_computes_the_same():
    layer = kerasseq.layers.PeepholeLSTM(7)
    x = torch.randn(B, T, 5)
    wanted = layer(x)
    program = torch.export.export(torch.nn.Sequential(layer), (x,)).module()
    np.testing.assert_allclose(program(x).detach(), wanted.detach(), atol=1e-6)


@pytest.mark.filterwarnings("ignore")  # of PyTorch's compiler about itself
def test_compiled_layer_computes_the_same():
    layer = kerasseq.layers.PeepholeLSTM(7, peephole_initializer="normal")
    x = torch.randn(B, 3, 5)
    wanted = layer(x)
    compiled = torch.compile(layer, backend="aot_eager")
    weights = [v.value for v in layer.trainable_variables]
    for _ in range(2):
        found = compiled(x)
        np.testing.assert_allclose(found.detach(), wanted.detach(), atol=1e-6)
        gradients = [
            torch.autograd.grad((y**2).sum(), weights, retain_graph=True)
            for y in (found, wanted)
        ]
        for a, b in zip(*gradients, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)


def test_gradients_that_vanish_are_zero_and_no_denormals():
    tiny = torch.finfo(torch.float32).tiny
    d = torch.tensor([0.0, tiny / 2, -tiny / 4, -2e6 * tiny, 1.0, torch.inf, torch.nan])
    wanted = [0, 0, 0, -2e6 * tiny, 1, torch.inf, torch.nan]
    np.testing.assert_array_equal(_without_denormals(d), np.float32(wanted))
    half = torch.tensor([torch.finfo(torch.float16).tiny / 4], dtype=torch.float16)
    np.testing.assert_array_equal(_without_denormals(half), half)
    double = torch.tensor([1e-300, 1e-310], dtype=torch.float64)
    np.testing.assert_array_equal(_without_denormals(double), [1e-300, 0])


@pytest.mark.parametrize("flushed", [True, False])
def test_gradients_vanish_over_a_thousand_steps(flushed, monkeypatch):
    if not flushed:  # then the smallest number is there forever
        monkeypatch.setattr(torch_recurrence, "_without_denormals", torch.clone)
    layer = kerasseq.layers.PeepholeLSTM(7)
    state = [torch.zeros(B, 7, requires_grad=True) for _ in range(2)]
    y = layer(torch.zeros(B, 1009, 5), initial_state=state)  # all f are above a half
    d = torch.autograd.grad(y.sum(), state)[1].abs().max()
    assert bool(d == 0) is flushed
    assert d < torch.finfo(torch.float32).tiny


@pytest.mark.parametrize(
    ("name", "dtype", "steps", "units", "learns", "intel", "native"),
    [
        ("lstm", "float32", 5, 7, True, True, True),
        ("lstm", "float64", 5, 7, True, True, False),
        ("lstm", "float32", torch_native.LONG + 1, 7, True, True, False),
        ("lstm", "float32", torch_native.LONG + 1, 7, False, True, True),
        ("lstm", "float32", 5, 512, True, True, False),
        ("lstm", "float32", 5, 512, True, False, True),
        ("lstm", "float32", 5, 512, False, True, True),
        ("elman", "float64", 5, 7, True, True, True),
        ("elman", "float32", 5, 512, True, False, False),
        ("gru", "float32", 5, 7, False, True, False),
    ],
)
def test_pytorch_has_its_own_where_it_is_faster(
    name, dtype, steps, units, learns, intel, native, monkeypatch
):
    monkeypatch.setattr(torch_native, "on_intel", lambda: intel)
    x = torch.zeros(steps, 1, 1, dtype=getattr(torch, dtype))
    with torch.set_grad_enabled(learns):
        found = torch_native._faster_on_cpu(
            name, x, (4 if name == "lstm" else 1) * units**2
        )
    assert found is native
