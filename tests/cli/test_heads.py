"""`kerasseq train classify` and `train tag` with BERT, GPT and `--preset`."""

import json
import shutil

import numpy as np
import pytest

import kerasseq
from kerasseq.cli import classify, text_models
from kerasseq.core.sublayers import flatten
from tests.cli.conftest import snapshot
from tests.cli.test_labels import rows, write, write_conll

pytestmark = pytest.mark.once("the command line")

SIZES = ["--units", "8", "--num-heads", "2", "--num-layers", "1"]
STEPS = ["--batch-size", "8", "--checkpoint-every", "5"]
COLUMNS = ["--text", "word", "--label", "kind"]
WORDS = ["bobi", "dada", "gelo", "kuku", "boda", "igel", "loki", "dego", "kabo", "lide"]


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    """A folder of a small BERT, as of Hugging Face."""
    folder = tmp_path_factory.mktemp("preset") / "bert"
    tokenizer = kerasseq.text.WordPieceTokenizer(60).fit([" ".join(WORDS)])
    model = kerasseq.models.BERT(
        tokenizer,
        num_layers=1,
        num_heads=2,
        hidden_dim=10,
        max_sequence_length=12,
        head="pretraining",
    )
    kerasseq.models.save_pretrained(model, folder)
    return folder


def train(command, *words):
    file = write("words.csv", rows())
    words = ["train", "classify", "--file", file, *COLUMNS, *STEPS, *words, "--json"]
    return json.loads(command(*words).out)


@pytest.mark.parametrize("model", ["bert", "gpt"])
def test_a_classifier_from_scratch(command, model, tmp_path, drawn):
    tokenizer = ["--tokenizer", "word"] if model == "bert" else []
    results = train(
        command, "--model", model, *SIZES, "--epochs", "2", "--run", "r", *tokenizer
    )
    assert results["model"] == model and "majority" in results["baselines"]
    assert (tmp_path / "r" / "confusion.png").exists()
    found = json.loads(command("evaluate", "r", "--file", "words.csv", "--json").out)
    command("predict", "r", "--file", "words.csv", "--out", "o.jsonl")
    lines = (tmp_path / "o.jsonl").read_text().splitlines()
    labels = [json.loads(line)["label"] for line in lines]
    right = [label == y for label, (_, y) in zip(labels, rows(), strict=True)]
    assert np.mean(right) == pytest.approx(found["accuracy"])
    out = command("inspect", "r", "--text", "bobi bobi", "--out", "figures").out
    assert "What moved the decision" in out and "class_dropout" in out
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["attention.png"]


