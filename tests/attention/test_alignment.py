"""Single-head attention: equations in NumPy, Keras, masks, hard attention."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

import kerasseq
from kerasseq import layers
from kerasseq.attention import scores
from kerasseq.core import masks

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

B, Q, K, DQ, DK, DV, U = 2, 3, 5, 7, 11, 13, 17


def numpy(x):
    return ops.convert_to_numpy(x)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def softmax(e):
    w = np.exp(e - e.max(-1, keepdims=True))
    return w / w.sum(-1, keepdims=True)


S, H, V = normal(B, Q, DQ), normal(B, K, DK, seed=1), normal(B, K, DV, seed=2)
SAME = normal(B, K, DQ, seed=3)  # keys as wide as the queries


def by_hand(score, layer, s, h):
    """Scores in NumPy, pair by pair, from the layer's weights."""
    w = {weight.name: numpy(weight) for weight in layer.weights}

    def pair(s, h):
        if score == "additive":
            return w["v"][:, 0] @ np.tanh(s @ w["W_q"] + h @ w["W_k"])
        if score == "concat":
            return w["v"][:, 0] @ np.tanh(np.concatenate([s, h]) @ w["W"])
        if score == "general":
            return s @ w["W"] @ h
        if score == "cosine":
            return w["beta"] * s @ h / np.linalg.norm(s) / np.linalg.norm(h)
        return s @ h / (np.sqrt(len(s)) if score == "scaled_dot" else 1)

    rows = zip(s, h, strict=True)
    return np.array([[[pair(a, b) for b in keys] for a in row] for row, keys in rows])


SIZES = {"additive": (U,), "concat": (U,)}


@pytest.mark.parametrize(
    "score", ["additive", "concat", "general", "dot", "scaled_dot", "cosine"]
)
def test_equations(score):
    layer = layers.AlignmentAttention(*SIZES.get(score, ()), score=score)
    h = SAME if score in ("dot", "scaled_dot", "cosine") else H
    context, alpha = layer(S, V, h, return_attention_scores=True)
    if score == "cosine":
        layer.beta.assign(2.5)
        context, alpha = layer(S, V, h, return_attention_scores=True)
    expected = softmax(by_hand(score, layer, S, h))
    np.testing.assert_allclose(numpy(alpha), expected, atol=1e-5)
    np.testing.assert_allclose(numpy(context), expected @ V, atol=1e-5)


def test_location_score_depends_on_the_query_only():
    layer = layers.LocationAttention(K + 2)
    _, alpha = layer(S, V, return_attention_scores=True)
    expected = softmax((S @ numpy(layer.W))[..., :K])
    np.testing.assert_allclose(numpy(alpha), expected, atol=1e-5)
    with pytest.raises(ValueError, match="at most max_length=4 positions, received 5"):
        layers.LocationAttention(4)(S, V)


