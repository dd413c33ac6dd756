"""`layers.costs` against the programs that JAX traces: products, loops, and arrays."""

import math

import keras
import numpy as np
import pytest

from kerasseq import layers
from kerasseq.published.layer_costs import evaluate
from kerasseq.published.layer_formulas import FORMULAS, letters
from kerasseq.tasks.architectures import ARCHITECTURES, RECURRENT, build_layers
from kerasseq.tasks.residual_stack import RESIDUAL
from tests.models.test_layer_costs import NEVER_CAUSAL

pytestmark = pytest.mark.everywhere
if keras.backend.backend() != "jax":
    pytest.skip("programs of JAX", allow_module_level=True)
jax = pytest.importorskip("jax")
D, FEATURES = 20, 7
LENGTHS = (256, 512, 1024)
WITHOUT_STATES = tuple(n for n in ARCHITECTURES if n not in (*RECURRENT, *RESIDUAL))


class Program:
    """A traced function: its products, its loops, and its largest array.

    Attributes:
        products: Operations of matrix products and convolutions.
        in_states: Multiplications, additions and sums over at least `state` numbers.
        loops: Lengths of its loops.
        largest: Numbers in its largest array.
    """

    def __init__(self, function, *arguments, state=math.inf):
        self.state = state
        self.products = self.in_states = self.largest = 0
        self.loops = [1]
        self._read(jax.make_jaxpr(function)(*arguments).jaxpr, 1)

    def _read(self, program, times):
        for each in program.eqns:
            name, inner = each.primitive.name, times
            if name == "scan":
                inner = times * each.params["length"]
                self.loops.append(inner)
            parts = list(_parts(each))
            for part in parts:
                self._read(part, inner)
            if not parts:
                self._count(name, each, times)

    def _count(self, name, each, times):
        inputs = [getattr(v.aval, "shape", ()) for v in each.invars]
        out = each.outvars[0].aval.shape
        self.largest = max(self.largest, math.prod(out))
        if name == "dot_general":
            (contracted, _), (batch, _) = each.params["dimension_numbers"]
            k = math.prod(inputs[0][axis] for axis in contracted)
            operations = 2 * times * k * math.prod(out)
            if k * math.prod(out) >= self.state and batch:
                self.in_states += operations
            else:
                self.products += operations
        elif name == "conv_general_dilated":
            channels = inputs[1][each.params["dimension_numbers"].rhs_spec[0]]
            k = math.prod(inputs[1]) // channels
            self.products += 2 * times * k * math.prod(out)
        elif name in ("mul", "add", "reduce_sum"):
            numbers = math.prod(inputs[0] if name == "reduce_sum" else out)
            if numbers >= self.state:
                self.in_states += numbers * times


def _parts(equation):
    for value in equation.params.values():
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if hasattr(each, "jaxpr"):
                yield each.jaxpr
            elif hasattr(each, "eqns"):
                yield each


def made(name):
    (layer,) = build_layers(name, units=D, bidirectional=name in NEVER_CAUSAL)
    layer.build((None, None, FEATURES))
    return layer


@pytest.mark.parametrize("name", WITHOUT_STATES)
def test_operations_and_arrays_of_the_whole_program(name):
    layer = made(name)
    for T in LENGTHS:
        program = Program(layer, np.ones((1, T, FEATURES), "float32"))
        cost = layers.costs(name, T, D, input_dim=FEATURES)
        assert program.products == cost.forward_flops
        if name in ("transformer", "adaptive_span"):
            assert program.largest == 4 * T * T
        else:  # no array of T x T
            assert program.largest <= max(4 * T * 256, 4 * T * D)


@pytest.mark.parametrize("name", RECURRENT)
def test_products_of_a_step_of_a_recurrent_layer(name):
    layer = made(name)
    states = layer.cell.get_initial_state(batch_size=1)
    program = Program(layer.cell, np.ones((1, FEATURES), "float32"), states)
    cost = layers.costs(name, 1, D, input_dim=FEATURES)
    assert program.products == cost.forward_flops


