"""The derived loop on PyTorch: equal to the loop over `step`, forward and backward."""

import contextlib
import functools
import threading

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq.core import backend

if backend.chosen() != "torch":
    pytest.skip("PyTorch's own path", allow_module_level=True)

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from kerasseq.kernels.derived.derive import derive
from kerasseq.kernels.torch import compile, derived, products
from tests.kernels.derived_cells import INVENTED, PUBLIC, LayerNormLSTM

pytestmark = [
    pytest.mark.once("PyTorch's own path"),
    pytest.mark.skipif(not compile.is_available(), reason="llvmlite is not installed"),
]

T, B, H = 7, 3, 11
# Padding on the right, on the left, and holes.
MASK = np.array(
    [[1, 0, 1], [1, 0, 0], [1, 1, 1], [1, 1, 0], [1, 1, 1], [0, 1, 1], [0, 1, 0]], bool
)
CELLS = {**PUBLIC, **INVENTED}


class Case:
    """A cell with what its loop takes."""

    def __init__(self, name, *, steps=T, batch=B, units=H, masked=False, dropout=False):
        keras.utils.set_random_seed(1)
        rng = np.random.default_rng(0)

        def normal(*shape):
            return torch.tensor(rng.normal(size=shape).astype("float32"))

        options = {"recurrent_dropout": 0.4} if dropout else {}
        self.cell = cell = CELLS[name](units, **options)
        cell.build((None, 5))
        self.width = cell.gates * units
        self.sizes = cell.sizes() if hasattr(cell, "sizes") else None
        self.sizes = self.sizes or [units] * len(cell.state_names)
        self.noise = []
        if dropout:
            several = getattr(cell, "dropout_mask_count", None)
            self.noise = [
                2 * (normal(batch, units) > 0).float() for _ in range(several or 1)
            ]
            made = self.noise if several else self.noise[0]
            vars(cell)["get_recurrent_dropout_mask"] = lambda *_: made
        self.mask = torch.from_numpy(MASK[:steps]) if masked else None
        self.x = normal(steps, batch, self.width)
        self.states = [normal(batch, size) for size in self.sizes]
        several = len(self.noise) > 1
        self.derived = derive(
            cell,
            lambda cell, x, states: cell.step(x, states, True),
            width=self.width,
            states=self.sizes,
            noise=([units] * len(self.noise) if several else units)
            if dropout
            else None,
            masked=masked,
            training=True,
        )
        self.variables = list(cell.trainable_variables)

    @property
    def weights(self):
        return [v.value for v in self.variables]

    def fast(self, x, states, path=True):
        found = self.derived
        count = len(states)
        if found.extra:
            size = found.new_states[-1].width
            states = [*states, torch.zeros(len(states[0]), size)]
        values = [v.value for v in self.cell.variables]
        parameters = found.parameters(values)
        mask = self.mask
        given, x = x, found.take_ahead(x, parameters, self.noise)
        again = functools.partial(found.take_ahead, given, parameters, self.noise)
        outputs, last = derived.run(
            found, x, states, parameters, self.noise, mask, path=path, again=again
        )
        return outputs, last[:count]

    def slow(self, x, states, path=True):
        """The loop over `step`, which PyTorch differentiates."""
        outputs, before = [], None
        for t in range(len(x)):
            y, new = self.cell.step(x[t], list(states), True)
            if self.mask is not None:
                real = self.mask[t][:, None]
                before = torch.zeros_like(y) if before is None else before
                before = self._first(y, states) if t == 0 else before
                y = torch.where(real, y, before)
                pairs = zip(new, states, strict=True)
                new = [torch.where(real, a, b) for a, b in pairs]
            states, before = new, y
            outputs.append(y)
        return torch.stack(outputs) if path else None, list(states)

    def _first(self, y, states):
        """The output before the first step: that state, or zeros if it is none."""
        return (
            torch.zeros_like(y) if self.derived.extra else states[self.derived.output]
        )

    def results(self, run, path=True, dtype=torch.float32):
        """Outputs, last states, and the gradients of all inputs."""
        rng = torch.Generator().manual_seed(2)
        x, *states = (
            t.to(dtype).clone().requires_grad_() for t in (self.x, *self.states)
        )
        outputs, last = run(x, states, path)
        loss = 0
        for y in [*([outputs] if path else []), *last]:
            loss = loss + (y * torch.randn(y.shape, generator=rng).to(dtype)).sum()
        inputs = [x, *states, *self.weights]
        gradients = torch.autograd.grad(loss, inputs, allow_unused=True)
        pairs = zip(inputs, gradients, strict=True)
        gradients = [torch.zeros_like(i) if g is None else g for i, g in pairs]
        return [t.detach() for t in ([outputs] if path else []) + last + gradients]


