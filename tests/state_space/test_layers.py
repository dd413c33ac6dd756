"""State space models and RWKV-4: equations, any cut of a sequence, masks and traces."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import kernels, layers, tracing
from kerasseq.state_space.s4d import INITIALIZATIONS
from tests.layer_checks import assert_close, called, float64_is_there

pytestmark = pytest.mark.everywhere("kernels, casts and masks of each backend")

B, T, D = 2, 7, 5
X = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
LAYERS = {
    "s4d": lambda **kw: layers.S4D(4, **kw),
    "mamba": lambda **kw: layers.Mamba(3, alignment_channels=[1, 8], **kw),
    "rwkv4": lambda **kw: layers.RWKV4TimeMix(6, **kw),
    "channels": lambda **kw: layers.RWKV4ChannelMix(11, **kw),
}
EVERY = pytest.mark.parametrize("name", LAYERS)


@pytest.fixture(scope="module")
def built():
    """The layers with random weights, biases included."""
    found = {name: make() for name, make in LAYERS.items()}
    for layer in found.values():
        layer.build((None, None, D))
        rng = np.random.default_rng(1)
        for weight in layer.weights:
            weight.assign(0.7 * rng.normal(size=weight.shape))
    return found


def weights_of(layer, *names):
    """Weights in float64."""
    return [ops.convert_to_numpy(getattr(layer, n)).astype("float64") for n in names]


def kernel_of(dense):
    return ops.convert_to_numpy(dense.kernel).astype("float64")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def s4d_output(layer, u):
    """The recurrence in complex128, without the term of D."""
    log_step, log_rate, frequency, C, _ = weights_of(
        layer, "log_step", "log_rate", "frequency", "readout", "skip"
    )
    A = -np.exp(log_rate) + 1j * frequency
    decay = np.exp(np.exp(log_step)[:, None] * A)
    h, path = 0, []
    for t in range(u.shape[1]):
        h = decay * h + (decay - 1) / A * u[:, t, :, None]
        path.append(2 * np.sum((C[..., 0] + 1j * C[..., 1]) * h, axis=-1).real)
    return np.stack(path, axis=1)


def rwkv_output(layer, x):
    """The weighted mean of RWKV-4, from its definition."""
    mixes = weights_of(layer, "key_mix", "value_mix")
    before = np.concatenate([0 * x[:, :1], x[:, :-1]], axis=1)
    k, v = (
        (mu * x + (1 - mu) * before) @ kernel_of(dense)
        for mu, dense in zip(mixes, (layer.key_dense, layer.value_dense), strict=True)
    )
    log_w, u = weights_of(layer, "time_decay", "time_first")
    distance = np.arange(x.shape[1])[:, None] - np.arange(x.shape[1])
    power = k[:, None] - (distance[..., None] - 1) * np.exp(log_w)
    power = np.where((distance == 0)[..., None], k[:, None] + u, power)
    power = np.where((distance < 0)[..., None], -np.inf, power)  # (B, T, T, A)
    weights = np.exp(power - power.max(axis=2, keepdims=True))
    return np.einsum("btsa,bsa->bta", weights / weights.sum(2, keepdims=True), v)


@pytest.mark.once("complex128 NumPy; another test compares backends")
@pytest.mark.parametrize("initialization", INITIALIZATIONS)
def test_s4d_is_its_recurrence(initialization):
    layer = layers.S4D(6, initialization=initialization, time_step_max=0.9)
    layer.build((None, None, D))
    with tracing.trace(layer) as inside:
        layer(X)
    expected = s4d_output(layer, X)
    assert_close(inside["output"], expected)
    zero = layer.get_initial_state(B)[0]
    assert_close(layer.recurrence(ops.convert_to_tensor(X), zero)[0], expected)


@pytest.mark.full("other tests compare the states of all backends")
def test_rwkv4_is_its_equation(built):
    with tracing.trace(built["rwkv4"]) as inside:
        y = built["rwkv4"](X)
    mean = rwkv_output(built["rwkv4"], X)
    assert_close(inside["output"], mean)
    r = inside["receptance"]
    assert_close(y, (r * mean) @ kernel_of(built["rwkv4"].output_dense), atol=3e-5)


@EVERY
def test_any_cut_gives_the_whole(name, built):
    layer = built[name]
    mask = np.ones((B, T), bool)
    mask[1, 3:5] = mask[0, -1] = mask[1, 0] = False
    whole = called(layer, X, mask=mask)
    advance = kernels.compiled(layer.advance)
    states = layer.get_initial_state(B)
    shapes = [ops.shape(state) for state in states]
    for start, end in ((0, 3), (3, 4), (4, 7)):
        part = slice(start, end)
        y, states = advance(X[:, part], states, mask[:, part])
        real = mask[:, part]
        y, wanted = (ops.convert_to_numpy(z)[real] for z in (y, whole[:, part]))
        assert_close(y, wanted, atol=3e-5)
    assert [ops.shape(state) for state in states] == shapes


def test_a_traced_mamba_is_the_same(built):
    mask = np.ones((B, T), bool)
    mask[1, 3:5] = mask[0, -1] = mask[1, 0] = False
    with tracing.trace(built["mamba"]) as inside:
        traced = built["mamba"](X, mask=mask)
    assert "hidden_state" in inside
    assert_close(called(built["mamba"], X, mask=mask), traced)


@pytest.mark.once("the same code on every backend")
@EVERY
def test_no_step_depends_on_a_later_one(name, built):
    changed = X.copy()
    changed[:, 4:] += 1
    before, after = (called(built[name], x) for x in (X, changed))
    before, after = map(ops.convert_to_numpy, (before, after))
    assert_close(before[:, :4], after[:, :4], atol=1e-6)
    assert np.all(np.any(before != after, axis=-1)[:, 4:])


@pytest.mark.once("the same code on every backend")
@pytest.mark.parametrize("name", ["s4d", "mamba", "rwkv4"])
def test_alignment_times_values_is_the_output(name, built):
    layer = built[name]
    mask = np.ones((B, T), bool)
    mask[1, 3:5] = mask[1, 0] = False
    with tracing.trace(layer) as inside:
        y = layer(X, mask=mask)
    channels = [c for c in layer.alignment_channels if c < inside["value"].shape[-1]]
    alignment = inside["alignment"]
    assert alignment.shape == (B, len(channels), T, T)
    found = np.einsum("bcts,bsc->btc", alignment, inside["value"][..., channels])
    assert_close(found[mask], inside["output"][..., channels][mask], atol=3e-5)
    if name == "rwkv4":
        np.testing.assert_allclose(alignment.sum(-1)[:, :, 1:], 1, atol=1e-5)
    with tracing.intervene(layer, {"alignment": 0 * alignment}):
        assert np.any(ops.convert_to_numpy(layer(X, mask=mask) != y))


@pytest.mark.once("the same code on every backend")
@pytest.mark.parametrize("name", ["s4d", "mamba", "rwkv4"])
def test_10000_steps_of_strong_decay_are_those_of_float64(name):
    if not float64_is_there():
        pytest.skip("JAX computes in float64 only if it is switched on at the start")
    x = np.random.default_rng(0).normal(size=(1, 10_000, 3)).astype("float32")
    short, wide = (LAYERS[name](dtype=dtype) for dtype in ("float32", "float64"))
    for layer in (short, wide):
        layer.build((None, None, 3))
    for weight in short.weights:
        if weight.path.endswith(("log_rate", "time_decay")):
            weight.assign(2 + 0 * weight)  # e^-7.4 in a step of RWKV-4
    wide.set_weights([w.astype("float64") for w in short.get_weights()])
    results = [
        ops.convert_to_numpy(layer(x.astype(layer.compute_dtype)))
        for layer in (short, wide)
    ]
    largest = np.max(np.abs(results[1]))
    np.testing.assert_allclose(*results, rtol=0, atol=1e-5 * largest)


@pytest.mark.once("dtypes of tensors")
@EVERY
def test_states_are_never_short(name):
    layer = LAYERS[name](dtype="mixed_bfloat16")
    _, states = layer.advance(X)
    y, states = layer.advance(X, states)
    assert keras.backend.standardize_dtype(y.dtype) == "bfloat16"
    expected = {"s4d": ["float32"], "channels": ["bfloat16"]}
    expected |= {"mamba": ["bfloat16", "float32"]}
    expected |= {"rwkv4": ["bfloat16"] + ["float32"] * 3}
    assert [keras.backend.standardize_dtype(s.dtype) for s in states] == expected[name]


@pytest.mark.once("error messages")
def test_errors(built):
    states = built["mamba"].get_initial_state(B + 1)
    with pytest.raises(ValueError, match=r"states\[0\] must .* \(2, 3, 10\), .* \(3, "):
        built["mamba"].advance(X, states)
    with pytest.raises(ValueError, match=r"states must have 4 tensors, received 2"):
        built["rwkv4"].advance(X, states)
    with pytest.raises(ValueError, match="x must have the 5 features"):
        built["s4d"](X[..., :3])
    with pytest.raises(ValueError, match="state_size must be even, .* 3. Choose 4"):
        layers.S4D(3)
    with pytest.raises(ValueError, match='initialization="log" is not one of "lin"'):
        layers.S4D(initialization="log")
    with pytest.raises(ValueError, match="time_step_min must be at most .* received 2"):
        layers.Mamba(time_step_min=2.0)
    with pytest.raises(ValueError, match="layer_index must be below num_layers=2, .*2"):
        layers.RWKV4TimeMix(layer_index=2, num_layers=2)
    with pytest.raises(ValueError, match="alignment_channels must have at least one"):
        layers.Mamba(alignment_channels=[])


@pytest.mark.everywhere("a backend infers shapes of its own")
def test_a_block_of_unknown_length():
    """JAX infers shapes with symbols for sizes, which its transform does not know."""
    block = layers.TransformerDecoder(None, 2, attention="s4d", feed_forward="none")
    inputs = keras.Input((None, 3))
    assert block(inputs).shape == (None, None, 3)
