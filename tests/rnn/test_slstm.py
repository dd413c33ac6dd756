"""SLSTM: the equation, its blocks of heads, large gates, and first states.

`tests/test_layers_everywhere.py` has the checks of every layer.
"""

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq import layers, tracing
from kerasseq.layers import SLSTM, SLSTMCell
from tests.layer_checks import assert_close
from tests.rnn import references

pytestmark = pytest.mark.once("the loop is tested everywhere")
everywhere = pytest.mark.everywhere("loops and exponents of a backend", cases=1)

B, T, D, N, H = 2, 7, 5, 3, 6
RNG = np.random.default_rng(3)
X = RNG.normal(size=(B, T, D)).astype("float32")
MASK = np.array([[0, 1, 1, 0, 1, 1, 0], [1, 1, 1, 1, 1, 0, 0]], bool)
NOTHING = [np.zeros((B, H))] * 3
GATES = pytest.mark.parametrize("forget_gate", ["sigmoid", "exp"])


def built(num_heads=N, forget_gate="sigmoid", units=H, **options):
    options = {"num_heads": num_heads, "forget_gate": forget_gate, **options}
    layer = SLSTM(units, return_sequences=True, **options)
    layer.build((B, T, D))
    return layer, references.random_weights(layer)


def unscaled(states):
    """The states without the factor of the stabilizer."""
    h, c, n, m = (ops.convert_to_numpy(s).astype("float64") for s in states)
    return [h, c * np.exp(m), n * np.exp(m)]


