"""Folders of Hugging Face: there and back, in all the ways that they are written.

That the names mean the same to others is shown with KerasHub in `test_keras_hub.py`.
"""

import json

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import kerasseq
from kerasseq import models
from kerasseq.positions.rotary import RotaryEmbedding
from kerasseq.pretrained import weight_files
from tests.pretrained.helpers import (
    LLAMA,
    MAKE,
    SIZES,
    assert_same,
    fresh,
    inputs_of,
    made,
    outputs_of,
    shuffle,
)

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

FILE = "model.safetensors"
BERT = {"vocabulary_size": 29, "max_sequence_length": 13, **SIZES}


def written(model, folder):
    """The model, and the tensors of its folder."""
    models.save_pretrained(model, folder)
    return load_file(folder / FILE)


def rewrite(folder, change_tensors=None, **settings):
    """Change what is in a folder."""
    config = json.loads((folder / "config.json").read_text())
    config = {k: v for k, v in {**config, **settings}.items() if v != "gone"}
    (folder / "config.json").write_text(json.dumps(config))
    if change_tensors:
        tensors = load_file(folder / FILE)
        save_file(change_tensors(tensors) or tensors, folder / FILE)


HUB_ALONE = ("llama3", "rwkv7", "t5_1_1", "bert_classify", "vit_classify")


@pytest.mark.everywhere("weights are assigned", cases=1)
@pytest.mark.parametrize(
    ("name", "form"),
    [(name, "huggingface") for name in MAKE if name != "rwkv7"]
    + [(name, "keras_hub") for name in HUB_ALONE],
)
def test_there_and_back(name, form, tmp_path):
    model = made(name)
    models.save_pretrained(model, tmp_path / "new" / "folder", format=form)
    same = models.from_pretrained(str(tmp_path / "new" / "folder"))
    assert type(same) is type(model)
    assert_same(outputs_of(same), outputs_of(model), 1e-6)
    assert not list(tmp_path.glob("new/.*"))  # nothing temporary is left


@pytest.mark.parametrize("head", ["tokens", "pretraining", "tag", "span"])
def test_heads_of_bert(head, tmp_path):
    classes = 5 if head == "tag" else None
    model = models.BERT(**BERT, head=head, labels=classes)
    shuffle(model.weights)
    models.save_pretrained(model, tmp_path)
    tensors = load_file(tmp_path / FILE)
    for theirs, path in (  # squares, too: no package here reads all of them
        ("cls.predictions.transform.dense", "token_dense"),
        ("bert.pooler.dense", "pooler"),
        ("classifier", "tags"),
        ("qa_outputs", "span"),
    ):
        if f"{theirs}.weight" in tensors:
            kernel = keras.ops.convert_to_numpy(model.get_layer(path).kernel)
            np.testing.assert_array_equal(tensors[f"{theirs}.weight"], kernel.T)
    same = models.from_pretrained(tmp_path)
    assert same.head == head
    assert_same(outputs_of(same), outputs_of(model), 1e-6)


