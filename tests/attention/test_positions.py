"""Position encodings inside multi-head attention: rotation, bias, caches."""

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq import layers
from kerasseq.positions.frequencies import frequencies
from tests.attention.test_multi_head import numpy

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

B, T, D, N, K = 2, 7, 11, 4, 6
X = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
KINDS = {
    "rotary": layers.RotaryEmbedding,
    "interleaved": lambda: layers.RotaryEmbedding(interleaved=True, fraction=0.7),
    "alibi": layers.AlibiBias,
    "relative": lambda: layers.RelativePositionBias(
        8, 5, initializer=keras.initializers.RandomNormal(seed=1)
    ),
    "transformer_xl": lambda: layers.TransformerXLPosition(
        D - 1,
        layers.TransformerXLBiases(keras.initializers.RandomNormal(stddev=0.5)),
        50,
        initializer="random_uniform",
    ),
}


@pytest.fixture(params=KINDS)
def layer(request):
    keras.utils.set_random_seed(5)
    layer = layers.MultiHeadAttention(
        N, K, num_key_value_heads=2, position=KINDS[request.param]()
    )
    layer(X, X)
    return layer


@pytest.mark.everywhere("the fused path differs between backends", cases=2)
def test_fused_equals_unfused_and_positions_matter(layer):
    """Without positions, a permuted sequence would give permuted outputs."""
    order = np.random.default_rng(1).permutation(T)
    for causal in (False, True):
        whole, alpha = layer(X, X, use_causal_mask=causal, return_attention_scores=True)
        fused = layer(X, X, use_causal_mask=causal)
        np.testing.assert_allclose(numpy(fused), numpy(whole), atol=1e-5)
        if causal:
            assert not np.triu(numpy(alpha), 1).any()
    plain, mixed = numpy(layer(X, X)), numpy(layer(X[:, order], X[:, order]))
    assert np.abs(mixed - plain[:, order]).max() > 1e-3
    places = {"query_positions": order, "key_positions": order[None]}
    found = numpy(layer(X[:, order], X[:, order], **places))
    np.testing.assert_allclose(found, plain[:, order], atol=1e-5)


def test_causal_mask(layer):
    changed = X.copy()
    changed[:, 4:] += 1
    for scores in (False, True):
        options = {"use_causal_mask": True, "return_attention_scores": scores}
        one, other = layer(X, X, **options), layer(changed, changed, **options)
        one, other = (numpy(x[0] if scores else x) for x in (one, other))
        np.testing.assert_allclose(other[:, :4], one[:, :4], atol=1e-6)
        assert np.abs(other[:, 4:] - one[:, 4:]).max() > 1e-3


def test_outputs_depend_on_distances_only(layer):
    """A common shift of all positions changes nothing, another shift does."""
    at = np.array([[0, 1, 3, 4, 6, 7, 8], [0, 2, 3, 4, 5, 9, 11]])
    plain = numpy(layer(X, X, query_positions=at, key_positions=at))
    moved = numpy(layer(X, X, query_positions=at + 90, key_positions=at + 90))
    np.testing.assert_allclose(moved, plain, atol=1e-4)
    moved = numpy(layer(X, X, query_positions=at + 2, key_positions=at))
    assert np.abs(moved - plain).max() > 1e-3


def test_cached_equals_uncached_with_left_padding(layer):
    """The first sequence has left padding, the second is longer."""
    before = 3
    whole = numpy(layer(X, X, use_causal_mask=True))
    alone = numpy(layer(X[:1, : T - before], X[:1, : T - before], use_causal_mask=True))
    padded = X.copy()
    padded[0, before:] = X[0, : T - before]
    padded[0, :before] = 9
    real = np.ones((B, T), bool)
    real[0, :before] = False
    at = np.maximum(np.cumsum(real, 1) - 1, 0)
    cache, outputs = layer.make_cache(B, T + 2), []
    for start, end in ((0, 5), (5, 6), (6, 7)):
        x, places = padded[:, start:end], at[:, start:end]
        allowed = np.zeros((B, end - start, T + 2), bool)
        allowed[:, :, :T] = real[:, None]
        output, cache = layer(
            x,
            x,
            attention_mask=allowed,
            cache=cache,
            cache_update_index=start,
            query_positions=places,
            key_positions=places,
        )
        outputs.append(numpy(output))
    found = np.concatenate(outputs, 1)
    np.testing.assert_allclose(found[1], whole[1], atol=1e-5)
    np.testing.assert_allclose(found[0, before:], alone[0], atol=1e-5)


