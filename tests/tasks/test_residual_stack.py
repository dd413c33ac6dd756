"""Layers after attention by name: their residual blocks in every task model."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq.models import Seq2Seq, SequenceClassifier, SequenceTagger
from kerasseq.tasks.residual_stack import RESIDUAL, ResidualStack
from tests.layer_checks import check_layer
from tests.tasks.helpers import array

pytestmark = pytest.mark.full("the layers inside are tested everywhere")

B, T, V, D, C, H = 2, 7, 11, 5, 3, 4
rng = np.random.default_rng(0)
ids = rng.integers(1, V, (B, T)).astype("int32")
vectors = rng.normal(size=(B, T, D)).astype("float32")


@pytest.mark.parametrize("name", RESIDUAL)
def test_any_cut_gives_the_whole(name):
    keras.utils.set_random_seed(0)  # small norms amplify rounding in some networks
    layer = ResidualStack(name, H, num_layers=2)
    layer.build(vectors.shape)
    mask = np.array([[0, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0]], bool)
    whole, states, parts = array(layer(vectors, mask=mask)), None, []
    for cut in (slice(0, 1), slice(1, 5), slice(5, 7)):
        y, states = layer.advance(vectors[:, cut], states, mask[:, cut])
        parts.append(array(y))
    parts = np.concatenate(parts, axis=1)
    np.testing.assert_allclose(parts[mask], whole[mask], atol=1e-5)
    shapes = [tuple(state.shape) for state in layer.get_initial_state(B)]
    assert shapes == [tuple(state.shape) for state in states]


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("name", RESIDUAL)
def test_padding_and_later_steps(name, bidirectional):
    model = SequenceTagger(
        name, C, vocabulary_size=V, units=H, bidirectional=bidirectional
    )
    y = array(model(ids))
    zeros = np.zeros((B, 3), "int32")
    right = array(model(np.hstack([ids, zeros])))[:, :T]
    left = array(model(np.hstack([zeros, ids])))[:, 3:]
    np.testing.assert_allclose(right, y, atol=1e-4)
    np.testing.assert_allclose(left, y, atol=1e-4)
    other = ids.copy()
    other[:, -1] = ids[:, -1] % (V - 1) + 1
    change = np.abs(array(model(other)) - y).max(axis=(0, 2))
    assert change[-1] > 1e-5 and (change[:-1].max() > 1e-5) == bidirectional


def test_the_blocks_are_those_of_the_papers():
    def kinds(name):
        layer = ResidualStack(name, H, num_layers=2)
        layer.build((None, None, H))
        assert layer.projection is None
        block = layer.blocks[1]
        network = block._feedforward_sublayer
        found = type(layer.norm).__name__, network and type(network).__name__
        return [type(block._self_attention_layer).__name__, *found]

    assert kinds("mamba") == ["Mamba", "RMSNormalization", None]
    mixes = ["RWKV4TimeMix", "LayerNormalization", "RWKV4ChannelMix"]
    assert kinds("rwkv4") == mixes
    mixes = ["RWKV7TimeMix", "LayerNormalization", "RWKV7ChannelMix"]
    assert kinds("rwkv7") == mixes
    assert kinds("s4d") == ["S4D", "LayerNormalization", "FeedForward"]
    for name in ("rwkv4", "rwkv7"):
        for n, block in enumerate(ResidualStack(name, H, num_layers=3).blocks):
            block.build((None, None, H))
            for layer in block.state_carriers.values():
                assert (layer.layer_index, layer.num_layers) == (n, 3)


def test_blocks_of_rwkv7_read_the_values_of_the_first():
    """Without them, later blocks would not depend on the value kernel of the first."""
    layer = ResidualStack("rwkv7", H, num_layers=2)
    layer.build(vectors.shape)
    first, second = (block._self_attention_layer for block in layer.blocks)
    first.output_dense.kernel.assign(0 * first.output_dense.kernel)
    before = array(layer(vectors))
    first.value_dense.kernel.assign(2 * first.value_dense.kernel)
    assert np.abs(array(layer(vectors)) - before).max() > 1e-3
    up = second.value_up
    up.kernel.assign(0 * up.kernel)
    up.bias.assign(0 * up.bias - 50)  # the share of the first values is 0
    before = array(layer(vectors))
    first.value_dense.kernel.assign(2 * first.value_dense.kernel)
    np.testing.assert_allclose(array(layer(vectors)), before, atol=1e-6)


def test_linear_attention_knows_the_order():
    """In one block it is a sum over keys, but for the convolution before them."""
    layer = ResidualStack("linear_attention", H)
    layer.build(vectors.shape)
    swapped = vectors.copy()
    swapped[:, [0, 2]] = vectors[:, [2, 0]]
    change = array(layer(swapped))[:, -1] - array(layer(vectors))[:, -1]
    assert np.abs(change).max() > 1e-4


@pytest.mark.everywhere("trained, saved, loaded", cases=1)
@pytest.mark.parametrize("name", ["mamba", "rwkv4", "rwkv7"])
def test_classifier_learns_and_is_saved(name, tmp_path):
    keras.utils.set_random_seed(0)
    x = rng.integers(1, V, (64, T))
    y = (x[:, 0] > V // 2).astype("int32")  # must be carried to the last step
    model = SequenceClassifier(name, 2, vocabulary_size=V, units=16, dropout=0.1)
    model.compile(keras.optimizers.Adam(0.01))
    model.fit(x, y, epochs=80 if name == "rwkv7" else 40, verbose=0)
    loss, accuracy = model.evaluate(x, y, verbose=0)
    assert accuracy > 0.95
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert loaded.evaluate(x, y, verbose=0) == pytest.approx([loss, accuracy], rel=1e-4)
    found = model.step_by_step(x[0])  # one pass over the sequence
    expected = model.probabilities(model.predict(x[:1, :4], verbose=0))
    np.testing.assert_allclose(found.probabilities[3:4], expected, atol=1e-5)


def test_an_encoder_needs_a_recurrent_decoder():
    sizes = {"source_vocabulary_size": V, "target_vocabulary_size": V, "units": H}
    model = Seq2Seq("mamba", decoder="gru", **sizes)
    model.fit((ids, ids), ids, verbose=0)
    with pytest.raises(ValueError, match='recurrent .*received "mamba"'):
        Seq2Seq("mamba", **sizes)


def test_all_layer_checks():
    keras.utils.set_random_seed(0)  # norms of small vectors enlarge rounding errors

    def make(**options):
        return ResidualStack("rwkv4", H, num_layers=2, **options)

    check_layer(
        make(), vectors, (B, T, H), seeded=lambda seed: make(dropout=0.5, seed=seed)
    )


def test_messages():
    with pytest.raises(ValueError, match=r"num_heads must divide .* 6, received"):
        ResidualStack("gla", 6, num_heads=5)
    with pytest.raises(ValueError, match='architecture="lstm" is not one of'):
        ResidualStack("lstm", H)
    with pytest.raises(ValueError, match='even for "retention".* received 5. Choose 6'):
        ResidualStack("retention", 5)
    layer = ResidualStack("mamba", H)
    with pytest.raises(ValueError, match="that is not built"):
        layer.get_initial_state(B)
    layer.build((None, None, D))
    _, states = layer.advance(vectors)
    with pytest.raises(ValueError, match=r"states must have 2 tensors, received 1"):
        layer.advance(vectors, states[:1])
