"""Adapters of PEFT and KerasHub, without these packages: numbers, and bad files."""

import functools
import json
import pickle
import sys

import h5py
import keras
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from kerasseq import models
from kerasseq.core.sublayers import flatten
from kerasseq.layers import MixtureOfExperts
from kerasseq.pretrained.low_rank import Product, join
from kerasseq.pretrained.vit import VIT
from tests.pretrained.helpers import LLAMA, shuffle

pytestmark = pytest.mark.once("arrays, files and messages")

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
IDS = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 10, "intermediate_dim": 17}
GPT2 = {"vocabulary_size": 29, "max_sequence_length": 13, **SIZES}
GPT2["feed_forward"] = "gelu_tanh"
QUERY = "base_model.model.model.layers.0.self_attn.q_proj"


def llama(**changes):
    options = {**LLAMA, **SIZES, "hidden_dim": 12, "position": "rope"}
    options["num_key_value_heads"] = 1
    model = models.GPT(**{**options, **changes})
    shuffle(model.trainable_weights)
    return model


def gpt2():
    model = models.GPT(**GPT2)
    shuffle(model.trainable_weights)
    return model


@functools.cache
def shared():
    """A model for files that are refused."""
    return llama()


def outputs(model):
    return keras.ops.convert_to_numpy(model(IDS))


