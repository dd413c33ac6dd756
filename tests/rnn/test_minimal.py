"""MinGRU and MinLSTM: the equations, any cut of a sequence, extremes, what is traced.

`tests/rnn/test_loop.py` compares them with NumPy under masks and directions.
"""

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq import tracing
from kerasseq.layers import MinGRU, MinGRUCell, MinLSTM, MinLSTMCell
from kerasseq.models.seq2seq.decoder_cells import cell_step
from tests.layer_checks import assert_close
from tests.rnn import references

pytestmark = pytest.mark.full("the loop is tested everywhere")

STEPS = {MinGRU: references.min_gru, MinLSTM: references.min_lstm}
both = pytest.mark.parametrize("cls", STEPS)
B, T, D, H = 2, 7, 5, 3
RNG = np.random.default_rng(3)
X = RNG.normal(size=(B, T, D)).astype("float32")
STATE = RNG.normal(size=(B, H)).astype("float32")
MASK = np.array([[0, 1, 1, 0, 1, 1, 0], [1, 1, 1, 1, 1, 0, 0]], bool)


def built(cls, **options):
    layer = cls(H, return_sequences=True, **options)
    layer.build(X.shape)
    return layer, references.random_weights(layer)


@pytest.mark.everywhere("kernels differ between backends")
@both
def test_equals_numpy(cls):
    layer, weights = built(cls, return_state=True)
    outputs, state = layer(X, initial_state=[STATE], mask=MASK)
    _, expected, states = references.run(STEPS[cls], weights, X, [STATE], MASK)
    assert_close(outputs, expected)
    assert_close(state, states[0])


@pytest.mark.everywhere("kernels differ between backends", cases=1)
@both
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_any_cut_gives_the_whole(cls, dtype):
    """In mixed precision too, as the states that are handed on are float32."""
    layer, _ = built(cls, dtype=dtype)
    whole, last = layer.advance(X, layer.get_initial_state(B), MASK)
    assert keras.backend.standardize_dtype(last[0].dtype) == "float32"
    whole = ops.convert_to_numpy(ops.cast(whole, "float32"))
    assert_close(whole, ops.cast(layer(X, mask=MASK), "float32"))
    for sizes in ([3, 4], [1] * T):
        states, parts, at = None, [], 0
        for size in sizes:
            here = slice(at, at + size)
            part, states = layer.advance(X[:, here], states, MASK[:, here])
            parts.append(ops.convert_to_numpy(ops.cast(part, "float32")))
            at += size
        # Where no step was real yet, outputs are zeros; a part knows of no other.
        real = MASK[..., None]
        assert_close(np.concatenate(parts, 1) * real, whole * real)
        assert_close(states[0], last[0], atol=1e-6)


def test_half_precision_does_not_round_the_decay_to_1():
    """bfloat16 has no number between 0.996 and 1."""
    layer = MinGRU(1, kernel_initializer="zeros", dtype="mixed_bfloat16")
    layer.build((1, None, 1))
    z = 1 / 1024
    layer.cell.bias.assign([np.log(z / (1 - z)), 0.5])
    _, (state,) = layer.advance(np.zeros((1, 2049, 1), "float32"))
    found = float(ops.convert_to_numpy(state)[0, 0])
    assert found == pytest.approx(1 - (1 - z) ** 2049, rel=0.02)


def test_the_loop_of_a_decoder_keeps_the_dtype_of_its_states():
    cell = MinGRUCell(H, dtype="mixed_bfloat16")
    cell.build((None, D))
    state = ops.zeros((B, H), "bfloat16")
    output, (after,) = cell_step(cell, ops.cast(X[:, 0], "bfloat16"), [state])
    for x in (output, after):
        assert keras.backend.standardize_dtype(x.dtype) == "bfloat16"


@pytest.mark.everywhere("long loops of the backend", cases=1)
@both
def test_10_000_steps_of_strong_decay_equal_float64(cls):
    layer, weights = built(cls)
    x = 20 * np.random.default_rng(0).normal(size=(1, 10_000, D)).astype("float32")
    run = kerasseq.kernels.compiled(lambda x: layer(x), jit=True)
    _, expected, _ = references.run(STEPS[cls], weights, x, [np.zeros((1, H))])
    np.testing.assert_allclose(
        ops.convert_to_numpy(run(x)), expected, rtol=1e-4, atol=1e-3
    )


def test_normalized_gates_of_an_lstm_where_both_are_0():
    cell = MinLSTMCell(1, kernel_initializer="zeros")
    cell.build((None, 1))
    cell.bias.assign([-200.0, -200.0 - np.log(3), 0.5])
    h, _ = cell(np.zeros((1, 1), "float32"), [np.full((1, 1), 5.0, "float32")])
    assert float(ops.convert_to_numpy(h)[0, 0]) == pytest.approx(0.75 * 5 + 0.25)


@both
def test_no_output_depends_on_later_inputs(cls):
    layer, _ = built(cls)
    other = X.copy()
    other[:, 4:] = RNG.normal(size=other[:, 4:].shape)
    before, after = (ops.convert_to_numpy(layer(x)) for x in (X, other))
    np.testing.assert_array_equal(before[:, :4], after[:, :4])
    assert np.abs(before[:, 4:] - after[:, 4:]).min() > 0


def test_both_directions():
    layer = keras.layers.Bidirectional(MinGRU(H, return_sequences=True))
    outputs = ops.convert_to_numpy(layer(X, mask=MASK))
    assert outputs.shape == (B, T, 2 * H)
    backwards = layer.backward_layer(X, mask=MASK)
    assert_close(outputs[..., H:], ops.flip(backwards, axis=1))


