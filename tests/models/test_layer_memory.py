"""`layers.costs` against what PyTorch's profiler says of memory: states, and arrays."""

import keras
import numpy as np
import pytest

from kerasseq import layers
from kerasseq.published.layer_costs import evaluate
from kerasseq.published.layer_formulas import FORMULAS, letters
from kerasseq.tasks.architectures import ARCHITECTURES, RECURRENT, build_layers
from kerasseq.tasks.residual_stack import RESIDUAL
from tests.models.test_layer_costs import NEVER_CAUSAL

pytestmark = pytest.mark.once("the profiler of PyTorch")
if keras.backend.backend() != "torch":
    pytest.skip("the profiler of PyTorch", allow_module_level=True)
torch = pytest.importorskip("torch")
D, FEATURES, FLOAT = 20, 7, 4
LENGTHS, LONGER = (256, 512), 1024
# Names with an array of one number for each pair of steps that attend: how many such.
PAIRS = {"transformer": 1, "longformer": 1, "adaptive_span": 4}
CACHED = {  # the attention of an architecture, which keeps keys and values
    "transformer": layers.MultiHeadAttention,
    "blockwise": layers.BlockwiseAttention,
    "longformer": layers.LongformerAttention,
}


def allocations(function):
    """What each operation of a call leaves allocated, in bytes."""
    activity = [torch.profiler.ProfilerActivity.CPU]
    with (
        torch.no_grad(),
        torch.profiler.profile(activities=activity, profile_memory=True) as profile,
    ):
        _kept = function()
    return [event.self_cpu_memory_usage for event in profile.events()]


def made(name):
    (layer,) = build_layers(name, units=D, bidirectional=name in NEVER_CAUSAL)
    layer.build((None, None, FEATURES))
    return layer


def slopes(values, lengths):
    return np.diff(np.log2(values)) / np.diff(np.log2(lengths))


def check_arrays(name, lengths):
    layer = made(name)
    found = []
    for T in lengths:
        x = keras.ops.ones((1, T, FEATURES))
        found.append(max(allocations(lambda x=x: layer(x))) // FLOAT)
    if name not in PAIRS:  # no array of T x T, as in the programs of JAX
        assert all(n <= 4 * T * 256 for n, T in zip(found, lengths, strict=True))
        return
    formula = FORMULAS[name].mixing  # 4 D operations for each pair
    said = [evaluate(formula, letters(name, T, FEATURES, D, 1)) for T in lengths]
    np.testing.assert_allclose(slopes(found, lengths), slopes(said, lengths), atol=0.1)
    assert found == [PAIRS[name] * count // (4 * D) for count in said]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_largest_array_grows_with_the_pairs_or_less(name):
    check_arrays(name, LENGTHS)


@pytest.mark.full("two lengths are measured by default", cheap=False)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_largest_array_of_a_longer_sequence(name):
    check_arrays(name, (*LENGTHS, LONGER))


@pytest.mark.parametrize("name", [*RECURRENT, *RESIDUAL, "wavenet"])
def test_states_take_as_many_bytes(name):
    layer = made(name)
    kept = layer.cell if name in RECURRENT else layer
    costs = [layers.costs(name, T, D, input_dim=FEATURES) for T in LENGTHS]
    if name != "wavenet":  # whose last inputs are fewer in a short text
        assert costs[0].state_bytes == costs[1].state_bytes
    assert sum(allocations(lambda: kept.get_initial_state(1))) == costs[1].state_bytes


@pytest.mark.parametrize("name", CACHED)
def test_keys_and_values_take_as_many_bytes(name):
    found, said = [], []
    for T in (*LENGTHS, LONGER):
        layer = CACHED[name](4, D // 4)
        layer.build((1, T, D), (1, T, D))
        found.append(sum(allocations(lambda layer=layer, T=T: layer.make_cache(1, T))))
        said.append(layers.costs(name, T, D).state_bytes)
    lengths = (*LENGTHS, LONGER)
    np.testing.assert_allclose(slopes(found, lengths), slopes(said, lengths), atol=0.1)
    np.testing.assert_allclose(found, said, rtol=0.02)  # and the places, of a window