def saved(model, path, rank, targets=None, seed=1):
    """Saves a new adapter of a model; returns the outputs with it."""
    model.enable_lora(rank, targets, lora_alpha=3)
    shuffle(model.trainable_weights, seed)
    model.save_lora_weights(path)
    return outputs(model)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The files of a folder for the shared model."""
    folder = tmp_path_factory.mktemp("whole") / "adapter"
    saved(llama(), folder, 2, ["query", "output_dense"])
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def folder(whole, tmp_path):
    for name, content in whole.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def refused(path, *words, error=ValueError, model=None):
    model = model or shared()
    with pytest.raises(error) as found:
        model.load_lora_weights(path)
    for word in words:
        assert word in str(found.value), str(found.value)
    assert not any(getattr(layer, "lora", None) for layer in flatten(model))


@pytest.mark.parametrize(
    ("field", "value", "right"),
    [
        ("peft_type", "LOHA", 'kerasseq reads "LORA"'),
        ("peft_type", None, "has no peft_type"),
        ("bias", "all", "kerasseq reads none"),
        ("use_dora", True, "kerasseq reads false"),
        (
            "target_parameters",
            ["mlp.experts.down_proj"],
            "reads null: experts of a mix",
        ),
        ("init_lora_weights", "pissa_niter_4", "path_initial_model_for_weight_conv"),
        ("r", "2", "a whole number of at least 1"),
        ("r", 3, "the rank 3 of r"),
        ("lora_alpha", 0, "a number above 0"),
        ("lora_dropout", 1.0, "from 0 to below 1"),
        ("use_rslora", "yes", "true or false"),
        ("target_modules", ["k_proj"], "must be of one adapter"),
        ("target_modules", 3, "a list of names of modules"),
        ("modules_to_save", "score", "a list of names of modules"),
        ("rank_pattern", ["q_proj"], "a table of values by module"),
        ("rank_pattern", {"q_proj": 5}, "the rank 5 of r or rank_p"),
        ("rank_pattern", {"q_proj": -1}, "a whole number of at least 1"),
        ("alpha_pattern", {"(": 2}, "a regular expression with at most 3"),
        ("alpha_pattern", {"(.|_)*x": 2}, "no repeated group"),
        ("alpha_pattern", {"a.*b.*c.*d.*": 2}, "a regular expression with at most 3"),
    ],
)
def test_settings_that_are_refused(field, value, right, folder):
    settings = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps({**settings, field: value}))
    refused(folder, str(folder), CONFIG, field, right)


def without(part):
    return lambda x: {k: v for k, v in x.items() if part not in k}


def added(name, shape=(2, 12)):
    return lambda x: {**x, name: np.ones(shape, "float32")}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without("q_proj.lora_B"), ["q_proj.lora_A", "not lora_B", "not whole"]),
        (without("lora"), ["an adapter of no layer"]),
        (
            added(f"{QUERY.replace('model.model.model', 'model.model')}.lora_A.weight"),
            ["twice"],
        ),
        (added(f"{QUERY}.lora_C.weight"), ["lora_C", "lora_A.weight, lora_B.weight"]),
        (added("model.x.lora_A.weight"), ["model.x", "base_model.model.<module>"]),
        (added(f"{QUERY}.lora_A.weight", (2, 11)), ["(2, 11)", "must be (2, 12)"]),
        (added(f"{QUERY}.lora_A.weight", (3, 12)), ["(3, 12)", "rank 2", CONFIG]),
        (
            added("base_model.model.lm_head.weight", (29, 12)),
            ["saved whole", "no modu"],
        ),
        (
            lambda x: {**x, f"{QUERY}.lora_B.weight": np.full((12, 2), np.nan)},
            ["lora_B", "not finite"],
        ),
        (
            lambda x: {**x, f"{QUERY}.lora_B.weight": np.ones((12, 2), "int32")},
            ["lora_B", "a tensor of floats", "I32"],
        ),
    ],
)
def test_weights_that_are_refused(change, words, folder):
    save_file(change(load_file(folder / WEIGHTS)), folder / WEIGHTS)
    refused(folder, WEIGHTS, *words)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("model.layers.0.self_attn.quary", ["does not have", "q_proj"]),
        ("model.layers.1.self_attn.q_proj", ["does not have", "another model"]),
        ("lm_head", ["no dense layer of this GPT"]),
    ],
)
def test_modules_that_the_model_does_not_have(module, words, folder):
    name = f"base_model.model.{module}.lora_A.weight"
    arrays = {name: np.ones((2, 12)), name.replace("_A", "_B"): np.ones((12, 2))}
    save_file(arrays, folder / WEIGHTS)
    settings = json.loads((folder / CONFIG).read_text())
    settings["target_modules"] = module
    (folder / CONFIG).write_text(json.dumps(settings))
    refused(folder, module, WEIGHTS, *words)


def test_experts_are_not_adapted(folder):
    model = llama(feed_forward=MixtureOfExperts(3, 7), intermediate_dim=None)
    module = "model.layers.0.block_sparse_moe.experts.0.w1"
    tensors, old = load_file(folder / WEIGHTS), "model.layers.0.mlp.down_proj"
    renamed = {k.replace(old, module): x for k, x in tensors.items()}
    save_file(renamed, folder / WEIGHTS)
    settings = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps({**settings, "target_modules": "all"}))
    refused(folder, module, "experts", "are not adapted", model=model)


def test_folders_that_are_not_whole(folder):
    refused(folder / WEIGHTS, "pass the folder", CONFIG)
    refused(folder / "none", "there is no folder", CONFIG, error=FileNotFoundError)
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:99])
    refused(folder, WEIGHTS, "is damaged")
    (folder / WEIGHTS).unlink()
    refused(folder, WEIGHTS, error=FileNotFoundError)
    file = folder / "adapter_model.bin"
    file.write_bytes(pickle.dumps({}))
    for path in (folder, file):
        refused(path, "adapter_model.bin", "a pickle", "safetensors")
    (folder / CONFIG).write_text("{")
    refused(folder, CONFIG, "is not JSON")
    (folder / CONFIG).unlink()
    refused(folder, f"has no {CONFIG}", error=FileNotFoundError)


def test_folders_that_are_not_written(folder, tmp_path):
    model = llama()
    model.enable_lora(2)
    with pytest.raises(FileExistsError, match="not an empty folder"):
        model.save_lora_weights(folder)
    with pytest.raises(ValueError, match='format="pefft" .* Did you mean "peft"'):
        model.save_lora_weights(tmp_path / "x", format="pefft")
    other = models.LanguageModel("gru", vocabulary_size=5, units=3)
    with pytest.raises(TypeError, match="one of GPT, .* received LanguageModel"):
        other.load_lora_weights(folder)
    odd = models.GPT(vocabulary_size=5, **SIZES, parallel=True)
    odd.enable_lora(2)
    with pytest.raises(ValueError, match="cannot be exported .* parallel=True"):
        odd.save_lora_weights(tmp_path / "odd")
    assert not (tmp_path / "odd").exists()


def test_a_head_is_saved_with_the_adapter(tmp_path):
    model = models.BERT(vocabulary_size=29, **SIZES, head="classify", labels=3)
    model.enable_lora(2)
    shuffle(model.trainable_weights)
    model.save_lora_weights(tmp_path / "lora-1.5", format="peft")
    settings = json.loads((tmp_path / "lora-1.5" / CONFIG).read_text())
    assert settings["modules_to_save"] == ["classifier"]
    other = models.BERT(vocabulary_size=29, **SIZES, head="classify", labels=5)
    with pytest.raises(ValueError, match=r"classifier.weight.*has the shape \(3, 10\)"):
        other.load_lora_weights(tmp_path / "lora-1.5")
    tensors = load_file(tmp_path / "lora-1.5" / WEIGHTS)
    half = {
        k: v.astype(ml_dtypes.bfloat16) for k, v in without("class")(tensors).items()
    }
    save_file(half, tmp_path / "lora-1.5" / WEIGHTS)
    with pytest.raises(ValueError, match='modules_to_save names "classifier", but'):
        other.load_lora_weights(tmp_path / "lora-1.5")
    settings["modules_to_save"] = None
    (tmp_path / "lora-1.5" / CONFIG).write_text(json.dumps(settings))
    head = keras.ops.convert_to_numpy(other.get_layer("classes").kernel)
    other.load_lora_weights(tmp_path / "lora-1.5")  # the head stays as it is
    same = keras.ops.convert_to_numpy(other.get_layer("classes").kernel)
    np.testing.assert_array_equal(same, head)


def test_modules_by_their_names_in_older_versions(tmp_path):
    def vit():
        model = models.ViT(3, image_size=4, patch_size=2, **SIZES)
        shuffle(model.trainable_weights)
        return model

    x, model = np.ones((1, 4, 4, 3)), vit()
    model.enable_lora(2, "all-linear")
    shuffle(model.trainable_weights)
    model.save_lora_weights(tmp_path)
    tensors = load_file(tmp_path / WEIGHTS)
    settings = json.loads((tmp_path / CONFIG).read_text())
    for old, new in reversed(VIT.huggingface.modules.items()):
        tensors = {name.replace(new, old): a for name, a in tensors.items()}
    assert any("encoder.layer.0.attention.attention.query" in name for name in tensors)
    settings["target_modules"] = ["query", "key", "value", "dense"]
    save_file(tensors, tmp_path / WEIGHTS)
    (tmp_path / CONFIG).write_text(json.dumps(settings))
    other = vit()
    other.load_lora_weights(tmp_path)
    np.testing.assert_allclose(other.predict(x), model.predict(x), atol=1e-6)


def test_generating_with_each_of_several_folders_is_as_after_a_fresh_load(tmp_path):
    saved(llama(), tmp_path / "first", 2)
    saved(llama(), tmp_path / "second", 3, "all-linear", seed=2)
    model, texts = llama(), []
    for name in ("first", "second"):
        fresh = llama()
        fresh.load_lora_weights(tmp_path / name)
        texts.append(fresh.generate(IDS[:1], max_new_tokens=5, seed=1))
        model.load_lora_weights(tmp_path / name, name=name)
    assert not np.array_equal(*texts)
    for name, text in zip(
        ("first", "second", "first"), [*texts, texts[0]], strict=True
    ):
        model.set_adapter(name)
        found = model.generate(IDS[:1], max_new_tokens=5, seed=1)
        assert np.array_equal(found, text)


def test_one_matrix_for_query_key_and_value(tmp_path):
    """Ranks add up once; a folder that was read is written with the rank it had."""
    expected = saved(gpt2(), tmp_path / "first", {"query": 2, "value": 3})
    model = gpt2()
    shapes = {}
    for old, new in (("first", "second"), ("second", "third")):
        model.load_lora_weights(tmp_path / old, name=new)
        np.testing.assert_allclose(outputs(model), expected, atol=1e-5)
        model.save_lora_weights(tmp_path / new)
        tensors = load_file(tmp_path / new / WEIGHTS)
        shapes |= {new: sorted(x.shape for x in tensors.values())}
    assert shapes["second"] == shapes["third"] == [(5, 10), (30, 5)]


def test_products_with_other_scales_and_ranks():
    rng = np.random.default_rng(0)

    def product(rank, alpha):
        return Product(rng.normal(size=(7, rank)), rng.normal(size=(rank, 5)), alpha)

    first, second = product(2, 3.0), product(11, 5.0)
    whole = join([first, None, second], [5, 5, 5])
    zero = np.zeros((7, 5))
    expected = np.concatenate([first.change(), zero, second.change()], 1)
    np.testing.assert_allclose(whole.change(), expected, atol=1e-12)
    limited = second.within_width()
    assert limited.rank == 5
    np.testing.assert_allclose(limited.change(), second.change(), atol=1e-12)


# KerasHub

NUMBERS = {"query": 11, "value": 9}  # of layers in its GPT2Backbone


def hub_file(path, changes=()):
    """Writes a file as KerasHub does; returns its arrays."""
    rng = np.random.default_rng(0)
    arrays = {"lora/vars/rank": np.asarray(2)}
    for n in NUMBERS.values():
        for name, shape in (("a", (10, 2, 2)), ("b", (2, 5))):
            array = rng.normal(size=shape).astype("float32")
            arrays[f"lora/{n}/vars/lora_kernel_{name}"] = array
    arrays |= dict(changes)
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            if array is not None:
                file[name] = array
    return arrays


def test_a_file_of_keras_hub_has_an_a_for_each_head(tmp_path):
    model = gpt2()
    arrays = hub_file(tmp_path / "x.lora.h5")
    model.load_lora_weights(tmp_path / "x.lora.h5")
    found = outputs(model)
    model.set_adapter(None)
    for name, n in NUMBERS.items():
        kernel = next(w for w in model.weights if w.path.endswith(f"{name}/kernel"))
        A, B = (arrays[f"lora/{n}/vars/lora_kernel_{x}"] for x in "ab")
        kernel.assign(kernel + np.einsum("dnr,rk->dnk", A, B))
    np.testing.assert_allclose(found, outputs(model), rtol=1e-5, atol=1e-5)


def test_files_of_keras_hub_that_are_refused(tmp_path, monkeypatch):
    path, model = tmp_path / "x.lora.h5", gpt2()
    first = "lora/9/vars/lora_kernel_a"
    for changes, words in (
        ({first: np.ones((10, 2, 3))}, [first, "must be (10, 2, 2)", "rank 2"]),
        ({first: np.full((10, 2, 2), np.inf)}, [first, "not finite"]),
        ({first: None}, ["lora_kernel_b alone", "layer 9"]),
        ({"lora/vars/rank": None}, ["must have a rank"]),
        ({"lora/vars/rank": np.asarray(0)}, ["received rank 0"]),
        ({"lora/7/vars/lora_kernel_a": np.ones(2)}, ["layer 7", "alone"]),
        (
            {f"lora/77/lora_kernel_{x}": np.ones(2) for x in "ab"},
            ["layer 77", "no dense layer of this GPT", "13 layers"],
        ),
        ({"lora/x": np.ones(2)}, ['"lora/x"', "lora_kernel_a"]),
    ):
        hub_file(path, changes)
        refused(path, str(path), *words, model=model)
    path.write_bytes(b"no HDF5")
    refused(path, "is not an HDF5 file", model=model)
    refused(tmp_path / "y.lora.h5", "y.lora.h5", error=FileNotFoundError, model=model)
    monkeypatch.setitem(sys.modules, "h5py", None)
    refused(
        path, "need the package h5py", "pip install", error=ImportError, model=model
    )
