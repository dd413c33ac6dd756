"""Compiled functions against `evaluate`, for random steps of all operations."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerasseq.core import backend

if backend.chosen() != "torch":
    pytest.skip("PyTorch's own path", allow_module_level=True)

import torch

from kerasseq.kernels.derived import graph as graphs
from kerasseq.kernels.derived.derive import Derived, to_keep
from kerasseq.kernels.derived.evaluate import evaluate
from kerasseq.kernels.derived.gradient import backward
from kerasseq.kernels.torch import compile, derived

pytestmark = [
    pytest.mark.once("PyTorch's own path"),
    pytest.mark.skipif(not compile.is_available(), reason="llvmlite is not installed"),
]

T, B, H = 3, 2, 5
ONE = ("tanh", "sigmoid", "sin", "cos", "erf", "negative", "absolute", "sign")
POSITIVE = ("log", "log1p", "sqrt", "rsqrt", "power")  # of 1 + x²
SMALL = ("exp", "expm1")  # of tanh(x)
TWO = ("add", "subtract", "multiply", "maximum", "minimum", "divide")
COMPARISONS = ("greater", "greater_equal", "less", "less_equal", "equal", "not_equal")
LOGICAL = ("logical_and", "logical_or", "logical_not")
UNITS = ("sum", "max", "slice", "join", "rotate", "broadcast", "matmul", "stop")
EVERY = (*ONE, *POSITIVE, *SMALL, *TWO, *COMPARISONS, *UNITS)


@dataclasses.dataclass
class Maker:
    """Makes values from those before, by numbers that choose."""

    graph: graphs.Graph
    values: list

    def number(self, x):
        return self.graph.number(x)

    def add(self, op, first, second, third):
        a, b = (self.values[n % len(self.values)] for n in (first, second))
        if a.op == graphs.PARAMETER:  # what depends on weights alone is no value
            a = a * self.values[0]
        if a.width != b.width and 1 not in (a.width, b.width):
            b = self.graph.slice(b, 0, 1)
        value = self.made(op, a, b, third)
        # Sums and powers of many values would overflow.
        if third % 3 == 0 and value.width > 1:
            value = self.graph.make("tanh", value)
        self.values.append(value)

    def made(self, op, a, b, third):
        make = self.graph.make
        if op in ONE:
            return make(op, a)
        if op in POSITIVE:
            return make(op, 1 + a * a, detail=-1.5 if op == "power" else None)
        if op in SMALL:
            return make(op, make("tanh", a))
        if op == "divide":
            return a / (1 + b * b)
        if op in TWO:
            return make(op, a, b)
        if op in COMPARISONS:
            word = LOGICAL[third % 3]
            flag = make(op, a, b + 0.0371)  # 1 and erf(9) differ by rounding
            more = [] if word == "logical_not" else [make("less", b, self.number(0.3))]
            return make("where", make(word, flag, *more), a * 0.5, b)
        return self.over_units(op, a, third)

    def over_units(self, op, a, third):
        graph, make = self.graph, self.graph.make
        if op == "stop":
            return make("stop_gradient", a) * a
        if op in ("sum", "max"):
            return make(op, a, width=1) * (1 / a.width)
        if a.width == 1:
            return make("broadcast", a, width=H)
        n = 1 + third % (a.width - 1)
        first, rest = graph.slice(a, 0, n), graph.slice(a, n, a.width - n)
        if op == "rotate":
            return graph.concatenate([rest, first])
        if op == "join":
            return graph.concatenate([make("tanh", first), rest * 0.5])
        if op == "matmul" and a.width == H:
            matrix = make(graphs.PARAMETER, width=H, detail=third % 2)
            return make("matmul", a, matrix, width=H)
        return graph.slice(a, third % a.width, 1)


def step_of(choices, masked):
    """A derived step with two states and two matrices, a row and a number."""
    graph = graphs.Graph()
    make = graph.make
    leaves = [make(graphs.INPUT, width=H)]
    leaves += [make(graphs.STATE, width=H, detail=k) for k in range(2)]
    leaves += [make(graphs.NOISE, width=H, detail=0)]
    leaves += [make(graphs.PARAMETER, width=w, detail=k) for k, w in ((2, H), (3, 1))]
    maker = Maker(graph, [*leaves])
    for choice in choices:
        maker.add(*choice)
    made = [v for v in maker.values[len(leaves) :] if v.width == H]
    # Several values for each state, so that few are unused.
    new = [sum(made[k::2], leaves[k]) for k in range(2)]
    if masked:
        real = make(graphs.MASK, width=1)
        new = [make("where", real, v, s) for v, s in zip(new, leaves[1:3], strict=True)]
    back = backward(graph, new, 2)
    return Derived(graph, None, new, 0, False, back, to_keep(new, back), None)


def reference(step, x, states, parameters, noise, mask, path):
    """The loop over `evaluate`, which PyTorch differentiates."""
    outputs = []
    for t in range(T):
        known = {}
        for value in graphs.walk(step.new_states):
            given = {
                graphs.INPUT: lambda _, t=t: x[t],
                graphs.STATE: lambda k, states=states: states[k],
                graphs.PARAMETER: lambda k: parameters[k],
                graphs.NOISE: lambda k: noise[k],
                graphs.MASK: lambda _, t=t: mask[t][:, None],
            }.get(value.op)
            if given:
                known[value] = given(value.detail)
        states = evaluate(step.new_states, known, x[t])
        outputs.append(states[0])
    return torch.stack(outputs), states


def results(run, step, masked):
    rng = torch.Generator().manual_seed(0)
    x, *states = (torch.randn(*s, generator=rng) for s in ((T, B, H), (B, H), (B, H)))
    shapes = ((H, H), (H, H), (H,), (1,))
    parameters = [0.4 * torch.randn(*s, generator=rng) for s in shapes]
    inputs = [t.requires_grad_() for t in (x, *states, *parameters)]
    noise = [torch.randn(B, H, generator=rng)]
    mask = torch.tensor([[1, 0], [1, 1], [0, 1]], dtype=torch.bool) if masked else None
    outputs, last = run(step, x, states, parameters, noise, mask, path=True)
    factors = torch.randn(T + 2, B, H, generator=rng)
    loss = (torch.cat([outputs, torch.stack(last)]) * factors).sum()
    found = [None] * len(inputs)  # if all of them are 0, `evaluate` may have no graph
    if loss.requires_grad:
        found = torch.autograd.grad(loss, inputs, allow_unused=True)
    pairs = zip(found, inputs, strict=True)
    return [
        outputs,
        *last,
        *(torch.zeros_like(i) if g is None else g for g, i in pairs),
    ]


NUMBERS = st.integers(0, 60)


@given(
    choices=st.lists(
        st.tuples(st.sampled_from(EVERY), NUMBERS, NUMBERS, NUMBERS),
        min_size=3,
        max_size=20,
    ),
    masked=st.booleans(),
)
def test_random_steps(choices, masked):
    step = step_of(choices, masked)
    found, wanted = (results(run, step, masked) for run in (derived.run, reference))
    for a, b in zip(found, wanted, strict=True):
        size = max(1.0, float(b.detach().abs().max()))
        torch.testing.assert_close(a / size, b / size, atol=1e-4, rtol=1e-4)


def test_every_operation_once():
    """Each with both kinds of arguments, so that no random step has to find it."""
    choices = [(op, n, 2 * n + 1, n) for n, op in enumerate(EVERY)]
    for part in (choices[:13], choices[13:24], choices[24:]):
        step = step_of(part, masked=True)
        found, wanted = (results(run, step, True) for run in (derived.run, reference))
        for a, b in zip(found, wanted, strict=True):
            torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)
