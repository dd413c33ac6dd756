"""`attention=` of BERT and ViT: names, windows, global tokens; saved and padded."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import models, tracing
from kerasseq.transformer.mixers import OF_PAIRS
from tests.layer_checks import assert_close

pytestmark = pytest.mark.once("the layers are tested everywhere")

SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 8}
LONG = {"vocabulary_size": 31, "max_sequence_length": 83, "dropout": 0.0, **SIZES}
RNG = np.random.default_rng(0)
IDS = RNG.integers(5, 31, size=(3, 79))
IDS[:, 0] = 1
GLOBAL = [
    {},
    {"sliding_window": 3, "global_tokens": "first"},
    {"sliding_window": 3, "global_tokens": [7, 11]},
]
CASES = [*((name, {}) for name in OF_PAIRS if name != "longformer")]
CASES += [("longformer", options) for options in GLOBAL]


def inputs(ids):
    return {"ids": ids, "segments": np.zeros_like(ids)}


@pytest.mark.parametrize(("attention", "options"), CASES)
def test_bert(attention, options, tmp_path):
    keras.utils.set_random_seed(0)
    model = models.BERT(
        **LONG, attention=attention, **options, head="classify", labels=3
    )
    block = model.get_layer("block_0")
    assert type(block._self_attention_layer) is OF_PAIRS[attention]
    whole = keras.ops.convert_to_numpy(model(inputs(IDS)))
    alone = np.concatenate([model.predict(inputs(i[None]), verbose=0) for i in IDS])
    assert_close(alone, whole)
    padded = np.concatenate([IDS, np.zeros((3, 4), "int64")], axis=1)
    assert_close(model.predict(inputs(padded), verbose=0), whole)
    model.compile("sgd")
    x = [row[row > 0].tolist() for row in IDS]
    history = model.fit(x, [0, 1, 2], epochs=1, verbose=0)
    assert np.isfinite(history.history["loss"][0])
    model.save(tmp_path / "bert.keras")
    loaded = kerasseq.load_model(tmp_path / "bert.keras")
    assert_close(loaded(inputs(IDS)), model(inputs(IDS)))
    tagger = model.with_head("tag", 2)
    assert (
        type(tagger.get_layer("block_1")._self_attention_layer) is OF_PAIRS[attention]
    )
    if attention != "multi_head":
        with pytest.raises(ValueError, match=f"has attention='{attention}'"):
            models.save_pretrained(model, tmp_path / "folder")


def test_a_long_window_and_one_block_equal_all_pairs():
    dense = models.BERT(**LONG)
    for attention, options in (
        ("longformer", {"sliding_window": 83}),
        ("blockwise", {}),
        ("multi_head", {"sliding_window": 79}),
    ):
        other = models.BERT(**LONG, attention=attention, **options)
        other.set_weights(dense.get_weights())
        for name, found in other(inputs(IDS)).items():
            assert_close(found, dense(inputs(IDS))[name])


def test_global_tokens_read_all_and_are_read_by_all():
    model = models.BERT(
        **LONG, attention="longformer", sliding_window=2, global_tokens="first"
    )
    with tracing.trace(model) as inside:
        model(inputs(IDS[:1]))
    alpha = inside["block_0/self_attention/alignment"][0]  # (N, T, T)
    assert (alpha[:, 0] > 0).all() and (alpha[:, :, 0] > 0).all()
    assert not alpha[:, 5, 7:].any() and not alpha[:, 5, 1:4].any()
    chosen = models.BERT(
        **LONG, attention="longformer", sliding_window=2, global_tokens=[7, 11]
    )
    with tracing.trace(chosen) as inside:
        chosen(inputs(IDS[:1]))
    alpha = inside["block_0/self_attention/alignment"][0]
    reads_all = (alpha > 0).all(axis=(0, 2))
    np.testing.assert_array_equal(reads_all, np.isin(IDS[0], [7, 11]))


def test_the_mask_of_a_call_wins():
    longformer = {**LONG, "attention": "longformer", "sliding_window": 3}
    first, seven = (
        models.BERT(**longformer, global_tokens=tokens) for tokens in ([1], [7])
    )
    seven.set_weights(first.get_weights())
    expected = seven(inputs(IDS))
    found = first(inputs(IDS), global_mask=IDS == 7)
    assert_close(found["sequence"], expected["sequence"])
    again = first(inputs(IDS))["sequence"]  # of the model, as before
    assert np.abs(keras.ops.convert_to_numpy(again - expected["sequence"])).max() > 1e-4
    sizes = {"image_size": 12, "patch_size": 2, "channels": 1, **SIZES}
    options = {"attention": "longformer", "sliding_window": 3}
    vit = models.ViT(3, **sizes, **options, global_tokens="first")
    x = RNG.integers(0, 256, size=(2, 12, 12, 1)).astype("uint8")
    mask = np.arange(37)[None] == np.array([[0], [0]])
    assert_close(vit(x, global_mask=mask), vit(x))
    moved = keras.ops.convert_to_numpy(vit(x, global_mask=np.roll(mask, 5, axis=1)))
    assert np.abs(moved - keras.ops.convert_to_numpy(vit(x))).max() > 1e-6
    with pytest.raises(ValueError, match="at most max_global_tokens=1 .* received 2"):
        vit(x, global_mask=mask | np.roll(mask, 5, axis=1))
    with pytest.raises(ValueError, match="global_mask needs a BERT with global tokens"):
        models.BERT(**LONG)(inputs(IDS), global_mask=IDS == 7)


@pytest.mark.parametrize(("attention", "options"), CASES[:-1])
def test_vit(attention, options, tmp_path):
    keras.utils.set_random_seed(0)
    sizes = {"image_size": 12, "patch_size": 2, "channels": 1, **SIZES}
    model = models.ViT(3, **sizes, attention=attention, **options)
    x = RNG.integers(0, 256, size=(5, 12, 12, 1)).astype("uint8")
    whole = model.predict(x, verbose=0)
    assert_close(model.predict(x, batch_size=1, verbose=0), whole)
    model.save(tmp_path / "vit.keras")
    assert_close(
        kerasseq.load_model(tmp_path / "vit.keras").predict(x, verbose=0), whole
    )
    if attention == "linformer":
        with pytest.raises(ValueError, match="mixes patches first. Use attribution"):
            model.attention_map(x)
    else:
        assert_close(model.attention_map(x).sum(axis=(1, 2)), np.ones(5))
    if attention != "multi_head":
        with pytest.raises(ValueError, match=f"has attention='{attention}'"):
            models.save_pretrained(model, tmp_path / "folder")


def test_errors():
    with pytest.raises(ValueError, match='attention="gla" is not one of "multi_head"'):
        models.BERT(**LONG, attention="gla")
    with pytest.raises(ValueError, match='global_tokens need attention="longformer"'):
        models.BERT(**LONG, global_tokens="first")
    longformer = {"attention": "longformer"}
    with pytest.raises(ValueError, match='global_tokens="cls" is not one of "first"'):
        models.BERT(**LONG, **longformer, global_tokens="cls")
    with pytest.raises(ValueError, match="must be ids below 31, received 31"):
        models.BERT(**LONG, **longformer, global_tokens=[31])
    with pytest.raises(ValueError, match="sliding_window must be at least 1"):
        models.BERT(**LONG, **longformer, sliding_window=0)
    vit = {"image_size": 4, "patch_size": 2, **longformer, **SIZES}
    with pytest.raises(ValueError, match='needs the class token of pooling="token"'):
        models.ViT(3, **vit, global_tokens="first", pooling="mean")
    with pytest.raises(ValueError, match="global_tokens=.* is not one of"):
        models.ViT(3, **vit, global_tokens=[1])
    block = kerasseq.layers.TransformerEncoder(11, 2)
    x = np.ones((2, 5, 8), "float32")
    with pytest.raises(ValueError, match="global_mask needs a LongformerAttention"):
        block(x, global_mask=np.ones((2, 5), bool))
