"""The recurrence on PyTorch: numba's loops, PyTorch's kernels and the reference."""

import importlib

import numpy as np
import pytest

from kerasseq.core import backend

if backend.chosen() != "torch":
    pytest.skip("PyTorch's own path", allow_module_level=True)

import torch
from torch.fx.experimental.proxy_tensor import make_fx

import kerasseq
from kerasseq.kernels.reference.equations import Equation
from kerasseq.kernels.torch import numba_loops, recurrence, tensors
from tests.kernels.test_recurrence import (
    EQUATIONS,
    B,
    H,
    T,
    assert_same,
    case,
    dropout_for,
    fast,
    name_of,
)
from tests.processes import ROOT, run_python

pytestmark = pytest.mark.everywhere("kernels differ between backends")

MASK = np.array([[0, 1, 0], [0, 1, 1], [0, 0, 1], [0, 1, 1], [0, 1, 0]], bool)
DROPOUTS = {"none": None, "one": lambda e: dropout_for(e)[0], "each": dropout_for}
NAMES = ["ElmanRNN", "GatedRNN", "LSTM", "PeepholeLSTM", "GRU"]
COMPILED = [e for e in EQUATIONS if recurrence.has_loops(e)]
needs_numba = pytest.mark.skipif(
    numba_loops.numba_steps is None, reason="numba is not installed"
)


@pytest.fixture
def without_numba(monkeypatch):
    monkeypatch.setattr(numba_loops, "numba_steps", None)


@pytest.fixture
def calls(monkeypatch):
    """The equations that numba's loops run."""
    found, run = [], recurrence.run_loops

    def counting(cell, *args):
        found.append(cell.equation)
        return run(cell, *args)

    monkeypatch.setattr(recurrence, "run_loops", counting)
    return found


@needs_numba
def test_every_usual_equation_has_a_compiled_loop():
    left_out = {name_of(e) for e in EQUATIONS} - {name_of(e) for e in COMPILED}
    assert left_out == {"lstm-softsign-hard_sigmoid-diagonal-False-True-keep"}


@pytest.mark.parametrize("masked", [False, True], ids=["", "mask"])
@pytest.mark.parametrize("equation", COMPILED, ids=name_of)
def test_compiled_loop_equals_reference_to_rounding(equation, masked, calls):
    assert_same(equation, case(equation), MASK if masked else None, tolerance=1e-6)
    assert calls


@pytest.mark.parametrize("dropout", DROPOUTS)
@pytest.mark.parametrize("peephole", [None, "diagonal", "full"])
def test_dropout_of_the_state_of_an_lstm(peephole, dropout):
    equation = Equation("lstm", "tanh", peephole=peephole)
    masks = DROPOUTS[dropout] and DROPOUTS[dropout](equation)
    for mask in (None, MASK):
        assert_same(equation, case(equation), mask, masks)


@pytest.mark.usefixtures("without_numba")
@pytest.mark.parametrize("equation", EQUATIONS, ids=name_of)
def test_without_numba_the_reference_loop_runs(equation, calls):
    assert_same(equation, case(equation), MASK)
    assert not calls


@needs_numba
@pytest.mark.parametrize("where", ["inputs", "state", "weights"])
@pytest.mark.parametrize("equation", COMPILED, ids=name_of)
def test_nan_is_not_hidden(equation, where):
    arrays = case(equation)
    if where == "inputs":
        arrays["x"][2, 1] = np.nan
    elif where == "state":
        arrays["states"][-1][1] = np.nan
    else:
        arrays["weights"]["U"][:] = np.nan
    path, last = fast(equation, arrays)
    rows = slice(None) if where == "weights" else 1
    first = 2 if where == "inputs" else 0
    assert path[first:, rows].isnan().all()
    assert all(state[rows].isnan().all() for state in last)
    if where != "weights":
        assert not path[:, [0, 2]].isnan().any()


@needs_numba
@pytest.mark.parametrize("equation", COMPILED, ids=name_of)
def test_nan_in_a_gradient_is_not_hidden(equation):
    arrays = case(equation)
    states = [torch.tensor(s, requires_grad=True) for s in arrays["states"]]
    path, _ = fast(equation, {**arrays, "states": states})
    d_path = torch.zeros_like(path)
    d_path[-1, 1] = torch.nan
    for gradient in torch.autograd.grad(path, states, d_path):
        assert gradient[1].isnan().all()
        assert not gradient[[0, 2]].any()