def distance(found, wanted):
    """The largest difference, beside the largest number if that is above 1."""
    assert len(found) == len(wanted)
    worst = 0.0
    for a, b in zip(found, wanted, strict=True):
        a, b = a.detach(), b.detach()
        assert a.shape == b.shape
        if b.numel():
            size = max(1.0, float(b.abs().max()))
            worst = max(worst, float((a - b).abs().max()) / size)
    return worst


def assert_same(case, path=True):
    assert distance(case.results(case.fast, path), case.results(case.slow, path)) < 1e-5


@pytest.mark.parametrize("name", CELLS)
def test_equals_the_loop_over_step(name):
    assert_same(Case(name))


@pytest.mark.parametrize("name", CELLS)
def test_equals_the_loop_over_step_with_mask_and_dropout(name):
    assert_same(Case(name, masked=True, dropout=name in PUBLIC))


@pytest.mark.parametrize("name", ["lstm diagonal", "OutputIsNoState", "NoProduct"])
@pytest.mark.parametrize("masked", [False, True])
def test_last_states_alone(name, masked):
    case = Case(name, masked=masked)
    assert_same(case, path=False)
    with torch.no_grad():
        found, wanted = (run(case.x, case.states) for run in (case.fast, case.slow))
        _, last = case.fast(case.x, case.states, path=False)
    assert distance([found[0], *found[1], *last], [wanted[0], *wanted[1] * 2]) < 1e-5


@pytest.mark.parametrize("name", ["gru before keep", "Scalars", "NoProduct"])
@pytest.mark.parametrize(("steps", "batch"), [(1, B), (2, 1), (T, 1)])
def test_one_step_and_one_sequence(name, steps, batch):
    assert_same(Case(name, steps=steps, batch=batch))


@pytest.mark.parametrize("name", ["elman tanh", "Scalars", "Parts", "ThreeStates"])
def test_few_units(name):
    assert_same(Case(name, units=3))


@pytest.mark.parametrize("name", ["lstm diagonal", "gru after keep", "NoProduct"])
def test_one_unit(name):
    assert_same(Case(name, units=1))


@pytest.mark.parametrize("name", ["lstm diagonal", "gru before keep"])
def test_64_steps_of_67_units(name):
    assert_same(Case(name, steps=61, batch=2, units=67))


def test_layer_norm_is_as_close_to_float64_as_autograd():
    """This cell amplifies rounding: both are compared with 64 bits, for most inputs."""
    case, exact = (Case("LayerNormLSTM", steps=61, batch=2, units=67) for _ in "ab")
    exact.cell = in_float64(case)
    exact.variables = list(exact.cell.trainable_variables)
    ratios = []
    for seed in range(5):
        rng = torch.Generator().manual_seed(seed)
        case.x = exact.x = torch.randn(case.x.shape, generator=rng)
        wanted = exact.results(exact.slow, dtype=torch.float64)
        fast, slow = (
            distance(case.results(run), wanted) for run in (case.fast, case.slow)
        )
        ratios.append(fast / slow)
    assert np.median(ratios) < 2, ratios


def in_float64(case):
    """The same cell in double precision."""
    with contextlib.ExitStack() as stack:
        stack.callback(keras.config.set_dtype_policy, keras.config.dtype_policy())
        keras.config.set_dtype_policy("float64")
        cell = LayerNormLSTM(67)
        cell.build((None, 5))
    for new, old in zip(cell.variables, case.cell.variables, strict=True):
        new.assign(old.value.double())
    return cell


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", ["gru after keep", "NoProduct"])
def test_batch_of_size_0(name, masked):
    case = Case(name, batch=0)
    case.mask = torch.ones(T, 0, dtype=torch.bool) if masked else None
    outputs, *others = case.results(case.fast)
    assert outputs.shape == (T, 0, H)
    assert not any(t.any() for t in others)


@pytest.mark.parametrize("frozen", ["x", "states", "weights", "some weights"])
def test_what_is_frozen_changes_no_other_gradient(frozen):
    case = Case("lstm diagonal")
    found = []
    for run in (case.fast, case.slow):
        x = case.x.clone().requires_grad_(frozen != "x")
        states = [s.clone().requires_grad_(frozen != "states") for s in case.states]
        weights = case.weights
        for weight in weights[: {"weights": 9, "some weights": 2}.get(frozen, 0)]:
            weight.requires_grad_(False)
        outputs, _ = run(x, states)
        learned = [t for t in (x, *states, *weights) if t.requires_grad]
        found.append(
            torch.autograd.grad((outputs**2).sum(), learned, allow_unused=True)
        )
        for weight in weights:
            weight.requires_grad_(True)
    for a, b in zip(*found, strict=True):
        assert (a is None) == (b is None)
        assert a is None or distance([a], [b]) < 1e-5
    (program,) = case.derived.compiled.values()
    assert len(program.plan.factors) == (frozen not in ("weights", "some weights"))


