"""Norms of queries and keys, and biases of their projections, against NumPy."""

import keras
import numpy as np
import pytest

from kerasseq import layers, models
from kerasseq.positions.rotary import RotaryEmbedding
from kerasseq.transformer.norms import RMSNormalization

pytestmark = pytest.mark.everywhere("kernels, types of numbers and files of attention")
B, T, D, N, M, K = 2, 5, 7, 6, 3, 4
EPSILON = 1e-2
once = pytest.mark.once("arguments and configuration: the same on all backends")


def attention(**options):
    """An attention with random weights."""
    options = {"num_key_value_heads": M, **options}
    layer = layers.MultiHeadAttention(N, K, **options)
    layer.build((None, None, D), (None, None, D))
    rng = np.random.default_rng(1)
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape))
    return layer


def inputs():
    return np.random.default_rng(2).normal(size=(B, T, D)).astype("float32")


def array(x):
    return keras.ops.convert_to_numpy(x)


def by_equations(layer, x, window=T):
    """Causal attention, by the layer's weights."""
    w = {weight.path.split("/", 1)[1]: array(weight) for weight in layer.weights}
    parts = []
    for name in ("query", "key", "value"):
        y = np.einsum("btd,dnk->btnk", x, w[f"{name}/kernel"])
        y = y + w.get(f"{name}/bias", 0)
        if f"{name}_norm/scale" in w:
            y = y / np.sqrt((y**2).mean(-1, keepdims=True) + EPSILON)
            y = y * w[f"{name}_norm/scale"]
        parts.append(y)
    q, k, v = parts
    if layer.position is not None:
        at = np.arange(T)[None]
        q, k = (array(layer.position.rotate(keras.ops.array(y), at)) for y in (q, k))
    k, v = (np.repeat(y, N // M, axis=2) for y in (k, v))
    e = np.einsum("btnk,bsnk->bnts", q, k) / np.sqrt(K)
    distance = np.arange(T)[:, None] - np.arange(T)
    e = np.where((distance >= 0) & (distance < window), e, -np.inf)
    alpha = np.exp(e - e.max(-1, keepdims=True))
    alpha /= alpha.sum(-1, keepdims=True)
    out = np.einsum("bnts,bsnk->btnk", alpha, v)
    out = np.einsum("btnk,nkd->btd", out, w["attention_output/kernel"])
    return out + w.get("attention_output/bias", 0)


OPTIONS = [
    {"query_key_norm": RMSNormalization(epsilon=EPSILON), "use_bias": False},
    {"use_bias": False, "use_query_key_value_bias": True, "sliding_window": 3},
    {"use_query_key_value_bias": False},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_equations_cache_and_scores(options):
    layer = attention(position=RotaryEmbedding(100.0), **options)
    x = inputs()
    wanted = by_equations(layer, x, options.get("sliding_window", T))
    found = layer(x, x, use_causal_mask=True)
    np.testing.assert_allclose(array(found), wanted, atol=2e-5)
    found, _ = layer(x, x, use_causal_mask=True, return_attention_scores=True)
    np.testing.assert_allclose(array(found), wanted, atol=2e-5)
    cache, steps = layer.make_cache(B, T), []
    for n in range(T):
        y = x[:, n : n + 1]
        y, cache = layer(y, y, cache=cache, cache_update_index=n)
        steps.append(array(y))
    np.testing.assert_allclose(np.concatenate(steps, 1), wanted, atol=2e-5)


def test_query_key_norm_is_trained_and_saved(tmp_path):
    x = keras.Input((T, D))
    block = layers.TransformerEncoder(
        11, 2, head_dim=K, query_key_norm="rms", use_bias=False, norm="rms"
    )
    model = keras.Model(x, block(x))
    names = [weight.path.split("/", 1)[1] for weight in model.trainable_weights]
    for name in ("query_norm/scale", "key_norm/scale"):
        assert f"self_attention/{name}" in names
    model.compile("sgd", "mse")
    before = [array(weight) for weight in model.trainable_weights]
    model.fit(inputs(), np.ones((B, T, D)), verbose=0)
    for name, old, new in zip(names, before, model.trainable_weights, strict=True):
        assert np.abs(array(new) - old).max() > 1e-7, name
    model.save(tmp_path / "model.keras")
    same = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(array(same(inputs())), array(model(inputs())), atol=1e-6)


DTYPES = {"mixed_bfloat16": 1.0, "mixed_float16": 0.2, "float64": 1e-4}
if keras.backend.backend() == "jax":  # only if the user switches it on
    del DTYPES["float64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype):
    layer = attention(
        query_key_norm=RMSNormalization(epsilon=EPSILON), use_bias=False, dtype=dtype
    )
    found = layer(inputs(), inputs(), use_causal_mask=True)
    assert keras.backend.standardize_dtype(found.dtype) == layer.compute_dtype
    wanted = by_equations(layer, inputs())
    found = array(keras.ops.cast(found, "float32"))
    assert np.abs(found - wanted).max() < DTYPES[dtype]


@once
def test_configuration():
    layer = attention(**OPTIONS[0])
    same = type(layer).from_config(layer.get_config())
    same.build((None, None, D), (None, None, D))
    assert [w.path.split("/", 1)[1] for w in same.weights] == [
        w.path.split("/", 1)[1] for w in layer.weights
    ]
    assert same.query_norm.epsilon == same.key_norm.epsilon == EPSILON
    assert same.query_norm is not same.key_norm
    options = {"query_key_norm": "layer", "use_query_key_value_bias": True}
    block = layers.TransformerDecoder(11, 2, use_bias=False, **options)
    config = type(block).from_config(block.get_config()).get_config()
    assert {name: config[name] for name in options} == options
    block.build((None, None, 8))
    assert block._self_attention_layer.query_norm.beta is None
    assert block._self_attention_layer.value_dense.bias is not None
    assert block._self_attention_layer.output_dense.bias is None


@once
def test_wrong_arguments():
    with pytest.raises(TypeError, match="query_key_norm must be a normalization layer"):
        layers.MultiHeadAttention(2, 3, query_key_norm="rms")
    with pytest.raises(ValueError, match='query_key_norm="batch" is not one of'):
        layers.TransformerEncoder(11, 2, query_key_norm="batch")
    with pytest.raises(TypeError, match="query_key_norm must be"):
        models.GPT(vocabulary_size=11, query_key_norm=True)
    with pytest.raises(ValueError, match='use_query_key_value_bias="yes" is not one'):
        layers.MultiHeadAttention(2, 3, use_query_key_value_bias="yes")
    with pytest.raises(ValueError, match="embedding_scale must be a number above 0"):
        models.GPT(vocabulary_size=11, embedding_scale=-1.0)


def test_embedding_scale():
    sizes = {"vocabulary_size": 11, "num_layers": 1, "num_heads": 2, "hidden_dim": 8}
    one = models.GPT(**sizes, position="rope", tie_embeddings=False)
    other = models.GPT(
        **sizes, position="rope", tie_embeddings=False, embedding_scale=3.0
    )
    other.set_weights(one.get_weights())
    one.stack.embedding.embeddings.assign(one.stack.embedding.embeddings * 3.0)
    ids = np.array([[3, 1, 4, 1, 5]])
    np.testing.assert_allclose(array(one(ids)), array(other(ids)), atol=1e-6)
    assert [*one.generate([3, 1], 6, seed=0)] == [*other.generate([3, 1], 6, seed=0)]


@pytest.mark.parametrize("window", [5, 9])
def test_window_of_the_whole_length_masks_nothing(window):
    layer, full = attention(sliding_window=window), attention()
    full.set_weights(layer.get_weights())
    x, mask = inputs(), np.array([[1, 1, 1, 1, 0], [0, 1, 1, 1, 1]], bool)
    options = {"use_causal_mask": True, "query_mask": mask, "value_mask": mask}
    np.testing.assert_allclose(
        array(layer(x, x, **options)), array(full(x, x, **options)), atol=1e-6
    )


@once
@pytest.mark.parametrize("cls", [layers.MultiHeadAttention, layers.LongformerAttention])
def test_queries_and_values_alone_have_biases(cls):
    """As in Whisper: a bias of the keys changes no weight of the attention."""
    options = {"max_global_tokens": 1} if cls is layers.LongformerAttention else {}
    layer = cls(2, 3, use_query_key_value_bias="query_value", **options)
    whole = cls(2, 3, **options)
    x = np.random.default_rng(0).normal(size=(2, 5, 7)).astype("float32")
    for each in (layer, whole):
        each.build(x.shape, x.shape)
    weights = {w.path.partition("/")[2]: w for w in layer.weights}
    rng = np.random.default_rng(1)
    for weight in whole.weights:
        weight.assign(rng.normal(size=weight.shape))
        path = weight.path.partition("/")[2]
        assert (path in weights) != path.endswith("key/bias")
        if path in weights:
            weights[path].assign(weight)
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(layer(x, x)),
        keras.ops.convert_to_numpy(whole(x, x)),
        atol=1e-5,
    )
    same = cls.from_config(layer.get_config())
    same.build(x.shape, x.shape)
    assert len(same.weights) == len(weights)


@once
def test_blocks_without_a_bias_of_the_keys():
    block = layers.TransformerDecoder(7, 2, use_query_key_value_bias="query_value")
    block.build((None, None, 4), (None, None, 4))
    paths = [weight.path for weight in block.weights]
    assert sum(path.endswith("query/bias") for path in paths) == 2
    assert not any(path.endswith("key/bias") for path in paths)
    again = layers.TransformerDecoder.from_config(block.get_config())
    assert again.use_query_key_value_bias == "query_value"
