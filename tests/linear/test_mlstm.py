"""MLSTM: the equation step by step, Hugging Face's layer, any cut, large gates."""

import math

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import kernels, layers, tracing
from kerasseq.linear.mlstm import stabilized
from tests.layer_checks import assert_close, called

pytestmark = pytest.mark.once("the kernel is tested everywhere")
everywhere = pytest.mark.everywhere("running maxima of a backend", cases=1)

B, T, D, N, K, V = 2, 7, 5, 3, 4, 2
X = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
MASK = np.array([[0, 1, 1, 0, 1, 1, 0], [1, 1, 1, 1, 1, 0, 0]], bool)


def built(**options):
    layer = layers.MLSTM(N, K, V, **options)
    layer.build((None, None, D))
    rng = np.random.default_rng(1)
    for weight in layer.weights:
        weight.assign(0.7 * rng.normal(size=weight.shape))
    return layer


def projected(layer, name, x):
    weights = [ops.convert_to_numpy(w) for w in getattr(layer, f"{name}_dense").weights]
    return x.astype("float64") @ weights[0] + sum(weights[1:])


def heads(layer, x, mask=None):
    """y of the equation, `(B, T, N, V)`, and the last S, n and m."""
    cap = layer.soft_cap or math.inf
    mask = np.ones(x.shape[:2], bool) if mask is None else mask
    i, f = (
        cap * np.tanh(z / cap) if cap < math.inf else z
        for z in (projected(layer, name, x) for name in ("input", "forget"))
    )
    log_f = -np.log1p(np.exp(-f))
    q, k, v = (
        projected(layer, name, x).reshape(B, len(x[0]), N, -1)
        for name in ("query", "key", "value")
    )
    S, n, m = np.zeros((B, N, K, V)), np.zeros((B, N, K)), np.zeros((B, N))
    y = np.zeros(v.shape)
    for t in range(len(x[0])):
        new = np.maximum(log_f[:, t] + m, i[:, t])
        write, keep = np.exp(i[:, t] - new), np.exp(log_f[:, t] + m - new)
        pair = k[:, t, :, :, None] * v[:, t, :, None]
        real = mask[:, t, None]
        S = np.where(
            real[..., None, None],
            keep[..., None, None] * S + write[..., None, None] * pair,
            S,
        )
        n = np.where(
            real[..., None], keep[..., None] * n + write[..., None] * k[:, t], n
        )
        m = np.where(real, new, m)
        read = np.einsum("bnk,bnkv->bnv", q[:, t], S) / math.sqrt(K)
        total = np.abs(np.einsum("bnk,bnk->bn", q[:, t], n)) / math.sqrt(K)
        y[:, t] = read / (np.maximum(total, np.exp(-m)) + 1e-6)[..., None]
    return y * mask[..., None, None], [S, n, m]


def finished(layer, y, x):
    """The output for the heads y."""
    y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-6)
    y = y.reshape(*x.shape[:2], N * V) * ops.convert_to_numpy(layer.norm_scale)
    if layer.use_bias:
        y = y + ops.convert_to_numpy(layer.norm_bias)
    return projected(layer, "output", y / (1 + np.exp(-projected(layer, "gate", x))))


@everywhere
@pytest.mark.parametrize("soft_cap", [15.0, None])
def test_equals_numpy_step_by_step(soft_cap):
    layer = built(soft_cap=soft_cap, use_bias=soft_cap is None)
    y, last = heads(layer, X)
    assert_close(called(layer, X), finished(layer, y, X), atol=3e-5)
    with tracing.trace(layer) as inside:
        layer(X)
    values = inside["value"]
    assert_close(inside["heads"], y.swapaxes(1, 2), atol=3e-5)
    assert_close(inside["alignment"] @ values, y.swapaxes(1, 2), atol=3e-5)
    assert inside["input_gate"].shape == inside["decay"].shape == (B, N, T)
    for name in ("decay", "input_gate"):  # m is rounded
        assert np.all((inside[name] > 0) & (inside[name] < 1 + 1e-5))
    for found, wanted in zip(layer.advance(X)[1], last, strict=True):
        assert_close(found, wanted, atol=1e-5)


def test_any_cut_and_any_mask():
    layer = built()
    y, last = heads(layer, X, MASK)
    whole = ops.convert_to_numpy(called(layer, X, mask=MASK))
    real = MASK[..., None]
    assert_close(whole * real, finished(layer, y, X * real) * real, atol=3e-5)
    advance, states, parts = kernels.compiled(layer.advance), None, []
    states = layer.get_initial_state(B)
    for t in range(T):
        now = slice(t, t + 1)
        part, states = advance(X[:, now], states, MASK[:, now])
        parts.append(ops.convert_to_numpy(part))
    assert_close(np.concatenate(parts, axis=1) * real, whole * real)
    for found, wanted in zip(states, last, strict=True):
        assert_close(found, wanted, atol=1e-5)


