"""`--base`, `--lora`, `--quantize` and `--adapter`: runs that adapt a trained model."""

import pathlib
from types import SimpleNamespace

import numpy as np
import pytest

import kerasseq
from kerasseq.cli import main, text_models
from kerasseq.core.files import read_json

pytestmark = pytest.mark.once("the command around layers that are tested everywhere")
SIZES = ["--model", "gpt", "--units", "6", "--num-layers", "1", "--num-heads", "2"]
TRAINED = ["--sequence-length", "7", "--batch-size", "3", "--steps", "20"]


@pytest.fixture(scope="module")
def base(tmp_path_factory, text_path):
    """The run of a GPT."""
    folder = tmp_path_factory.mktemp("runs") / "base"
    words = ["train", "language-model", "--text", text_path, *SIZES, *TRAINED]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kerasseq.cli.figures.available", lambda: False)
        assert main([str(word) for word in [*words, "--run", folder]]) == 0
    return folder


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A text of the same characters, in another order."""
    path = tmp_path_factory.mktemp("other") / "other.txt"
    path.write_text("state time model [bold] loss\n" * 40, encoding="utf-8")
    return path


def test_an_adapter_is_trained_and_goes_on_the_base(command, base, other):
    words = ["--base", base, "--lora", "2", *TRAINED[2:4], "--steps", "60"]
    command("train", "language-model", "--text", other, *words, "--run", "adapted")
    results = read_json("adapted/results.json")
    assert results["trained_parameters"] == 2 * (4 * 12 + 2 * 30)
    assert results["adapter_bytes"] <= 4 * results["trained_parameters"] + 4096
    assert results["bits_per_character"] < results["bits_per_character_of_base"]
    sampling = ["--prompt", "state", "--length", "90", "--seed", "3"]
    texts = [
        command("generate", folder, *more, *sampling).out
        for folder, more in (
            ("adapted", []),
            (base, ["--adapter", "adapted"]),
            (base, ["--adapter", "adapted/adapter.safetensors"]),
            (base, []),
        )
    ]
    assert texts[0] == texts[1] == texts[2] != texts[3]
    words = ["--text", "state time", "--json"]
    own = command("predict", "adapted", *words).out
    assert command("predict", base, "--adapter", "adapted", *words).out == own


def test_a_quantized_base_under_an_adapter(command, base, other):
    words = ["--base", base, "--lora", "2", "--quantize", "nf4", *TRAINED[2:]]
    command("train", "language-model", "--text", other, *words, "--run", "adapted")
    expected = kerasseq.load_model("adapted/model.keras")
    model = kerasseq.load_model(base / "model.keras")
    model.quantize("nf4")
    ids = np.array([[3, 1, 4, 1, 5]])
    scores = expected.predict(ids, verbose=0)
    assert np.abs(scores - model.predict(ids, verbose=0)).max() > 1e-4
    model.load_lora_weights("adapted/adapter.safetensors")
    np.testing.assert_allclose(model.predict(ids, verbose=0), scores, atol=1e-6)
    assert len(expected.trainable_weights) == len(model.trainable_weights) == 12


def test_the_adapter_of_a_base_is_merged(base):
    model = kerasseq.load_model(base / "model.keras")
    model.enable_lora(2)
    settings = SimpleNamespace(lora=3, quantize=None, seed=0)
    text_models.adapt(model, settings)
    ranks = {w.shape[-1] for w in model.trainable_weights if w.name == "lora_a"}
    assert ranks == {3}


def test_all_weights_are_trained_without_an_adapter(command, base, other):
    words = ["--base", base, *TRAINED[2:], "--run", "tuned"]
    command("train", "language-model", "--text", other, *words)
    model = kerasseq.load_model("tuned/model.keras")
    assert len(model.trainable_weights) == len(model.weights)
    assert not pathlib.Path("tuned/adapter.safetensors").exists()
    command("train", "language-model", "--config", "tuned/run.json", "--dry-run")


def test_wrong_arguments(refused, base, other):
    task = ["train", "language-model"]
    model = base / "model.keras"
    for words, message in (
        ([*task, "--lora", "2"], "--lora adapts a trained model, received none"),
        ([*task, "--base", base, "--quantize", "nf4"], "add --lora 8"),
        ([*task, "--base", base, "--units", "3"], "--units cannot be chosen with"),
        ([*task, "--base", base, "--model", "gru"], "received --model gru"),
        ([*task, "--base", model], "must be the folder of a run of language-model"),
        ([*task, "--base", "nowhere"], 'no folder "nowhere"'),
        (
            [*task, "--base", base, "--sequence-length", "9", "--text", other],
            "--sequence-length must be at most 7",
        ),
        (
            [*task, "--base", base, "--lora", "7", "--text", other],
            "rank must be at most 6",
        ),
        (["train", "classify", "--lora", "2"], "Add --preset, or leave it out"),
        (["generate", base, "--adapter", "nowhere"], 'no file "nowhere"'),
        (["generate", base, "--adapter", model], 'must end in ".safetensors"'),
    ):
        error = refused(*words)
        assert message in error, error