@pytest.mark.parametrize("name", RESIDUAL)
def test_operations_of_a_step_of_a_layer_with_states(name):
    layer = made(name)
    states = layer.get_initial_state(1)
    values = letters(name, 1, FEATURES, D, 1)
    matrix = {"mamba": 2 * D * 16, "s4d": 32 * D}.get(name, D * values["H"])
    x = np.ones((1, 1, FEATURES), "float32")
    state = math.inf if name == "rwkv4" else matrix  # its states are vectors
    program = Program(layer.advance, x, states, state=state)
    f = FORMULAS[name]
    assert program.products == 2 * evaluate(f.products, values)
    if name != "s4d":  # its program also makes decays and inputs from the step sizes
        assert program.in_states == evaluate(f.mixing, values)


@pytest.mark.full("the products of a step are compared by default", cheap=False)
@pytest.mark.parametrize("name", [*RECURRENT, *RESIDUAL])
def test_operations_grow_as_the_formula_says(name):
    """Slopes between the lengths, where the program works in chunks as well."""
    layer = made(name)
    counted, said = [], []
    for T in LENGTHS[::2]:
        program = Program(layer, np.ones((1, T, FEATURES), "float32"))
        counted.append(program.products)
        said.append(layers.costs(name, T, D, input_dim=FEATURES).forward_flops)
    slopes = np.diff(np.log2([counted, said])) / 2
    np.testing.assert_allclose(slopes[0], slopes[1], atol=0.1)
    loops = max(program.loops)
    if FORMULAS[name].order == "loop":
        assert loops == LENGTHS[-1]  # a step waits for the one before


LSTM = ("lstm", "peephole_lstm", "full_peephole_lstm", "coupled_lstm", "slstm")
CARRIED = dict.fromkeys((*LSTM, "mamba", "rwkv4", "rwkv7"), 1)  # else 0


def products_of_a_step(name):
    """The fewest products from the state before a step to the state after it.

    The state is the one that all steps are added to, not the last inputs of a
    convolution, and no stabilizer: these reach but a few steps.
    """
    layer = made(name)
    cell = getattr(layer, "cell", None)
    states = (cell or layer).get_initial_state(1)
    x = np.ones((1, FEATURES) if cell else (1, 1, FEATURES), "float32")
    step = cell or layer.advance
    program = jax.make_jaxpr(lambda states: step(x, states))(states).jaxpr
    places, k = range(len(program.invars)), CARRIED.get(name, 0)
    found = _least(program, [0 if place == k else None for place in places])
    return found[1 + k]


def _least(program, found):
    """The fewest products to each output; None where none leads to it."""
    known = dict(zip(program.invars, found, strict=True))
    for each in program.eqns:
        inputs = [_known(known, v) for v in each.invars]
        parts = list(_parts(each))
        if len(parts) == 1 and len(parts[0].invars) == len(inputs):
            outputs = _least(parts[0], inputs)
        else:
            least = min((n for n in inputs if n is not None), default=None)
            if least is not None and each.primitive.name in ("mul", "dot_general"):
                least += 1
            outputs = [least] * len(each.outvars)
        known.update(zip(each.outvars, outputs, strict=True))
    return [_known(known, v) for v in program.outvars]


def _known(known, variable):
    return None if hasattr(variable, "val") else known.get(variable)  # a constant


@pytest.mark.parametrize("name", [*RECURRENT, *RESIDUAL])
def test_each_step_of_a_path_is_a_product(name):
    """Only where a state is a mere sum, the path does not grow with the distance."""
    paths = [layers.costs(name, T, D).path for T in (5, 6)]
    assert products_of_a_step(name) == paths[1] - paths[0]


@pytest.mark.parametrize("name", [n for n in WITHOUT_STATES if n != "wavenet"])
def test_the_path_through_attention_does_not_grow(name):
    """In the program of short sequences, from the inputs to the outputs."""
    layer, found, paths = made(name), [], []
    for T in (5, 11):
        x = np.ones((1, T, FEATURES), "float32")
        found += _least(jax.make_jaxpr(layer)(x).jaxpr, [0])
        paths.append(layers.costs(name, T, D).path)
    assert found[0] == found[1] and found[0] > 0
    assert paths == [1, 1]