@pytest.mark.parametrize(
    ("head", "labels", "several"),
    [
        ("classify", ["neg", "pos", "0"], False),
        ("classify", 3, True),
        ("tag", ["O", "B-X", "I-X"], False),
    ],
)
def test_names_of_labels(head, labels, several, tmp_path):
    model = models.BERT(**BERT, head=head, labels=labels, multi_label=several)
    models.save_pretrained(model, tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    names = ["LABEL_0", "LABEL_1", "LABEL_2"] if labels == 3 else labels
    assert settings["id2label"] == dict(zip("012", names, strict=True))
    assert settings["label2id"] == {name: n for n, name in enumerate(names)}
    same = models.from_pretrained(tmp_path)
    assert (same.labels, same.multi_label) == (model.labels, several)
    waiting = model.with_head(head)
    with pytest.raises(ValueError, match="labels that have not been learned yet"):
        models.save_pretrained(waiting, tmp_path / "new")


def test_class_0_of_next_sentence_is_that_b_follows_a(tmp_path):
    """As published weights have it, and `transformers`' `next_sentence_label`."""
    model = models.BERT(**BERT, head="pretraining")
    shuffle(model.weights)
    W = written(model, tmp_path)["cls.seq_relationship.weight"]
    kernel = keras.ops.convert_to_numpy(model.get_layer("next").kernel)
    np.testing.assert_array_equal(W[0], kernel[:, 1])
    zeros = {"cls.seq_relationship.weight": np.zeros_like(W)}
    follows = {"cls.seq_relationship.bias": np.array([3, -1], "float32"), **zeros}
    rewrite(tmp_path, lambda tensors: tensors | follows)
    same = models.from_pretrained(tmp_path)
    found = keras.ops.convert_to_numpy(same(inputs_of(same))["next"])
    assert found.tolist() == [[-1, 3]] * 3  # here 1 is "b follows a"


@pytest.mark.parametrize(
    "changes",
    [
        {"feed_forward": "relu", "layer_norm_epsilon": 1e-2},
        {"feed_forward": "gelu", "tie_embeddings": False},
    ],
)
def test_options_of_gpt2(changes, tmp_path):
    model = models.GPT(vocabulary_size=29, **SIZES, **changes)
    shuffle(model.weights)
    models.save_pretrained(model, tmp_path)
    assert_same(outputs_of(models.from_pretrained(tmp_path)), outputs_of(model), 1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        {"position": "rope", "num_key_value_heads": None, "head_dim": 6},
        {"use_bias": True, "position": RotaryEmbedding(100.0, scaling_factor=3.0)},
        {
            "layer_norm_epsilon": 1e-2,
            "position": RotaryEmbedding(
                100.0,
                rope_type="yarn",
                scaling_factor=4.0,
                beta_fast=8.0,
                original_max_position_embeddings=16,
                truncate=False,
                attention_factor=1.5,
            ),
        },
    ],
)
def test_options_of_llama(changes, tmp_path):
    model = models.GPT(**{**LLAMA, **changes})
    shuffle(model.weights)
    models.save_pretrained(model, tmp_path)
    assert_same(outputs_of(models.from_pretrained(tmp_path)), outputs_of(model), 1e-6)


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_options_of_bert_and_vit(activation, tmp_path):
    options = {"layer_norm_epsilon": 1e-2, **SIZES}
    bert = models.BERT(
        vocabulary_size=29, activation=activation, head="tokens", **options
    )
    vit = models.ViT(
        3, image_size=4, patch_size=2, feed_forward=activation, channels=1, **options
    )
    for model in (bert, vit):
        shuffle(model.weights)
        folder = tmp_path / model.name
        models.save_pretrained(model, folder)
        same = outputs_of(models.from_pretrained(folder))
        assert_same(same, outputs_of(model), 1e-6)


def test_options_of_t5(tmp_path):
    model = models.T5(
        vocabulary_size=29,
        feed_forward="swiglu",
        relative_buckets=8,
        layer_norm_epsilon=1e-2,
        published_ids=True,
        **SIZES,
    )
    shuffle(model.weights)
    models.save_pretrained(model, tmp_path)
    assert_same(outputs_of(models.from_pretrained(tmp_path)), outputs_of(model), 1e-6)


