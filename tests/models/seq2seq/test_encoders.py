"""Encoders of Seq2Seq: by name, layers and models of images; masks and pooling."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq.kernels import inference
from kerasseq.layers import GRU, LSTM, GRUCell, StackedRNN
from kerasseq.models import Seq2Seq
from kerasseq.models.seq2seq.pooling import EncoderPooling
from tests.models.seq2seq import references, toys

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

rng = np.random.default_rng(0)

ENCODERS = {
    "bidirectional": ("gru", {"bidirectional": True}),
    "layer": (lambda: LSTM(5, return_sequences=True, return_state=True), {}),
    "Keras": (
        lambda: keras.layers.GRU(5, return_sequences=True),
        {"decoder": "gru"},
    ),
    "Keras bidirectional": (
        lambda: keras.layers.Bidirectional(
            keras.layers.SimpleRNN(5, return_sequences=True)
        ),
        {"decoder": "gru"},
    ),
    "stacked": (
        lambda: StackedRNN([GRUCell(5)], bidirectional=True, return_sequences=True),
        {"decoder": "gru"},
    ),
    "convolution": (
        lambda: keras.layers.Conv1D(5, 3, padding="same"),
        {"decoder": "gru"},
    ),
}
# Bidirectional encoders, which are pooled at both ends.
BIDIRECTIONAL = {"bidirectional", "Keras bidirectional", "stacked"}


def build(kind, **more):
    architecture, options = ENCODERS[kind]
    if not isinstance(architecture, str):
        with toys.zero_initializers():
            architecture = architecture()
    return toys.ids_model(architecture, **options, **more)


@pytest.mark.parametrize("kind", ENCODERS)
def test_position_of_padding_has_no_effect(kind):
    made = build(kind)
    source = np.zeros((3, 9), "int32")
    source[0, :5] = source[1, 4:] = source[2, 2:7] = [3, 7, 4, 4, 6]
    state = toys.arrays(inference(made.initial_state_model)([source]))
    assert (state["source"]["mask"] == (source > 0)).all()
    memory = state["source"]["memory"][source > 0].reshape(3, 5, -1)
    assert memory.shape[-1] == (10 if kind in BIDIRECTIONAL else 5)
    summary = state["source"]["summary"]
    for rows in (memory, summary, *keras.tree.flatten(state["cell_states"])):
        np.testing.assert_allclose(rows[1:], rows[[0, 0]], atol=1e-5)
    if kind in BIDIRECTIONAL:
        ends = np.concatenate([memory[0, -1, :5], memory[0, 0, 5:]])
    else:
        ends = memory[0, -1]
    np.testing.assert_allclose(summary[0], ends, atol=1e-6)


def test_decoder_layer_is_separate():
    layer = GRU(7, return_sequences=True, update="replace", seed=3, name="custom")
    made = toys.ids_model(layer, units=5)
    (own,) = made.decoder.recurrent_layers
    assert own is not layer
    assert own.get_config() == layer.get_config()
    assert own.cell.kernel.shape == (5 + 7, 21)  # a token and a context
    assert layer.cell.kernel.shape == (5, 21)
    other = toys.ids_model(GRU(7, return_sequences=True), decoder="lstm", units=11)
    assert [type(r).__name__ for r in other.decoder.recurrent_layers] == ["LSTM"]
    assert other.decoder.units == 11
    by_layer = LSTM(13, return_sequences=True)
    assert toys.ids_model("gru", decoder=by_layer).decoder.recurrent_layers == [
        by_layer
    ]


def test_layer_names_and_sizes():
    made = toys.ids_model(
        "coupled_lstm", units=7, num_layers=2, embedding_dim=3, bidirectional=True
    )
    names = [layer.name for layer in made.layers]
    assert [n for n in names if "lstm" in n] == [
        "bidirectional_coupled_lstm_1",
        "bidirectional_coupled_lstm_2",
    ]
    assert [layer.name for layer in made.decoder.recurrent_layers] == [
        "coupled_lstm_1",
        "coupled_lstm_2",
    ]
    assert {layer.units for layer in made.decoder.recurrent_layers} == {7}
    embeddings = made.get_layer("embedding"), made.decoder.embedding
    assert [tuple(e.embeddings.shape) for e in embeddings] == [(8, 3), (8, 3)]
    assert made.decoder.attention.units == 7
    dropping = toys.ids_model("gru", dropout=0.25)
    assert (
        dropping.decoder.dropout_layer.rate == dropping.get_layer("gru").dropout == 0.25
    )


def test_pooling_equals_numpy():
    h = rng.normal(size=(3, 7, 4)).astype("float32")
    mask = np.array([[1] * 7, [0, 0, 1, 1, 1, 0, 0], [0, 1, 0, 0, 0, 0, 1]], bool)
    ends = [[0, 6], [2, 4], [1, 6]]
    wanted = {
        "last": np.stack([h[n, last] for n, (_, last) in enumerate(ends)]),
        "both_ends": np.stack(
            [
                np.concatenate([h[n, last, :2], h[n, first, 2:]])
                for n, (first, last) in enumerate(ends)
            ]
        ),
        "mean": np.stack([h[n][mask[n]].mean(axis=0) for n in range(3)]),
    }
    for mode, expected in wanted.items():
        layer = EncoderPooling(mode)
        np.testing.assert_allclose(toys.array(layer(h, mask=mask)), expected, atol=1e-6)
        unmasked = toys.array(layer(h[:1]))
        np.testing.assert_allclose(unmasked, expected[:1], atol=1e-6)
        assert EncoderPooling.from_config(layer.get_config()).mode == mode
        assert layer(keras.Input((None, 4))).shape == (None, 4)
    with pytest.raises(ValueError, match='mode="first" is not one of "last"'):
        EncoderPooling("first")


def image_encoder(shape):
    """A convolution of patches of 2 x 2 pixels."""
    return keras.Sequential(
        [
            keras.Input(shape, name="image"),
            keras.layers.Conv2D(7, 2, strides=2, activation="tanh", name="cells"),
        ],
        name="image_encoder",
    )


def captioner(shape=(4, 4, 1), **options):
    options = {"decoder": "elman", "units": 16, **options}
    with toys.zero_initializers():
        made = Seq2Seq(image_encoder(shape), target_tokenizer=toys.LETTERS, **options)
    return toys.randomize(made, 0.4)


IMAGES = rng.normal(size=(4, 4, 4, 1)).astype("float32")
CAPTIONS = ["ab", "ad", "cb", "cd"]


def test_image_captions(tmp_path):
    """Alignments have a column for each cell of the feature map."""
    made = captioner()
    assert [x.name for x in made.inputs] == ["source", "target"]
    on_jax = keras.backend.backend() == "jax"
    made.compile(keras.optimizers.Adam(0.03), jit_compile=on_jax)
    made.fit(IMAGES, CAPTIONS, batch_size=4, epochs=60, verbose=0)
    found = made.translate(IMAGES, max_length=5)
    assert [t.text for t in found] == CAPTIONS
    ids = np.array(
        [[1, 3 + "abcde".index(a), 3 + "abcde".index(b)] for a, b in CAPTIONS]
    )
    state = toys.arrays(made.initial_state(IMAGES, 5))["source"]
    args = state["memory"], state["summary"], np.ones((4, 4), bool)
    _, expected = references.run(made.decoder, ids, *args)
    for translation, alignment in zip(found, expected, strict=True):
        assert translation.source_tokens == ["0", "1", "2", "3"]
        assert translation.alignment.shape == (3, 4)
        np.testing.assert_allclose(translation.alignment, alignment, atol=1e-5)
    assert made.translate([]) == []
    made.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert [t.text for t in loaded.translate(list(IMAGES), max_length=5)] == CAPTIONS


def test_cells_of_a_feature_map_are_source_positions():
    made = captioner(attention="luong")
    state = toys.arrays(inference(made.initial_state_model)([IMAGES]))["source"]
    cells = toys.array(made.get_layer("image_encoder")(IMAGES)).reshape(4, 4, 7)
    np.testing.assert_allclose(state["memory"], cells, atol=1e-6)
    np.testing.assert_allclose(state["summary"], cells.mean(axis=1), atol=1e-6)
    assert state["mask"].all()
    assert made.source_length(IMAGES) == 4
    any_size = captioner(shape=(None, None, 1))
    assert any_size.source_length(np.zeros((2, 6, 4, 1))) == 6