def test_padding_on_both_sides():
    layer = built()
    y = ops.convert_to_numpy(layer(X))
    for before, after in ((3, 0), (0, 4), (2, 1)):
        padded = np.pad(X, ((0, 0), (before, after), (0, 0)), constant_values=9)
        real = np.zeros((B, T + before + after), bool)
        real[:, before : before + T] = True
        found = ops.convert_to_numpy(layer(padded, mask=real))
        assert_close(found[:, before : before + T], y)


def test_large_gates_have_finite_results_and_gradients():
    """Without a cap, exp of a gate overflows; with a long text, decays underflow."""
    layer = built(soft_cap=None)
    x = np.tile(400 * np.sign(X), (1, 20, 1))
    assert np.all(np.isfinite(ops.convert_to_numpy(layer(x))))
    model = keras.Sequential([keras.Input((None, D)), layer])
    model.compile("sgd", "mse")
    model.fit(x, np.ones_like(x), verbose=0)
    for weight in layer.weights:
        assert np.all(np.isfinite(ops.convert_to_numpy(weight))), weight.path


def test_stabilized_gates_are_those_of_the_loop():
    rng = np.random.default_rng(2)
    log_i, f = 5 * rng.normal(size=(2, B, 130, N))
    log_f, m = -np.log1p(np.exp(f)), rng.normal(size=(B, N))
    found = map(ops.convert_to_numpy, stabilized(*map(ops.array, (log_i, log_f, m))))
    path, write, keep = found
    for t in range(130):
        new = np.maximum(log_f[:, t] + m, log_i[:, t])
        assert_close(path[:, t], new, atol=1e-4)
        assert_close(write[:, t], log_i[:, t] - new, atol=1e-4)
        assert_close(keep[:, t], log_f[:, t] + m - new, atol=1e-4)
        m = new


@pytest.mark.parametrize("use_bias", [False, True])
def test_equals_the_layer_of_hugging_face(use_bias):
    if keras.backend.backend() != "torch":
        pytest.skip("the weights are tensors of PyTorch")
    torch = pytest.importorskip("torch")
    xlstm = pytest.importorskip("transformers.models.xlstm.modeling_xlstm")
    x = np.random.default_rng(3).normal(size=(B, 71, 12)).astype("float32")
    config = xlstm.xLSTMConfig(
        vocab_size=11,
        hidden_size=12,
        num_heads=3,
        num_hidden_layers=1,
        use_bias=use_bias,
        chunk_size=16,
    )
    peer = xlstm.xLSTMLayer(config)
    torch.manual_seed(0)
    for weight in peer.parameters():
        torch.nn.init.normal_(weight, std=0.6)
        weight.requires_grad_(False)
    peer.eval().to(torch.get_default_device())
    layer = layers.MLSTM(3, 2, 4, use_bias=use_bias)
    layer.build((None, None, 12))
    names = {
        "q": "query",
        "k": "key",
        "v": "value",
        "out_proj": "output",
        "ogate_preact": "gate",
        "igate_preact": "input",
        "fgate_preact": "forget",
    }
    w = {n: x.detach().cpu().numpy() for n, x in peer.named_parameters()}
    for theirs, ours in names.items():
        parts = [w[f"{theirs}.weight"].T]
        parts += [w[f"{theirs}.bias"]] if f"{theirs}.bias" in w else []
        getattr(layer, f"{ours}_dense").set_weights(parts)
    layer.norm_scale.assign(w["multihead_norm.weight"])
    if use_bias:
        layer.norm_bias.assign(w["multihead_norm.bias"])
    expected, states = peer(ops.convert_to_tensor(x))
    found, own = layer.advance(x)
    largest = float(ops.max(ops.abs(expected)))
    assert_close(found, expected, atol=1e-5 * largest)
    for a, b in zip(own, states, strict=True):
        assert_close(a, ops.reshape(b, a.shape), atol=1e-4)


def test_initial_gates():
    layer = layers.MLSTM(
        4, 2, input_bias_initializer=keras.initializers.Constant(-10.0)
    )
    layer.build((None, None, D))
    assert ops.convert_to_numpy(layer.forget_dense.bias).tolist() == [3, 4, 5, 6]
    assert ops.convert_to_numpy(layer.input_dense.bias).tolist() == [-10] * 4
    assert not np.any(ops.convert_to_numpy(layer.input_dense.kernel))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_heads": 0}, "num_heads must be"),
        ({"key_dim": 2.5}, "key_dim must be"),
        ({"value_dim": -1}, "value_dim must be"),
        ({"key_dim": 1}, "value_dim must be at least 2, .* received 1. Choose wider"),
        ({"soft_cap": 0.0}, "soft_cap must be"),
        ({"epsilon": 0}, "epsilon must be"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        layers.MLSTM(**{"num_heads": N, "key_dim": K, **options})


def test_wrong_states():
    layer = built()
    for other, message in (
        (layers.GatedLinearAttention(N, K, V).advance(X)[1], "must have 3 tensors"),
        (layers.MLSTM(N, K, V + 1).advance(X)[1], r"states\[0\] must have shape"),
        (layer.get_initial_state(B + 1), r"must have shape \(2, 3, 4, 2\), received"),
    ):
        with pytest.raises(ValueError, match=message):
            layer.advance(X, other)
