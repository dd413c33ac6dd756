"""The same numbers as KerasHub, by its presets, ours, and folders of Hugging Face."""

import json

import keras
import numpy as np
import pytest

from kerasseq import models, text
from kerasseq.layers import MixtureOfExperts
from kerasseq.positions.rotary import RotaryEmbedding
from kerasseq.pretrained import weight_files
from tests.pretrained.helpers import assert_same, inputs_of, made, outputs_of, shuffle

hub = pytest.importorskip("keras_hub")
pytestmark = [
    pytest.mark.full("KerasHub's layers are compositions, as ours are"),
    pytest.mark.filterwarnings("ignore:Layer .* was passed an input with a mask"),
    pytest.mark.filterwarnings("ignore:.*does not support masking"),
    pytest.mark.filterwarnings("ignore:The 'rwkv_ops' package is not installed"),
]
SIZES = {"vocabulary_size": 29, "num_layers": 2, "hidden_dim": 10}
LLAMA = {**SIZES, "hidden_dim": 24, "num_query_heads": 6, "num_key_value_heads": 3}
MAKE = {
    "gpt2": lambda: hub.models.GPT2Backbone(
        **SIZES, num_heads=2, intermediate_dim=17, max_sequence_length=13
    ),
    "bert": lambda: hub.models.BertBackbone(
        **SIZES, num_heads=2, intermediate_dim=17, max_sequence_length=13
    ),
    "llama": lambda: hub.models.LlamaBackbone(
        **LLAMA, intermediate_dim=17, rope_max_wavelength=500.0
    ),
    "llama3": lambda: hub.models.Llama3Backbone(
        **LLAMA,
        intermediate_dim=17,
        tie_word_embeddings=True,
        layer_norm_epsilon=1e-3,
        rope_max_wavelength=100.0,
        rope_frequency_adjustment_factor=4.0,
        rope_low_freq_factor=1.0,
        rope_high_freq_factor=2.0,
        rope_pretraining_sequence_length=16,
    ),
    "t5": lambda: hub.models.T5Backbone(
        **SIZES, num_heads=2, intermediate_dim=17, use_gated_activation=False
    ),
    "t5_1_1": lambda: hub.models.T5Backbone(
        **SIZES,
        num_heads=2,
        intermediate_dim=17,
        key_value_dim=3,
        activation=keras_gelu(),
        tie_embedding_weights=False,
    ),
    "rwkv7": lambda: hub.models.RWKV7Backbone(
        vocabulary_size=29,
        num_layers=3,
        hidden_size=12,
        head_size=4,
        intermediate_dim=17,
        decay_lora=7,
        aaa_lora=3,
        mv_lora=2,
        gate_lora=5,
    ),
    "vit": lambda: hub.models.ViTBackbone(
        image_shape=(6, 4, 3),
        patch_size=(2, 2),
        num_layers=2,
        num_heads=2,
        hidden_dim=10,
        mlp_dim=17,
        layer_norm_epsilon=1e-3,
    ),
}


def keras_gelu():
    """The function that KerasHub's presets of T5 1.1 name."""
    return keras.saving.get_registered_object("keras_hub>gelu_approximate")


def theirs(backbone, ours):
    """What KerasHub's backbone gives, where our model gives the same."""
    x = inputs_of(ours)
    if isinstance(ours, models.ViT):
        found = [backbone(2 * x - 1)[:, 0]]
    elif isinstance(ours, models.RWKV):  # its backbone has the head
        found = [backbone({"token_ids": x, "padding_mask": np.ones_like(x)})]
    elif isinstance(ours, models.GPT):
        x = {"token_ids": x, "padding_mask": np.ones_like(x)}
        found = [backbone.token_embedding(backbone(x), reverse=True)]
    elif isinstance(ours, models.T5):
        real = [(x[0] != 0).astype("int32"), np.ones_like(x[1])]
        named = {"encoder_token_ids": x[0], "encoder_padding_mask": real[0]}
        named |= {"decoder_token_ids": x[1], "decoder_padding_mask": real[1]}
        last = backbone(named)["decoder_sequence_output"]
        tied = backbone.tie_embedding_weights
        last = last * backbone.hidden_dim**-0.5 if tied else last
        found = [backbone.token_embedding(last, reverse=True)]
    else:
        real = (x["ids"] != 0).astype("int32")
        named = {"token_ids": x["ids"], "segment_ids": x["segments"]}
        said = backbone({**named, "padding_mask": real})
        real = keras.ops.cast(real[..., None], "float32")
        found = [said["pooled_output"], said["sequence_output"] * real]
    return [keras.ops.convert_to_numpy(one) for one in found]


@pytest.mark.parametrize("name", MAKE)
def test_a_preset_of_keras_hub_gives_its_outputs(name, tmp_path):
    backbone = MAKE[name]()
    shuffle(backbone.weights)
    backbone.save_to_preset(tmp_path)
    ours = models.from_pretrained(tmp_path)
    assert_same(outputs_of(ours), theirs(backbone, ours))