def test_padding_does_not_change_outputs(layer):
    """On the left, on the right, and inside the sequence."""
    plain = numpy(layer(X, X))
    real = np.array([[0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 0], [1] * 7 + [0] * 4], bool)
    padded = np.full((B, 11, D), 9, "float32")
    padded[real] = X.reshape(B * T, D)
    given = {"query_mask": real, "value_mask": real}
    for scores in (False, True):
        found = layer(padded, padded, return_attention_scores=scores, **given)
        found = numpy(found[0] if scores else found)[real].reshape(plain.shape)
        np.testing.assert_allclose(found, plain, atol=1e-5)


def test_project_memory_equals_uncached(layer):
    y = np.random.default_rng(2).normal(size=(B, 5, D)).astype("float32")
    real = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], bool)
    whole = layer(X, y, value_mask=real)
    memory = layer.project_memory(ops.convert_to_tensor(y), value_mask=real)
    assert all(x.shape[0] == B for x in memory.values())
    allowed = np.broadcast_to(real[:, None], (B, T, 5))
    found, _ = layer(X, y, cache=memory, attention_mask=allowed)
    np.testing.assert_allclose(numpy(found), numpy(whole), atol=1e-5)


def test_rotary_scores_equal_the_equation():
    """(R_p q) · (R_s k), with the rotation as a matrix of complex numbers."""
    layer = layers.MultiHeadAttention(N, K, position=layers.RotaryEmbedding(50))
    _, alpha = layer(X, X, return_attention_scores=True)
    q, k = numpy(layer.query_dense(X)), numpy(layer.key_dense(X))
    turn = np.exp(1j * np.arange(T)[:, None] * frequencies(K, 50))[:, None]
    q, k = ((x[..., : K // 2] + 1j * x[..., K // 2 :]) * turn for x in (q, k))
    e = np.einsum("btni,bsni->bnts", q, k.conj()).real / np.sqrt(K)
    expected = np.exp(e) / np.exp(e).sum(-1, keepdims=True)
    np.testing.assert_allclose(numpy(alpha), expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["alibi", "relative"])
def test_biased_scores_equal_the_equation(kind):
    position = KINDS[kind]()
    layer = layers.MultiHeadAttention(N, K, position=position)
    _, alpha = layer(X, X, return_attention_scores=True)
    q, k = numpy(layer.query_dense(X)), numpy(layer.key_dense(X))
    e = np.einsum("btni,bsni->bnts", q, k) / np.sqrt(K)
    for p in range(T):
        for s in range(T):
            if kind == "alibi":
                e[:, :, p, s] -= abs(p - s) * np.array([1 / 4, 1 / 16, 1 / 64, 1 / 256])
            else:  # 8 rows: of distances 0, 1, 2-3, 4 and more, twice
                row = [0, 1, 2, 2, 3, 3, 3][abs(p - s)] + (4 if s > p else 0)
                e[:, :, p, s] += numpy(position.embeddings)[row]
    expected = np.exp(e) / np.exp(e).sum(-1, keepdims=True)
    np.testing.assert_allclose(numpy(alpha), expected, atol=1e-5)


def test_transformer_xl_scores_equal_the_equation():
    """Dai et al. 2019, section 3.3, with an encoding for each distance."""
    position = KINDS["transformer_xl"]()
    layer = layers.MultiHeadAttention(N, K, position=position)
    at = np.array([[0, 1, 3, 4, 6, 7, 8], [0, 2, 3, 4, 5, 9, 11]])
    places = {"query_positions": at + 1, "key_positions": at}
    _, alpha = layer(X, X, return_attention_scores=True, **places)
    q, k = numpy(layer.query_dense(X)), numpy(layer.key_dense(X))
    u, v = numpy(position.biases.u), numpy(position.biases.v)
    assert np.abs(u - v).min() > 0  # drawn apart
    distance = at[:, :, None] + 1 - at[:, None]  # (B, T, S)
    angle = distance[..., None] * 50 ** (-np.arange(0, D - 1, 2) / (D - 1))
    r = np.concatenate([np.sin(angle), np.cos(angle)], -1)
    r = np.einsum("btsd,dnk->btsnk", r, numpy(position.kernel))
    e = np.einsum("btnk,bsnk->bnts", q + u, k)
    e = (e + np.einsum("btnk,btsnk->bnts", q + v, r)) / np.sqrt(K)
    expected = np.exp(e) / np.exp(e).sum(-1, keepdims=True)
    np.testing.assert_allclose(numpy(alpha), expected, atol=1e-5)
    none = numpy(position.bias(at + 1, at))  # of a query of zeros
    expected = np.einsum("nk,btsnk->bnts", v, r)
    np.testing.assert_allclose(none, expected, atol=1e-5)


def test_transformer_xl_layers_share_biases():
    biases = layers.TransformerXLBiases()
    x = inputs = keras.Input((None, D + 1))
    for _ in range(2):
        position = layers.TransformerXLPosition(biases=biases)
        x = x + layers.MultiHeadAttention(N, K, position=position)(x, x)
    model = keras.Model(inputs, x)
    assert len(model.weights) == 2 * (8 + 1) + 2
    assert len({id(layer.position.biases) for layer in model.layers[1::2]}) == 1


@pytest.mark.parametrize(
    ("options", "words", "error"),
    [
        ({"code_dim": 7}, "code_dim must be even, .* received 7", ValueError),
        ({"code_dim": 0}, "code_dim", ValueError),
        (
            {"biases": True},
            "must be TransformerXLBiases .* received True",
            TypeError,
        ),
        ({"max_wavelength": 0}, "max_wavelength must be a number above 0", ValueError),
    ],
)
def test_wrong_arguments_of_transformer_xl(options, words, error):
    with pytest.raises(error, match=words):
        layers.TransformerXLPosition(**options)


def test_transformer_xl_refuses_other_heads():
    position = layers.TransformerXLPosition()
    layers.MultiHeadAttention(2, K, position=position)(X, X)
    with pytest.raises(ValueError, match=r"shape \(batch, time, 2, 6\), received"):
        layers.MultiHeadAttention(4, K, position=position)(X, X)
    with pytest.raises(ValueError, match="code_dim must be even, .* received 15"):
        odd = layers.TransformerXLPosition()
        layers.MultiHeadAttention(3, 5, position=odd)(X, X)


def model_with_shared_bias():
    bias = layers.RelativePositionBias(8, 5)
    x = inputs = keras.Input((None, D))
    for _ in range(2):
        x = x + layers.MultiHeadAttention(N, K, position=bias)(x, x)
    return keras.Model(inputs, x)


def biases(model):
    return [layer.position for layer in model.layers if hasattr(layer, "position")]


@pytest.mark.parametrize("whole", [True, False])
def test_shared_bias_is_one_weight_after_loading(tmp_path, whole):
    model = model_with_shared_bias()
    assert biases(model)[0] is biases(model)[1]
    tables = [w for w in model.trainable_weights if "relative" in w.path]
    assert len(tables) == 1 and tables[0].shape == (8, N)
    old = numpy(tables[0]).copy()
    model.compile("sgd", "mse")
    model.fit(X, np.ones_like(X), verbose=0)
    assert np.abs(numpy(tables[0]) - old).max() > 1e-6
    if whole:
        model.save(tmp_path / "model.keras")
        loaded = kerasseq.load_model(tmp_path / "model.keras")
    else:
        model.save_weights(tmp_path / "model.weights.h5")
        loaded = model_with_shared_bias()
        loaded.load_weights(tmp_path / "model.weights.h5")
    assert biases(loaded)[0] is biases(loaded)[1]
    assert len(loaded.weights) == len(model.weights)
    np.testing.assert_allclose(numpy(loaded(X)), numpy(model(X)), atol=1e-5)


@keras.saving.register_keras_serializable("tests")
class Two(keras.Model):
    """Two attentions that share a bias, as a subclass."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        bias = layers.RelativePositionBias(8, 5)
        self.first = layers.MultiHeadAttention(N, K, position=bias)
        self.second = layers.MultiHeadAttention(N, K, position=bias)

    def build(self, shape):
        self.first.build(shape, shape)
        self.second.build(shape, shape)
        self.built = True

    def call(self, x):
        x = x + self.first(x, x)
        return x + self.second(x, x)


def test_shared_bias_in_a_subclassed_model(tmp_path):
    model = Two()
    output = model(X)
    assert len(model.weights) == 2 * 8 + 1
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(numpy(loaded(X)), numpy(output), atol=1e-5)


def test_position_weights_are_last():
    plain = layers.MultiHeadAttention(N, K)
    layer = layers.MultiHeadAttention(N, K, position=layers.RelativePositionBias())
    for one in (plain, layer):
        one.build(X.shape, X.shape)
    assert [w.shape for w in layer.weights] == [
        *(w.shape for w in plain.weights),
        (32, N),
    ]


def test_bias_for_other_heads_is_refused():
    bias = layers.AlibiBias()
    layers.MultiHeadAttention(2, K, position=bias)(X, X)
    with pytest.raises(ValueError, match="for 4 heads, received one for 2"):
        layers.MultiHeadAttention(4, K, position=bias)(X, X)


def test_keras_mask_equals_unpadded(layer):
    """Token 0 is padding, and Keras propagates the mask of the embedding."""
    inputs = keras.Input((None,), dtype="int32")
    x = layers.TokenAndPositionEmbedding(13, 10, D, mask_zero=True)(inputs)
    model = keras.Model(inputs, layer(x, x, use_causal_mask=True))
    ids = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
    padded = np.pad(ids, [(0, 0), (4, 1)])
    found = numpy(model(padded))[:, 4:-1]
    np.testing.assert_allclose(found, numpy(model(ids)), atol=1e-5)
