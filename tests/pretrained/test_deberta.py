"""`BERT` in folders of DeBERTa: hidden states and logits equal to Hugging Face's."""

import json

import keras
import numpy as np
import pytest

from kerasseq import layers, models

pytestmark = pytest.mark.once("the peers are written in PyTorch")

V = 29
SIZES = {
    **{"vocab_size": V, "hidden_size": 12, "num_hidden_layers": 2},
    **{"num_attention_heads": 3, "intermediate_size": 17},
    **{"max_position_embeddings": 13, "relative_attention": True},
    **{"position_biased_input": False, "type_vocab_size": 0},
}
V3 = {
    **{"pos_att_type": ["p2c", "c2p"], "share_att_key": True, "position_buckets": 4},
    **{"norm_rel_ebd": "layer_norm", "max_relative_positions": -1},
}
CONFIGS = {
    "deberta": {"pos_att_type": ["c2p", "p2c"], "max_relative_positions": 5},
    "deberta-segments": {
        **{"pos_att_type": ["c2p"], "type_vocab_size": 2},
        **{"position_biased_input": True, "hidden_act": "gelu_new"},
    },
    "deberta_v2": V3,
    "deberta_v2-xlarge": {**V3, "conv_kernel_size": 3, "conv_act": "gelu"},
    "deberta_v2-plain": {
        **{"pos_att_type": ["p2c"], "share_att_key": True, "position_buckets": -1},
        **{"max_relative_positions": 4, "norm_rel_ebd": "none"},
    },
}
CLASSES = {"deberta": "Deberta", "deberta_v2": "DebertaV2"}
SPECIAL = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}


def array(x):
    return keras.ops.convert_to_numpy(x)


def inputs():
    """Ids, of which one row is shorter, and segments."""
    rng = np.random.default_rng(0)
    ids = rng.integers(5, V, (3, 11)).astype("int32")
    ids[1, 7:] = 0
    segments = np.repeat([[0] * 5 + [1] * 6], 3, axis=0).astype("int32")
    return ids, segments


@pytest.fixture(scope="module")
def torch():
    if keras.backend.backend() != "torch":
        pytest.skip("the weights are tensors of PyTorch")
    return pytest.importorskip("torch")


def theirs(torch, name, ending="Model"):
    """A model of Hugging Face with random weights, and its class."""
    kind = name.partition("-")[0]
    modules = f"transformers.models.{kind}"
    config = pytest.importorskip(f"{modules}.configuration_{kind}")
    module = pytest.importorskip(f"{modules}.modeling_{kind}")
    cls = getattr(module, f"{CLASSES[kind]}{ending}")
    torch.manual_seed(0)
    config = getattr(config, f"{CLASSES[kind]}Config")(**{**SIZES, **CONFIGS[name]})
    model = cls(config)
    for path, weight in model.named_parameters():
        is_scale = "LayerNorm" in path and path.endswith("weight")
        torch.nn.init.normal_(weight, mean=float(is_scale), std=0.4)
    return model, cls


def run(torch, model):
    """The first output of a model of Hugging Face."""
    ids, segments = inputs()
    ids, segments, read = map(torch.tensor, (ids, segments, ids != 0))
    with torch.no_grad():
        y = model.eval()(ids, attention_mask=read.int(), token_type_ids=segments)
    return y[0].cpu().numpy()


def assert_near(found, expected):
    """Equality at real tokens."""
    real = inputs()[0] != 0
    np.testing.assert_allclose(found[real], expected[real], atol=1e-4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CONFIGS)
