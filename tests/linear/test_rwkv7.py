"""The layers of RWKV-7: the equations step by step, any cut, values of the first."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import kernels, layers, tracing
from tests.layer_checks import assert_close, called

pytestmark = pytest.mark.everywhere("kernels, casts and masks of each backend")

B, T, D, N, K = 2, 7, 5, 2, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(B, T, D)).astype("float32")
FIRST = RNG.normal(size=(B, T, N * K)).astype("float32")
RANKS = {"decay_rank": 7, "rate_rank": 2, "value_rank": 4, "gate_rank": 11}
MASK = np.ones((B, T), bool)
MASK[1, 3:5] = MASK[0, -1] = MASK[1, 0] = False
SECOND = {"layer_index": 1, "num_layers": 3}


def made(index=1, **options):
    """A time mix with random weights that are all different."""
    layer = layers.RWKV7TimeMix(
        N, K, layer_index=index, num_layers=3, **RANKS, **options
    )
    return shuffled(layer)


def shuffled(layer):
    layer.build((None, None, D))
    rng = np.random.default_rng(1)
    for weight in layer.weights:
        weight.assign(0.7 * rng.normal(size=weight.shape))
    return layer


@pytest.fixture(scope="module")
def second():
    return made()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def time_mix(layer, x, first=None):
    """The equations of the paper for one sequence, step by step in float64."""
    w = {
        "/".join(weight.path.split("/")[1:]): ops.convert_to_numpy(weight)
        for weight in layer.weights
    }
    w = {name: value.astype("float64") for name, value in w.items()}
    S, before, outputs, values = np.zeros((N, K, K)), np.zeros(D), [], []

    def low_rank(name, x, f=lambda z: z):
        z = f(x @ w[f"{name}_down/kernel"]) @ w[f"{name}_up/kernel"]
        return z + w.get(f"{name}_up/bias", 0)

    for t, now in enumerate(x.astype("float64")):

        def mix(name, now=now, before=before):
            return now + (before - now) * w[f"{name}_mix"]

        r = mix("receptance") @ w["receptance/kernel"]
        decay = np.exp(
            -np.exp(-0.5) * sigmoid(low_rank("decay", mix("decay"), np.tanh))
        )
        k = mix("key") @ w["key/kernel"]
        v = mix("value") @ w["value/kernel"]
        if first is not None:
            v = v + (first[t] - v) * sigmoid(low_rank("value", mix("value")))
        a = sigmoid(low_rank("rate", mix("rate")))
        g = low_rank("gate", mix("gate"), sigmoid)
        kappa = (k * w["removal_scale"]).reshape(N, K)
        kappa /= np.linalg.norm(kappa, axis=-1, keepdims=True)
        k = k * (1 + (a - 1) * w["rate_scale"])
        r, k, a, decay = (z.reshape(N, K) for z in (r, k, a, decay))
        heads, rho = v.reshape(N, K), w["bonus"].reshape(N, K)
        p = np.zeros((N, K))
        for n in range(N):
            erase = np.diag(decay[n]) - np.outer(kappa[n] * a[n], kappa[n])
            S[n] = erase @ S[n] + np.outer(k[n], heads[n])
            y = S[n].T @ r[n]
            p[n] = (y - y.mean()) / np.sqrt(y.var() + 64e-5)
        p = p.ravel() * w["norm_scale"] + w["norm_offset"]
        p = p + (np.sum(r * rho * k, -1, keepdims=True) * heads).ravel()
        outputs.append((p * g) @ w["attention_output/kernel"])
        values.append(v)
        before = now
    return np.stack(outputs), np.stack(values)


def test_the_equations_step_by_step(second):
    y, value = called(second, X, first_value=FIRST, return_value=True)
    for row in range(B):
        expected, _ = time_mix(second, X[row], FIRST[row])
        assert_close(y[row], expected, atol=2e-5)
    assert_close(value, FIRST)


@pytest.mark.once("the same code on every backend")
def test_the_first_block_has_no_weights_of_a_value_before():
    layer = made(0)
    names = {weight.path.split("/")[1] for weight in layer.weights}
    assert {"value_down", "value_up"} & names == set()
    assert len(made().weights) == len(layer.weights) + 3
    y, value = layer(X, return_value=True)
    expected, v = time_mix(layer, X[0])
    assert_close(y[0], expected, atol=2e-5)
    assert_close(value[0], v, atol=2e-5)


def test_any_cut_gives_the_whole(second):
    whole = called(second, X, mask=MASK, first_value=FIRST)
    states = second.get_initial_state(B)

    def advance(x, states, mask, value):
        return second.advance(x, states, mask, first_value=value)

    advance = kernels.compiled(advance)
    for part in (slice(0, 3), slice(3, 4), slice(4, 7)):
        y, states = advance(X[:, part], states, MASK[:, part], FIRST[:, part])
        real = MASK[:, part]
        y, wanted = (ops.convert_to_numpy(z)[real] for z in (y, whole[:, part]))
        assert_close(y, wanted, atol=3e-5)


@pytest.mark.once("the same code on every backend")
def test_holes_are_skipped(second):
    """As if the masked steps were not there."""
    y = ops.convert_to_numpy(second(X, mask=MASK, first_value=FIRST))
    for row, real in enumerate(MASK):
        alone = second(X[row : row + 1, real], first_value=FIRST[row : row + 1, real])
        assert_close(y[row, real], alone[0], atol=3e-5)
    hidden = np.where(MASK[..., None], FIRST, np.nan)
    assert_close(second(X, mask=MASK, first_value=hidden), y)


@pytest.mark.once("the same code on every backend")
def test_trace(second):
    with tracing.trace(second) as inside:
        y = second(X, mask=MASK, first_value=FIRST)
    assert_close(y, second(X, mask=MASK, first_value=FIRST))
    for name in ("decay", "rate"):
        assert inside[name].shape == (B, N, T, K)
        assert np.all((inside[name] > 0) & (inside[name] < 1))
    assert inside["decay"].min() > np.exp(-np.exp(-0.5))
    lengths = np.linalg.norm(inside["removal_key"], axis=-1).swapaxes(1, 2)
    assert_close(lengths[MASK], np.ones((np.sum(MASK), N)))
    alignment = inside["alignment"]
    heads = np.einsum("bnts,bnsv->bntv", alignment, inside["value"])
    assert_close(heads, inside["heads"], atol=3e-5)
    assert inside["value_mix"].shape == inside["gate"].shape == (B, T, N * K)
    with tracing.intervene(second, {"rate": 0 * inside["rate"]}):
        kept = second(X, mask=MASK, first_value=FIRST)
    assert np.any(ops.convert_to_numpy(kept != y))


@pytest.mark.once("error of one step")
def test_a_rate_of_one_overwrites_what_a_key_held():
    """Without decay, a key that comes again reads its last value alone."""
    layer = made(0)
    values = {"rate_up/bias": 50.0, "decay_up/bias": -50.0}
    for weight in layer.weights:
        name = "/".join(weight.path.split("/")[1:])
        if name in values:
            weight.assign(values[name] + 0 * weight)
        if name.endswith(("_mix", "rate_down/kernel", "decay_down/kernel")):
            weight.assign(0 * weight)
        if name == "removal_scale":
            weight.assign(1 + 0 * weight)
    x = np.repeat(X[:, :1], 2, axis=1)  # the same key twice
    with tracing.trace(layer) as inside:
        layer(x)
    first, last = inside["alignment"][:, :, 1].transpose(2, 0, 1)
    assert np.all(np.abs(first) < 1e-5 * np.abs(last))


@pytest.mark.once("dtypes of tensors")
def test_states_are_never_short():
    layer = layers.RWKV7TimeMix(1, dtype="mixed_bfloat16")
    y, states = layer.advance(X)
    y, states = layer.advance(X, states)
    assert keras.backend.standardize_dtype(y.dtype) == "bfloat16"
    dtypes = [keras.backend.standardize_dtype(state.dtype) for state in states]
    assert dtypes == ["bfloat16", "float32"]


@pytest.mark.once("the same code on every backend")
def test_a_symbolic_call_with_values_and_masks():
    """Keras passes the mask of x where there are two tensors."""
    first, second = (
        layers.RWKV7TimeMix(N, K, layer_index=n, num_layers=2) for n in (0, 1)
    )
    x = keras.Input((None, D))
    masked = keras.layers.Masking()(x)
    y, value = first(masked, return_value=True)
    assert (y.shape, value.shape) == ((None, None, D), (None, None, N * K))
    model = keras.Model(x, second(masked, first_value=value))
    padded = np.concatenate([X, 0 * X[:, :2]], axis=1)
    assert_close(model(padded)[:, :T], model(X), atol=1e-6)
    padded = np.concatenate([0 * X[:, :2], X], axis=1)
    assert_close(model(padded)[:, 2:], model(X), atol=1e-6)


def channel_mix(layer, x):
    mu, key, value = (ops.convert_to_numpy(w).astype("float64") for w in layer.weights)
    before = np.concatenate([0 * x[:, :1], x[:, :-1]], axis=1)
    return np.maximum((x + (before - x) * mu) @ key, 0) ** 2 @ value


@pytest.mark.once("the same code on every backend")
def test_the_channel_mix():
    layer = shuffled(layers.RWKV7ChannelMix(11, **SECOND))
    assert_close(layer(X), channel_mix(layer, X), atol=2e-5)
    states = layer.get_initial_state(B)
    for part in (slice(0, 3), slice(3, 7)):
        y, states = layer.advance(X[:, part], states)
        assert_close(y, layer(X)[:, part], atol=1e-6)


@pytest.mark.once("values of weights")
def test_initial_values_depend_on_the_place():
    """As in the code of the authors: of the first channel, and of the last."""
    first, last = (layers.RWKV7TimeMix(2, layer_index=n, num_layers=3) for n in (0, 2))
    for layer in (first, last):
        layer.build((None, None, 6))
    powers = {"receptance": 0.2, "decay": 0.9, "key": 0.7, "value": 0.7}
    for name, power in {**powers, "rate": 0.9, "gate": 0.2}.items():
        for layer, rest in ((first, 1), (last, 1 / 3)):
            mix = ops.convert_to_numpy(getattr(layer, f"{name}_mix"))
            assert_close(mix, 1 - (np.arange(6) / 6) ** (power * rest), atol=1e-6)
    zigzag = np.array([-1, 0, 1, -1, 0, 1])
    for layer, exponent in ((first, 1), (last, 2)):
        expected = 6 * (np.arange(6) / 5) ** exponent - 5.5 + 2.5 * zigzag
        assert_close(layer.decay_up.bias, expected, atol=1e-5)


@pytest.mark.once("error messages")
def test_errors(second):
    with pytest.raises(ValueError, match="num_heads must divide the width 5 of x, .*3"):
        layers.RWKV7TimeMix(3).build((None, None, D))
    with pytest.raises(ValueError, match=r"decay_rank must be at least 1, received 0"):
        layers.RWKV7TimeMix(2, decay_rank=0)
    with pytest.raises(ValueError, match="first_value must be the .* layer_index=1. C"):
        second(X)
    with pytest.raises(ValueError, match=r"first_value must .* \(2, 7, 6\), .* 7, 5\)"):
        second(X, first_value=X)
    with pytest.raises(ValueError, match=r"first_value must .* \(2, 7, 6\), .* 3, 6\)"):
        second.advance(X, first_value=FIRST[:, :3])
    with pytest.raises(ValueError, match="must be None in the first block, .*index=0"):
        made(0)(X, first_value=FIRST)
    other = layers.RWKV7TimeMix(1).advance(X)[1]
    with pytest.raises(ValueError, match=r"states\[1\] .* \(2, 2, 3, 3\), .* 1, 5, 5"):
        second.advance(X, other, first_value=FIRST)
    states = second.get_initial_state(B + 1)
    with pytest.raises(ValueError, match=r"states\[0\] must have shape \(2, 5\), .*3"):
        second.advance(X, states, first_value=FIRST)
    with pytest.raises(ValueError, match="layer_index must be below num_layers=2"):
        layers.RWKV7ChannelMix(layer_index=2, num_layers=2)
    with (
        pytest.raises(ValueError, match="'state' of .* must not be replaced"),
        tracing.intervene(second, {"state": np.zeros((B, N, K, K))}),
    ):
        second(X, first_value=FIRST)
