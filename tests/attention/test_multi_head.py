"""`MultiHeadAttention`: equal to Keras, grouped heads, caches, positions."""

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq import layers
from kerasseq.attention import scores
from kerasseq.core import masks
from tests.layer_checks import float64_is_there

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

B, T, S, D, E, N, K, V = 2, 5, 7, 11, 13, 3, 4, 2


def numpy(x):
    return ops.convert_to_numpy(x)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


X, Y, Z = normal(B, T, D), normal(B, S, E, seed=1), normal(B, S, D, seed=2)


def pair(*shapes, **options):
    """Ours and Keras', with the same random weights."""
    options = {"num_heads": N, "key_dim": K, **options}
    ours = layers.MultiHeadAttention(**options)
    theirs = keras.layers.MultiHeadAttention(**options)
    for layer in (ours, theirs):
        layer.build(*shapes)
    rng = np.random.default_rng(3)
    values = [rng.normal(size=w.shape) * 0.5 for w in theirs.weights]
    assert [(w.path.split("/")[-2:], w.shape) for w in ours.weights] == [
        (w.path.split("/")[-2:], w.shape) for w in theirs.weights
    ]
    ours.set_weights(values)
    theirs.set_weights(values)
    return ours, theirs


def same(ours, theirs, *inputs, **options):
    """With scores and without; Keras with them, as without it fails on some backend."""
    wanted = theirs(*inputs, return_attention_scores=True, **options)
    found = ours(*inputs, return_attention_scores=True, **options)
    alone = ours(*inputs, **options)
    for a, b in [*zip(found, wanted, strict=True), (alone, wanted[0])]:
        assert ops.shape(a) == ops.shape(b)
        np.testing.assert_allclose(numpy(a), numpy(b), atol=1e-5)


@pytest.mark.everywhere("the fused path differs between backends", cases=2)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"value_dim": V},
        {"use_bias": False, "output_shape": 6},
        {"output_shape": (2, 3), "use_gate": True, "value_dim": V},
        {"sliding_window": 2},
        {"dropout": 0.3},
        {"flash_attention": False},
        {"use_gate": True, "activity_regularizer": "l2"},
    ],
)
def test_options_equal_keras(options):
    ours, theirs = pair(X.shape, Y.shape, Z.shape, **options)
    same(ours, theirs, X, Y, Z)
    mask = np.random.default_rng(4).random((B, T, S)) < 0.6
    mask[:, range(T), range(T)] = True  # no row is empty: Keras differs there
    same(ours, theirs, X, Y, Z, attention_mask=mask, use_causal_mask=True)
    same(ours, theirs, X, Y, Z, use_causal_mask=True)


@pytest.mark.parametrize("attended", [None, (1,), (2,), (-2, 1), (1, 2)])
def test_attention_axes_equal_keras(attended):
    x, y = normal(B, 3, 5, D), normal(B, 3, 5, E, seed=1)
    if attended == (1,):
        y = normal(B, 7, 5, E, seed=1)
    ours, theirs = pair(x.shape, y.shape, attention_axes=attended)
    same(ours, theirs, x, y)


def test_activity_regularizer_equals_keras():
    ours, theirs = pair(X.shape, Y.shape, activity_regularizer="l2", use_gate=True)
    ours(X, Y)
    theirs(X, Y)
    assert len(ours.losses) == len(theirs.losses) == 5
    found, wanted = (sum(map(numpy, layer.losses)) for layer in (ours, theirs))
    assert found == pytest.approx(wanted, rel=1e-5)


def test_keras_masks_are_used_and_propagated():
    ids = np.array([[1, 2, 3, 0], [4, 0, 0, 0]])
    inputs = keras.layers.Embedding(5, D, mask_zero=True)(ids)
    ours, theirs = pair((B, 4, D), (B, 4, D))
    found, alpha = ours(inputs, inputs, return_attention_scores=True)
    wanted = theirs(inputs, inputs)
    real = ids > 0
    np.testing.assert_allclose(numpy(found)[real], numpy(wanted)[real], atol=1e-5)
    allowed = real[:, None, :, None] & real[:, None, None]
    assert np.array_equal(numpy(alpha) > 0, np.broadcast_to(allowed, alpha.shape))
    assert found._keras_mask is not None
    np.testing.assert_array_equal(numpy(found._keras_mask), real)
    mask = np.array([[1, 1, 0, 1], [0, 1, 1, 0]], "bool")
    x = normal(B, 4, D)
    same(ours, theirs, x, x, value_mask=mask, key_mask=mask)