def test_hidden_states_are_theirs(torch, name, tmp_path):
    model, cls = theirs(torch, name)
    expected = run(torch, model)
    model.save_pretrained(tmp_path / "theirs")
    ours = models.from_pretrained(tmp_path / "theirs")
    ids, segments = inputs()
    found = ours({"ids": ids, "segments": segments})["sequence"]
    assert_near(array(found), expected)
    models.save_pretrained(ours, tmp_path / "ours")
    again, info = cls.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(info.values())
    assert_near(run(torch, again), expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ending", ["ForMaskedLM", "ForTokenClassification"])
def test_heads_are_theirs(torch, ending, tmp_path):
    model, cls = theirs(torch, "deberta_v2", ending)
    expected = run(torch, model)
    model.save_pretrained(tmp_path / "theirs")
    ours = models.from_pretrained(tmp_path / "theirs")
    ids, segments = inputs()
    given = {"ids": ids, "segments": segments}
    if ending == "ForMaskedLM":
        given["positions"] = np.tile(np.arange(11, dtype="int32"), (3, 1))
        found = ours(given)["tokens"]
    else:
        found = ours(given)
    assert_near(array(found), expected)
    models.save_pretrained(ours, tmp_path / "ours")
    again, info = cls.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(info.values())
    assert_near(run(torch, again), expected)


def small(**options):
    table = layers.DisentangledTable(7, num_buckets=4, use_norm=True)
    position = layers.DisentangledPosition(table, share_kernels=True)
    sizes = {"vocabulary_size": V, "num_layers": 2, "num_heads": 2, "hidden_dim": 8}
    sizes |= {"max_sequence_length": 13, "num_segments": None, "embed_positions": False}
    sizes |= {"head": "sequence", "position": position, "activation": "gelu"}
    return models.BERT(**{**sizes, **options})


def test_a_folder_and_a_file(tmp_path):
    model = small(num_layers=1)
    ids, segments = inputs()
    given = {"ids": ids, "segments": segments}
    expected = array(model(given)["sequence"])
    models.save_pretrained(model, tmp_path / "folder")
    same = models.from_pretrained(tmp_path / "folder")
    np.testing.assert_allclose(array(same(given)["sequence"]), expected, atol=1e-5)
    model.save(tmp_path / "model.keras")
    saved = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(array(saved(given)["sequence"]), expected, atol=1e-5)


def test_a_head_is_added_and_trained():
    model = small(special_ids=SPECIAL).with_head("classify", 2)
    assert sum("table" in w.path for w in model.weights) == 3  # shared by all blocks
    ids, labels = inputs()[0], np.array([0, 1, 0])
    before = [array(w).copy() for w in model.trainable_weights]
    model.fit(ids, labels, epochs=1, verbose=0)
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert np.any(array(weight) != old), weight.path
    _, result = ids, model.predict(ids[:1, :7], verbose=0)
    assert result.shape == (1, 2)


def test_two_models_share_no_table():
    position = layers.DisentangledPosition(share_kernels=True)
    first, second = small(position=position), small(position=position)
    tables = [[w for w in m.weights if "table" in w.path] for m in (first, second)]
    assert len(tables[0]) == 1 and tables[0][0] is not tables[1][0]


def test_what_is_not_built(tmp_path):
    models.save_pretrained(small(special_ids=SPECIAL), tmp_path / "v3")
    path = tmp_path / "v3" / "config.json"
    settings = json.loads(path.read_text())
    for name, value in (
        ("share_att_key", False),
        ("relative_attention", False),
        ("pos_att_type", ["p2p"]),
        ("embedding_size", 5),
    ):
        path.write_text(json.dumps({**settings, name: value}))
        with pytest.raises(ValueError, match=rf"config.json: {name} = .*, but"):
            models.from_pretrained(tmp_path / "v3")
    with pytest.raises(ValueError, match="for deberta-v2 it has head=None"):
        models.save_pretrained(small(head=None), tmp_path / "new")
    with pytest.raises(ValueError, match="for bert it has num_segments=None"):
        models.save_pretrained(small(position=None), tmp_path / "new")
    with pytest.raises(TypeError, match="position must be .* received 'rope'"):
        models.BERT(vocabulary_size=V, position="rope")
