"""`LinformerAttention`: dense attention in the limit, its equation, and refusals."""

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq import layers
from tests.attention.sparse.comparing import on_itself, random_weights
from tests.layer_checks import assert_close

pytestmark = pytest.mark.everywhere("gathers and products of each backend")

B, T, D, N, K, r = 2, 13, 7, 4, 6, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(B, T, D)).astype("float32")
SIDES = np.ones((B, T), bool)
SIDES[0, -2:] = SIDES[1, :3] = False
PADDED = {"query_mask": SIDES, "value_mask": SIDES}
SHARES = {"none": (2, 2), "heads": (2, 1), "key_value": (1, 1)}


def linformer(**options):
    return layers.LinformerAttention(N, K, **{"rank": r, "max_length": T, **options})


@pytest.mark.parametrize(
    "share",
    [
        "none",
        *(
            pytest.param(s, marks=pytest.mark.full("one of three"))
            for s in ("heads", "key_value")
        ),
    ],
)
def test_the_identity_equals_dense(share):
    dense = layers.MultiHeadAttention(N, K, num_key_value_heads=2, use_gate=True)
    layer = linformer(rank=T, share=share, num_key_value_heads=2, use_gate=True)
    random_weights((dense,), X.shape)
    layer.build(X.shape, X.shape)
    count, heads = SHARES[share]
    identity = np.repeat(np.eye(T)[..., None], heads, axis=-1)
    layer.set_weights([*dense.get_weights(), *count * [identity]])
    assert_close(on_itself(layer, X, **PADDED), on_itself(dense, X, **PADDED))


def test_equation():
    (layer,) = random_weights((linformer(),), X.shape)
    y, alpha = on_itself(layer, X, return_attention_scores=True)

    def project(name):
        kernel, bias = (ops.convert_to_numpy(w) for w in getattr(layer, name).weights)
        return np.einsum("btd,dnk->bntk", X, kernel) + bias[:, None]

    q, k, v = (project(f"{name}_dense") for name in ("query", "key", "value"))
    E, F = (w.transpose(2, 1, 0) for w in layer.get_weights()[-2:])  # (N, r, T)
    e = q @ (E @ k).swapaxes(-1, -2) / np.sqrt(K)
    weights = np.exp(e) / np.exp(e).sum(-1, keepdims=True)
    kernel, bias = (ops.convert_to_numpy(w) for w in layer.output_dense.weights)
    assert_close(alpha, weights)
    assert_close(y, np.einsum("bntk,nkd->btd", weights @ (F @ v), kernel) + bias)


@pytest.mark.once("Keras saves shared layers")
def test_a_shared_projection_stays_shared(tmp_path):
    shared = layers.LinformerProjection(r, T, "key_value")
    inputs = keras.Input((None, D))
    x = inputs
    for _ in range(2):
        x = linformer(share="key_value", projection=shared)(x, x)
    model = keras.Model(inputs, x)
    assert sum(w.path.endswith("key_projection") for w in model.weights) == 1
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert loaded.layers[1].projection is loaded.layers[2].projection
    assert_close(loaded(X), model(X))


@pytest.mark.once("error messages")
def test_errors():
    layer = linformer()
    with pytest.raises(ValueError, match="later ones too: it takes no use_causal_mask"):
        layer(X, X, use_causal_mask=True)
    with pytest.raises(ValueError, match="takes no attention_mask"):
        layer(X, X, attention_mask=np.ones((T, T), bool))
    with pytest.raises(ValueError, match="later ones too, and has no cache"):
        layer.make_cache(B, T)
    with pytest.raises(ValueError, match="at most max_length=13 tokens, received 26"):
        layer(X, np.concatenate([X, X], axis=1))
    with pytest.raises(ValueError, match="has no position, received <AlibiBias"):
        linformer(position=layers.AlibiBias())
    with pytest.raises(ValueError, match="the rank of the layer, 3, received 2"):
        linformer(projection=layers.LinformerProjection(2, T))
    with pytest.raises(ValueError, match='share="all" is not one of "none", "heads"'):
        linformer(share="all")
    with pytest.raises(TypeError, match="must be a LinformerProjection or None"):
        linformer(projection=3)
    with pytest.raises(ValueError, match="rank must be at least 1, received 0"):
        linformer(rank=0)
