"""Each option of the blocks equals the equations in NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import layers
from kerasseq.transformer.initializers import FanInNormal, ScaledInitializer
from tests.transformer.references import Block, weights_of
from tests.transformer.toys import (
    MEMORY,
    B,
    D,
    E,
    F,
    K,
    N,
    Near,
    S,
    T,
    Turn,
    X,
    built,
    numpy,
)

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

OPTIONS = [
    {},
    {"norm_placement": "pre"},
    {"norm_placement": "deep", "depth": 6},
    {"norm": "rms", "norm_placement": "pre"},
    {"norm": "rms"},
    {"parallel": True},
    {"parallel": True, "norm_placement": "pre", "norm": "rms"},
    *({"feed_forward": name} for name in ("relu", "gelu", "silu", "glu", "bilinear")),
    *({"feed_forward": name} for name in ("reglu", "geglu", "swiglu")),
    {"use_bias": False},
    {"use_bias": False, "feed_forward": "swiglu", "norm": "rms"},
    {"num_key_value_heads": 1},
    {"head_dim": 5, "scale": 1.0},
    {"sliding_window": 2},
    {"position": Turn()},
    {"position": Near(), "num_key_value_heads": 1},
]


def reference(layer, alpha, options):
    position = options.get("position")
    known = {
        "norm_placement",
        "norm",
        "feed_forward",
        "parallel",
        "scale",
    } & options.keys()
    return Block(
        weights_of(layer),
        alpha=alpha,
        angle=float(isinstance(position, Turn)),
        slope=float(isinstance(position, Near)),
        **{name: options[name] for name in known},
    )


def seen(causal, options):
    """Where a query may attend, `(T, T)`."""
    distance = np.arange(T)[:, None] - np.arange(T)
    allowed = np.abs(distance) < options.get("sliding_window", T)
    return allowed & (distance >= 0) if causal else allowed


def close(found, wanted, atol=1e-5):
    np.testing.assert_allclose(numpy(found), wanted, atol=atol, rtol=1e-5)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_encoder(options):
    layer = built(layers.TransformerEncoder(F, N, **options))
    wanted, weights = reference(layer, (2 * 6) ** 0.25, options)(
        X, seen(False, options)
    )
    close(layer(X), wanted)
    found, alpha = layer(X, return_attention_scores=True)
    close(found, wanted)
    close(alpha, weights[0])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_decoder_alone(options):
    layer = built(layers.TransformerDecoder(F, N, **options))
    wanted, weights = reference(layer, (2 * 6) ** 0.25, options)(X, seen(True, options))
    close(layer(X), wanted)
    found, alpha = layer(X, return_attention_scores=True)
    close(found, wanted)
    close(alpha, weights[0])
    assert not any("cross" in weight.path for weight in layer.weights)


@pytest.mark.everywhere("an encoder and a decoder by NumPy", cases=1)
@pytest.mark.parametrize(
    "options", [o for o in OPTIONS if not o.get("parallel")], ids=str
)
def test_decoder_with_encoder(options):
    layer = layers.TransformerDecoder(F, N, **options)
    built(layer, (None, None, D), (None, None, E))
    allowed = np.random.default_rng(4).random((B, T, S)) < 0.6
    allowed[:, :, 0] = True
    block = reference(layer, (3 * 6) ** 0.25, options)
    wanted, weights = block(X, seen(True, options), MEMORY, allowed[:, None])
    found = layer(X, MEMORY, encoder_attention_mask=allowed)
    close(found, wanted)
    found, *alphas = layer(
        X, MEMORY, encoder_attention_mask=allowed, return_attention_scores=True
    )
    close(found, wanted)
    for alpha, weight in zip(alphas, weights, strict=True):
        close(alpha, weight)


def test_attention_masks():
    allowed = np.random.default_rng(5).random((B, T, T)) < 0.5
    allowed[:, range(T), range(T)] = True
    encoder = built(layers.TransformerEncoder(F, N))
    wanted, _ = Block(weights_of(encoder))(X, allowed[:, None])
    close(encoder(X, attention_mask=allowed), wanted)
    decoder = built(layers.TransformerDecoder(F, N))
    wanted, _ = Block(weights_of(decoder))(X, allowed[:, None])
    found = decoder(X, decoder_attention_mask=allowed, use_causal_mask=False)
    close(found, wanted)
    wanted, _ = Block(weights_of(decoder))(X, allowed[:, None] & seen(True, {}))
    close(decoder(X, decoder_attention_mask=allowed), wanted)


def test_layers_as_feed_forward_and_norm():
    mlp = layers.FeedForward(F, activation="silu", gated=True, name="feed_forward")
    norm = keras.layers.LayerNormalization(epsilon=1e-5)
    layer = layers.TransformerEncoder(None, N, feed_forward=mlp, norm=norm)
    built(layer)
    wanted, _ = Block(weights_of(layer), feed_forward="swiglu")(X, True)
    close(layer(X), wanted)
    assert layer.feed_forward is mlp
    norms = [w.path for w in layer.weights if "norm" in w.path]
    assert len(set(norms)) == 4  # two norms of their own


def test_any_activation():
    layer = built(layers.TransformerEncoder(F, N, activation="gelu"))
    wanted, _ = Block(weights_of(layer), feed_forward="gelu")(X, True)
    close(layer(X), wanted)


def kernels_of(layer):
    return {
        w.path.partition("/")[2]: numpy(w) for w in layer.weights if "kernel" in w.path
    }


@pytest.mark.parametrize(
    ("name", "depth", "memory", "alpha", "beta"),
    [
        ("TransformerEncoder", 18, False, 36**0.25, 144**-0.25),
        (
            "TransformerEncoder",
            (18, 6),
            False,
            0.81 * (18**4 * 6) ** (1 / 16),
            0.87 * (18**4 * 6) ** (-1 / 16),
        ),
        ("TransformerDecoder", 18, False, 36**0.25, 144**-0.25),
        ("TransformerDecoder", 6, True, 18**0.25, 72**-0.25),
    ],
)
def test_deepnorm_constants(name, depth, memory, alpha, beta):
    shapes = [(None, None, D)] + [(None, None, E)] * memory
    cls = getattr(layers, name)
    ones = {"kernel_initializer": "ones"}
    layer = cls(F, N, norm_placement="deep", depth=depth, **ones)
    layer.build(*shapes)
    assert layer.alpha == pytest.approx(alpha)
    smaller = ("value", "attention_output", "intermediate_dense", "output_dense")
    for path, kernel in kernels_of(layer).items():
        wanted = beta if path.split("/")[-2] in smaller else 1
        np.testing.assert_allclose(kernel, wanted, rtol=1e-6, err_msg=path)
    plain = cls(F, N, norm_placement="pre", depth=depth, **ones)
    plain.build(*shapes)
    assert all(np.all(kernel == 1) for kernel in kernels_of(plain).values())
    assert plain.alpha == 1


def test_sublayers_have_different_initial_weights():
    layer = layers.TransformerEncoder(D, N, norm_placement="deep", depth=2)
    layer.build((None, None, D))
    kernels = list(kernels_of(layer).values())
    flat = [np.sort(kernel.ravel()) for kernel in kernels]
    for one, kernel in enumerate(flat):
        assert not any(np.allclose(kernel, other) for other in flat[:one])


def test_scaled_initializer_is_saved():
    scaled = ScaledInitializer("he_normal", 0.25)
    again = keras.initializers.deserialize(keras.initializers.serialize(scaled))
    assert again.get_config() == scaled.get_config()
    assert (
        numpy(ScaledInitializer("ones", 0.25)((2,), "float32")).tolist() == [0.25] * 2
    )


@pytest.mark.parametrize("shape", [(97, 5, 7), (5, 19, 97), (97, 53), (101, 97)])
def test_fan_in_normal_keeps_the_variance(shape):
    keras.utils.set_random_seed(1)
    kernel = FanInNormal(97)(shape, "float32")
    axes = 1 if shape[0] == 97 else len(shape) - 1
    x = np.random.default_rng(1).normal(size=(211, *shape[:axes]))
    y = np.tensordot(x, numpy(kernel), axes)
    assert y.std() == pytest.approx(1, abs=0.05)
    config = keras.initializers.serialize(FanInNormal(97))
    assert keras.initializers.deserialize(config).get_config() == {"width": 97}


@pytest.mark.parametrize("factor", [None, 0.0, 0.01, 1.0])
def test_initial_scores_do_not_grow_with_the_scale(factor):
    keras.utils.set_random_seed(1)
    made = {"kernel_initializer": FanInNormal(64), "use_bias": False, "scale": factor}
    layer = layers.TransformerEncoder(64, 2, **made)
    layer.build((None, None, 64))
    attention = layer._self_attention_layer
    x = np.random.default_rng(1).normal(size=(13, 64))
    heads = (attention.query_dense, attention.key_dense)
    q, k = (np.tensordot(x, numpy(dense.kernel), 1) for dense in heads)
    scores = attention.factor * np.einsum("tnk,snk->nts", q, k)
    wanted = 1 if factor in (None, 1.0) else factor * 32**0.5
    assert scores.std() == pytest.approx(wanted, abs=0.15)


@pytest.mark.parametrize("name", ["TransformerEncoder", "TransformerDecoder"])
def test_head_dim(name):
    layer = getattr(layers, name)(F, N, head_dim=5)
    layer.build((None, None, 7))  # 3 heads do not divide 7
    assert kernels_of(layer)["self_attention/query/kernel"].shape == (7, N, 5)
    plain = getattr(layers, name)(F, N)
    plain.build((None, None, D))
    assert kernels_of(plain)["self_attention/query/kernel"].shape == (D, N, K)
    assert ops.shape(layer(X[:, :, :7])) == (B, T, 7)