def test_the_tensors_of_t5(tmp_path):
    """No package here reads T5 of Hugging Face, so its layout stands here, too."""
    model = made("t5_1_1")
    tensors = written(model, tmp_path)
    ours = {w.path: keras.ops.convert_to_numpy(w) for w in model.weights}
    self_, cross = "self_attention", "cross_attention"
    for theirs, path in (
        ("encoder.block.1.layer.0.SelfAttention.q", f"encoder_block_1/{self_}/query"),
        ("encoder.block.1.layer.0.SelfAttention.k", f"encoder_block_1/{self_}/key"),
        ("decoder.block.1.layer.1.EncDecAttention.v", f"decoder_block_1/{cross}/value"),
    ):
        kernel = ours[f"{path}/kernel"]  # (D, N, K)
        np.testing.assert_array_equal(
            tensors[f"{theirs}.weight"].reshape(2, 3, 10), kernel.transpose(1, 2, 0)
        )
    for theirs, path in (
        ("encoder.block.1.layer.0.SelfAttention.o", f"encoder_block_1/{self_}"),
        ("decoder.block.1.layer.1.EncDecAttention.o", f"decoder_block_1/{cross}"),
    ):
        kernel = ours[f"{path}/attention_output/kernel"]  # (N, K, D)
        np.testing.assert_array_equal(
            tensors[f"{theirs}.weight"], kernel.reshape(6, 10).T
        )
    for theirs, path in (
        ("encoder.block.0.layer.1.DenseReluDense.wi_0", "encoder_block_0/gate"),
        ("decoder.block.0.layer.2.DenseReluDense.wi_1", "decoder_block_0/intermediate"),
        ("decoder.block.1.layer.2.DenseReluDense.wo", "decoder_block_1/output"),
    ):
        block, name = path.split("/")
        kernel = ours[f"{block}/feed_forward/{name}_dense/kernel"]
        np.testing.assert_array_equal(tensors[f"{theirs}.weight"], kernel.T)
    for theirs, path in (
        ("decoder.block.1.layer.0.layer_norm", f"decoder_block_1/{self_}_layer_norm"),
        ("decoder.block.1.layer.1.layer_norm", f"decoder_block_1/{cross}_layer_norm"),
        (
            "decoder.block.1.layer.2.layer_norm",
            "decoder_block_1/feedforward_layer_norm",
        ),
        ("decoder.final_layer_norm", "decoder_final_norm"),
    ):
        np.testing.assert_array_equal(
            tensors[f"{theirs}.weight"], ours[f"{path}/scale"]
        )
    bias = "layer.0.SelfAttention.relative_attention_bias.weight"
    for stack in ("encoder", "decoder"):
        path = f"{stack}_block_0/self_attention/relative_bias/embeddings"
        np.testing.assert_array_equal(tensors[f"{stack}.block.0.{bias}"], ours[path])
    assert len(tensors) == 2 + (2 + 1 + 2 * 9) + (1 + 1 + 2 * 14) - 1
    settings = json.loads((tmp_path / "config.json").read_text())
    assert settings["feed_forward_proj"] == "gated-gelu"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_types_of_numbers(dtype, tmp_path):
    model = made("gpt2")
    tensors = written(model, tmp_path)
    rounded = {name: array.astype(dtype) for name, array in tensors.items()}
    rewrite(tmp_path, lambda _: rounded)
    same = models.from_pretrained(tmp_path)
    table = keras.ops.convert_to_numpy(same.stack.embedding.embeddings)
    assert table.dtype == "float32"
    np.testing.assert_array_equal(
        table, rounded["transformer.wte.weight"].astype("float32")
    )


def test_several_files(tmp_path, monkeypatch):
    model = made("gpt2")
    monkeypatch.setattr(weight_files, "MAX_SHARD_SIZE", 3000)
    models.save_pretrained(model, tmp_path)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    files = sorted(file.name for file in tmp_path.glob("*.safetensors"))
    assert files == sorted(set(index["weight_map"].values())) and len(files) > 2
    assert all((tmp_path / file).stat().st_size < 6000 for file in files)
    # Two that follow each other would not fit into one.
    assert len(files) <= 2 * index["metadata"]["total_size"] / 3000 + 1
    assert_same(outputs_of(models.from_pretrained(tmp_path)), outputs_of(model), 1e-6)


def test_older_names_and_what_is_beside(tmp_path):
    """As the first files of BERT have it: other ends of names, counters, copies."""
    model = models.BERT(**BERT, head="pretraining")
    shuffle(model.weights)

    def older(tensors):
        found = {}
        for name, array in tensors.items():
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            found[name.replace("LayerNorm.bias", "LayerNorm.beta")] = array
        found["bert.embeddings.position_ids"] = np.arange(13.0)[None]
        table = found["bert.embeddings.word_embeddings.weight"]
        return found | {"cls.predictions.decoder.weight": table}

    written(model, tmp_path)
    rewrite(tmp_path, older, architectures=["BertForMaskedLM"])
    assert_same(outputs_of(models.from_pretrained(tmp_path)), outputs_of(model), 1e-6)


def test_a_trunk_without_its_prefix_and_other_heads(tmp_path):
    model = models.BERT(**BERT)
    shuffle(model.weights)

    def trunk(tensors):
        found = {name.removeprefix("bert."): x for name, x in tensors.items()}
        return found | {"classifier.weight": np.ones((1, 10), "float32")}

    written(model, tmp_path)
    rewrite(tmp_path, trunk, architectures=["BertForMultipleChoice"])
    with pytest.warns(UserWarning, match=r'without "classifier.weight" \(1, 10\)'):
        same = models.from_pretrained(tmp_path)
    assert same.head is None
    assert_same(outputs_of(same), outputs_of(model), 1e-6)


def test_the_pooler_of_a_vit_is_left_out(tmp_path):
    model = made("vit")
    written(model, tmp_path)
    pooler = {"pooler.dense.weight": np.ones((10, 10), "float32")}
    rewrite(tmp_path, lambda tensors: tensors | pooler)
    with pytest.warns(UserWarning, match=r'as a ViT without "pooler.dense.weight"'):
        same = models.from_pretrained(tmp_path)
    assert_same(outputs_of(same), outputs_of(model), 1e-6)


