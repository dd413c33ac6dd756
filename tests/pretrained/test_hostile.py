"""Bad folders: nothing is loaded, nothing runs, and the error names both sides."""

import json
import os
import pickle
import re

import h5py
import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from kerasseq import models
from kerasseq.pretrained import weight_files
from tests.pretrained.helpers import SIZES, fresh, made
from tests.pretrained.test_huggingface import rewrite

pytestmark = pytest.mark.once("arguments, messages and files")

FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
HUB_FILE, HUB_INDEX = "model.weights.h5", "model.weights.json"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A right folder of each kind, to be copied."""
    found = {}
    for name in ("gpt2", "llama", "llama3", "bert", "t5", "vit"):
        for form in ("huggingface", "keras_hub"):
            folder = tmp_path_factory.mktemp(f"{name}_{form}")
            models.save_pretrained(made(name), folder, format=form)
            found[name, form] = {f.name: f.read_bytes() for f in folder.iterdir()}
    return found


@pytest.fixture
def copy(folders, tmp_path):
    def of(name, form="huggingface"):
        for file, content in folders[name, form].items():
            (tmp_path / file).write_bytes(content)
        return tmp_path

    return of


def refused(folder, *words, error=ValueError):
    """A folder is refused before there is a model."""

    def built(*arguments, **options):
        raise AssertionError("a model was built")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(error) as found:
        for model in (models.GPT, models.BERT, models.T5, models.ViT):
            patch.setattr(model, "__init__", built)
        models.from_pretrained(folder)
    for word in words:
        assert word in str(found.value), found.value
    return str(found.value)


def test_no_folder(tmp_path):
    refused(tmp_path / "none", "no folder", "downloads", error=FileNotFoundError)
    file = tmp_path / "file"
    file.write_text("")
    refused(file, "is a file", error=NotADirectoryError)
    folder = tmp_path / "empty"
    folder.mkdir()
    refused(folder, "no config.json", error=FileNotFoundError)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("{", "not JSON"),
        ("[1]", "no table"),
        ("[" * 100_000, "nested too deep"),
        ("{}", "model_type"),
        ('{"model_type": "gpt3"}', 'Did you mean "gpt2"'),
        ('{"model_type": ["gpt2"]}', "['gpt2']"),
        ('{"registered_name": "keras_hub>GPT2Backbone"}', "has no config"),
        ('{"registered_name": "keras_hub>GPT2Backbone", "config": 3}', "damaged"),
        ('{"registered_name": "builtins>eval", "config": {}}', "builtins>eval"),
        ('{"class_name": "Lambda", "config": {"function": "x"}}', "Lambda"),
        ('{"registered_name": "keras_hub>GemmaBackbone", "config": {}}', "GemmaB"),
    ],
)
def test_damaged_settings(content, word, tmp_path):
    (tmp_path / "config.json").write_text(content)
    refused(tmp_path, word)


@pytest.mark.parametrize("names", [[], {}, 3, "BertForSequenceClassification", [[]]])
def test_classes_that_are_no_names(names, copy):
    """Without a known one there is the trunk."""
    folder = copy("bert")
    rewrite(folder, architectures=names)
    assert models.from_pretrained(folder).head is None


def test_settings_that_are_no_text(tmp_path):
    (tmp_path / "config.json").write_bytes(b"\xff\xfe{}")
    refused(tmp_path, "UTF-8")


def test_pickles_are_not_read(copy):
    folder, ran = copy("gpt2"), []

    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(folder / "ran"),)

    (folder / FILE).unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    refused(folder, "pytorch_model.bin", "pickle", "safetensors")
    assert not ran and not (folder / "ran").exists()
    (folder / FILE).write_bytes(pickle.dumps(Bomb()))
    refused(folder, "damaged")
    assert not (folder / "ran").exists()


def test_no_class_of_a_preset_is_made(copy, monkeypatch):
    """Whatever a preset names is data: Keras is never asked to make it."""
    folder = copy("gpt2", "keras_hub")
    config = json.loads((folder / "config.json").read_text())

    def refuse(*arguments, **options):
        raise AssertionError("something was made from the file")

    monkeypatch.setattr(keras.saving, "deserialize_keras_object", refuse)
    evil = {"class_name": "__lambda__", "config": {"value": ["YQ==", None, None]}}
    config["config"] |= {"dtype": evil, "num_layers": evil}
    (folder / "config.json").write_text(json.dumps(config))
    refused(folder, "num_layers", "__lambda__", "whole number")
    config["config"]["num_layers"] = 3
    (folder / "config.json").write_text(json.dumps(config))
    refused(folder, "transformer_decoder_2")
    (folder / "task.json").write_text("{")
    refused(folder, "task.json", "not JSON")


@pytest.mark.parametrize("cut", [0, 7, 300, -1])
def test_truncated_safetensors(cut, copy):
    folder = copy("gpt2")
    content = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(content[:cut])
    refused(folder, FILE, "damaged")


@pytest.mark.parametrize("cut", [0, 100, 3000])
def test_truncated_h5(cut, copy):
    folder = copy("gpt2", "keras_hub")
    content = (folder / HUB_FILE).read_bytes()
    (folder / HUB_FILE).write_bytes(content[:cut])
    refused(folder, HUB_FILE, "damaged")
    (folder / HUB_FILE).unlink()
    refused(folder, HUB_FILE, error=FileNotFoundError)
    (folder / HUB_INDEX).write_text("{}")
    refused(folder, "no weight_map")
    places = {"/layers/x/vars": ["model_00000.weights.h5", "../x"]}
    (folder / HUB_INDEX).write_text(json.dumps({"weight_map": places}))
    (folder / "model_00000.weights.h5").write_bytes(content)
    refused(folder, HUB_INDEX, "'../x'", "nothing outside")
    places = {f"/layers/{k}/vars": f"model_0000{k}.weights.h5" for k in (0, 1)}
    (folder / HUB_INDEX).write_text(json.dumps({"weight_map": places}))
    refused(folder, "model_00001.weights.h5, which is not", error=FileNotFoundError)
    (folder / "model_00001.weights.h5").write_bytes(content)
    refused(folder, "is in two files")


def test_no_weights(copy):
    folder = copy("gpt2")
    (folder / FILE).unlink()
    refused(folder, FILE, INDEX, error=FileNotFoundError)


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "t5", "vit"])
@pytest.mark.parametrize("form", ["huggingface", "keras_hub"])
def test_each_tensor_is_needed_and_of_one_shape(name, form, copy):
    folder = copy(name, form)
    for which in (0, 1, -1):
        copy(name, form)
        path, shape = change(folder, form, which, lambda array: None)
        refused(folder, "has no tensor", path.rpartition(".")[2], str(shape))
        copy(name, form)
        wrong = (*shape[:-1], shape[-1] + 1)
        path, _ = change(folder, form, which, lambda _, s=wrong: np.ones(s, "float32"))
        refused(folder, f'"{path}"', str(shape), str(wrong), "should be")
        copy(name, form)
    change(folder, form, 0, lambda array: array, also="something.else")
    refused(folder, "something.else", "no place")


def change(folder, form, which, function, also=None):
    """Put another array in the place of one of a file; none where it gives None."""
    if form == "huggingface":
        tensors = load_file(folder / FILE)
    else:
        tensors = {}
        with h5py.File(folder / HUB_FILE) as file:
            file.visititems(
                lambda name, data: (
                    tensors.update({name: data[()]}) if hasattr(data, "shape") else None
                )
            )
    name = sorted(tensors)[which]
    array = tensors.pop(name)
    other = function(array)
    if other is not None:
        tensors[name] = other
    if also is not None:
        tensors[also] = array
    if form == "huggingface":
        save_file(tensors, folder / FILE)
    else:
        with h5py.File(folder / HUB_FILE, "w") as file:
            for each, data in tensors.items():
                file[each] = data
    return name, array.shape


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("gpt2", {"n_embd": 10**12}, ["(29, 10)", "(29, 1000000000000)"]),
        ("gpt2", {"vocab_size": 10**30}, ["(29, 10)"]),
        ("gpt2", {"n_layer": 10**18}, ["h.2.ln_1.weight"]),
        ("gpt2", {"n_layer": 0}, ["n_layer", "0", "at least 1"]),
        ("gpt2", {"n_layer": 2.5}, ["n_layer", "2.5", "whole number"]),
        ("gpt2", {"n_layer": True}, ["n_layer", "True"]),
        ("gpt2", {"n_layer": "gone"}, ["no n_layer"]),
        ("gpt2", {"n_layer": 1}, ["h.1.", "no place", "more"]),
        ("gpt2", {"n_head": 7}, ["(10, 30)", "c_attn"]),
        ("gpt2", {"n_inner": 19}, ["(10, 17)", "(10, 19)"]),
        ("gpt2", {"n_head": 10**9}, ["c_attn"]),
        ("gpt2", {"activation_function": "swish"}, ["swish", "gelu_new"]),
        ("gpt2", {"activation_function": ["gelu"]}, ["['gelu']"]),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, ["inverse_layer", "True"]),
        ("gpt2", {"scale_attn_weights": False}, ["scale_attn_weights"]),
        ("gpt2", {"add_cross_attention": True}, ["add_cross_attention"]),
        ("gpt2", {"layer_norm_epsilon": -1}, ["layer_norm_epsilon", "above 0"]),
        ("gpt2", {"layer_norm_epsilon": float("nan")}, ["layer_norm_epsilon", "nan"]),
        ("gpt2", {"layer_norm_epsilon": 10**400}, ["layer_norm_epsilon", "above 0"]),
        ("gpt2", {"resid_pdrop": 1}, ["resid_pdrop", "below 1"]),
        ("gpt2", {"tie_word_embeddings": False}, ["lm_head.weight", "reverse"]),
        ("gpt2", {"tie_word_embeddings": 1}, ["tie_word_embeddings", "true or false"]),
        ("llama", {"hidden_act": "gelu"}, ["hidden_act", "gelu", "silu"]),
        ("llama", {"mlp_bias": True}, ["mlp_bias"]),
        ("llama", {"attention_bias": True}, ["mlp_bias"]),
        ("llama", {"num_key_value_heads": 2}, ["(12, 24)", "(8, 24)"]),
        ("llama", {"quantization_config": {"bits": 4}}, ["quantization_config"]),
        ("llama", {"rope_scaling": {"rope_type": "dynamic"}}, ["no factor"]),
        ("llama", {"rope_scaling": {"rope_type": "su"}}, ["'su'", "longrope"]),
        ("llama", {"rope_scaling": {"type": "longrope"}}, ["no short_factor"]),
        (
            "llama",
            {"rope_scaling": {"type": "longrope", "short_factor": [1]}},
            ["short_factor = [1]", "a list of 2 numbers"],
        ),
        (
            "llama",
            {"rope_scaling": {"type": "longrope", "short_factor": [1, "2"]}},
            ["short_factor", "'2'", "above 0"],
        ),
        ("llama", {"rope_scaling": {"rope_type": "linear"}}, ["no factor"]),
        ("llama", {"rope_scaling": [1]}, ["rope_scaling", "damaged"]),
        ("llama", {"rope_parameters": {"partial_rotary_factor": 0.5}}, ["partial"]),
        (
            "llama3",
            {"rope_scaling": {"rope_type": "llama3", "factor": 2}},
            ["low_freq"],
        ),
        ("bert", {"position_embedding_type": "relative_key"}, ["relative_key"]),
        ("bert", {"is_decoder": True}, ["is_decoder"]),
        ("bert", {"hidden_act": "mish"}, ["mish"]),
        ("bert", {"pad_token_id": -1}, ["pad_token_id", "-1"]),
        ("bert", {"pad_token_id": 29}, ["pad_token_id", "29"]),
        ("bert", {"mask_token_id": 29}, ["mask_token_id", "29"]),
        ("t5", {"num_decoder_layers": 3}, ["decoder.block.2", "no tensor"]),
        ("t5", {"num_decoder_layers": 1}, ["decoder.block.1", "no place"]),
        ("t5", {"feed_forward_proj": "gated-tanh"}, ["gated-tanh"]),
        ("t5", {"relative_attention_max_distance": 64}, ["max_distance", "64"]),
        ("t5", {"eos_token_id": 2}, ["eos_token_id"]),
        ("vit", {"qkv_bias": False}, ["qkv_bias"]),
        ("vit", {"qkv_bias": 1}, ["qkv_bias = 1"]),
        ("vit", {"patch_size": 3}, ["(10, 3, 2, 2)", "(10, 3, 3, 3)"]),
        ("vit", {"patch_size": [2, 2, 2]}, ["patch_size"]),
        ("vit", {"image_size": "big"}, ["image_size", "big"]),
        ("vit", {"image_size": 8}, ["(1, 10, 10)", "(1, 17, 10)"]),
        ("vit", {"image_size": 7}, ["image_size = 7", "patch_size = 2"]),
    ],
)
def test_settings_that_cannot_be_built(name, settings, words, copy):
    folder = copy(name)
    rewrite(folder, **settings)
    refused(folder, *words)


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("llama", {"rope_position_scaling_factor": 2.0}, ["scaling_factor", "2.0"]),
        ("llama", {"rope_low_freq_factor": 2.0}, ["rope_frequency_adjustment"]),
        ("t5", {"activation": "tanh"}, ["tanh", "gelu_approximate"]),
        ("t5", {"activation": {"config": {"a": 1}}}, ["activation"]),
        (
            "t5",
            {"use_gated_activation": True},
            ["gate_projector", "intermediate_dense"],
        ),
        ("vit", {"use_class_token": False}, ["use_class_token"]),
        ("vit", {"image_shape": [6, 6]}, ["image_shape"]),
        ("vit", {"image_shape": [6, 6, "3"]}, ["'3'"]),
        ("bert", {"num_segments": 10**15}, ["(2, 10)"]),
    ],
)
def test_presets_that_cannot_be_built(name, settings, words, copy):
    folder = copy(name, "keras_hub")
    config = json.loads((folder / "config.json").read_text())
    config["config"] |= settings
    (folder / "config.json").write_text(json.dumps(config))
    refused(folder, *words)


def test_the_other_values_of_the_pixels(copy):
    folder = copy("vit")
    processor = folder / "preprocessor_config.json"
    processor.write_text('{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.4, 1]}')
    refused(folder, "image_std", "0.4")
    processor.write_text('{"rescale_factor": 0.00784313725490196}')
    refused(folder, "rescale_factor", "0.0078", "0.0039")
    processor.write_text('{"rescale_factor": 0.00392156862745098}')
    models.from_pretrained(folder)


def test_the_other_values_of_the_pixels_of_keras_hub(copy):
    folder = copy("vit", "keras_hub")
    for config, words in (
        ({"scale": 1 / 255, "offset": 0}, ["scale", "0.0039", "0.00784"]),
        ({"scale": [1 / 127.5] * 3, "offset": [-1, -1, 0]}, ["offset", "[-1, -1, 0]"]),
        ({"scale": None, "offset": -1}, ["scale = None"]),
        ({"scale": "1", "offset": -1}, ["scale = '1'"]),
        (None, ["no config"]),
    ):
        content = json.dumps({"config": config})
        (folder / "image_converter.json").write_text(content)
        refused(folder, "image_converter.json", *words)
    for scale, offset in ((0.007843137718737125, -1), ([1 / 127.5] * 3, [-1.0] * 3)):
        content = json.dumps({"config": {"scale": scale, "offset": offset}})
        (folder / "image_converter.json").write_text(content)
        models.from_pretrained(folder)


@pytest.mark.parametrize("form", ["huggingface", "keras_hub"])
@pytest.mark.parametrize("name", ["bert_classify", "vit_classify"])
def test_classes_of_a_head_that_is_no_matrix(name, form, tmp_path):
    models.save_pretrained(made(name), tmp_path, format=form)
    if form == "huggingface":
        rewrite(tmp_path, lambda t: t | {"classifier.weight": np.array(3.0)})
        refused(tmp_path, "classifier.weight", "()")
        return
    with h5py.File(tmp_path / "task.weights.h5", "a") as file:
        del file["layers/dense/vars/0"]
        file["layers/dense/vars/0"] = np.float32(3)
    refused(tmp_path, "layers/dense/vars/0", "()")


@pytest.mark.parametrize("name", ["bert_classify", "vit_classify"])
def test_a_number_instead_of_classes(name, tmp_path):
    """One label, as those have it that were made for a regression."""
    models.save_pretrained(made(name), tmp_path)
    first = {"classifier.weight": slice(0, 1), "classifier.bias": slice(0, 1)}
    rewrite(tmp_path, lambda t: t | {key: t[key][rows] for key, rows in first.items()})
    with pytest.raises(ValueError, match="must be at least 2, received 1") as e:
        models.from_pretrained(tmp_path)
    assert str(tmp_path) in str(e.value)


@pytest.mark.parametrize(
    "file", ["../outside.safetensors", "/etc/passwd", "..", "a/b", "a\\b", "C:x", 3, ""]
)
def test_an_index_stays_in_its_folder(file, copy):
    folder = copy("gpt2")
    (folder / FILE).rename(folder.parent / "outside.safetensors")
    (folder / INDEX).write_text(json.dumps({"weight_map": {"wte.weight": file}}))
    refused(folder, INDEX, "outside", repr(file))


def test_damaged_indices(copy, monkeypatch, tmp_path):
    folder = copy("gpt2")
    tensors = load_file(folder / FILE)
    (folder / FILE).unlink()
    (folder / INDEX).write_text('{"weight_map": []}')
    refused(folder, "no weight_map")
    (folder / INDEX).write_text('{"weight_map": {"wte.weight": "a.safetensors"}}')
    refused(folder, "a.safetensors, which is not there", error=FileNotFoundError)
    monkeypatch.setattr(weight_files, "MAX_SHARD_SIZE", 3000)
    weight_files.write_safetensors(folder, tensors.items())
    last = sorted(folder.glob("model-*"))[-1]
    content = last.read_bytes()
    last.write_bytes(content[:-1])
    refused(folder, last.name, "damaged")
    save_file(tensors, last)
    refused(folder, "is in two files")


def test_one_weight_by_two_names(copy):
    folder = copy("gpt2")
    rewrite(folder, lambda t: t | {"wte.weight": t["transformer.wte.weight"]})
    refused(folder, "transformer.wte.weight", "has both")


def test_copies_must_be_equal(copy):
    folder = copy("gpt2")
    table = load_file(folder / FILE)["transformer.wte.weight"]
    rewrite(folder, lambda t: t | {"lm_head.weight": table + 1})
    refused(folder, "lm_head.weight", "transformer.wte.weight", "differ")


def test_numbers_of_another_type(copy):
    folder = copy("gpt2")
    name = "transformer.wte.weight"
    rewrite(folder, lambda t: t | {name: t[name].astype("int8")})
    refused(folder, name, "I8", "floats")
    folder = copy("gpt2", "keras_hub")
    name, _ = change(folder, "keras_hub", 0, lambda array: array.astype("int32"))
    refused(folder, name, "int32")


def test_h5_files_do_not_point_elsewhere(copy, tmp_path):
    """Links, parts of other files, and numbers that are not in the file."""
    name = "layers/reversible_embedding/vars/0"
    folder = copy("gpt2", "keras_hub")
    with h5py.File(folder / HUB_FILE, "a") as file:
        array = file[name][()]
        (folder.parent / "raw").write_bytes(array.tobytes())
        with h5py.File(folder.parent / "other.h5", "w") as other:
            other["x"] = array
        del file[name]
        file[name] = h5py.ExternalLink(str(folder.parent / "other.h5"), "x")
    refused(folder, "has no tensor", name)
    with h5py.File(folder / HUB_FILE, "a") as file:
        del file[name]
        place = [(str(folder.parent / "raw"), 0, h5py.h5f.UNLIMITED)]
        file.create_dataset(name, array.shape, "float32", external=place)
    refused(folder, name, "external")
    with h5py.File(folder / HUB_FILE, "a") as file:
        del file[name]
        layout = h5py.VirtualLayout(array.shape, "float32")
        layout[:] = h5py.VirtualSource(
            str(folder.parent / "other.h5"), "x", array.shape
        )
        file.create_virtual_dataset(name, layout)
    refused(folder, name, "external")
    with h5py.File(folder / HUB_FILE, "a") as file:
        del file[name]
        file.create_dataset(name, (10**9, 10**3), "float32", chunks=(10, 10))
    refused(folder, name, "4000000000000 bytes")
    with h5py.File(folder / HUB_FILE, "a") as file:
        del file[name]
        file.create_dataset(name, data=array, compression="gzip")
    refused(folder, name, "compressed")


def test_a_folder_that_is_right_builds_a_model(copy):
    assert models.from_pretrained(copy("gpt2")).vocabulary_size == 29


class TestWriting:
    @pytest.mark.parametrize("there", ["file", "folder"])
    def test_nothing_is_overwritten(self, there, tmp_path):
        path = tmp_path / "x"
        if there == "file":
            path.write_text("mine")
        else:
            path.mkdir()
            (path / "mine").write_text("mine")
        with pytest.raises(FileExistsError, match="there already"):
            models.save_pretrained(made("vit"), path)
        assert list(tmp_path.rglob("*mine")) or path.read_text() == "mine"
        assert [p.name for p in tmp_path.iterdir()] == ["x"]

    def test_what_fails_leaves_nothing(self, tmp_path, monkeypatch):
        def fail(*arguments):
            raise OSError("the disk is full")

        monkeypatch.setattr(weight_files, "write_safetensors", fail)
        with pytest.raises(OSError, match="full"):
            models.save_pretrained(made("vit"), tmp_path / "x")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        ("model", "words"),
        [
            ({"position": "alibi"}, "position='alibi' instead of 'learned'; for llama"),
            ({"feed_forward": "reglu"}, "feed_forward='reglu'"),
            ({"norm": "rms"}, "norm='rms' instead of 'layer'"),
            ({"head_dim": 3}, "head_dim=3 instead of 5"),
            ({"num_key_value_heads": 1}, "num_key_value_heads=1 instead of 2"),
            ({"sliding_window": 3}, "sliding_window=3"),
            ({"attention": ["min_gru", "multi_head"]}, "attention=['min_gru',"),
        ],
    )
    def test_models_that_others_do_not_have(self, model, words, tmp_path):
        options = {**SIZES, "feed_forward": "gelu", **model}
        model = models.GPT(vocabulary_size=29, **options)
        with pytest.raises(ValueError, match=re.escape(words)):
            models.save_pretrained(model, tmp_path / "x")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        ("model", "words"),
        [
            (lambda: models.GPT(vocabulary_size=9, **SIZES), "feed_forward='gelu'"),
            (lambda: models.BERT(vocabulary_size=9, head="tag", labels=3), "tag"),
            (
                lambda: models.BERT(vocabulary_size=9, activation="gelu"),
                "activation='gelu'",
            ),
            (
                lambda: models.ViT(
                    3, image_size=4, patch_size=2, feed_forward="relu", **SIZES
                ),
                "feed_forward='relu'",
            ),
            (
                lambda: models.T5(
                    vocabulary_size=9, relative_buckets=8, published_ids=True
                ),
                "relative_buckets=8",
            ),
        ],
    )
    def test_models_that_keras_hub_does_not_have(self, model, words, tmp_path):
        with pytest.raises(ValueError, match=f"KerasHub cannot have.*{words}"):
            models.save_pretrained(model(), tmp_path / "x", format="keras_hub")
        assert not list(tmp_path.iterdir())

    def test_other_things(self, tmp_path):
        lstm = models.LanguageModel("lstm", vocabulary_size=7, units=3)
        with pytest.raises(
            TypeError,
            match="GPT, Mamba, RWKV, XLSTM, BERT, T5Encoder, T5, ViT.*LanguageModel",
        ):
            models.save_pretrained(lstm, tmp_path / "x")
        task = made("gpt2").with_head("span")
        with pytest.raises(TypeError, match=r"GPTTask; pass its language_model\(\)"):
            models.save_pretrained(task, tmp_path / "x")
        with pytest.raises(TypeError, match="received int$"):
            models.save_pretrained(3, tmp_path / "x")
        with pytest.raises(ValueError, match='format="onnx"'):
            models.save_pretrained(made("vit"), tmp_path / "x", format="onnx")
        model = models.T5(vocabulary_size=9)
        with pytest.raises(ValueError, match="published_ids=False instead of True"):
            models.save_pretrained(model, tmp_path / "x")
        mean = models.ViT(3, image_size=4, patch_size=2, pooling="mean", **SIZES)
        with pytest.raises(ValueError, match="pooling='mean'"):
            models.save_pretrained(mean, tmp_path / "x")
        model = fresh("vit")
        model.blocks[0]._self_attention_layer.query_dense.enable_lora(2)
        with pytest.raises(ValueError, match="lora"):
            models.save_pretrained(model, tmp_path / "x")
        assert not list(tmp_path.iterdir())


def test_without_the_package(monkeypatch, tmp_path):
    import sys

    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match="pip install safetensors"):
        models.save_pretrained(made("vit"), tmp_path / "x")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes are of Unix")
@pytest.mark.parametrize(
    ("name", "form", "files"),
    [
        ("gpt2", "huggingface", ["config.json", FILE, INDEX]),
        ("vit", "huggingface", ["preprocessor_config.json"]),
        ("bert", "keras_hub", ["config.json", "task.json", HUB_FILE]),
        ("bert", "keras_hub", ["task.weights.h5"]),
        ("vit", "keras_hub", ["image_converter.json"]),
    ],
)
def test_pipes_are_not_waited_for(name, form, files, copy):
    for file in files:
        folder = copy(name, form)
        (folder / FILE).unlink(missing_ok=True) if file == INDEX else None
        (folder / file).unlink(missing_ok=True)
        os.mkfifo(folder / file)
        refused(folder, file, "pipe")
        (folder / file).unlink()


@pytest.mark.parametrize("depth", [101, 900])
def test_deep_nesting(depth, copy):
    folder = copy("gpt2")
    (folder / "config.json").write_text('{"a": ' + "[" * depth + "]" * depth + "}")
    refused(folder, "config.json", "nested too deep", "a[0][0]")
