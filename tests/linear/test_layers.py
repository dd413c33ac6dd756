"""Layers with a state: their equations, any cut of a sequence, masks and traces."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import kernels, layers, tracing
from tests.layer_checks import assert_close, called

pytestmark = pytest.mark.everywhere("kernels, casts and masks of each backend")

B, T, D, N, K, V = 2, 7, 5, 2, 4, 3
X = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
LAYERS = {
    "delta": lambda **kw: layers.DeltaNet(N, K, V, num_key_heads=1, **kw),
    "gla": lambda **kw: layers.GatedLinearAttention(
        N, K, V, decay_rank=7, conv_kernel=3, **kw
    ),
    "linear": lambda **kw: layers.LinearAttention(N, K, V, **kw),
    "plain delta": lambda **kw: layers.DeltaNet(N, K, V, gated=False, **kw),
    "retention": lambda **kw: layers.Retention(N, K, V, **kw),
}
EVERY = pytest.mark.parametrize("name", LAYERS)


@pytest.fixture(scope="module")
def built():
    """The layers with random weights, biases included."""
    found = {name: make(use_bias=True) for name, make in LAYERS.items()}
    for layer in found.values():
        layer.build((None, None, D))
        rng = np.random.default_rng(1)
        for weight in layer.weights:
            weight.assign(0.7 * rng.normal(size=weight.shape))
    return found


def projected(layer, name, x=X):
    """x W + b in float64, `(B, T, N, ...)`."""
    dense = next(one for one in layer._layers if one.name == name)
    weights = [ops.convert_to_numpy(w).astype("float64") for w in dense.weights]
    y = x @ weights[0] + sum(weights[1:])
    names = ["query", "key", "value"]
    if layer.conv_kernel is not None and name in names:
        M = layer.key_heads
        start = [0, M * K, 2 * M * K][names.index(name)]
        kernel = ops.convert_to_numpy(layer.conv.kernel)[:, 0, start:][:, : y.shape[-1]]
        y = sum(
            np.roll(np.pad(y, ((0, 0), (9, 0), (0, 0))), n, 1)[:, 9:] * kernel[-1 - n]
            for n in range(layer.conv_kernel)
        )
        y = y * sigmoid(y)
    return y.reshape(*x.shape[:2], -1, {"value": V, "gate": V}.get(name, K))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def finished(layer, y):
    """The output for the heads y, in NumPy."""
    if hasattr(layer, "norm_scale"):
        y = y / np.sqrt(np.mean(y * y, axis=-1, keepdims=True) + layer.epsilon)
        y = y * ops.convert_to_numpy(layer.norm_scale)
        if layer.gated:
            gate = projected(layer, "gate")
            y = y * gate * sigmoid(gate)
    kernel, bias = (ops.convert_to_numpy(w) for w in layer.output_dense.weights)
    return y.reshape(B, T, -1) @ kernel + bias


def elu_plus_1(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def rotated(x):
    angles = np.arange(T)[:, None] / 10000 ** (np.arange(K // 2) * 2 / K)
    z = (x[..., : K // 2] + 1j * x[..., K // 2 :]) * np.exp(1j * angles)[:, None]
    return np.concatenate([z.real, z.imag], axis=-1)


def delta_rule(layer, q, k):
    """The weights of the values by the delta rule, step by step."""
    q, k = (x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6) for x in (q, k))
    q, k = (np.repeat(x, N // layer.key_heads, axis=2) for x in (q, k))
    beta, alpha = (np.ones((B, T, N, 1)) for _ in range(2))
    kernel, bias = (ops.convert_to_numpy(w) for w in layer.write_dense.weights)
    beta = sigmoid(X @ kernel + bias)[..., None]
    if layer.gated:
        z = X @ ops.convert_to_numpy(layer.decay_dense.kernel)
        rate, bias = map(ops.convert_to_numpy, (layer.log_rate, layer.decay_bias))
        alpha = np.exp(-np.exp(rate) * np.log1p(np.exp(z + bias)))[..., None]
    S, weights = np.zeros((B, N, K, T)), np.zeros((B, N, T, T))
    for t in range(T):
        S = alpha[:, t, ..., None] * S
        error = np.eye(T)[t] - np.einsum("bnk,bnks->bns", k[:, t], S)
        S = S + np.einsum("bnk,bns->bnks", beta[:, t] * k[:, t], error)
        weights[:, :, t] = np.einsum("bnk,bnks->bns", q[:, t], S) / np.sqrt(K)
    return weights


def numpy(name, layer):
    """The equation of the layer as attention weights `(B, N, T, T)` of the values."""
    q, k = projected(layer, "query"), projected(layer, "key")
    if name.endswith("delta"):
        return delta_rule(layer, q, k)
    if name == "linear":
        scores = np.einsum("btnk,bsnk->bnts", elu_plus_1(q), elu_plus_1(k))
        scores = np.tril(scores) if layer.causal else scores
        return scores / scores.sum(axis=-1, keepdims=True)
    log_decay = np.log(1 - 2.0 ** (-5 - np.arange(N)))[:, None]
    if name == "gla":
        down = X @ ops.convert_to_numpy(layer.decay_down.kernel)
        z = projected(layer, "decay_up", down)
        log_decay = np.log(sigmoid(z)) / 16
    else:
        q, k = rotated(q), rotated(k)
    total = np.cumsum(np.broadcast_to(log_decay, q.shape), axis=1)
    decay = np.exp(total[:, :, None] - total[:, None])  # (B, T, T, N, K)
    return np.tril(np.einsum("btnk,btsnk,bsnk->bnts", q, decay, k) / np.sqrt(K))


@pytest.mark.full("the kernel is compared with its definition everywhere")
@EVERY
def test_equation_and_trace(name, built):
    layer, weights = built[name], numpy(name, built[name])
    with tracing.trace(layer) as inside:
        traced = layer(X)
    y = np.einsum("bnts,bsnv->btnv", weights, projected(layer, "value"))
    expected = finished(layer, y)
    assert_close(inside["alignment"], weights)
    assert_close(inside["heads"], y.swapaxes(1, 2))
    assert_close(traced, expected, atol=3e-5)
    assert_close(called(layer, X), traced)
    if name not in ("linear", "plain delta"):
        assert inside["decay"].shape == ((B, N, T, K) if name == "gla" else (B, N, T))
    if name == "delta":
        assert np.all((inside["write"] > 0) & (inside["write"] < 1))


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
        assert_close(y, whole[:, part])
    assert [ops.shape(state) for state in states] == shapes


@pytest.mark.once("dtypes of tensors")
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "float64"])
def test_states_are_never_short(policy):
    if policy == "float64" and keras.backend.backend() == "jax":
        pytest.skip("JAX has no float64 by default")
    layer = LAYERS["retention"](dtype=policy)
    states = None
    for _ in range(2):
        y, states = layer.advance(X, states)
    dtypes = [keras.backend.standardize_dtype(x.dtype) for x in (y, *states)]
    short = {"mixed_bfloat16": ["bfloat16", "float32"]}.get(policy, [policy, policy])
    assert dtypes == [*short, "int32"]


@pytest.mark.once("the same code on every backend")
@EVERY
def test_no_step_depends_on_a_later_one(name, built):
    changed = X.copy()
    changed[:, 4:] += 1
    before, after = called(built[name], X), called(built[name], changed)
    np.testing.assert_array_equal(
        *(ops.convert_to_numpy(y)[:, :4] for y in (before, after))
    )
    assert np.all(np.any(ops.convert_to_numpy(before != after)[:, 4:], axis=-1))


@pytest.mark.once("the same code on every backend")
def test_every_step_attends_to_all_unless_causal(built):
    layer = layers.LinearAttention(N, K, V, causal=False)
    layer.build(X.shape)
    layer.set_weights(built["linear"].get_weights())
    weights = numpy("linear", layer)
    y = np.einsum("bnts,bsnv->btnv", weights, projected(layer, "value"))
    with tracing.trace(layer) as inside:
        assert_close(layer(X), finished(layer, y))
    assert_close(inside["alignment"], weights)
    with pytest.raises(ValueError, match="advance needs causal=True"):
        layer.advance(X)


@pytest.mark.once("the same code on every backend")
def test_a_replaced_alignment_is_used(built):
    layer, even = built["gla"], np.full((B, N, T, T), 1 / T, "float32")
    with tracing.intervene(layer, {"alignment": even}):
        found = layer(X)
    y = np.broadcast_to(projected(layer, "value").mean(1, keepdims=True), (B, T, N, V))
    assert_close(found, finished(layer, y), atol=3e-5)
    with tracing.intervene(layer, {"decay": 0.0}):
        assert np.any(ops.convert_to_numpy(layer(X) != found))


@pytest.mark.once("error messages")
def test_errors(built):
    layer = built["gla"]
    states = layer.get_initial_state(B + 1)
    with pytest.raises(
        ValueError, match=r"states\[0\] must .* \(2, 2, 4, 3\), .* \(3, 2"
    ):
        layer.advance(X, states)
    with pytest.raises(
        ValueError, match=r"states\[1\] must have shape \(2\), received"
    ):
        built["retention"].advance(X, layer.get_initial_state(B))
    with pytest.raises(ValueError, match="x must have the 5 features"):
        layer(X[..., :3])
    with pytest.raises(ValueError, match=r"mask must have shape .* \(2, 5\)"):
        layer(X, mask=np.ones((2, 5), bool))
    with pytest.raises(
        ValueError, match="key_dim must be even, .* key_dim=3. Choose 4"
    ):
        layers.Retention(2, 3)
    with pytest.raises(ValueError, match="num_key_heads must divide num_heads=3, .*=2"):
        layers.DeltaNet(3, 4, num_key_heads=2)
    with pytest.raises(ValueError, match="decay_temperature must be .* received 0"):
        layers.GatedLinearAttention(2, 3, decay_temperature=0)


@pytest.mark.once("measures the state")
def test_the_state_does_not_grow(built):
    layer = built["gla"]
    sizes = [
        ops.convert_to_numpy(layer.advance(np.zeros((1, time, D)))[1][0]).nbytes
        for time in (10, 1000)
    ]
    assert sizes[0] == sizes[1]