def test_rope_in_the_newer_form(tmp_path):
    model = made("llama3")
    written(model, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    newer = {"rope_theta": config["rope_theta"], **config["rope_scaling"]}
    newer["type"] = "linear"  # it may be there beside, and does not count then
    rewrite(tmp_path, rope_theta="gone", rope_scaling=None, rope_parameters=newer)
    assert_same(outputs_of(models.from_pretrained(tmp_path)), outputs_of(model), 1e-6)


def test_a_head_of_t5_without_a_factor_that_is_made_of_the_table(tmp_path):
    model = fresh("t5_1_1")
    written(model, tmp_path)

    def without_head(tensors):
        del tensors["lm_head.weight"]

    rewrite(tmp_path, without_head, tie_word_embeddings=True)
    rewrite(tmp_path, scale_decoder_outputs=False)
    same = models.from_pretrained(tmp_path)
    table = model.decoder.embedding
    table.reverse_embeddings.assign(keras.ops.transpose(table.embeddings))
    assert_same(outputs_of(same), outputs_of(model), 1e-6)


def test_t5_answers_in_published_ids(tmp_path):
    """0 starts and fills up, 1 ends, and tokens keep their numbers."""
    model = fresh("t5_1_1")
    source, _ = inputs_of(model)
    rows = [row[row > 0] for row in source]
    said = [t.text.tolist() for t in model.translate(rows, max_length=6)]
    for row, ids in zip(rows, said, strict=True):
        # What follows is not seen, and one length is compiled once.
        target, wanted = np.array([[0, 5, 5, 5, 5, 5, 5]]), []
        while len(wanted) < 6 and 1 not in wanted:
            logits = outputs_of(model, [row[None], target])[0]
            wanted.append(int(logits[0, len(wanted)].argmax()))
            target[0, len(wanted)] = wanted[-1]
        assert ids == [i for i in wanted if i > 1]
    (_, target), wanted = model.arrays(rows, [[5, 7], [9], [2]])
    assert target.tolist() == [[0, 5, 7], [0, 9, 0], [0, 2, 0]]
    assert wanted.tolist() == [[5, 7, 1], [9, 1, 0], [2, 1, 0]]
    batches = model.batches(rows, [[5, 7], [9], [2]], batch_size=3)
    (_, target), wanted = batches.batch(0)
    assert set(target[:, 0]) == {0} and all(1 in row for row in wanted)
    assert not np.any(target == 1) and sorted(wanted[:, 0]) == [2, 5, 9]
    model.fit(rows, [[5, 7], [9], [2]], batch_size=1, verbose=0)


def test_published_ids_and_a_tokenizer():
    """A source that is a text gets its end, a target its own from the model."""
    tokenizer = kerasseq.text.WordTokenizer().fit("a b c d")
    model = models.T5(tokenizer, published_ids=True, num_layers=1, hidden_dim=8)
    ids = tokenizer.encode("a c")
    (source, target), wanted = model.arrays(["a c"], ["a c"])
    assert source[0].tolist() == [*ids, 1]
    assert target[0].tolist() == [0, *ids] and wanted[0].tolist() == [*ids, 1]
    assert model.inputs[0].shape == (None, None)
    assert model.target_vocabulary.size == tokenizer.vocabulary_size


def test_a_model_that_was_loaded_is_written(tmp_path):
    model = made("t5")
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    models.save_pretrained(loaded, tmp_path / "folder")
    same = models.from_pretrained(tmp_path / "folder")
    assert_same(outputs_of(same), outputs_of(model), 1e-6)


@pytest.mark.parametrize("form", ["huggingface", "keras_hub"])
def test_a_tokenizer_goes_along(form, tmp_path):
    tokenizer = kerasseq.text.BytePairTokenizer(300).fit("hello world, hello all")
    model = models.GPT(tokenizer, feed_forward="gelu_tanh", **SIZES)
    models.save_pretrained(model, tmp_path, format=form)
    same = models.from_pretrained(tmp_path)
    assert same.tokenizer == tokenizer
    assert same.generate("hel", 5, seed=0) == model.generate("hel", 5, seed=0)


def test_checkpoint_with_a_foreign_tokenizer(tmp_path):
    model = models.BERT(**BERT)
    models.save_pretrained(model, tmp_path)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(chr, range(97, 121))]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    same = models.from_pretrained(tmp_path)
    assert same.tokenizer.vocabulary == words
    assert same.predict(["a b"], verbose=0)["pooled"].shape == (1, 10)
    assert same.tokenizer.lowercase is True
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert models.from_pretrained(tmp_path).tokenizer.lowercase is False
    (tmp_path / "tokenizer_config.json").write_text("[]")
    assert models.from_pretrained(tmp_path).tokenizer.lowercase is True
    (tmp_path / "vocab.txt").write_text("\n".join(words[:-1]) + "\n")
    with pytest.warns(UserWarning, match="a tokenizer.* has 28 ids, the model 29"):
        assert models.from_pretrained(tmp_path).tokenizer is None
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "Unknown"}}')
    with pytest.warns(UserWarning, match="json must be a tokenizer.json that the p"):
        assert models.from_pretrained(tmp_path).tokenizer is None


