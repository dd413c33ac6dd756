"""`gradient_flow` at states that a layer computes for all steps at once."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import kernels, layers, models, tracing
from kerasseq.tracing.gradient_flow import States
from kerasseq.tracing.listeners import listening

pytestmark = pytest.mark.full("the kernels that it differentiates run everywhere")

B, T, D = 2, 7, 4
X = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
REAL = np.array([[0, 1, 1, 1, 1, 0, 1], [1] * T], bool)
NORMALIZED = ("linear", "mlstm")  # the next state is the last column of it
LAYERS = {  # the layer, and the index of the state that is recorded
    "mamba": (lambda: layers.Mamba(3, name="layer"), 1),
    "delta": (lambda: layers.DeltaNet(2, 3, name="layer"), 0),
    "linear": (lambda: layers.LinearAttention(2, 3, name="layer"), 0),
    "gla": (lambda: layers.GatedLinearAttention(2, 3, conv_kernel=2, name="layer"), 0),
    "retention": (lambda: layers.Retention(2, 4, name="layer"), 0),
    "s4d": (lambda: layers.S4D(6, name="layer"), 0),
    "mlstm": (lambda: layers.MLSTM(2, 3, name="layer"), 0),
    "rwkv4": (lambda: layers.RWKV4TimeMix(name="layer"), 1),
    "rwkv7": (lambda: layers.RWKV7TimeMix(2, name="layer"), 1),
}


@pytest.mark.parametrize("masked", [False, True], ids=["", "mask"])
@pytest.mark.parametrize("name", LAYERS)
def test_it_is_the_gradient_of_the_rest_of_the_sequence(name, masked):
    """With respect to the state that the first part has handed on."""
    make, index = LAYERS[name]
    layer, mask = make(), REAL if masked else None
    inputs = keras.Input((T, D))
    model = keras.Model(inputs, layer(inputs, mask=mask)[:, -1])
    model.compile(loss=lambda y, y_hat: ops.sum(y_hat**2, axis=-1))
    flow = tracing.gradient_flow(model, X, np.zeros((B, D)))["layer/hidden_state"]
    assert flow.shape == (T,) and flow[T - 2] > 0

    def part(cut):
        return X[:, cut], None if mask is None else mask[:, cut]

    for t in (0, 3, 5):
        x, real = part(slice(t + 1))
        _, states = layer.advance(x, None, real)
        x, real = part(slice(t + 1, None))
        traced = slice(2) if name in NORMALIZED else slice(index, index + 1)

        def loss(some, x=x, real=real, states=states, traced=traced):
            states = [*states]
            states[traced] = some
            y, _ = layer.advance(x, states, real)
            return ops.sum(y[:, -1] ** 2) / B

        gradients = kernels.gradients(loss, states[traced])
        if masked:  # a masked step has no state of its own
            gradients = [g[mask[:, t]] for g in map(ops.convert_to_numpy, gradients)]
        norm = np.linalg.norm([np.linalg.norm(g) for g in gradients])
        np.testing.assert_allclose(flow[t], norm, rtol=1e-3)


@pytest.mark.parametrize("name", ["delta", "mamba", "rwkv4"])
def test_a_layer_that_is_called_twice(name):
    """Its second call has a name of its own, and hands back the gradient of its own."""
    layer, after = (LAYERS[name][0]() for _ in range(2))
    after.build((B, T, D))
    inputs = keras.Input((T, D))
    shared = keras.Model(inputs, layer(layer(inputs))[:, -1])
    after.set_weights(layer.get_weights())
    after.name = "after"
    separate = keras.Model(inputs, after(layer(inputs))[:, -1])
    flows = []
    for model in (shared, separate):
        model.compile(loss=lambda y, y_hat: ops.sum(y_hat**2, axis=-1))
        flow = tracing.gradient_flow(model, X, np.zeros((B, D)))
        flows.append({k: v for k, v in flow.items() if "/hidden_state" in k})
    first, second = flows[0].values()
    assert list(flows[0]) == ["layer/hidden_state", "layer/hidden_state#1"]
    np.testing.assert_allclose(first, flows[1]["layer/hidden_state"], rtol=1e-4)
    np.testing.assert_allclose(second, flows[1]["after/hidden_state"], rtol=1e-4)


@pytest.mark.parametrize("name", LAYERS)
def test_the_states_of_each_step_are_those_that_advance_returns(name):
    make, index = LAYERS[name]
    layer = make()
    layer.build(X.shape)
    with listening(States(layer)) as inside:
        y = layer(X)
    np.testing.assert_allclose(
        *map(ops.convert_to_numpy, (y, layer.advance(X)[0])), atol=1e-5
    )
    for t in (0, 4, 6):
        states = [ops.convert_to_numpy(s) for s in layer.advance(X[:, : t + 1])[1]]
        state = states[index]
        if name in NORMALIZED:  # z is the last column
            state = np.concatenate([state, states[1][..., None]], axis=-1)
        np.testing.assert_allclose(inside["hidden_state"][:, t], state, atol=1e-5)


@pytest.mark.parametrize("name", ["gla", "rwkv4", "s4d"])
def test_a_model_with_such_layers(name):
    model = models.LanguageModel(name, vocabulary_size=11, units=8, num_layers=2)
    ids = np.random.default_rng(1).integers(0, 11, (B, T))
    flow = tracing.gradient_flow(model, ids, ids)
    states = [key for key in flow if key.endswith("/hidden_state")]
    assert len(states) == 2 and all(flow[key].shape == (T,) for key in states)
    last = -1 if name == "rwkv4" else None  # which reads the state before its step
    assert all(np.all(flow[key][:last] > 0) for key in states)