@pytest.mark.everywhere("the fused path differs between backends")
@pytest.mark.parametrize("scores", [False, True])
def test_fully_masked_query_gets_zeros(scores):
    layer = layers.MultiHeadAttention(N, K)
    mask = np.ones((B, T, S), bool)
    mask[0, 2] = False
    found = layer(X, Z, attention_mask=mask, return_attention_scores=scores)
    output = found[0] if scores else found
    bias = numpy(layer.output_dense.bias)
    np.testing.assert_allclose(numpy(output)[0, 2], bias, atol=1e-6)
    assert np.abs(numpy(output)[0, 1] - bias).max() > 1e-3


def test_scale():
    layer = layers.MultiHeadAttention(N, K, scale=1.0)
    _, alpha = layer(X, Z, return_attention_scores=True)
    q, k = numpy(layer.query_dense(X)), numpy(layer.key_dense(Z))
    e = np.einsum("btnk,bsnk->bnts", q, k)
    expected = np.exp(e) / np.exp(e).sum(-1, keepdims=True)
    np.testing.assert_allclose(numpy(alpha), expected, atol=1e-5)


@pytest.mark.parametrize("shared", [1, 2])
def test_grouped_query_attention(shared):
    layer = layers.MultiHeadAttention(4, K, num_key_value_heads=shared, value_dim=V)
    output, alpha = layer(X, Y, return_attention_scores=True)
    assert layer.key_dense.kernel.shape == (E, shared, K)
    whole = layers.MultiHeadAttention(4, K, value_dim=V)
    whole.build(X.shape, Y.shape)
    weights = [
        np.repeat(w, 4 // shared, axis=-2) if name in ("key", "value") else w
        for w, name in ((numpy(w), w.path.split("/")[-2]) for w in layer.weights)
    ]
    whole.set_weights(weights)
    np.testing.assert_allclose(numpy(output), numpy(whole(X, Y)), atol=1e-5)
    np.testing.assert_allclose(numpy(layer(X, Y)), numpy(output), atol=1e-5)
    assert alpha.shape == (B, 4, T, S)


@pytest.mark.everywhere("the fused path differs between backends", cases=2)
@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("scores", [False, True])
def test_cached_equals_uncached(scores, window):
    layer = layers.MultiHeadAttention(
        4, K, value_dim=V, num_key_value_heads=2, sliding_window=window, position=Turn()
    )
    whole = layer(X, X, use_causal_mask=True)
    cache, outputs = layer.make_cache(B, T + 2), []
    for start, end in ((0, 2), (2, 3), (3, 5)):
        x = X[:, start:end]
        found = layer(
            x,
            x,
            cache=cache,
            cache_update_index=start,
            return_attention_scores=scores,
        )
        outputs.append(numpy(found[0]))
        cache = found[-1]
    np.testing.assert_allclose(np.concatenate(outputs, 1), numpy(whole), atol=1e-5)


def test_project_memory_equals_uncached():
    layer = layers.MultiHeadAttention(N, K)
    mask = np.ones((B, 1, S), bool)
    mask[:, :, 3:] = False
    whole = layer(X, Y, attention_mask=mask)
    memory = layer.project_memory(ops.convert_to_tensor(Y))
    found, again = layer(X, Y, cache=memory, attention_mask=mask)
    np.testing.assert_allclose(numpy(found), numpy(whole), atol=1e-5)
    assert again is not None


@keras.saving.register_keras_serializable("tests")
class Turn(layers.AttentionPosition):
    """Rotates two features of each head, and biases the scores by the distance."""

    def rotate(self, x, positions):
        angle = ops.cast(positions, x.dtype)[:, :, None, None]
        a, b, rest = x[..., :1], x[..., 1:2], x[..., 2:]
        rotated = [a * ops.cos(angle) - b * ops.sin(angle)]
        rotated += [a * ops.sin(angle) + b * ops.cos(angle), rest]
        return ops.concatenate(rotated, -1)

    def bias(self, query_positions, key_positions, queries=None, scale=1.0):
        distance = query_positions[:, :, None] - key_positions[:, None, :]
        return -ops.cast(ops.abs(distance), "float32")[:, None]


def test_position_rotates_and_biases(tmp_path):
    layer = layers.MultiHeadAttention(N, K, position=Turn())
    output, alpha = layer(X, X, return_attention_scores=True)
    q, k = numpy(layer.query_dense(X)), numpy(layer.key_dense(X))
    at = np.arange(T)[None]
    turn = Turn()
    q, k = (numpy(turn.rotate(ops.convert_to_tensor(x), at)) for x in (q, k))
    e = np.einsum("btnk,bsnk->bnts", q, k) / np.sqrt(K)
    e = e - np.abs(at[0][:, None] - at[0][None])
    expected = np.exp(e) / np.exp(e).sum(-1, keepdims=True)
    np.testing.assert_allclose(numpy(alpha), expected, atol=1e-5)
    np.testing.assert_allclose(numpy(layer(X, X)), numpy(output), atol=1e-5)
    inputs = keras.Input((None, D))
    model = keras.Model(inputs, layer(inputs, inputs))
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(numpy(loaded(X)), numpy(output), atol=1e-5)


def test_padding_does_not_shift_positions():
    layer = layers.MultiHeadAttention(N, K, position=Turn())
    plain = numpy(layer(X, X))
    padded = np.concatenate([normal(B, 3, D, seed=8), X], 1)
    real = np.arange(T + 3)[None].repeat(B, 0) >= 3
    found = layer(padded, padded, query_mask=real, value_mask=real)
    np.testing.assert_allclose(numpy(found)[:, 3:], plain, atol=1e-5)


def test_trace_does_not_change_the_output():
    inputs = keras.Input((T, D))
    layer = layers.MultiHeadAttention(N, K, name="look")
    model = keras.Model(inputs, layer(inputs, inputs))
    plain = numpy(model(X))
    with kerasseq.tracing.trace(model) as inside:
        traced = numpy(model(X))
    np.testing.assert_allclose(traced, plain, atol=1e-6)
    assert inside["look/alignment"].shape == (B, N, T, T)


def test_loads_weights_saved_by_keras(tmp_path):
    ours, theirs = pair(X.shape, X.shape)
    inputs = keras.Input((T, D))
    keras.Model(inputs, theirs(inputs, inputs)).save_weights(tmp_path / "a.weights.h5")
    model = keras.Model(inputs, ours(inputs, inputs))
    ours.set_weights([0 * w for w in ours.get_weights()])
    model.load_weights(tmp_path / "a.weights.h5")
    np.testing.assert_allclose(numpy(model(X)), numpy(theirs(X, X)), atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"num_heads": 0}, ValueError, "num_heads must be at least 1, received 0"),
        ({"key_dim": 2.5}, TypeError, "key_dim must be a whole number, received 2.5"),
        ({"sliding_window": 0}, ValueError, "sliding_window must be at least 1"),
        ({"num_key_value_heads": 2}, ValueError, "must divide num_heads=3, received"),
        ({"dropout": 1.5}, ValueError, "dropout must lie between 0 and 1"),
        (
            {"dropout": 0.1, "flash_attention": True},
            ValueError,
            "must be None or False with dropout",
        ),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        layers.MultiHeadAttention(**{"num_heads": N, "key_dim": K, **arguments})