def test_inference_keeps_two_states_and_no_gates():
    case = Case("lstm diagonal", steps=1013)
    with torch.no_grad():
        case.fast(case.x, case.states)
        found = set()
        allocate = torch.empty

        def counting(size, **options):
            found.add(tuple(size))
            return allocate(size, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "empty", counting)
            case.fast(case.x, case.states, path=False)
    assert max(np.prod(size) for size in found) == B * 4 * H  # the product of a step


@pytest.mark.parametrize(
    ("name", "kept"),  # by the loops written by hand: states, gates, tanh(c)
    [
        ("elman relu", 1),
        ("gated relu", 3),
        ("lstm diagonal", 7),
        ("lstm diagonal coupled", 6),
        ("gru after keep", 5),
        ("gru before keep", 4),
    ],
)
def test_memory_kept_for_the_backward_pass(name, kept):
    case = Case(name, steps=101)
    sizes = {}

    def note(tensor):
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    weights = {w.untyped_storage().data_ptr() for w in case.weights}
    x = case.x.clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        case.fast(x, case.states)
    total = sum(size for at, size in sizes.items() if at not in weights)
    assert total <= (101 + 1) * B * kept * H * 4 + 10_000  # and copies of weights


def test_outputs_that_are_kept_hold_their_own_memory():
    case = Case("lstm diagonal")
    outputs, last = case.fast(case.x.requires_grad_(), case.states)
    for y in (outputs, *last):
        assert y.untyped_storage().nbytes() == 4 * y.numel()


def test_inputs_in_any_layout():
    case = Case("lstm diagonal", masked=True)
    wanted = case.results(case.fast)
    x = torch.empty(B, case.width, T)
    case.x = x.permute(2, 0, 1).copy_(case.x)
    case.states = [s.t().contiguous().t() for s in case.states]
    case.mask = case.mask.t().contiguous().t()
    assert distance(case.results(case.fast), wanted) == 0
    case.x = case.x.transpose(0, 1).contiguous().transpose(0, 1)
    assert distance(case.results(case.fast), wanted) == 0


def test_gradients_in_any_layout():
    case = Case("gru after keep")
    x, weights = case.x.requires_grad_(), case.weights
    for factor in (torch.ones(()), torch.randn(H, B, T)):
        found = []
        for run in (case.fast, case.slow):
            outputs, _ = run(x, case.states)
            loss = (outputs.transpose(0, 2) * factor).sum()
            found.append(torch.autograd.grad(loss, [x, *weights], allow_unused=True))
        for a, b in zip(*found, strict=True):
            assert a is None or distance([a], [b]) < 1e-5


def test_only_the_last_states_have_gradients():
    """The outputs are returned, but not used."""
    case = Case("lstm diagonal")
    x = case.x.requires_grad_()
    found = [
        torch.autograd.grad(run(x, case.states)[1][1].sum(), x)
        for run in (case.fast, case.slow)
    ]
    assert distance(*found) < 1e-5


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", ["gru after keep", "lstm diagonal", "LayerNormLSTM"])
def test_second_derivatives(name, masked):
    case, found = Case(name, masked=masked, dropout=name.startswith("gru")), []
    inputs = [case.x, *case.states, *case.weights]
    inputs = [each.requires_grad_() for each in inputs]
    for run in (case.fast, case.slow):
        outputs, last = run(inputs[0], inputs[1 : 1 + len(case.states)])
        loss = (outputs**2).sum() + sum((h**3).sum() for h in last)
        options = {"allow_unused": True, "materialize_grads": True}  # W is ahead of it
        first = torch.autograd.grad(loss, inputs, create_graph=True, **options)
        curve = sum((d**2).sum() for d in first)
        found.append([*first, *torch.autograd.grad(curve, inputs, **options)])
    assert distance(*found) < 1e-5


def test_second_derivative_with_input_dropout_names_unroll():
    layer = kerasseq.layers.GRU(3, dropout=0.5)
    x = torch.ones(B, T, 5, requires_grad=True)
    y = layer(x, training=True).sum()
    with pytest.raises(RuntimeError, match="unroll=True"):
        torch.autograd.grad(y, x, create_graph=True)


def test_gradient_after_a_change_of_the_weights_is_an_error():
    case = Case("gru after keep")
    outputs, _ = case.fast(case.x, case.states)
    with torch.no_grad():
        case.cell.recurrent_kernel.value.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        outputs.sum().backward()


