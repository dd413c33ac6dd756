"""Gradients through time: products of Jacobians, decay, growth, lasting memory."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq.layers import GRU, LSTM, ElmanRNN, PeepholeLSTM
from kerasseq.tracing import gradient_flow
from tests.tracing import equations

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

B, T, D, H = 2, 7, 5, 3
rng = np.random.default_rng(0)
x = rng.normal(size=(B, T, D)).astype("float32")


def compiled(*layers, features=D, time=T):
    model = keras.Sequential([keras.Input((time, features)), *layers])
    model.compile("sgd", "mse")
    draw = np.random.default_rng(1)
    model.set_weights([draw.normal(size=w.shape, scale=0.6) for w in model.weights])
    return model


def targets(model, inputs=x):
    return np.zeros(model.compute_output_shape(inputs.shape))


def flow_of(model, inputs=x):
    return gradient_flow(model, inputs, targets(model, inputs))


def linear_model(U):
    layer = ElmanRNN(len(U), activation="linear", use_bias=False, name="linear")
    model = compiled(layer)
    layer.set_weights([layer.get_weights()[0], U])
    return model


@pytest.mark.everywhere("gradients of the backend")
def test_a_linear_network_gives_the_product_of_its_jacobians():
    U = rng.normal(size=(H, H)) * 0.6
    model = linear_model(U)
    found = flow_of(model)["linear/hidden_state"]
    h_T = keras.ops.convert_to_numpy(model(x))
    gradient = 2 * h_T / h_T.size  # of the mean square
    expected = [np.linalg.norm(gradient)]
    for _ in range(T - 1):
        gradient = gradient @ U.T  # the Jacobian of h_t with respect to h_(t-1) is U
        expected.insert(0, np.linalg.norm(gradient))
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("radius", [0.5, 2.0])
def test_the_spectral_radius_says_what_becomes_of_the_gradient(radius):
    orthogonal = np.linalg.qr(rng.normal(size=(H, H)))[0]
    found = flow_of(linear_model(radius * orthogonal))["linear/hidden_state"]
    np.testing.assert_allclose(found[:-1] / found[1:], radius, rtol=1e-4)


def test_norms_of_small_gradients_are_not_zero():
    small = np.full((H, H), 1e-9)  # their squares are below the numbers of float32
    found = flow_of(linear_model(small))["linear/hidden_state"]
    np.testing.assert_allclose(found[-4:-2] / found[-3:-1], H * 1e-9, rtol=1e-4)


def test_an_open_forget_gate_keeps_the_gradient_along_the_memory():
    layer = LSTM(H, unroll=True, name="lstm")
    model = compiled(layer)
    W, U, _ = layer.get_weights()
    b = np.repeat([0.0, 30.0, 0.5, 0.0], H)  # i, f, candidate, o: f is 1
    layer.set_weights([0 * W, 0 * U, b])
    found = flow_of(model)
    c = found["lstm/cell_state"]
    np.testing.assert_allclose(c, np.full(T, c[-1]), rtol=1e-5)
    assert c[0] > 0.01
    np.testing.assert_array_equal(found["lstm/hidden_state"][:-1], 0)

    b[H : 2 * H] = np.log(3)  # f is 3/4
    layer.set_weights([0 * W, 0 * U, b])
    c = flow_of(model)["lstm/cell_state"]
    np.testing.assert_allclose(c[:-1] / c[1:], 0.75, rtol=1e-5)


def nudged(step, weights, at, nudge, name, **options):
    """The loss after a small change of one state at one step, in NumPy."""
    h, c = np.zeros((B, H)), np.zeros((B, H))
    for t in range(T):
        here = nudge if t == at else 0
        if "lstm" not in step.__name__:
            h, _ = step(x[:, t], h, *weights)
        else:
            in_cell = {"nudge": here} if name == "cell_state" else {}
            (h, c), _ = step(x[:, t], (h, c), *weights, **options, **in_cell)
        if name == "hidden_state":
            h = h + here
    return np.mean(h**2)


@pytest.mark.everywhere("gradients of the backend", cases=2)
@pytest.mark.parametrize(
    ("layer", "step", "options"),
    [
        (GRU(H), equations.gru, {}),
        (PeepholeLSTM(H), equations.lstm, {"kind": "diagonal"}),
    ],
)
def test_finite_differences(layer, step, options):
    model = compiled(layer)
    weights = [w.astype("float64") for w in layer.get_weights()]
    found = flow_of(model)
    names = ["hidden_state"] + (["cell_state"] if "lstm" in step.__name__ else [])
    assert set(found) == {f"{layer.name}/{name}" for name in names}
    at, small = 4, 1e-5
    for name in names:
        gradient = []
        for place in range(B * H):
            nudge = small * np.eye(B * H)[place].reshape(B, H)
            above = nudged(step, weights, at, nudge, name, **options)
            below = nudged(step, weights, at, -nudge, name, **options)
            gradient.append((above - below) / (2 * small))
        expected = np.linalg.norm(gradient)
        np.testing.assert_allclose(
            found[f"{layer.name}/{name}"][at], expected, rtol=1e-4
        )


def test_masked_steps_have_no_gradient_and_change_no_other():
    layer = LSTM(H, name="lstm")
    model = compiled(keras.layers.Masking(name="masking"), layer, time=None)
    real = np.array([False, True, True, False, True, True, False])
    padded = np.where(real[None, :, None], x, 0).astype("float32")
    found, short = flow_of(model, padded), flow_of(model, x[:, real])
    for name in ("lstm/hidden_state", "lstm/cell_state"):
        np.testing.assert_array_equal(found[name][~real], 0)
        np.testing.assert_allclose(found[name][real], short[name], rtol=1e-4)
        assert short[name].min() > 0


def test_backwards_the_first_step_is_the_last():
    options = {"unroll": True, "name": "gru"}
    forwards, backwards = GRU(H, **options), GRU(H, go_backwards=True, **options)
    model, other = compiled(forwards), compiled(backwards)
    found = flow_of(other, x[:, ::-1])["gru/hidden_state"]
    np.testing.assert_allclose(
        found[::-1], flow_of(model)["gru/hidden_state"], rtol=1e-4
    )
    assert found[0] == found.max()


def test_both_directions():
    gru = GRU(H, unroll=True, name="gru")
    both = keras.layers.Bidirectional(gru, name="both")
    model = compiled(both)
    weights = both.get_weights()[:3]
    both.set_weights(weights + weights)
    palindrome = np.concatenate([x[:, :4], x[:, 2::-1]], axis=1)
    found = flow_of(model, palindrome)
    there, back = (
        found["both/forward_gru/hidden_state"],
        found["both/backward_gru/hidden_state"],
    )
    np.testing.assert_allclose(there, back[::-1], rtol=1e-4)
    assert there[-1] > there[0]


def test_a_layer_called_twice_has_a_number_from_the_second_call_on():
    U = rng.normal(size=(D, D)) * 0.4
    shared = ElmanRNN(
        D, activation="linear", use_bias=False, return_sequences=True, name="shared"
    )
    inputs = keras.Input((T, D))
    model = keras.Model(inputs, shared(shared(inputs))[:, -1])
    model.compile("sgd", "mse")
    W = shared.get_weights()[0]
    shared.set_weights([W, U])
    found = flow_of(model)
    assert set(found) == {"shared/hidden_state", "shared/hidden_state#1"}
    y = keras.ops.convert_to_numpy(model(x))
    upper = [2 * y / y.size]
    for _ in range(T - 1):
        upper.insert(0, upper[0] @ U.T)
    lower, later = [], 0
    for gradient in upper[::-1]:
        later = gradient @ W.T + (later @ U.T if lower else 0)
        lower.insert(0, later)
    norms = np.linalg.norm(upper, axis=(1, 2)), np.linalg.norm(lower, axis=(1, 2))
    np.testing.assert_allclose(found["shared/hidden_state#1"], norms[0], rtol=1e-4)
    np.testing.assert_allclose(found["shared/hidden_state"], norms[1], rtol=1e-4)


def test_stacked_layers_and_losses_at_every_step():
    stacked = kerasseq.layers.StackedRNN(
        [kerasseq.layers.GRUCell(H), kerasseq.layers.LSTMCell(2)],
        return_sequences=True,
        name="stacked",
    )
    found = flow_of(compiled(stacked))
    assert {key: value.shape for key, value in found.items()} == {
        "stacked/layer_1/hidden_state": (T,),
        "stacked/layer_2/hidden_state": (T,),
        "stacked/layer_2/cell_state": (T,),
    }
    assert min(value.min() for value in found.values()) > 0


def test_a_model_that_is_not_built_yet():
    class Alone(keras.Model):
        def __init__(self):
            super().__init__()
            self.rnn = GRU(H, unroll=True, name="gru")

        def call(self, inputs):
            return self.rnn(inputs)

    model = Alone()
    model.compile("sgd", "mse")
    assert set(gradient_flow(model, x, np.zeros((B, H)))) == {"gru/hidden_state"}


@pytest.mark.everywhere("gradients of the backend")
def test_states_seeds_and_weights_are_unchanged():
    layer = LSTM(H, stateful=True, dropout=0.5, seed=0, unroll=True, name="lstm")
    model = keras.Sequential([keras.Input(batch_shape=(B, T, D)), layer])
    model.compile("adam", "mse", metrics=["mae"])
    model(x)
    before = [keras.ops.convert_to_numpy(v) for v in [*model.variables, *layer.states]]
    first, second = flow_of(model), flow_of(model)
    after = [keras.ops.convert_to_numpy(v) for v in [*model.variables, *layer.states]]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
    for key in first:
        np.testing.assert_array_equal(first[key], second[key])


def test_dropout_is_off():
    drops = compiled(ElmanRNN(H, dropout=0.5, unroll=True, name="elman"))
    keeps = compiled(ElmanRNN(H, unroll=True, name="elman"))
    found, expected = (flow_of(model)["elman/hidden_state"] for model in (drops, keeps))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_mixed_precision():
    found = flow_of(compiled(GRU(H, dtype="mixed_bfloat16", unroll=True, name="gru")))
    assert np.isfinite(found["gru/hidden_state"]).all()
    assert found["gru/hidden_state"].min() > 0


def test_messages():
    with pytest.raises(
        ValueError, match=r"must be compiled with a loss.* model\.compile"
    ):
        gradient_flow(keras.Sequential([LSTM(H)]), x, np.zeros((B, H)))
    for layer in (keras.layers.Flatten(), keras.layers.LSTM(H)):
        model = compiled(layer)
        with pytest.raises(ValueError, match=r"recurrent layer of kerasseq\.layers"):
            flow_of(model)