@needs_numba
def test_large_and_infinite_pre_activations():
    equation = Equation("gated", "tanh")
    arrays = case(equation)
    arrays["x"][0, :, H:] = [[-np.inf], [np.inf], [3e38]]
    arrays["x"][0, :, :H] = -np.inf
    path, _ = fast(equation, arrays)
    np.testing.assert_allclose(path[0], np.sign([[-1], [1], [1]]) * np.ones(H), 1e-6)


@needs_numba
def test_masked_steps_may_hold_nan():
    for equation in COMPILED:
        arrays = case(equation)
        arrays["x"][~MASK] = np.nan
        path, last = fast(equation, arrays, torch.from_numpy(MASK))
        assert not path.isnan().any()
        assert not any(state.isnan().any() for state in last)


@needs_numba
@pytest.mark.parametrize("name", NAMES)
def test_inputs_that_are_not_contiguous(name, calls):
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(5, T, 2 * B)).astype("float32"))
    layer = getattr(kerasseq.layers, name)(7, return_sequences=True)
    strided = x[:, :, ::2].permute(2, 1, 0)  # (B, T, 5)
    mask = torch.ones(T, B, dtype=torch.bool).t()
    states = [s.t().contiguous().t() for s in layer.get_initial_state(B)]
    found = layer(strided, initial_state=states, mask=mask)
    wanted = layer(strided.contiguous())
    np.testing.assert_allclose(found.detach(), wanted.detach(), atol=1e-6)
    assert calls


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("backwards", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_layer_equals_the_unrolled_layer(name, backwards, use_bias):
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(B, 11, 5)).astype("float32"), requires_grad=True)
    options = {
        "use_bias": use_bias,
        "return_state": True,
        "go_backwards": backwards,
        "bias_initializer": "normal",
    }
    if name == "PeepholeLSTM":
        options["peephole_initializer"] = "normal"
    fast_layer = getattr(kerasseq.layers, name)(7, **options)
    slow = getattr(kerasseq.layers, name)(7, unroll=True, **options)
    fast_layer.build(x.shape)
    slow.build(x.shape)
    slow.set_weights(fast_layer.get_weights())

    def run(layer):
        outputs = layer(x)
        loss = sum((k + 1) * (y**2).sum() for k, y in enumerate(outputs))
        weights = [v.value for v in layer.trainable_variables]
        return [*outputs, *torch.autograd.grad(loss, [x, *weights])]

    for a, b in zip(run(fast_layer), run(slow), strict=True):
        np.testing.assert_allclose(a.detach(), b.detach(), atol=1e-5, rtol=1e-4)


def test_arguments_and_saved_values_are_not_overwritten():
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


@needs_numba
def test_gradient_after_a_change_of_the_weights_is_an_error():
    layer = kerasseq.layers.GRU(7)
    y = layer(torch.randn(B, T, 5))
    with torch.no_grad():
        layer.cell.recurrent_kernel.value.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@needs_numba
def test_second_derivative_is_an_error_that_names_unroll():
    layer = kerasseq.layers.GRU(7)
    x = torch.randn(B, T, 5, requires_grad=True)
    with pytest.raises(RuntimeError, match="unroll=True"):
        torch.autograd.grad(layer(x).sum(), x, create_graph=True)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_batch_of_size_0(name, masked):
    layer = getattr(kerasseq.layers, name)(7)
    mask = torch.ones(0, T, dtype=torch.bool) if masked else None
    x = torch.zeros(0, T, 5, requires_grad=True)
    y = layer(x, mask=mask)
    assert tuple(y.shape) == (0, 7)
    weights = [v.value for v in layer.trainable_variables]
    gradients = torch.autograd.grad(y.sum(), [x, *weights], allow_unused=True)
    assert all(g is None or not g.any() for g in gradients)


def test_overflow_is_not_a_warning():
    layer = kerasseq.layers.PeepholeLSTM(7, return_sequences=True)
    x = torch.randn(B, 11, 5, requires_grad=True)
    with np.errstate(all="raise"):
        (layer(x) * 3e38).sum().backward()
    assert not torch.isfinite(x.grad).all()


def test_recorded_graph_uses_the_reference(calls):
    layer = kerasseq.layers.PeepholeLSTM(7, peephole_initializer="normal")
    x, other = torch.randn(2, B, 3, 5).unbind()
    layer.build(x.shape)
    with torch.no_grad():
        graph = make_fx(layer)(x)
        assert not calls
        for y in (x, other):
            np.testing.assert_allclose(graph(y), layer(y), atol=1e-6)