def test_a_preset_is_fine_tuned_and_resumed(command, preset, tmp_path, monkeypatch):
    words = ["--preset", preset, "--steps", "12"]
    results = train(command, *words, "--run", "whole")
    assert results["model"] == "bert"
    record = json.loads((tmp_path / "whole" / "run.json").read_text())
    assert record["arguments"]["learning_rate"] == text_models.LEARNING_RATE
    model = kerasseq.load_model(tmp_path / "whole" / "model.keras")
    pretrained = kerasseq.models.from_pretrained(preset)
    assert model.tokenizer == pretrained.tokenizer
    name = "embedding"  # the rate is small: the weights stay near those of the folder
    new, old = (each.get_layer(name).get_weights()[0] for each in (model, pretrained))
    assert 0 < np.abs(new - old).max() < 0.01
    before = classify.evaluate

    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(classify, "evaluate", stop)
    file = write("words.csv", rows())
    arguments = ["train", "classify", "--file", file, *COLUMNS, *STEPS, *words]
    command(*arguments, "--run", "stopped", code=130)
    monkeypatch.setattr(classify, "evaluate", before)
    command("train", "--resume", "stopped")
    stopped = kerasseq.load_model(tmp_path / "stopped" / "model.keras")
    for a, b in zip(model.get_weights(), stopped.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("model", ["bert", "gpt"])
def test_a_tagger(command, model, tmp_path, drawn):
    write_conll(tmp_path / "train.conll")
    words = ["train", "tag", "--file", "train.conll", "--model", model, *SIZES, *STEPS]
    words += ["--run", "r", "--epochs", "12", "--learning-rate", "0.03", "--json"]
    results = json.loads(command(*words).out)
    assert results["accuracy"] == results["entities"]["micro avg"]["f1-score"] == 1
    done = command("predict", "r", "--text", "Ada Byron writes")
    assert done.out == "Ada/B-PER Byron/I-PER writes/O\n"
    done = command("evaluate", "r", "--file", "train.conll")
    assert "F1 of entities: 1.000" in done.out
    out = command("inspect", "r", "--text", "Ada Byron", "--out", "figures").out
    assert "I-PER" in out and (tmp_path / "figures" / "attention.png").exists()


def test_inspect_shows_the_tags_of_a_recurrent_tagger(command, tmp_path, drawn):
    write_conll(tmp_path / "train.conll")
    words = ["train", "tag", "--file", "train.conll", *STEPS, "--units", "5"]
    command(*words, "--steps", "3", "--crf", "--run", "r")
    out = command("inspect", "r", "--text", "Ada Byron", "--out", "figures").out
    assert "Tags" in out and "Gates" in out
    assert (tmp_path / "figures" / "gates.png").exists()


def test_a_preset_under_an_adapter(command, preset):
    words = ["--preset", preset, "--steps", "12", "--lora", "2", "--run", "r"]
    results = train(command, *words, "--quantize", "int8", "--learning-rate", "0.1")
    model = kerasseq.load_model("r/model.keras")
    trained = {w.path.split("/")[-1] for w in model.trainable_weights}
    assert trained == {"lora_a", "lora_b", "kernel", "bias"}  # those of the head
    kinds = {x.name: x.quantized_to for x in flatten(model) if hasattr(x, "lora")}
    dense = {"query", "key", "value", "attention_output", "output_dense"}
    assert dense < kinds.keys() and {kinds[name] for name in dense} == {"int8"}
    assert results["parameters"] == model.count_params()
    base = kerasseq.models.from_pretrained(preset).with_head("classify", model.labels)
    base.load_lora_weights("r/adapter.safetensors")
    np.testing.assert_allclose(
        base.predict(WORDS, verbose=0), model.predict(WORDS, verbose=0), atol=0.05
    )


def test_bad_presets(refused, preset, tmp_path):
    file = write("words.csv", rows(12))
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").write_text("a")
    folders = {"other": {"model_type": "mamba"}, "t5": {"model_type": "t5"}}
    for name, config in folders.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    for name in ("ids", "cut", "json"):
        shutil.copytree(preset, tmp_path / name)
    (tmp_path / "ids" / "tokenizer.kerasseq.json").unlink()
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    (tmp_path / "json" / "config.json").write_text('{"model_type"')
    before = snapshot(tmp_path)
    for words, message in (
        (["--preset", "nowhere"], 'there is no folder "nowhere"'),
        (["--preset", "bert"], 'there is no folder "bert"'),
        (["--preset", "empty"], "of Hugging Face, but has no config.json"),
        (["--preset", "file.txt"], "must be a folder of Hugging Face"),
        (["--preset", "other"], "of the kind 'mamba', expected one of bert, roberta"),
        (["--preset", "t5"], "of the kind 't5', expected one of"),
        (["--preset", "json"], "config.json"),
        (["--preset", "cut"], "model.safetensors"),
        (["--preset", "ids"], "must have a tokenizer that kerasseq reads"),
        (["--preset", preset, "--model", "gpt"], "holds a bert, received --model gpt"),
        (["--preset", preset, "--units", "5"], "--units cannot be chosen with --pres"),
        (["--preset", preset, "--tokenizer", "word"], "--tokenizer cannot be chosen"),
        (["--preset", preset, "--lora", "99"], "rank must be at most 10"),
        (["--model", "bert", "--tokenizer", "character"], "has no special tokens"),
        (["--model", "bert", "--units", "9"], "--num-heads must divide"),
    ):
        arguments = ["train", "classify", "--file", file, *COLUMNS, *words]
        assert message in refused(*arguments), words
    write_conll(tmp_path / "train.conll")
    arguments = ["train", "tag", "--file", "train.conll", "--model", "gpt", "--crf"]
    assert "--crf is for recurrent models" in refused(*arguments)
    (tmp_path / "train.conll").unlink()
    assert snapshot(tmp_path) == before, "nothing is left"


def test_the_kinds_of_folders():
    """Those that can be fine-tuned are those that the models read."""
    from kerasseq.pretrained.checkpoints import FAMILIES

    found = {"bert": [], "gpt": []}
    for family in FAMILIES:
        name = family.model.__name__.lower()
        for form in (family.huggingface, family.keras_hub):
            if form is not None and name in found:
                found[name] += form.kinds
    for name, kinds in found.items():
        assert set(text_models.KINDS[name]) == set(kinds)
