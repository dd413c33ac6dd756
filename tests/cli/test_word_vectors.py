"""`kerasseq train vectors`, and `predict` and `inspect` of its run."""

import json
import re

import numpy as np
import pytest

import kerasseq
from kerasseq.cli import options, word_vectors

pytestmark = pytest.mark.once("the command line")

SMALL = ["--dimensions", "5", "--window", "2", "--batch-size", "32", "--epochs", "2"]


def test_train_predict_and_inspect(command, drawn, text_path, tmp_path):
    run = tmp_path / "r"
    words = ["vectors", str(text_path), *SMALL, "--subsample", "0", "--json"]
    results = json.loads(command("train", *words, "--run", run).out)
    model = kerasseq.load_model(run / "model.keras")
    assert results["words"] == len(model.words) == 8
    assert list(results["nearest"]) == word_vectors.examples(model)
    assert results["analogies"] == {}
    history = json.loads((run / "history.json").read_text())
    assert history[-1]["step"] == results["steps"] and history[-1]["loss"] > 0
    for name in ("loss.png", "words.png"):
        assert (run / name).read_bytes().startswith(b"\x89PNG")
    found = json.loads(command("predict", run, "--text", "GATE", "--json").out)
    expected = [n._asdict() for n in model.nearest("gate", 5)]
    assert found == [{"text": "GATE", "nearest": expected}]
    answer = model.analogy("gate", "state", "time", 1)[0].word
    assert command("predict", run, "--text", "gate state time").out.startswith(answer)
    (run / "words.png").unlink()
    shown = command("inspect", run, "--text", "gate state time").out
    assert "Nearest words" in shown and (run / "words.png").exists()


def test_a_stopped_run_ends_as_if_it_had_not_been_stopped(command, text_path, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    words = ["vectors", text_path, *SMALL, "--checkpoint-every", "1"]
    command("train", *words, "--run", whole)
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:

        def interrupted(*_):
            raise KeyboardInterrupt

        patch.setattr(word_vectors, "nearest_words", interrupted)
        command("train", *words, "--run", parts, code=130)
    command("train", "--resume", parts)
    first, second = (kerasseq.load_model(r / "model.keras") for r in (whole, parts))
    np.testing.assert_array_equal(first.matrix, second.matrix)


def test_bad_input(command, refused, tmp_path, text_path):
    empty, latin = tmp_path / "empty.txt", tmp_path / "latin.txt"
    empty.write_text("\n")
    latin.write_bytes(b"caf\xe9 au lait\n")
    assert "the text is empty" in refused("train", "vectors", empty, "--run", "a")
    assert "is not utf-8" in refused("train", "vectors", latin, "--run", "a")
    assert "at least 2 words" in refused(
        "train", "vectors", text_path, "--min-count", "1000", "--run", "a"
    )
    assert "multiple of 32" in refused(
        "train", "vectors", text_path, "--batch-size", "33", "--run", "a"
    )
    assert "There is no file none.txt" in refused("train", "vectors", "none.txt")
    assert "Did you mean" in refused("train", "vectors", text_path, "--model", "glov")
    assert not (tmp_path / "a").exists()
    command("train", "vectors", text_path, *SMALL, "--run", "r")
    assert "unknown word 'gatee'" in refused("predict", "r", "--text", "gatee")
    assert "three words" in refused("predict", "r", "--text", "gate state")
    assert "no layers" in refused("inspect", "r", "--layer", "x")


def test_examples_of_the_help_have_words_of_the_default_text(command):
    settings = options.Settings(**options.with_defaults(word_vectors.DEFAULTS, {}))
    model = kerasseq.models.WordVectors("skip_gram", 5, min_count=settings.min_count)
    model.batches(word_vectors.read(settings)[0], batch_size=32)
    found = re.findall(
        r'runs/vectors\S* --text "(.*)"', command("predict", "--help").out
    )
    assert found
    for text in found:
        assert word_vectors.predict(model, [text])


def test_built_in_texts():
    for name, least in (("analogies", 1), ("python-reference", 1000)):
        settings = options.Settings(
            **options.with_defaults(word_vectors.DEFAULTS, {"data": name})
        )
        text, data = word_vectors.read(settings)
        assert len(text) > least and data["source"] == name