def test_without_pytorchs_private_name_the_reference_runs(monkeypatch, calls):
    name = "torch.utils._python_dispatch"
    module = importlib.import_module(name)
    monkeypatch.delattr(module, "_get_current_dispatch_mode")
    assert tensors.in_dispatch_mode()
    assert_same(COMPILED[0] if COMPILED else EQUATIONS[0], case(EQUATIONS[0]))
    assert not calls


@pytest.mark.parametrize("name", ["PeepholeLSTM", "GRU"])
def test_exported_program_computes_the_same(name):
    layer = getattr(kerasseq.layers, name)(7)
    x = torch.randn(B, T, 5)
    wanted = layer(x)
    program = torch.export.export(torch.nn.Sequential(layer), (x,)).module()
    np.testing.assert_allclose(program(x).detach(), wanted.detach(), atol=1e-6)


@pytest.mark.filterwarnings("ignore")  # of PyTorch's compiler about itself
@pytest.mark.parametrize("name", ["LSTM", "PeepholeLSTM"])
def test_compiled_layer_computes_the_same(name):
    layer = getattr(kerasseq.layers, name)(7, peephole_initializer="normal")
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


@needs_numba
@pytest.mark.parametrize("name", ["GRU", "PeepholeLSTM"])
def test_vanished_gradients_are_0_and_not_denormal(name):
    layer = getattr(kerasseq.layers, name)(7, recurrent_initializer="zeros")
    state = [torch.zeros(B, 7, requires_grad=True) for _ in layer.get_initial_state(1)]
    y = layer(torch.zeros(B, 1009, 5), initial_state=state)
    assert not torch.autograd.grad(y.sum(), state)[-1].any()
    short = layer(torch.zeros(B, 11, 5), initial_state=state)
    assert torch.autograd.grad(short.sum(), state)[-1].all()


@pytest.mark.parametrize(
    ("name", "steps", "learns", "numba", "wanted"),
    [
        ("lstm", 5, True, True, True),
        ("lstm", recurrence.LONG + 1, True, True, False),
        ("lstm", recurrence.LONG + 1, True, False, True),
        ("lstm", recurrence.LONG + 1, False, True, True),
        ("elman", 5, True, True, False),
        ("gru", 5, True, True, False),
        ("gru", 5, True, False, True),
    ],
)
def test_native_kernels_run_where_they_are_faster(name, steps, learns, numba, wanted):
    equation = Equation(name, "tanh")
    gates = equation.gates
    cell = kerasseq.kernels.Recurrence(
        equation,
        {"U": torch.zeros(7, 7 * gates)},
        torch.zeros(steps, 1, 5),
        lambda x: x,
        kernel=torch.zeros(5, 7 * gates),
    )
    with torch.set_grad_enabled(learns):
        assert recurrence.native_is_best(cell, None, numba) is wanted


def test_weights_of_cudnn_lie_in_one_block():
    # The order of cuDNN, as in TensorFlow's row of weights: matrices, then biases.
    shapes = ((12, 5), (12, 3), (12,), (12,))
    rng = torch.Generator().manual_seed(0)
    weights = [torch.randn(s, generator=rng, requires_grad=True) for s in shapes]
    block = recurrence.in_one_block(weights)
    ends = np.cumsum([0, *(w.numel() for w in weights)])
    assert [part.storage_offset() for part in block] == list(ends[:-1])
    assert len({part.untyped_storage().data_ptr() for part in block}) == 1

    x, state = torch.randn(7, 2, 5, generator=rng), torch.zeros(1, 2, 3)

    def results(parts):
        arguments = (True, 1, 0.0, True, False, False)
        y, *_ = torch._VF.lstm(x, [state, state], parts, *arguments)
        return y, *torch.autograd.grad(y.square().sum(), weights)

    for actual, expected in zip(results(block), results(weights), strict=True):
        torch.testing.assert_close(actual, expected)


COMPUTE = """
import numpy as np, numba_steps
functions = (numba_steps.elman_forward, numba_steps.elman_backward)
forward, backward = numba_steps.compile_functions(*functions)
x, h = np.ones((2, 3, 1, 5), "float32"), np.zeros((3, 3, 5), "float32")
forward(0, True, x, x[0], np.zeros((0, 0), bool), h)
print(h[1].sum())
"""


