"""The neural Turing machine: its equations, states, heads, trace and picture."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import layers, tracing
from kerasseq.tracing import plots

pytestmark = pytest.mark.once("equations in NumPy; the layer runs everywhere")

B, T, F, U, N, W = 2, 11, 3, 7, 5, 4
rng = np.random.default_rng(0)
x = rng.normal(size=(B, T, F)).astype("float32")


def array(tensor):
    return keras.ops.convert_to_numpy(tensor)


def softmax(z):
    powers = np.exp(z - z.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def softplus(z):
    return np.log1p(np.exp(z))


def in_numpy(x, weights, R, Q, S):
    """The equations for one sequence, place by place: outputs, weights, tapes."""
    kernel, recurrent, bias, heads, heads_bias = (w.astype("float64") for w in weights)
    h, c, r = np.zeros(U), np.zeros(U), np.zeros(R * W)
    w = np.zeros((R + Q, N))
    w[:, 0] = 1
    M = np.full((N, W), 1e-6)
    size = W + 4 + 2 * S
    outputs, weights, tapes = [], [], []
    for x_t in x:
        z = np.concatenate([x_t, r]) @ kernel + h @ recurrent + bias
        i, f, g, o = np.split(z, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        z = h @ heads + heads_bias
        for n in range(R + Q):
            part = z[n * size : (n + 1) * size]
            k, (beta, gate, gamma) = np.tanh(part[:W]), part[W : W + 3]
            s = softmax(part[W + 3 :])
            norms = np.sqrt((M**2).sum(axis=1) + 1e-8) * np.sqrt((k**2).sum() + 1e-8)
            content = softmax(softplus(beta) * (M @ k) / norms)
            mixed = sigmoid(gate) * content + (1 - sigmoid(gate)) * w[n]
            moved = [
                sum(s[j + S] * mixed[(place - j) % N] for j in range(-S, S + 1))
                for place in range(N)
            ]
            sharp = (np.array(moved) + 1e-12) ** (1 + softplus(gamma))
            w[n] = sharp / sharp.sum()
        r = np.concatenate([w[n] @ M for n in range(R)])
        edit = z[(R + Q) * size :].reshape(Q, 2 * W)
        erased = M.copy()
        for q in range(Q):
            erased *= 1 - np.outer(w[R + q], sigmoid(edit[q, :W]))
        M = erased + sum(np.outer(w[R + q], np.tanh(edit[q, W:])) for q in range(Q))
        outputs.append(np.concatenate([h, r]))
        weights.append(w.copy())
        tapes.append(M)
    return np.stack(outputs), np.stack(weights), np.stack(tapes)


@pytest.mark.everywhere("its operations, step by step")
@pytest.mark.parametrize(("R", "Q", "S"), [(1, 1, 1), (2, 3, 2), (1, 2, 0)])
def test_equals_numpy(R, Q, S):
    keras.utils.set_random_seed(R)
    cell = layers.NTMCell(U, N, W, read_heads=R, write_heads=Q, shift=S)
    layer = layers.RNN(cell, return_sequences=True)
    layer.build(x.shape)
    layer.set_weights([3 * weight for weight in layer.get_weights()])  # not near 0
    y = array(layer(x))
    with tracing.trace(layer) as inside:
        layer(x)
    for row in range(B):
        outputs, weights, tapes = in_numpy(x[row], layer.get_weights(), R, Q, S)
        np.testing.assert_allclose(y[row], outputs, atol=2e-5)
        shares = inside["read_weights"][row], inside["write_weights"][row]
        np.testing.assert_allclose(np.concatenate(shares, 1), weights, atol=2e-5)
        np.testing.assert_allclose(inside["tape"][row], tapes, atol=2e-5)


def machine(**options):
    keras.utils.set_random_seed(0)
    layer = layers.RNN(layers.NTMCell(U, N, W), return_sequences=True, **options)
    layer.build((B, None, F))
    return layer


def test_as_a_cell_of_keras():
    layer = machine()
    other = keras.layers.RNN(layer.cell, return_sequences=True)
    np.testing.assert_allclose(array(other(x)), array(layer(x)), atol=1e-6)


def test_any_cut_gives_the_whole():
    layer = machine()
    whole, last = layer.advance(x)
    first, states = layer.advance(x[:, :4])
    second, states = layer.advance(x[:, 4:], states)
    both = np.concatenate([array(first), array(second)], axis=1)
    np.testing.assert_allclose(both, array(whole), atol=1e-6)
    for state, expected in zip(states, last, strict=True):
        np.testing.assert_allclose(array(state), array(expected), atol=1e-6)
    with pytest.raises(ValueError, match=r"states\[5\]"):
        layer.advance(x, [*states[:5], states[0]])


def test_masked_steps_leave_the_tape_as_it_is():
    layer = machine()
    mask = np.ones((B, T), bool)
    mask[:, [0, 3, 10]] = False
    with tracing.trace(layer) as inside:
        y = layer(x, mask=mask)
    np.testing.assert_allclose(
        array(y)[:, mask[0]], array(layer(x[:, mask[0]])), atol=1e-6
    )
    states = inside["tape_state"]
    np.testing.assert_array_equal(states[:, 3], states[:, 2])
    np.testing.assert_allclose(states[:, 0], 1e-6)  # the first tape


@pytest.mark.everywhere("variables that hold the states")
def test_a_stateful_machine_starts_at_place_0_again():
    layer, plain = machine(stateful=True), machine()
    layer.set_weights(plain.get_weights())
    part = x[:, :5]
    first, second = array(layer(part)), array(layer(part))
    np.testing.assert_allclose(first, array(plain(part)), atol=1e-6)
    assert np.abs(second - first).max() > 1e-3
    layer.reset_state()
    read, tape = (array(layer.states[n]) for n in (3, 5))
    assert read[:, 0].tolist() == [1, 1] and read.sum() == 2
    np.testing.assert_allclose(tape, 1e-6)
    np.testing.assert_allclose(array(layer(part)), first, atol=1e-6)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_the_tape_is_float32_in_mixed_precision(policy):
    layer = machine()
    half = layers.RNN(layers.NTMCell(U, N, W, dtype=policy), True, dtype=policy)
    half.build((None, None, F))
    half.set_weights(layer.get_weights())
    y, states = half.advance(x)
    assert {keras.backend.standardize_dtype(s.dtype) for s in states} == {"float32"}
    assert keras.backend.standardize_dtype(y.dtype) == policy.removeprefix("mixed_")
    np.testing.assert_allclose(
        array(keras.ops.cast(y, "float32")), array(layer(x)), atol=0.05
    )


def test_why_no_loop_is_derived():
    reason = machine().explain().reason
    assert reason and kerasseq.layers.LSTM(3).explain().reason is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 5, 3), "units must be at least 1, received 0"),
        ((3, 5, 2.5), "memory_width must be a whole number, received 2.5"),
        ((3, 4, 2, 1, 1, 2), "below half of memory_size=4"),
        ((3, 4, 2, 1, 0), "write_heads must be at least 1"),
        ((3, 4, 2, 1, 1, -1), "shift must be at least 0"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        layers.NTMCell(*arguments)


def test_picture():
    layer = layers.RNN(layers.NTMCell(U, N, W, read_heads=2))
    with tracing.trace(layer) as inside:
        layer(x)
    figure = plots.plot_tape(inside, tokens="abcdefghijk", title="copy", example=1)
    drawn = [axis for axis in figure.axes if axis.images and axis.get_ylabel()]
    names = ", ".join(axis.get_ylabel().split("\n")[0] for axis in drawn)
    assert names == "writes to, adds, reads from, reads from, has read, place"
    np.testing.assert_array_equal(
        drawn[0].images[0].get_array(), inside["write_weights"][1, :, 0].T
    )
    tape = drawn[-1].images[0].get_array()
    np.testing.assert_array_equal(tape, inside["tape"][1, -1])
    fewer = plots.plot_tape(inside, places=3).axes
    assert fewer[0].images[0].get_array().shape == (3, T)
    with pytest.raises(ValueError, match="places must be at least 1"):
        plots.plot_tape(inside, places=0)
    for trace, layer_name in ((inside, "lstm"), ({}, None)):
        with pytest.raises(ValueError, match="layer must be one with a NTMCell"):
            plots.plot_tape(trace, layer_name)
    with pytest.raises(ValueError, match="one entry for each of 11 steps"):
        plots.plot_tape(inside, tokens="abc")