@pytest.mark.everywhere("values leave the loop of the backend", cases=1)
@both
def test_trace(cls):
    layer, (kernel, bias) = built(cls, name="layer")
    model = keras.Sequential([keras.Input((T, D)), layer])
    with tracing.trace(model) as inside:
        model(X)
    gates = ["update_gate"] if cls is MinGRU else ["forget_gate", "input_gate"]
    names = {*gates, "candidate", "decay", "written", "hidden_state"}
    assert {f"layer/{name}" for name in names} <= set(inside)
    z, *_, v = np.split(X @ kernel + bias, layer.cell.gates, axis=-1)
    assert_close(inside["layer/candidate"], references.g(v))
    if cls is MinGRU:
        assert_close(inside["layer/update_gate"], references.sigmoid(z))
        assert_close(inside["layer/decay"], 1 - references.sigmoid(z))
    written = inside[f"layer/{gates[-1]}"] * inside["layer/candidate"]
    assert_close(inside["layer/written"], written)
    assert_close(inside["layer/hidden_state"], layer(X))


def test_an_update_gate_set_to_0_copies_the_state():
    layer, _ = built(MinGRU, name="layer")
    model = keras.Sequential([keras.Input((T, D)), layer])
    with tracing.intervene(model, {"layer/update_gate": 0.0}):
        changed = ops.convert_to_numpy(layer(X, initial_state=[STATE]))
    np.testing.assert_array_equal(changed, np.repeat(STATE[:, None], T, 1))


@pytest.mark.everywhere("gradients by hand", cases=1)
@both
def test_gradient_flow_is_the_product_of_the_decays(cls):
    layer, _ = built(cls, name="layer")
    model = keras.Sequential([keras.Input((T, D)), layer])
    model.compile(loss=lambda y, h: ops.sum(h[:, -1], axis=-1))
    flow = tracing.gradient_flow(model, X, np.zeros((B, T, H)))["layer/hidden_state"]
    with tracing.trace(model) as inside:
        model(X)
    later = np.cumprod(inside["layer/decay"][:, :0:-1], axis=1)[:, ::-1]
    expected = np.linalg.norm(later / B, axis=(0, 2))
    np.testing.assert_allclose(flow[:-1], expected, rtol=1e-4)


def test_gradient_by_distance():
    layer = MinLSTM(H)
    found = tracing.gradient_by_distance(layer, 5, forget_bias=4.0)["hidden_state"]
    plain = tracing.gradient_by_distance(layer, 5)["hidden_state"]
    assert found[5] > 3 * plain[5] > 0
    with pytest.raises(ValueError, match="no recurrent kernel"):
        tracing.gradient_by_distance(layer, 5, spectral_radius=0.5)
    with pytest.raises(ValueError, match="forget_bias must be None"):
        tracing.gradient_by_distance(MinGRU(H), 5, forget_bias=1.0)


def test_an_own_linear_cell_is_fast_an_own_step_is_taken_at_its_word():
    class Kept(MinGRUCell):
        def coefficients(self, projected):
            a, b = super().coefficients(projected)
            return 0 * a + 1, 0 * b

    class Doubled(MinGRUCell):
        def step(self, projected, states, training=False):
            h, states = super().step(projected, states, training)
            return 2 * h, states

    kept = kerasseq.layers.RNN(Kept(H), return_sequences=True)
    expected = np.repeat(STATE[:, None], T, 1)
    assert_close(kept(X, initial_state=[STATE]), expected)
    doubled = kerasseq.layers.RNN(Doubled(H), return_sequences=True)
    plain, _ = built(MinGRU)
    doubled.build(X.shape)
    doubled.set_weights(plain.get_weights())
    assert_close(doubled(X), 2 * plain(X))


@pytest.mark.once("arguments and configurations")
@both
def test_every_argument_survives_the_config(cls):
    given = {
        "use_bias": False,
        "kernel_initializer": keras.initializers.Constant(3.0),
        "bias_initializer": keras.initializers.Constant(5.0),
        "kernel_regularizer": keras.regularizers.L1(0.25),
        "bias_regularizer": keras.regularizers.L1(0.75),
        "activity_regularizer": keras.regularizers.L1(0.125),
        "kernel_constraint": keras.constraints.MaxNorm(2.0),
        "bias_constraint": keras.constraints.MaxNorm(4.0),
        "dropout": 0.25,
        "seed": 7,
        "return_sequences": True,
        "return_state": True,
        "go_backwards": True,
        "stateful": True,
        "unroll": True,
        "zero_output_for_mask": True,
    }
    config = cls(H, **given).get_config()
    assert cls.from_config(config).get_config() == config
    plain = cls(H).get_config()
    assert all(config[name] != plain[name] for name in given)


@pytest.mark.once("arguments and configurations")
@both
def test_without_bias_and_with_regularizers(cls):
    layer = cls(H, use_bias=False, kernel_regularizer=keras.regularizers.L1(1.0))
    layer.build(X.shape)
    (kernel,) = layer.get_weights()
    assert kernel.shape == (D, layer.cell.gates * H)
    (loss,) = layer.losses
    assert float(ops.convert_to_numpy(loss)) == pytest.approx(np.abs(kernel).sum())


@pytest.mark.once("arguments and configurations")
def test_there_is_no_recurrent_dropout():
    with pytest.raises(ValueError, match="recurrent_dropout"):
        MinGRU(H, recurrent_dropout=0.5)