def compute(folder, **environment):
    """Runs COMPUTE on a copy of the file; returns what it prints to both streams."""
    done = run_python(COMPUTE, cwd=folder, PYTHONPATH=str(folder), **environment)
    assert done.stdout == "30.0\n"
    return done.stderr


@pytest.fixture
def folder(tmp_path):
    file = ROOT / "kerasseq" / "kernels" / "torch" / "numba_steps.py"
    (tmp_path / file.name).write_text(file.read_text())
    return tmp_path


@needs_numba
def test_the_next_process_loads_what_the_first_compiled_unless_damaged(folder):
    assert "kerasseq compiled elman_forward, elman_backward in" in compute(folder)
    assert compute(folder) == ""
    damaged = list(folder.rglob("*.nb[ic]"))
    assert damaged
    for file in damaged:
        file.write_bytes(b"damaged")
    assert "compiled" in compute(folder)


@needs_numba
def test_without_a_folder_to_write_to_it_compiles_in_memory(folder):
    (folder / "__pycache__").write_text("a file, not a folder")
    nowhere = str(folder / "numba_steps.py" / "nowhere")
    places = {"HOME": nowhere, "XDG_CACHE_HOME": nowhere, "NUMBA_CACHE_DIR": nowhere}
    for _ in range(2):
        assert "compiled" in compute(folder, **places)


def make_pair(name, **options):
    """A layer that runs in the loops, and one with its weights that is unrolled."""
    options = {"bias_initializer": "normal", "return_sequences": True, **options}
    if name == "PeepholeLSTM":
        options["peephole_initializer"] = "normal"
    pair = [getattr(kerasseq.layers, name)(7, unroll=u, **options) for u in (0, 1)]
    for layer in pair:
        layer.build((B, T, 5))
    pair[1].set_weights(pair[0].get_weights())
    return pair


def gradients_of(layer, x, wanted, mask=None):
    """Outputs of a layer, and the gradients of x and of the weights that learn."""
    y = layer(x, mask=mask)
    return [y.detach(), *torch.autograd.grad((y**2).sum(), wanted(layer))]


@pytest.mark.parametrize("frozen", [(), ("kernel",), ("bias",), ("recurrent_kernel",)])
@pytest.mark.parametrize("needs_x", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_frozen_changes_no_other_gradient(name, needs_x, frozen, calls):
    x = torch.randn(B, T, 5, requires_grad=needs_x)
    results = []
    for layer in make_pair(name):
        for weight in layer.cell.trainable_variables:
            weight.trainable = weight.name not in frozen

        def wanted(layer):
            weights = [v.value for v in layer.cell.weights if v.trainable]
            return [w for w in weights if w.requires_grad] + [x] * needs_x

        mask = torch.from_numpy(np.ascontiguousarray(MASK.T))
        results.append(gradients_of(layer, x, wanted, mask))
    assert len(results[0]) == len(results[1]) > 1
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5, rtol=1e-4)


@needs_numba
@pytest.mark.parametrize("backward_inside", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_autocast_computes_in_float32(name, backward_inside):
    fast_layer, slow = make_pair(name)
    x, mask = torch.randn(B, T, 5), torch.ones(B, T, dtype=torch.bool)
    weights = [v.value for v in fast_layer.trainable_variables]
    expected = gradients_of(
        slow, x, lambda la: [v.value for v in la.trainable_variables]
    )
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = fast_layer(x, mask=mask)  # the mask keeps the LSTM from PyTorch's kernel
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=backward_inside):
        found = [y.detach(), *torch.autograd.grad((y.float() ** 2).sum(), weights)]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_gradient_of_a_transposed_state(name):
    x, factor = torch.randn(B, T, 5), torch.randn(7, B)
    found = []
    for layer in make_pair(name, return_sequences=False):
        weights = [v.value for v in layer.trainable_variables]
        loss = (torch.transpose(layer(x), 0, 1) * factor).sum()
        found.append(torch.autograd.grad(loss, weights))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5, rtol=1e-4)


@needs_numba
@pytest.mark.parametrize("name", NAMES)
def test_outputs_that_are_kept_hold_their_own_memory(name):
    y = make_pair(name)[0](torch.randn(B, T, 5)).detach()
    assert y.untyped_storage().nbytes() == 4 * y.numel()


@pytest.mark.parametrize("name", NAMES)
def test_integers_are_inputs(name):
    x = torch.arange(B * T * 5, dtype=torch.int32).reshape(B, T, 5) % 3
    found = [layer(x).detach() for layer in make_pair(name)]
    np.testing.assert_allclose(*found, atol=1e-6)
