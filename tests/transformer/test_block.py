"""Transformer blocks: wrong arguments, saving, tracing."""

import functools
import json

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq import layers
from tests.transformer.toys import (
    MEMORY,
    B,
    D,
    E,
    F,
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

BLOCKS = ["TransformerEncoder", "TransformerDecoder"]
MLP = keras.layers.Dense(D)


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"intermediate_dim": 0}, ValueError, "intermediate_dim must be at least 1"),
        ({"intermediate_dim": None}, TypeError, "intermediate_dim must be a whole"),
        ({"scale": "1"}, TypeError, "scale must be a number, received '1'"),
        (
            {"num_heads": 2.5},
            TypeError,
            "num_heads must be a whole number, received 2.5",
        ),
        (
            {"num_heads": 4, "num_key_value_heads": 3},
            ValueError,
            "must divide num_heads=4",
        ),
        ({"head_dim": 0}, ValueError, "head_dim must be at least 1"),
        ({"sliding_window": 0}, ValueError, "sliding_window must be at least 1"),
        ({"dropout": 1}, ValueError, "dropout=1 would drop everything"),
        ({"layer_norm_epsilon": 0}, ValueError, "layer_norm_epsilon must be a number"),
        ({"norm": "batch"}, ValueError, 'norm="batch" is not one of "layer", "rms"'),
        ({"norm": 3}, TypeError, 'norm must be "layer", "rms" or a layer'),
        ({"norm_placement": "before"}, ValueError, 'None, "post", "pre", "deep"'),
        (
            {"norm_placement": "post", "normalize_first": True},
            ValueError,
            '"pre" with normalize_first=True, received norm_placement="post"',
        ),
        ({"norm_placement": "deep"}, ValueError, "depth must be the number of layers"),
        (
            {"norm_placement": "deep", "depth": 0},
            ValueError,
            "depth must be at least 1",
        ),
        ({"depth": 2.5}, TypeError, "depth must be a whole number, received 2.5"),
        ({"depth": (2, 3, 4)}, TypeError, "depth must be a whole number"),
        (
            {"norm_placement": "deep", "depth": 2, "parallel": True},
            ValueError,
            'must be "pre" or "post" with parallel=True',
        ),
        ({"feed_forward": "swigl"}, ValueError, 'Did you mean "swiglu"?'),
        (
            {"feed_forward": 3},
            TypeError,
            "feed_forward must be a name, a layer",
        ),
        (
            {"feed_forward": "swiglu", "activation": "gelu"},
            ValueError,
            "received activation=gelu and .* Leave activation out",
        ),
        ({"feed_forward": MLP}, ValueError, "intermediate_dim must be None where"),
        (
            {"position": "rope"},
            TypeError,
            "position must be a position encoding",
        ),
    ],
)
def test_wrong_arguments(name, arguments, error, message):
    with pytest.raises(error, match=message.replace("?", r"\?")):
        getattr(layers, name)(**{"intermediate_dim": F, "num_heads": N, **arguments})


def test_depth_of_a_decoder():
    with pytest.raises(
        TypeError, match=r"depth must be a whole number, received \(2, 3\)"
    ):
        layers.TransformerDecoder(F, N, depth=(2, 3))
    with pytest.raises(ValueError, match="depth must be at least 1, received 0"):
        layers.TransformerEncoder(F, N, depth=(2, 0))


@pytest.mark.parametrize("name", BLOCKS)
def test_wrong_widths(name):
    with pytest.raises(
        ValueError, match="divide the hidden size 7, received num_heads=3.* head_dim=2"
    ):
        getattr(layers, name)(F, N)(X[:, :, :7])
    layer = built(getattr(layers, name)(F, N))
    with pytest.raises(ValueError, match="expected axis -1 of input shape to have va"):
        layer(X[:, :, :7])
    with pytest.raises(ValueError, match="expected ndim=3, found ndim=2"):
        layer(X[:, 0])