def test_arguments_and_saved_values_are_not_overwritten():
    case = Case("lstm full", masked=True)
    kept = [t.clone() for t in (case.x, *case.states, *case.weights)]
    outputs, _ = case.fast(case.x.requires_grad_(), case.states)
    first, again = (
        torch.autograd.grad((outputs**2).sum(), case.x, retain_graph=True)
        for _ in range(2)
    )
    assert distance(first, again) == 0
    assert distance([case.x, *case.states, *case.weights], kept) == 0


@pytest.mark.parametrize("inside", [True, False])
def test_autocast_computes_in_float32(inside):
    case = Case("lstm diagonal")
    inputs = [case.x.requires_grad_(), case.cell.recurrent_kernel.value]
    wanted, _ = case.slow(case.x, case.states)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, _ = case.fast(case.x, case.states)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=inside):
        gradients = torch.autograd.grad(found.sum(), inputs)
    assert distance([found], [wanted]) < 1e-5
    assert distance(gradients, torch.autograd.grad(wanted.sum(), inputs)) < 1e-5


@pytest.mark.parametrize("name", ["gated relu", "lstm diagonal", "LayerNormLSTM"])
def test_nan_is_not_hidden_and_stays_in_its_sequence(name):
    case = Case(name)
    case.x[2, 1] = torch.nan
    outputs, last = case.fast(case.x, case.states)
    assert outputs[2:, 1].isnan().all()
    assert all(state[1].isnan().all() for state in last)
    assert not outputs[:, [0, 2]].isnan().any()
    assert not outputs[:2].isnan().any()


@pytest.mark.parametrize("name", ["gated relu", "lstm diagonal"])
def test_nan_in_a_gradient_is_not_hidden(name):
    case = Case(name)
    states = [s.requires_grad_() for s in case.states]
    outputs, _ = case.fast(case.x, states)
    d = torch.zeros_like(outputs)
    d[-1, 1] = torch.nan
    for gradient in torch.autograd.grad(outputs, states, d):
        assert gradient[1].isnan().all()
        assert not gradient[[0, 2]].any()


def test_masked_steps_may_hold_nan():
    case = Case("gru before keep", masked=True)
    case.x[~case.mask] = torch.nan
    outputs, _ = case.fast(case.x, case.states)
    assert not outputs.isnan().any()


def test_vanished_gradients_are_0_and_not_denormal():
    case = Case("NoProduct", steps=211)
    case.x[:] = -1.5
    case.x.requires_grad_()
    _, last = case.fast(case.x, case.states)
    (d,) = torch.autograd.grad(last[0].sum(), case.x)
    sizes = d[..., H:].abs()
    assert sizes[-1].all()
    assert not sizes[0].any()
    assert sizes[sizes > 0].min() > 1e-37


def test_threads_run_the_same_loop():
    case = Case("lstm full", steps=61)
    wanted = [
        case.results(lambda x, s, path, k=k: case.fast((k + 1) * x, s, path))
        for k in range(2)
    ]
    worst = [0.0, 0.0]

    def work(k):
        for _ in range(20):
            found = case.results(lambda x, s, path: case.fast((k + 1) * x, s, path))
            worst[k] = max(worst[k], distance(found, wanted[k]))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worst == [0, 0]


def test_can_run_float32_on_a_cpu_outside_of_recording():
    case = Case("elman tanh")
    tensors = [case.x, *case.states, *case.weights]
    assert derived.can_run(tensors)
    for other in (case.x.double(), case.x.bfloat16(), case.x.to("meta")):
        assert not derived.can_run([*tensors, other])
    found = []

    def note(x):
        found.append(derived.can_run([x]))
        return x + 1

    make_fx(note)(case.x)
    torch.func.vmap(note)(case.x)
    assert found == [False, False]


def test_without_llvmlite_it_cannot_run(monkeypatch):
    case = Case("elman tanh")
    monkeypatch.setattr(compile, "llvmlite", None)
    assert not derived.can_run([case.x])


@pytest.fixture
def with_onednn(monkeypatch):
    """Multiplies with oneDNN on any CPU."""
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("PyTorch without its private name for products by oneDNN")
    monkeypatch.setattr(products, "prefers_onednn", lambda: True)
    monkeypatch.setattr(products, "LARGE", 1)


@pytest.mark.usefixtures("with_onednn")
@pytest.mark.parametrize("name", ["gru after keep", "lstm full"])
def test_products_by_onednn_give_the_same(name):
    case = Case(name)
    wanted = case.results(case.slow)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = case.results(case.fast)
    assert distance(found, wanted) < 1e-5