@pytest.mark.parametrize(
    "name", ["gpt2", "bert", "llama", "llama3", "rwkv7", "t5", "t5_1_1", "vit"]
)
def test_keras_hub_reads_our_preset(name, tmp_path):
    ours = made(name)
    models.save_pretrained(ours, tmp_path, format="keras_hub")
    backbone = hub.models.Backbone.from_preset(str(tmp_path))
    assert_same(outputs_of(ours), theirs(backbone, ours))
    assert_same(outputs_of(ours), outputs_of(models.from_pretrained(tmp_path)))


def test_the_tokenizer_of_rwkv7_both_ways(tmp_path):
    """With fewer ids than the model, as in the published files."""
    tokens = [b"", *(bytes([n]) for n in range(256)), b"the", b" cat"]
    tokenizer = text.RWKVTokenizer(tokens)
    lines = [f"{line}\n" for line in tokenizer.lines()]
    theirs = hub.tokenizers.RWKVTokenizer(vocabulary=lines)
    sizes = {"num_layers": 1, "hidden_size": 8, "head_size": 4, "intermediate_dim": 7}
    hub.models.RWKV7Backbone(vocabulary_size=263, **sizes).save_to_preset(tmp_path)
    theirs.save_to_preset(tmp_path)
    ours = models.from_pretrained(tmp_path)
    assert ours.tokenizer == tokenizer.padded(263)
    assert ours.generate("the cat", 3, seed=0).startswith("the cat")
    models.save_pretrained(ours, tmp_path / "ours", format="keras_hub")
    assert models.from_pretrained(tmp_path / "ours").tokenizer == ours.tokenizer
    found = hub.tokenizers.RWKVTokenizer.from_preset(str(tmp_path / "ours"))
    ids = np.asarray(found("the cat é")).tolist()
    assert ids == tokenizer.encode("the cat é").tolist()


def test_padding_on_the_left_of_rwkv7(tmp_path):
    backbone = MAKE["rwkv7"]()
    shuffle(backbone.weights)
    backbone.save_to_preset(tmp_path)
    stack = models.from_pretrained(tmp_path).stack
    ids = np.random.default_rng(0).integers(1, 29, (2, 7)).astype("int32")
    real = np.ones_like(ids)
    real[1, :3] = 0
    expected = keras.ops.convert_to_numpy(
        backbone({"token_ids": ids * real, "padding_mask": real})
    )
    h, _ = stack.hidden_states(stack.embedding(ids), mask=real.astype(bool))
    found = keras.ops.convert_to_numpy(stack.logits(h))
    assert_same([found[real == 1]], [expected[real == 1]])


@pytest.mark.parametrize("name", ["gpt2_wide", "bert", "llama", "llama3", "vit"])
def test_keras_hub_reads_our_folder_of_hugging_face(name, tmp_path):
    ours = made(name)
    models.save_pretrained(ours, tmp_path)
    backbone = hub.models.Backbone.from_preset(str(tmp_path))
    assert_same(outputs_of(ours), theirs(backbone, ours))


@pytest.mark.parametrize(
    ("name", "task"),
    [("bert_classify", "TextClassifier"), ("vit_classify", "ImageClassifier")],
)
def test_classifiers_both_ways(name, task, tmp_path):
    ours = made(name)
    models.save_pretrained(ours, tmp_path / "ours", format="keras_hub")
    task = getattr(hub.models, task)
    classifier = task.from_preset(str(tmp_path / "ours"))
    x = inputs_of(ours)
    if isinstance(ours, models.ViT):
        x_theirs = 2 * x - 1
    else:
        real = (x["ids"] != 0).astype("int32")
        x_theirs = {"token_ids": x["ids"], "segment_ids": x["segments"]}
        x_theirs["padding_mask"] = real
    said = keras.ops.convert_to_numpy(classifier(x_theirs, training=False))
    assert_same(outputs_of(ours), [said])
    classifier.save_to_preset(str(tmp_path / "theirs"))
    assert_same(outputs_of(models.from_pretrained(tmp_path / "theirs")), [said])


@pytest.mark.parametrize("name", ["gpt2", "llama3", "vit"])
def test_weights_in_several_files(name, tmp_path, monkeypatch):
    """Both ways; between two files even the weights of a layer are torn apart."""
    backbone = MAKE[name]()
    shuffle(backbone.weights)
    largest = max(w.shape[0] * w.shape[-1] * 4 for w in backbone.weights)
    for limit in (1.1 * largest, 3 * largest):
        theirs_at = tmp_path / f"theirs {limit}"
        backbone.save_to_preset(theirs_at, max_shard_size=limit / 2**30)
        table = json.loads((theirs_at / "model.weights.json").read_text())
        count = len(list(theirs_at.glob("*.h5")))
        assert count > 2
        ours = models.from_pretrained(theirs_at)
        assert_same(outputs_of(ours), theirs(backbone, ours))

        monkeypatch.setattr(weight_files, "MAX_SHARD_SIZE", limit)
        ours_at = tmp_path / f"ours {limit}"
        models.save_pretrained(ours, ours_at, format="keras_hub")
        written = json.loads((ours_at / "model.weights.json").read_text())
        assert written["metadata"] == table["metadata"]
        assert written["weight_map"].keys() == table["weight_map"].keys()
        assert len(list(ours_at.glob("*.h5"))) in (count - 1, count, count + 1)
        assert not list(ours_at.glob("part*"))
        again = hub.models.Backbone.from_preset(str(ours_at))
        assert_same(outputs_of(ours), theirs(again, ours))