def test_concat_is_additive_with_one_matrix():
    W, v = normal(DQ + DK, U), normal(U)
    whole = scores.concat(*map(ops.convert_to_tensor, (S, H, W, v)))
    split = scores.additive(*map(ops.convert_to_tensor, (S, H, W[:DQ], W[DQ:], v)))
    np.testing.assert_allclose(numpy(whole), numpy(split), atol=1e-5)
    again = ops.convert_to_tensor(np.concatenate([S[0, 0], H[0, 0]]) @ W)
    assert np.allclose(numpy(whole)[0, 0, 0], v @ np.tanh(numpy(again)), atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_dot_scores_equal_keras(scaled, causal):
    ours = layers.AlignmentAttention(score="scaled_dot" if scaled else "dot")
    theirs = keras.layers.Attention()
    mask = np.array([[1, 1, 0, 1, 1], [1, 0, 1, 1, 0]], "bool")
    s = SAME[:, ::-1] / np.sqrt(DQ) if scaled else SAME[:, ::-1]
    found = ours(SAME[:, ::-1], V, SAME, mask=mask, use_causal_mask=causal)
    wanted = theirs(
        [s.astype("float32"), V, SAME], mask=[None, mask], use_causal_mask=causal
    )
    np.testing.assert_allclose(numpy(found), numpy(wanted), atol=1e-5)


def test_projected_keys_equal_unprojected():
    for score in ("additive", "concat", "general"):
        layer = layers.AlignmentAttention(*SIZES.get(score, ()), score=score)
        expected = layer(S, V, H)
        keys = layer.project_keys(ops.convert_to_tensor(H))
        found = layer(S[:, 1:2], V, keys, projected=True)
        np.testing.assert_allclose(numpy(found), numpy(expected)[:, 1:2], atol=1e-5)


@pytest.mark.everywhere("masks, small types and gradients of the backend")
@given(
    st.lists(st.lists(st.booleans(), min_size=K, max_size=K), min_size=B, max_size=B),
    st.booleans(),
)
@settings(max_examples=20, deadline=None)
def test_masked_keys_have_zero_weight(mask, causal):
    mask = np.array(mask)
    context, alpha = LAYER(
        SAME, SAME, mask=mask, use_causal_mask=causal, return_attention_scores=True
    )
    allowed = mask[:, None] & (np.tri(K, dtype=bool) if causal else True)
    allowed = np.broadcast_to(allowed, alpha.shape)
    assert np.all(numpy(alpha)[~allowed] == 0)
    sums = numpy(alpha).sum(-1)
    np.testing.assert_allclose(sums, allowed.any(-1), atol=1e-6)
    assert np.all(numpy(context)[~allowed.any(-1)] == 0)
    np.testing.assert_allclose(numpy(context), numpy(alpha) @ SAME, atol=1e-5)


LAYER = layers.BahdanauAttention(U)


def test_attention_mask_equals_keras_masks():
    mask = np.random.default_rng(5).random((B, Q, K)) < 0.6
    _, alpha = LAYER(SAME[:, :Q], SAME, mask=mask, return_attention_scores=True)
    assert np.array_equal(numpy(alpha) > 0, mask)
    ids = np.array([[1, 2, 3, 0, 0], [4, 0, 0, 0, 0]])
    memory = keras.layers.Embedding(5, DQ, mask_zero=True)(ids)
    _, alpha = LAYER(SAME[:, :Q], memory, return_attention_scores=True)
    assert np.array_equal(numpy(alpha)[:, 0] > 0, ids > 0)


def test_query_mask_is_propagated():
    ids = np.array([[1, 2, 0], [3, 0, 0]])
    query = keras.layers.Embedding(5, DQ, mask_zero=True)(ids)
    for layer in (LAYER, layers.KernelAttention()):
        context = layer(query, SAME)
        np.testing.assert_array_equal(numpy(context._keras_mask), ids > 0)


def test_causal_mask_starts_at_the_first_query():
    assert np.array_equal(numpy(masks.causal(4, 4))[0], np.tri(4, dtype=bool))
    assert numpy(masks.causal(1, 4, start=3)).all()
    assert numpy(masks.causal(2, 4, start=1))[0].sum(-1).tolist() == [2, 3]
    assert numpy(masks.window(1, 7, 2, start=5))[0, 0].tolist() == [0] * 4 + [1] * 3


@pytest.mark.everywhere("masks, small types and gradients of the backend")
def test_fully_masked_rows_have_no_nan_in_float16():
    scores = ops.zeros((2, 3), "float16")
    weights = masks.softmax(scores, ops.zeros((2, 3), "bool"))
    assert np.array_equal(numpy(weights), np.zeros((2, 3)))


def test_hard_attention_selects_the_highest_score():
    soft = layers.AlignmentAttention(score="dot")
    hard = layers.AlignmentAttention(score="dot", hard=True)
    _, alpha = soft(SAME, SAME, return_attention_scores=True)
    context, one = hard(SAME, V, SAME, return_attention_scores=True)
    best = numpy(alpha).argmax(-1)
    np.testing.assert_allclose(numpy(one), np.eye(K)[best], atol=1e-6)
    expected = np.take_along_axis(V, best[..., None], 1)
    np.testing.assert_allclose(numpy(context), expected, atol=1e-5)
    nothing = hard(SAME, V, SAME, mask=np.zeros((B, K), bool))
    assert np.all(numpy(nothing) == 0)


@pytest.mark.everywhere("masks, small types and gradients of the backend")
def test_hard_attention_has_the_soft_gradient():
    from kerasseq import kernels

    def loss(hard):
        layer = layers.AlignmentAttention(score="dot", hard=hard)

        def function(queries):
            (query,) = queries
            _, alpha = layer(query, V, SAME, return_attention_scores=True)
            return ops.sum(alpha * ops.convert_to_tensor(V)[:, None, :, 0])

        return function

    queries = [ops.convert_to_tensor(SAME)]
    soft, hard = (numpy(kernels.gradients(loss(h), queries)[0]) for h in (False, True))
    np.testing.assert_allclose(soft, hard, atol=1e-6)
    assert np.abs(soft).max() > 1e-3


def test_sampled_positions_follow_the_weights():
    e = np.log([[0.5, 0.2, 0.3]]).astype("float32")  # one query, three places
    layer = layers.AlignmentAttention(score="dot", hard=True, sampled=True, seed=1)
    query, key = np.ones((1, 4000, 1), "float32"), e[:, :, None]
    _, one = layer(query, key, return_attention_scores=True, training=True)
    found = numpy(one).mean((0, 1))
    np.testing.assert_allclose(found, [0.5, 0.2, 0.3], atol=0.03)
    assert set(np.unique(numpy(one).round(5))) == {0, 1}
    _, at_inference = layer(query, key, return_attention_scores=True)
    assert np.all(numpy(at_inference)[..., 0] == 1)


def test_trace():
    inputs = keras.Input((K, DQ))
    model = keras.Model(
        inputs, layers.BahdanauAttention(U, name="look")(inputs, inputs)
    )
    with kerasseq.tracing.trace(model) as inside:
        model(SAME)
    assert inside["look/alignment"].shape == (B, K, K)
    np.testing.assert_allclose(numpy(inside["look/alignment"]).sum(-1), 1, atol=1e-5)
    assert {"look/scores", "look/context"} <= set(inside.keys())


@pytest.mark.everywhere("symbolic shapes, and the eager results")
@pytest.mark.parametrize("make", [layers.LocationAttention, layers.KernelAttention])
def test_symbolic_call_returns_the_weights(make):
    layer = make(K) if make is layers.LocationAttention else make()
    inputs = keras.Input((Q, DQ)), keras.Input((K, DQ))
    outputs = layer(*inputs, return_attention_scores=True)
    assert [y.shape for y in outputs] == [(None, Q, DQ), (None, Q, K)]
    queries = normal(B, Q, DQ)
    found = keras.Model(inputs, outputs)((queries, SAME))
    expected = layer(queries, SAME, return_attention_scores=True)
    for y, z in zip(found, expected, strict=True):
        np.testing.assert_allclose(numpy(y), numpy(z), atol=1e-6)
    assert layer(*inputs).shape == (None, Q, DQ)


def test_attention_over_image_cells():
    image = normal(B, 3, 4, DK)
    cells = image.reshape(B, 12, DK)
    context, alpha = layers.BahdanauAttention(U)(S, cells, return_attention_scores=True)
    assert context.shape == (B, Q, DK) and alpha.shape == (B, Q, 12)


def test_kernel_attention_is_a_softmax_of_distances():
    x, x_j, y = normal(B, Q, DQ), normal(B, K, DQ, seed=1), normal(B, K, 1, seed=2)
    layer = layers.KernelAttention(width=0.7)
    found, alpha = layer(x, y, x_j, return_attention_scores=True)
    squares = ((x[:, :, None] - x_j[:, None]) ** 2).sum(-1)
    weights = np.exp(-squares / 2 / 0.7**2)
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(numpy(alpha), weights, atol=1e-5)
    np.testing.assert_allclose(numpy(found), weights @ y, atol=1e-5)
    assert len(layer.trainable_weights) == 1
    assert not layers.KernelAttention(learnable=False).trainable_weights


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"score": "addtive", "units": 3}, 'Did you mean "additive"'),
        ({"score": "additive"}, 'units must be .* for score="additive"'),
        ({"score": "dot", "units": 3}, 'units is not used by score="dot"'),
        ({"score": "location"}, "max_length must be a whole number for"),
        ({"units": 3, "max_length": 4}, "max_length is not used by"),
        ({"units": 0}, "units must be at least 1, received 0"),
        ({"units": 3, "sampled": True}, "sampled=True needs hard=True"),
        ({"units": 3, "dropout": 1.0}, "dropout"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        layers.AlignmentAttention(**arguments)


def test_wrong_widths():
    for layer in (layers.LuongAttention("dot"), layers.CosineAttention()):
        with pytest.raises(ValueError, match='7 and 11. Choose score="general"'):
            layer(S, H)
    with pytest.raises(ValueError, match="equal widths .* 7 and 11"):
        layers.KernelAttention()(S, H)
    with pytest.raises(ValueError, match="width must be a number above 0, received 0"):
        layers.KernelAttention(width=0)
    with pytest.raises(ValueError, match='score="additive" is not one of "dot"'):
        layers.LuongAttention("additive")


@pytest.mark.everywhere("Keras' call", cases=2)
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("given_key", [True, False])
def test_keras_own_call(given_key, symbolic, tmp_path):
    """`layer([query, value, key], mask=[query_mask, value_mask])`, as Keras' layer."""
    query, value, key = normal(B, Q, DV), normal(B, K, DV, seed=1), normal(B, K, DV)
    inputs = [query, value, key] if given_key else [query, value]
    mask = [np.arange(Q) < [[Q], [Q - 1]], np.arange(K) < [[K - 2], [K]]]
    ours, theirs = layers.LuongAttention("dot"), keras.layers.Attention()
    found, expected = (
        [
            *layer(inputs, mask=mask, return_attention_scores=True),
            layer(inputs, mask=[None, mask[1]], use_causal_mask=True),
            layer(inputs, mask=[mask[0], None]),
            layer(inputs),
        ]
        for layer in (ours, theirs)
    )
    for a, b in zip(found, expected, strict=True):
        real = mask[0][..., None] if a.shape[1] == Q else True  # ours gives zeros there
        np.testing.assert_allclose(numpy(a) * real, numpy(b) * real, atol=1e-5)
    if symbolic:
        ends = [keras.Input(x.shape[1:]) for x in inputs]
        model = keras.Model(ends, ours(ends))
        model.save(tmp_path / "model.keras")
        again = kerasseq.load_model(tmp_path / "model.keras")
        np.testing.assert_allclose(numpy(again(inputs)), numpy(found[-1]), atol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "options", "words"),
    [
        ([1], {}, "1 inputs"),
        ([1, 2, 3, 4], {}, "4 inputs"),
        ([1, 2], {"mask": [None]}, "a list of 1"),
        ([1, 2], {"mask": [None] * 3}, "a list of 3"),
    ],
)
def test_lists_of_another_length_are_refused(inputs, options, words):
    x = normal(B, K, DK)
    with pytest.raises(ValueError, match=words):
        layers.AlignmentAttention(U)([x for _ in inputs], **options)
