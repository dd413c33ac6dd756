"""Layers that read in one direction, by name and in both directions: WaveNet."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq.layers import WaveNet
from kerasseq.models import Seq2Seq, SequenceClassifier, SequenceTagger
from kerasseq.tasks.both_directions import BothDirections
from tests.layer_checks import check_layer
from tests.tasks.helpers import array

pytestmark = pytest.mark.full("the layer inside is tested everywhere")

B, T, V, D, C, H = 2, 7, 11, 5, 3, 4
rng = np.random.default_rng(0)
ids = rng.integers(1, V, (B, T)).astype("int32")
vectors = rng.normal(size=(B, T, D)).astype("float32")
mask = np.array([[1, 1, 1, 1, 0, 0, 0], [0, 1, 1, 1, 1, 1, 1]], bool)


def both(**options):
    return BothDirections(WaveNet(H, dilations=[1, 2], **options))


def test_the_second_half_reads_from_the_end():
    layer = both()
    layer.build(vectors.shape)
    y = array(layer(vectors, mask=mask))
    forward, backward = layer.forward_layer, layer.backward_layer
    turned = backward(vectors[:, ::-1].copy(), mask=mask[:, ::-1].copy())
    np.testing.assert_array_equal(y[..., :H], array(forward(vectors, mask=mask)))
    np.testing.assert_array_equal(y[..., H:], array(turned)[:, ::-1])


def test_each_copy_has_read_everything_at_its_last_step():
    layer = BothDirections(WaveNet(H, dilations=[1, 2]), return_sequences=False)
    layer.build(vectors.shape)
    y = array(layer(vectors, mask=mask))
    for row, real in enumerate(mask):
        alone = vectors[row : row + 1, real]
        ends = layer.forward_layer(alone), layer.backward_layer(alone[:, ::-1].copy())
        expected = np.concatenate([array(end)[0, -1] for end in ends])
        np.testing.assert_allclose(y[row], expected, atol=1e-6)
    model = SequenceClassifier(
        "wavenet", C, vocabulary_size=V, units=H, bidirectional=True
    )
    assert model.output_shape == (None, C)
    assert model.layers[-2].name == "bidirectional_wavenet"


def test_all_layer_checks():
    check_layer(
        both(), vectors, (B, T, 2 * H), seeded=lambda seed: both(dropout=0.5, seed=seed)
    )


def test_both_copies_draw_their_own_dropout():
    layer = both(dropout=0.5, seed=3)
    layer.build(vectors.shape)
    layer.backward_layer.set_weights(layer.forward_layer.get_weights())
    x = np.repeat(vectors[:, :1], T, axis=1)  # the same from both ends
    y = array(layer(x, training=True))
    assert np.abs(y[..., :H] - y[:, ::-1, H:]).max() > 1e-3


@pytest.mark.parametrize("bidirectional", [False, True])
def test_padding_and_later_steps(bidirectional, tmp_path):
    # Of few units with ReLU all may be zero.
    model = SequenceTagger(
        "wavenet", C, vocabulary_size=V, units=17, bidirectional=bidirectional
    )
    y = array(model(ids))
    zeros = np.zeros((B, 3), "int32")
    right = array(model(np.hstack([ids, zeros])))[:, :T]
    left = array(model(np.hstack([zeros, ids])))[:, 3:]
    np.testing.assert_allclose(right, y, atol=1e-5)
    np.testing.assert_allclose(left, y, atol=1e-5)
    other = ids.copy()
    other[:, -1] = ids[:, -1] % (V - 1) + 1
    change = np.abs(array(model(other)) - y).max(axis=(0, 2))
    assert change[-1] > 1e-4
    assert (change[:-1].max() > 1e-4) == bidirectional
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded(ids)), y)


def test_arguments_by_name():
    model = SequenceClassifier(
        "wavenet", C, features=D, units=H, num_layers=2, dropout=0.25
    )
    layer = model.get_layer("wavenet")
    assert (layer.units, layer.stacks, layer.dropout) == (H, 2, 0.25)
    assert layer.receptive_field == 1 + 1 + 2 * 1023


@pytest.mark.parametrize("bidirectional", [False, True])
def test_steps_of_a_classifier_are_its_answers_to_prefixes(bidirectional):
    model = SequenceClassifier(
        "wavenet", C, vocabulary_size=V, units=H, bidirectional=bidirectional
    )
    model.compile(run_eagerly=True)
    steps = model.step_by_step(ids[0])
    for t in range(T):
        logits = array(model(ids[:1, : t + 1]))[0]
        expected = model.probabilities(logits[None])[0]
        np.testing.assert_allclose(steps.probabilities[t], expected, atol=1e-5)
    name = "bidirectional_wavenet/forward_wavenet" if bidirectional else "wavenet"
    assert steps.values[f"{name}/block_1/gate"].shape == (T, H)


def test_it_encodes_for_a_recurrent_decoder():
    sizes = {"source_vocabulary_size": V, "target_vocabulary_size": V, "units": H}
    model = Seq2Seq("wavenet", decoder="gru", **sizes)
    assert model.get_layer("pooling").mode == "both_ends"
    padded = np.hstack([ids, np.zeros((B, 2), "int32")])
    np.testing.assert_allclose(
        array(model([padded, ids])), array(model([ids, ids])), atol=1e-5
    )
    with pytest.raises(ValueError, match='recurrent .*received "wavenet"'):
        Seq2Seq("wavenet", **sizes)


@pytest.mark.full("one fit of each architecture runs everywhere")
def test_it_learns_the_first_of_twenty_ids():
    keras.utils.set_random_seed(0)
    x = rng.integers(1, 9, (192, 20))
    y = (x[:, 0] > 4).astype("int32")
    model = SequenceClassifier("wavenet", 2, vocabulary_size=9, units=16)
    model.compile(keras.optimizers.Adam(0.01), run_eagerly=True)
    model.fit(x, y, epochs=15, verbose=0)
    assert model.evaluate(x, y, verbose=0)[1] > 0.95