def test_wrong_shapes():
    with pytest.raises(ValueError, match="value and key must have the same sizes"):
        layers.MultiHeadAttention(N, K)(X, Y, Y[:, :3])
    with pytest.raises(ValueError, match="axes between batch .* received 3"):
        layers.MultiHeadAttention(N, K, attention_axes=3)(X, Y)
    with pytest.raises(ValueError, match=r"attention_mask .*= \(2, 5, 7\), received"):
        layers.MultiHeadAttention(N, K)(X, Y, attention_mask=np.ones((B, S, T)))
    layer = layers.MultiHeadAttention(N, K)
    layer(X, X)
    with pytest.raises(ValueError, match="5 new tokens .* length 6, received 2"):
        layer(X, X, cache=layer.make_cache(B, 6), cache_update_index=2)


def test_symbolic_call_with_scores():
    x, y = keras.Input((None, D)), keras.Input((None, E))
    layer = layers.MultiHeadAttention(N, K)
    output, alpha = layer(x, y, return_attention_scores=True)
    assert output.shape == (None, None, D) and alpha.shape == (None, N, None, None)
    found, weights = keras.Model([x, y], [output, alpha])([X, Y])
    np.testing.assert_allclose(numpy(found), numpy(layer(X, Y)), atol=1e-5)
    assert weights.shape == (B, N, T, S)


