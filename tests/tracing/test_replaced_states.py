"""Layers continue from a replaced state, also where they compute all steps at once."""

import keras
import numpy as np
import pytest

from kerasseq import layers, tracing
from kerasseq.tracing.gradient_flow import States
from kerasseq.tracing.listeners import listening
from tests.tracing.test_state_flow import LAYERS, NORMALIZED, REAL, B, D, T, X
from tests.tracing.test_trace import array, randomize

pytestmark = pytest.mark.full("the kernels are tested everywhere")

S = 3  # the step whose state is replaced: a real one in both rows of REAL


def built(name):
    make, index = LAYERS[name]
    layer = make()
    layer.build(X.shape)
    randomize(layer)
    return layer, index


def changed(value):
    return 0.3 - 0.5 * value


@pytest.mark.everywhere("loops of the backend with changed values", cases=1)
@pytest.mark.parametrize("name", sorted(LAYERS, key=lambda name: name != "rwkv4"))
@pytest.mark.parametrize("masked", [True, False], ids=["mask", ""])
def test_the_rest_of_the_sequence_continues_from_it(name, masked):
    layer, index = built(name)
    mask = REAL if masked else None
    calls = []

    def change(value, t):
        calls.append(t)
        return changed(value) if t == S else value

    changes = {"hidden_state": change}
    with tracing.intervene(layer, changes), tracing.trace(layer) as inside:
        y = array(layer(X, mask=mask))
    assert calls == list(range(T))
    assert inside.axes("hidden_state")[:2] == ("rows", "steps")
    first, rest = slice(S + 1), slice(S + 1, None)
    masks = [None, None] if mask is None else [mask[:, first], mask[:, rest]]
    before, states = layer.advance(X[:, first], None, masks[0])
    if name in NORMALIZED:
        states[:2] = [changed(array(state)) for state in states[:2]]
    else:
        states[index] = changed(array(states[index]))
    # The output of the step itself comes from the new state, but not in RWKV-4.
    after, last = layer.advance(X[:, rest], states, masks[1])
    real = np.ones((B, T), bool) if mask is None else mask
    np.testing.assert_allclose(
        y[:, :S][real[:, :S]], array(before)[:, :S][real[:, :S]], atol=1e-5
    )
    np.testing.assert_allclose(
        y[:, rest][real[:, rest]], array(after)[real[:, rest]], rtol=2e-5, atol=3e-5
    )
    state = array(last[index])
    found = inside["hidden_state"][:, -1]
    found = found[..., :-1] if name in NORMALIZED else found
    np.testing.assert_allclose(found, state, atol=3e-5)
    with tracing.intervene(layer, changes):
        _, again = layer.advance(X, None, mask)
    np.testing.assert_allclose(array(again[index]), state, atol=3e-5)
    assert np.abs(y - array(layer(X, mask=mask)))[:, rest][real[:, rest]].max() > 1e-3


@pytest.mark.parametrize("name", LAYERS)
def test_states_of_another_input_give_its_outputs(name):
    """All states are replaced; what else a step reads comes from the same input."""
    layer, _ = built(name)
    with listening(States(layer)) as inside:
        y = array(layer(X))
    with tracing.intervene(layer, {"hidden_state": inside["hidden_state"]}):
        np.testing.assert_allclose(array(layer(X)), y, atol=1e-5)
    zero = {"hidden_state": tracing.at(0.0, steps=[2], rows=[1])}
    with tracing.intervene(layer, zero), tracing.trace(layer) as inside:
        z = array(layer(X))
    np.testing.assert_array_equal(inside["hidden_state"][1, 2], 0)
    np.testing.assert_allclose(z[0], y[0], atol=1e-5)
    np.testing.assert_allclose(z[1, :2], y[1, :2], atol=1e-5)
    assert np.all(np.abs(z[1, 3:] - y[1, 3:]).max(axis=-1) > 1e-5)


