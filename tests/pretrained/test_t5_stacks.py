"""T5 with stacks of unequal depth, and its encoder alone."""

import json

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

import kerasseq
from kerasseq import models
from tests.pretrained.helpers import SIZES, assert_same, outputs_of, shuffle
from tests.pretrained.test_huggingface import FILE, rewrite

pytestmark = pytest.mark.once("tables of names and settings: the same on all backends")
UNEQUAL = {
    "vocabulary_size": 29,
    "published_ids": True,
    "num_decoder_layers": 3,
    **SIZES,
}


def array(x):
    return keras.ops.convert_to_numpy(x)


def ids_of():
    ids = np.random.default_rng(1).integers(2, 29, (3, 7)).astype("int32")
    ids[1, 5:] = 0
    return ids


def test_stacks_of_unequal_depth(tmp_path):
    model = models.T5(**UNEQUAL)
    shuffle(model.trainable_weights)
    assert (len(model.encoder.blocks), len(model.decoder.blocks)) == (2, 3)
    models.save_pretrained(model, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["num_layers"], config["num_decoder_layers"]) == (2, 3)
    tensors = load_file(tmp_path / FILE)
    kernel = array(model.decoder.blocks[2]._cross_attention_layer.query_dense.kernel)
    name = "decoder.block.2.layer.1.EncDecAttention.q.weight"
    np.testing.assert_array_equal(tensors[name], kernel.reshape(10, 10).T)
    same = models.from_pretrained(tmp_path)
    assert_same(outputs_of(same), outputs_of(model), 1e-6)
    rows = [row[row > 0] for row in ids_of()]
    said, wanted = (each.translate(rows, max_length=4) for each in (same, model))
    assert [t.text.tolist() for t in said] == [t.text.tolist() for t in wanted]
    with pytest.raises(ValueError, match="T5Backbone of KerasHub cannot have num_deco"):
        models.save_pretrained(model, tmp_path / "hub", format="keras_hub")


def test_the_encoder_of_a_file_alone(tmp_path):
    model, ids = models.T5(**UNEQUAL), ids_of()
    shuffle(model.trainable_weights)
    models.save_pretrained(model, tmp_path)
    rewrite(tmp_path, architectures=["T5EncoderModel"])
    with pytest.warns(UserWarning, match=r'as a T5Encoder without "decoder.*38 more'):
        encoder = models.from_pretrained(tmp_path)
    assert type(encoder) is models.T5Encoder
    wanted = array(model.encoder(ids)[0])[ids > 0]
    assert_same([array(encoder(ids))[ids > 0]], [wanted], 1e-6)
    models.save_pretrained(encoder, tmp_path / "alone")
    names = load_file(tmp_path / "alone" / FILE)
    assert not [name for name in names if "decoder" in name or "lm_head" in name]
    config = json.loads((tmp_path / "alone" / "config.json").read_text())
    assert config["architectures"] == ["T5EncoderModel"]
    same = models.from_pretrained(tmp_path / "alone")
    assert_same([array(same(ids))[ids > 0]], [wanted], 1e-6)


@pytest.mark.everywhere("predictions and files of a new model")
def test_an_encoder_is_saved_and_reads_texts(tmp_path):
    tokenizer = kerasseq.text.WordTokenizer().fit("a b c d")
    model = models.T5Encoder(tokenizer, **{**SIZES, "num_layers": 1})
    x = model.predict(["a c", "d"], verbose=0)
    ids = model.encode(["a c", "d"])
    assert ids.tolist() == [[1, 3, 1], [4, 1, 0]] and x.shape == (2, 8, 10)
    assert_same([array(model(ids))[ids > 0]], [x[:, :3][ids > 0]])
    model.save(tmp_path / "model.keras")
    same = kerasseq.load_model(tmp_path / "model.keras")
    assert_same([same.predict(["a c", "d"], verbose=0)], [x])


def test_wrong_arguments_of_t5():
    with pytest.raises(TypeError, match="num_decoder_layers must be a whole number"):
        models.T5(vocabulary_size=29, num_decoder_layers=1.5)
    with pytest.raises(ValueError, match="num_layers"):
        models.T5Encoder(vocabulary_size=29, num_layers=0)
    with pytest.raises(ValueError, match="received 29"):
        models.T5Encoder(vocabulary_size=29, **SIZES).predict([[29]])