def test_a_preset_in_bfloat16(tmp_path):
    backbone = hub.models.GPT2Backbone(
        **SIZES,
        num_heads=2,
        intermediate_dim=17,
        max_sequence_length=13,
        dtype="bfloat16",
    )
    shuffle(backbone.weights)
    backbone.save_to_preset(tmp_path)
    ours = models.from_pretrained(tmp_path)
    table = backbone.token_embedding.embeddings
    assert ours.stack.embedding.embeddings.dtype == "float32"
    np.testing.assert_array_equal(
        keras.ops.convert_to_numpy(ours.stack.embedding.embeddings),
        keras.ops.convert_to_numpy(keras.ops.cast(table, "float32")),
    )


@pytest.mark.parametrize("name", ["gpt2", "llama", "llama3", "bert", "t5_1_1", "vit"])
@pytest.mark.parametrize("targets", [None, "all"])
def test_its_adapters_are_read(name, targets, tmp_path):
    backbone = MAKE[name]()
    shuffle(backbone.weights)
    backbone.save_to_preset(tmp_path / "preset")
    ours = models.from_pretrained(tmp_path / "preset")
    before = outputs_of(ours)
    if targets is None and name == "t5_1_1":
        targets = ["query_projector"]  # its layers have other names than the default
    if targets == "all":
        dense = (keras.layers.Dense, keras.layers.EinsumDense)
        inside = backbone._flatten_layers()
        targets = sorted({x.name for x in inside if isinstance(x, dense)})
    backbone.enable_lora(2, targets)
    # It trains the biases as well, and does not save them.
    shuffle([w for w in backbone.trainable_weights if "lora" in w.name], seed=3)
    backbone.save_lora_weights(tmp_path / "a.lora.h5")
    ours.load_lora_weights(tmp_path / "a.lora.h5")
    expected = theirs(backbone, ours)
    assert np.abs(expected[0] - before[0]).max() > 0.01
    assert_same(outputs_of(ours), expected)


def test_mixtral():
    """Hidden states and losses of a model with experts, with padding.

    KerasHub's losses are those of ours: 1 for each layer where experts are equally
    busy, for every `top_k`.
    """
    sizes = {"num_key_value_heads": 3, "num_layers": 2, "hidden_dim": 24}
    sizes |= {"vocabulary_size": 29, "sliding_window": 4, "layer_norm_epsilon": 1e-3}
    backbone = hub.models.MixtralBackbone(
        **sizes,
        num_query_heads=6,
        intermediate_dim=17,
        num_experts=5,
        top_k=3,
        rope_max_wavelength=500,
        router_aux_loss_coef=0.5,
    )
    ours = models.GPT(
        **sizes,
        num_heads=6,
        intermediate_dim=None,
        feed_forward=MixtureOfExperts(5, 17, top_k=3, router_aux_loss_coef=0.5),
        position=RotaryEmbedding(500.0),
        norm="rms",
        use_bias=False,
        head=None,
    )
    shuffle(backbone.weights)
    experts, attention, norms = range(5, 9), range(4), (4, 9)  # in a block of theirs
    order = [2 + n for n in (*experts, *attention, *norms)]
    order = [0, *order, *(n + 10 for n in order), 22]
    for weight, n in zip(ours.weights, order, strict=True):
        weight.assign(backbone.weights[n])
    ids = np.random.default_rng(1).integers(0, 29, (3, 7)).astype("int32")
    real = np.arange(7) < np.array([[7], [5], [2]])
    x = {"token_ids": ids, "padding_mask": real}
    found, _ = ours.stack.hidden_states(ours.stack.embedding(ids), mask=real)
    both = found, backbone(x)
    assert_same(*([keras.ops.convert_to_numpy(y)[real]] for y in both))
    layer, h = ours.stack.blocks[0].feed_forward, backbone.token_embedding(ids)
    layer(h, training=True, mask=real)
    block = backbone.transformer_layers[0]._sparse_moe_block
    block(h, attention_mask=real, training=True)
    losses = (keras.ops.stop_gradient(each.losses[-1]) for each in (layer, block))
    assert_same(*([keras.ops.convert_to_numpy(loss)] for loss in losses))