def test_tokenizers_of_presets(tmp_path):
    models.save_pretrained(models.BERT(**BERT), tmp_path / "bert", format="keras_hub")
    assets = tmp_path / "bert" / "assets" / "tokenizer"
    assets.mkdir(parents=True)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(chr, range(97, 121))]
    (assets / "vocabulary.txt").write_text("\n".join(words) + "\n")
    config = {"class_name": "BertTokenizer", "config": {"lowercase": False}}
    (tmp_path / "bert" / "tokenizer.json").write_text(json.dumps(config))
    tokenizer = models.from_pretrained(tmp_path / "bert").tokenizer
    assert tokenizer.vocabulary == words and tokenizer.lowercase is False

    options = {"feed_forward": "gelu_tanh", **SIZES}
    model = models.GPT(vocabulary_size=258, **options)
    models.save_pretrained(model, tmp_path / "gpt2", format="keras_hub")
    assets = tmp_path / "gpt2" / "assets" / "tokenizer"
    assets.mkdir(parents=True)
    learned = kerasseq.text.BytePairTokenizer(258).fit("hello hello")
    ids = {token: n for n, token in enumerate(learned.vocabulary)}
    (assets / "vocabulary.json").write_text(json.dumps(ids))
    merges = "\n".join(" ".join(pair[:2]) for pair in learned.get_config()["merges"])
    (assets / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    tokenizer = models.from_pretrained(tmp_path / "gpt2").tokenizer
    assert tokenizer.tokenize("hello") == learned.tokenize("hello")


def test_special_ids_without_a_tokenizer(tmp_path):
    model = models.BERT(vocabulary_size=104, **SIZES)
    models.save_pretrained(model, tmp_path)
    reader = models.from_pretrained(tmp_path).preprocessor
    assert reader.special_ids == model.preprocessor.special_ids
    others = ("unk", "cls", "sep", "mask")
    rewrite(tmp_path, pad_token_id=3, **{f"{n}_token_id": "gone" for n in others})
    reader = models.from_pretrained(tmp_path).preprocessor
    assert (reader.padding, reader.start, reader.end) == (3, 101, 102)
    assert reader.special_ids["[MASK]"] == 103


@pytest.mark.parametrize(
    ("name", "beside"),
    [
        ("gpt2", {"transformer.h.0.attn.bias": np.tri(13, dtype=bool)[None, None]}),
        ("bert", {"bert.embeddings.position_ids": np.arange(13)[None]}),
    ],
)
def test_what_is_no_weight_may_be_of_any_type(name, beside, tmp_path):
    model = made(name)
    written(model, tmp_path)
    rewrite(tmp_path, lambda tensors: tensors | beside)
    assert_same(outputs_of(models.from_pretrained(tmp_path)), outputs_of(model), 1e-6)


@pytest.mark.parametrize("form", ["huggingface", "keras_hub"])
def test_a_model_in_bfloat16(form, tmp_path):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("bfloat16")
    try:
        model = fresh("gpt2")
    finally:
        keras.config.set_dtype_policy(before)
    models.save_pretrained(model, tmp_path, format=form)
    found, wanted = (
        {w.path: keras.ops.convert_to_numpy(keras.ops.cast(w, "float32")) for w in ws}
        for ws in (models.from_pretrained(tmp_path).weights, model.weights)
    )
    assert found.keys() == wanted.keys()
    for path, array in wanted.items():
        np.testing.assert_array_equal(found[path], array)