def models():
    """Models whose blocks have arguments that are hard to save."""
    inputs, memory = keras.Input((None, D), name="x"), keras.Input((None, E), name="e")
    real = keras.Input((None,), dtype="bool", name="real")
    mlp = layers.FeedForward(F, activation="silu", gated=True)
    decoder = layers.TransformerDecoder(
        None, N, feed_forward=mlp, norm="rms", norm_placement="pre", position=Near()
    )
    yield [inputs, memory], decoder(inputs, memory), [X, MEMORY]
    encoder = layers.TransformerEncoder(
        F,
        N,
        norm=keras.layers.LayerNormalization(epsilon=0.1),
        norm_placement="deep",
        depth=(3, 2),
        position=Turn(),
        kernel_initializer=keras.initializers.HeNormal(),
        head_dim=5,
    )
    y, alpha = encoder(inputs, real, return_attention_scores=True)
    yield [inputs, real], [y, alpha], [X, np.arange(T)[None] < [[T], [3]]]


@pytest.mark.parametrize("number", [0, 1])
def test_saved_and_loaded(number, tmp_path):
    inputs, outputs, values = list(models())[number]
    model = keras.Model(inputs, outputs)
    assert (outputs if number == 0 else outputs[0]).shape == (None, None, D)
    if number == 1:
        assert outputs[1].shape == (None, N, None, None)
    model.save(tmp_path / "model.keras")
    again = kerasseq.load_model(tmp_path / "model.keras")
    found, wanted = again(values), model(values)
    for a, b in zip(*(x if number else [x] for x in (found, wanted)), strict=True):
        np.testing.assert_allclose(numpy(a), numpy(b), atol=1e-5)
    layer = next(
        layer for layer in again.layers if type(layer).__name__.startswith("Transf")
    )
    assert isinstance(layer.position, (Near, Turn)[number])


@pytest.mark.parametrize("name", BLOCKS)
def test_config_round_trip(name):
    layer = getattr(layers, name)(
        None,
        4,
        dropout=0.1,
        activation="relu",
        layer_norm_epsilon=0.01,
        kernel_initializer="he_normal",
        bias_initializer="ones",
        norm=keras.layers.LayerNormalization(epsilon=0.1),
        norm_placement="deep",
        feed_forward=layers.FeedForward(F),
        use_bias=False,
        position=Turn(),
        num_key_value_heads=2,
        head_dim=3,
        scale=0.5,
        sliding_window=7,
        depth=5,
        seed=3,
    )
    config = json.loads(json.dumps(layer.get_config()))
    again = type(layer).from_config(config)
    assert again.get_config() == layer.get_config()
    for made in (layer, again):
        made.build((None, None, D))
    norm = again._self_attention_layer_norm
    assert norm.epsilon == 0.1 and type(norm) is keras.layers.LayerNormalization
    assert again._self_attention_layer.num_key_value_heads == 2
    assert again._self_attention_layer.sliding_window == 7
    assert again._self_attention_layer.factor == 0.5


def test_options_reach_the_sublayers():
    layer = layers.TransformerDecoder(
        F, 4, bias_initializer="ones", layer_norm_epsilon=0.25, sliding_window=3,
        position=Turn(), num_key_value_heads=2, scale=0.5,
    )  # fmt: skip
    layer.build((None, None, D), (None, None, E))
    own, cross = layer._self_attention_layer, layer._cross_attention_layer
    assert cross.position is None and cross.sliding_window is None
    assert own.position is layer.position and own.sliding_window == 3
    assert {a.num_key_value_heads for a in (own, cross)} == {2}
    assert {a.factor for a in (own, cross)} == {0.5}
    for weight in layer.weights:
        if weight.path.endswith("/bias"):
            assert np.all(numpy(weight) == 1), weight.path
    assert layer._cross_attention_layer_norm.epsilon == 0.25
    plain = layers.TransformerDecoder(F, N, use_bias=False)
    plain.build((None, None, D), (None, None, E))
    assert not any(w.path.endswith(("bias", "beta")) for w in plain.weights)


@pytest.mark.parametrize("name", BLOCKS)
def test_trace_does_not_change_the_output(name):
    inputs = [keras.Input((None, D)), keras.Input((None, E))]
    inputs = inputs[: 1 + (name == "TransformerDecoder")]
    layer = getattr(layers, name)(F, N, feed_forward="swiglu", name="block")
    model = keras.Model(inputs, layer(*inputs))
    values = [X, MEMORY][: len(inputs)]
    plain = numpy(model(values))
    with kerasseq.tracing.trace(model) as inside:
        traced = numpy(model(values))
    np.testing.assert_allclose(traced, plain, atol=1e-6)
    assert inside["block/self_attention/alignment"].shape == (B, N, T, T)
    assert inside["block/feed_forward/gate"].shape == (B, T, F)
    assert inside["block/feed_forward/hidden"].shape == (B, T, F)
    np.testing.assert_array_equal(inside["block/output"], traced)
    if len(inputs) == 2:
        assert inside["block/cross_attention/alignment"].shape == (B, N, T, S)