def test_value_initializer():
    layer = layers.MultiHeadAttention(
        N, K, use_gate=True, kernel_initializer="ones", value_initializer="zeros"
    )
    layer.build(X.shape, Y.shape)
    for weight in layer.weights:
        kind, name = weight.path.split("/")[-2:]
        wanted = kind in ("query", "key", "gate") and name == "kernel"
        assert np.all(numpy(weight) == wanted), weight.path
    again = layers.MultiHeadAttention.from_config(layer.get_config())
    assert again.value_initializer.get_config() == {}
    assert type(again.value_initializer) is keras.initializers.Zeros


@pytest.mark.parametrize("scores", [False, True])
def test_causal_cache_false_attends_to_the_whole_cache(scores):
    layer = layers.MultiHeadAttention(N, K)
    whole = layer(X, X)
    cache = layer.make_cache(B, T)
    found = layer(
        X,
        X,
        cache=cache,
        cache_update_index=0,
        causal_cache=False,
        return_attention_scores=scores,
    )
    np.testing.assert_allclose(numpy(found[0]), numpy(whole), atol=1e-5)


def test_cached_mask():
    """Masked tokens of a cache get no weight, and positions skip them."""
    layer = layers.MultiHeadAttention(N, K, position=Turn())
    whole = numpy(layer(X, X, use_causal_mask=True))
    real = np.array([[0, 0, 1, 0, 1, 1, 1, 0, 1]] * B, "bool")
    padded = normal(B, 9, D, seed=8)
    padded[real] = X.reshape(-1, D)
    cache, outputs = layer.make_cache(B, 9), []
    for start, end in ((0, 5), (5, 6), (6, 9)):
        x = padded[:, start:end]
        y, cache = layer(x, x, cache=cache, cache_update_index=start, cached_mask=real)
        outputs.append(numpy(y))
    found = np.concatenate(outputs, 1)[:, real[0]]
    np.testing.assert_allclose(found, whole, atol=1e-5)
    y, _ = layer(X[:, -1:], X, cache=cache, cached_mask=real)
    mask = real[:, None]
    wanted, _ = layer(X[:, -1:], X, cache=cache, attention_mask=mask, cached_mask=real)
    np.testing.assert_allclose(numpy(y), numpy(wanted), atol=1e-5)


@pytest.mark.everywhere("the fused path differs between backends")
def test_softmax_and_cosine_are_exact_in_float64():
    if not float64_is_there():
        pytest.skip("JAX has no float64 unless it is switched on")
    e = np.random.default_rng(0).normal(size=(B, T, S))
    mask = np.random.default_rng(1).random((B, T, S)) < 0.6
    powers = np.exp(e) * mask
    wanted = powers / np.maximum(powers.sum(-1, keepdims=True), 1e-9)
    found = masks.softmax(ops.convert_to_tensor(e), ops.convert_to_tensor(mask))
    np.testing.assert_allclose(numpy(found), wanted, rtol=1e-13)
    s, h = e[:, :, :5], e[:, :, 2:]
    lengths = [np.linalg.norm(x, axis=-1) for x in (s, h)]
    wanted = np.einsum("btd,bsd->bts", s, h) / np.einsum("bt,bs->bts", *lengths)
    found = scores.cosine(*map(ops.convert_to_tensor, (s, h)))
    np.testing.assert_allclose(numpy(found), wanted, rtol=1e-12)