@everywhere
@GATES
@pytest.mark.parametrize("num_heads", [1, 3])
def test_equals_numpy(num_heads, forget_gate):
    layer, weights = built(num_heads, forget_gate, return_state=True)
    step = references.slstm(num_heads, forget_gate)
    outputs, *states = layer(X, mask=MASK)
    _, expected, wanted = references.run(step, weights, X, NOTHING, MASK)
    assert_close(outputs, expected)
    for found, want in zip(unscaled(states), wanted, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
    again, *_ = layer(X, initial_state=states)
    _, expected, _ = references.run(step, weights, X, wanted)
    assert_close(again, expected)


@everywhere
@GATES
def test_the_derived_loop_is_the_loop_over_step(forget_gate):
    layer, weights = built(forget_gate=forget_gate)
    assert layer.explain().reason is None
    slow, _ = built(forget_gate=forget_gate, unroll=True)
    slow.set_weights(weights)

    def gradients(layer):
        model = keras.Sequential([keras.Input((T, D)), layer])
        model.compile("sgd", lambda y, h: ops.sum(y * h))
        model.fit(X, Y, verbose=0)
        after = layer.get_weights()
        layer.set_weights(weights)
        return [a - b for a, b in zip(after, weights, strict=True)]

    Y = RNG.normal(size=(B, T, H)).astype("float32")
    assert_close(layer(X, mask=MASK), slow(X, mask=MASK))
    for fast, plain in zip(*map(gradients, (layer, slow)), strict=True):
        np.testing.assert_allclose(fast, plain, atol=1e-5)
        assert np.any(fast)


@GATES
def test_large_gates_have_finite_results_and_gradients(forget_gate):
    """exp(300) is no number of float32; the last input gate is below all others."""
    layer, weights = built(forget_gate=forget_gate)
    x = 300 * np.sign(X)
    outputs = ops.convert_to_numpy(layer(x))
    step = references.slstm(N, forget_gate)
    narrow = layer(0.1 * x)  # where float64 needs no stabilizer
    _, expected, _ = references.run(step, weights, 0.1 * x, NOTHING)
    np.testing.assert_allclose(ops.convert_to_numpy(narrow), expected, atol=1e-4)
    assert np.all(np.isfinite(outputs)) and np.abs(outputs).max() <= 1
    model = keras.Sequential([keras.Input((T, D)), layer])
    model.compile("sgd", "mse")
    model.fit(x, np.ones((B, T, H)), verbose=0)
    for weight, before in zip(layer.get_weights(), weights, strict=True):
        assert np.all(np.isfinite(weight)), weight
        assert np.any(weight != before)


def test_a_gate_reads_its_own_head_only():
    layer, _ = built()
    matrix = ops.convert_to_numpy(layer.cell.recurrent_matrix()).reshape(H, 4, H)
    d, blocks = H // N, ops.convert_to_numpy(layer.cell.recurrent_kernel)
    assert blocks.shape == (H, 4 * d)
    for row in range(H):
        head = slice(row // d * d, row // d * d + d)
        np.testing.assert_array_equal(matrix[row, :, head].ravel(), blocks[row])
        assert np.count_nonzero(matrix[row]) == 4 * d


def test_initial_weights():
    orthogonal = keras.initializers.Orthogonal(seed=3)
    cell = SLSTMCell(H, num_heads=N, recurrent_initializer=orthogonal)
    cell.build((None, D))
    blocks = np.split(ops.convert_to_numpy(cell.recurrent_kernel), N)
    for block in blocks:
        np.testing.assert_allclose(block @ block.T, np.eye(H // N), atol=1e-6)
    assert not np.allclose(blocks[0], blocks[1])
    bias = ops.convert_to_numpy(cell.bias)
    assert bias.tolist() == [0.0] * H + [1.0] * H + [0.0] * 2 * H


def test_any_cut_gives_the_whole():
    layer, _ = built()
    whole, last = layer.advance(X, None, MASK)
    whole = ops.convert_to_numpy(whole)
    assert_close(whole, layer(X, mask=MASK))
    states, parts = None, []
    for t in range(T):
        now = slice(t, t + 1)
        y, states = layer.advance(X[:, now], states, MASK[:, now])
        parts.append(ops.convert_to_numpy(y))
    real = MASK[..., None]
    assert_close(np.concatenate(parts, axis=1) * real, whole * real)
    for found, wanted in zip(states, last, strict=True):
        assert_close(found, wanted)


@everywhere
def test_a_stateful_layer_starts_from_the_states_of_its_cell():
    layer, weights = built(stateful=True)
    plain, _ = built()
    plain.set_weights(weights)
    parts = [
        ops.convert_to_numpy(layer(X[:, :3])),
        ops.convert_to_numpy(layer(X[:, 3:])),
    ]
    assert_close(np.concatenate(parts, axis=1), plain(X))
    layer.reset_state()
    *zeros, m = map(ops.convert_to_numpy, layer.states)
    assert not np.any(zeros) and np.all(m < -1e37)
    assert_close(layer(X), plain(X))


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_keeps_forget_gates_near_1(policy):
    """m is rounded; what is forgotten is not."""
    layer = SLSTM(
        1,
        kernel_initializer="zeros",
        recurrent_initializer="zeros",
        bias_initializer=keras.initializers.Constant(8.0),
        dtype=policy,
        unit_forget_bias=False,
        return_sequences=True,
    )
    layer.build((1, None, D))
    layer.cell.bias.assign([8.0, 3.0, 0.5, 30.0])
    with tracing.trace(layer) as inside:
        layer(np.zeros((1, T, D), "float32"))
    forget = np.asarray(inside["forget_gate"], "float32")[0, 1:, 0]
    np.testing.assert_allclose(forget, references.sigmoid(3.0), rtol=0.01)


def test_trace():
    layer, weights = built(name="layer")
    model = keras.Sequential([keras.Input((T, D)), layer])
    with tracing.trace(model) as inside:
        y = model(X)
    values = {name.removeprefix("layer/"): x for name, x in inside.items()}
    gates = {"input_gate", "forget_gate", "output_gate", "candidate"}
    assert gates | set(SLSTMCell.state_names) <= set(values)
    for name in ("input_gate", "forget_gate"):
        assert np.all((values[name] >= 0) & (values[name] < 1 + 1e-5))
    assert np.all(values["forget_gate"][:, 0] == 0)  # nothing was there to forget
    assert np.all(values["input_gate"][:, 0] == 1)
    assert np.all(values["normalizer"] >= 1)
    c = values["output_gate"] * values["cell_state"] / values["normalizer"]
    assert_close(c, y)
    flow = tracing.gradient_by_distance(layer, 4, forget_bias=5.0)["cell_state"]
    assert np.all(flow > 0)


def test_in_both_directions_and_stacked():
    both = keras.layers.Bidirectional(SLSTM(H, num_heads=N, return_sequences=True))
    padded = np.concatenate([X, 9 * X[:, :2]], axis=1)
    real = np.arange(T + 2)[None] < np.array([[T]] * B)
    assert_close(both(padded, mask=real)[:, :T], both(X))
    deep = layers.StackedRNN([SLSTMCell(D, num_heads=1), SLSTMCell(D)], residual=True)
    assert ops.shape(deep(X)) == (B, D)
    fed = layers.StackedRNN([SLSTMCell(D)], steps=4, feed_back=True)
    y = ops.convert_to_numpy(fed(X[:, 0]))
    state = fed.cells[0].get_initial_state(B)
    expected = X[:, 0]
    for _ in range(4):
        expected, state = fed.cells[0](expected, state)
    assert_close(y, expected)


def test_a_decoder_starts_from_a_positive_normalizer():
    model = kerasseq.models.Seq2Seq(
        "slstm", source_vocabulary_size=11, target_vocabulary_size=7, units=H
    )
    source, target = RNG.integers(1, 11, (B, T)), RNG.integers(1, 7, (B, 4))
    state = model.initial_state(source, 4)
    h, c, n, m = (ops.convert_to_numpy(x) for x in state["cell_states"][0])
    assert np.all(n > 0)
    assert np.all(np.isfinite(ops.convert_to_numpy(model([source, target]))))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_heads": 4}, "num_heads must divide units=6, received num_heads=4"),
        ({"num_heads": 0}, "num_heads must be at least 1"),
        ({"forget_gate": "tanh"}, 'forget_gate="tanh" is not one of "sigmoid", "exp"'),
        ({"unit_forget_bias": "yes"}, "unit_forget_bias must be"),
    ],
)
def test_wrong_arguments(options, message):
    for cls in (SLSTM, SLSTMCell):
        with pytest.raises((TypeError, ValueError), match=message):
            cls(H, **options)


def test_wrong_states():
    layer, _ = built()
    other = layers.LSTM(H, return_sequences=True).advance(X)[1]
    with pytest.raises(ValueError, match="states must have 4 tensors, received 2"):
        layer.advance(X, other)
    with pytest.raises(ValueError, match=r"states\[0\] must have shape \(2, 6\)"):
        layer.advance(X, layer.get_initial_state(B + 1))