@keras.saving.register_keras_serializable("tests.transformer")
class Slope(layers.AttentionPosition):
    """A position encoding with a weight."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.slope = self.add_weight(name="slope", shape=(), initializer="ones")

    def bias(self, query_positions, key_positions, queries=None, scale=1.0):
        slope = ops.convert_to_tensor(self.slope)
        return slope * Near().bias(query_positions, key_positions)


def test_shared_objects_are_shared_after_loading(tmp_path):
    shared = {"position": Slope(), "feed_forward": layers.FeedForward(F)}
    inputs = keras.Input((None, D))
    x = inputs
    for _ in range(3):
        x = layers.TransformerEncoder(None, N, **shared)(x)
    model = keras.Model(inputs, x)
    shared["position"].slope.assign(0.3)
    model.save(tmp_path / "model.keras")
    again = kerasseq.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(numpy(again(X)), numpy(model(X)), atol=1e-5)
    assert len(again.weights) == len(model.weights)
    for name in shared:
        assert len({id(getattr(layer, name)) for layer in again.layers[1:]}) == 1
    assert type(again.layers[1].position) is Slope


def test_shared_feed_forward_has_its_weights_once():
    mlp = layers.FeedForward(F)
    blocks = [layers.TransformerEncoder(None, N, feed_forward=mlp) for _ in range(2)]
    for block in blocks:
        block.build((None, None, D))
    assert {id(w) for w in blocks[0].weights} & {id(w) for w in blocks[1].weights} == {
        id(w) for w in mlp.weights
    }
    assert ops.shape(blocks[1](blocks[0](X))) == (B, T, D)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("encoder", [False, True])
@pytest.mark.parametrize("name", BLOCKS)
def test_outputs_are_known_without_a_call(name, encoder, policy, monkeypatch):
    """Keras would run the block to infer them."""
    layer = getattr(layers, name)(F, N, dtype=policy)
    x, encoded = (  # of the dtype to which a call casts
        keras.Input(shape, dtype=layer.compute_dtype) for shape in ((None, D), (S, E))
    )
    mask = keras.Input((None,), dtype="bool")
    given = [x, encoded] if encoder and name == "TransformerDecoder" else [x]
    inferred = keras.Operation.compute_output_spec
    layer.build(*(part.shape for part in given))
    expected = inferred(layer, *given)
    monkeypatch.setattr(keras.Operation, "compute_output_spec", None)
    prefix = "decoder_" if layer.causal else ""
    y = layer(*given, **{f"{prefix}padding_mask": mask})
    assert (y.shape, y.dtype) == (expected.shape, expected.dtype)
    with pytest.raises(ValueError, match=f"{prefix}padding_mask must have"):
        layer(*given, **{f"{prefix}padding_mask": keras.Input((None, D), dtype="bool")})
    monkeypatch.undo()
    outputs = inferred(layer, *given, return_attention_scores=True)
    assert len(outputs) == 2 + (len(given) > 1)


def test_a_subclass_with_a_call_of_its_own_has_its_own_outputs():
    class Mean(layers.TransformerEncoder):
        def call(self, inputs):
            return ops.mean(super().call(inputs), axis=1)

    class Wrapped(layers.TransformerEncoder):
        @functools.wraps(layers.TransformerEncoder.call)  # also copies its attributes
        def call(self, *args, **kwargs):
            return ops.mean(super().call(*args, **kwargs), axis=1)

    replaced = layers.TransformerEncoder(F, N)
    replaced.call = lambda inputs, **kwargs: ops.mean(inputs, axis=1)
    for layer in (Mean(F, N), Wrapped(F, N), replaced):
        assert layer(keras.Input((T, D))).shape == (None, D)


def test_the_encoder_and_its_mask_are_checked_without_a_call():
    layer = layers.TransformerDecoder(F, N)
    layer.build((None, T, D), (None, S, E))
    with pytest.raises(ValueError, match="needs encoder_sequence"):
        layer(keras.Input((T, D)))
    wrong = keras.Input((3,), dtype="bool")
    with pytest.raises(ValueError, match="encoder_padding_mask must have"):
        layer(keras.Input((T, D)), keras.Input((S, E)), encoder_padding_mask=wrong)