@pytest.mark.parametrize("name", ["mamba", "gla", "rwkv4"])
def test_gradients_flow_through_replaced_states(name):
    inputs = keras.Input((T, D))
    layer = LAYERS[name][0]()
    model = keras.Model(inputs, layer(inputs))
    model.compile("sgd", "mse")
    cut = {"layer/hidden_state": tracing.at(0.5, steps=S)}
    y = np.zeros((B, T, D))
    with tracing.intervene(model, cut):
        y[:, : S + 1] = array(model(X))[:, : S + 1]  # no loss before
    with tracing.intervene(model, cut):
        flow = tracing.gradient_flow(model, X, y)["layer/hidden_state"]
    np.testing.assert_allclose(flow[:S], 0, atol=1e-6)
    assert flow[S] > 1e-4


def test_the_last_state_of_linear_attention():
    layer, _ = built("gla")
    zero = {"state": 0.0}
    with (
        pytest.raises(ValueError, match=r"'state' of layer must not be replaced in a"),
        tracing.intervene(layer, zero),
    ):
        layer(X)
    with tracing.intervene(layer, zero):
        _, states = layer.advance(X)
    np.testing.assert_array_equal(array(states[0]), 0)


DECAYS = {
    **{name: LAYERS[name][0] for name in ("mamba", "gla", "retention", "rwkv4")},
    "rwkv7": LAYERS["rwkv7"][0],
    "delta": LAYERS["delta"][0],
    "min_gru": lambda: layers.MinGRU(3, return_sequences=True),
}


@pytest.mark.parametrize("name", DECAYS)
def test_decays_are_from_0_to_1(name):
    layer = DECAYS[name]()
    layer.build(X.shape)
    randomize(layer)
    for wrong in (-0.25, 1.5, np.nan, tracing.at(lambda v, t: v + 1.5, units=[0])):
        if name in ("retention", "delta") and isinstance(wrong, tracing.At):
            continue  # one number for all units of a head
        with (
            pytest.raises(ValueError, match="'decay' must be from 0 to 1, received"),
            tracing.intervene(layer, {"decay": wrong}),
        ):
            layer(X)
    with tracing.intervene(layer, {"decay": 0.0}), tracing.trace(layer) as inside:
        assert np.all(np.isfinite(array(layer(X))))
    np.testing.assert_allclose(inside["decay"], 0, atol=1e-7)
    # What is forgotten has no weight; RWKV-7 reads what to erase before that.
    if "alignment" in inside and name != "rwkv7":
        reach = 2 if name == "rwkv4" else 1  # which decays from the step before on
        old = np.tril(np.ones((T, T), bool), -reach)
        np.testing.assert_allclose(inside["alignment"][..., old], 0, atol=1e-7)
    with tracing.intervene(layer, {"decay": 1.0}):
        assert np.all(np.isfinite(array(layer(X))))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        *(("mamba", "decay"), ("mamba", "step"), ("mamba", "value")),
        *(("rwkv4", "decay"), ("rwkv4", "written"), ("rwkv4", "value")),
        *(("gla", "decay"), ("gla", "key"), ("gla", "value")),
        *(("s4d", "kernel"), ("s4d", "value")),
    ],
)
def test_alignment_times_values_is_the_output_of_replaced_values(name, key):
    layer, _ = built(name)
    with tracing.trace(layer) as inside:
        layer(X)
    new = 0.5 * np.tanh(inside[key]) ** 2
    with tracing.intervene(layer, {key: new}), tracing.trace(layer) as changed:
        layer(X)
    A, v = changed["alignment"], changed["value"]
    assert np.abs(changed["output" if "output" in changed else "heads"]).max() > 0
    if name == "gla":
        np.testing.assert_allclose(A @ v, changed["heads"], atol=1e-5)
        return
    width = A.shape[1]
    found = np.einsum("bcts,bsc->btc", A, v[..., :width])
    np.testing.assert_allclose(found, changed["output"][..., :width], atol=1e-5)
