"""`kerasseq train bert`, and `predict` and `inspect` with its model."""

import json
import time

import numpy as np
import pytest

import kerasseq
from kerasseq.cli import bert, main
from kerasseq.runs import read_progress
from tests.cli.conftest import at_step, snapshot

pytestmark = pytest.mark.once("the command line")

BERT = ["train", "bert", "--units", "6", "--num-heads", "2", "--num-layers", "1",
        "--sequence-length", "13", "--batch-size", "5", "--steps", "7",
        "--checkpoint-every", "3", "--dropout", "0.2"]  # fmt: skip


@pytest.fixture(autouse=True)
def _few_documents(monkeypatch):
    monkeypatch.setattr(bert, "COUNTING", 30)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bert, "COUNTING", 30)
        assert main([*BERT, "--run", str(folder)]) == 0
    return folder, json.loads((folder / "results.json").read_text())


def test_results_are_those_of_the_model(trained):
    folder, results = trained
    assert {"attention.png", "loss.png"} < set(snapshot(folder))
    documents = kerasseq.datasets.counting(30, seed=0)[-3:]
    model = kerasseq.load_model(folder / "model.keras")
    x, y, weights = model.batches(documents, batch_size=1000).batch(0)
    assert results["pairs"] == len(y["next"])
    found = model.evaluate(x, y, sample_weight=weights, verbose=0, return_dict=True)
    for name, accuracy in results["after"].items():
        assert found[f"{name}_accuracy"] == pytest.approx(accuracy, abs=1e-6)
        assert 0 <= results["before"][name] <= 1
    counts = np.bincount(y["tokens"][weights["tokens"] > 0])
    assert results["baselines"]["tokens"] <= counts.max() / counts.sum()
    assert results["baselines"]["next"] == pytest.approx(0.5, abs=0.1)
    for name, verdict in results["verdicts"].items():
        gain = results["after"][name] - results["baselines"][name]
        assert verdict["mean"] == pytest.approx(gain)
        assert verdict["low"] <= verdict["mean"] <= verdict["high"]
        assert verdict["rows"] == results["pairs"]
    lines = [line for line in read_progress(folder).lines if "loss" in line]
    assert {"tokens_accuracy", "next_accuracy", "epoch"} < set(lines[-1])
    classifier = model.with_head("classify", labels=2)  # to be fine-tuned
    assert len(classifier.predict(["one two", "three"], verbose=0)) == 2


def test_resumed_run_equals_the_uninterrupted_one(command, trained):
    def stop():
        kerasseq.runs.request_stop("r")
        time.sleep(0.3)  # until the request is seen

    with at_step(5, stop):
        command(*BERT, "--run", "r", code=130)
    results = json.loads(command("train", "--resume", "r", "--json").out)
    expected = trained[1]
    for key in ("loss", "before", "after", "baselines"):
        assert results[key] == pytest.approx(expected[key], abs=1e-4), key


def test_predict_and_inspect(command, refused, trained, tmp_path, drawn):
    folder, _ = trained
    model = kerasseq.load_model(folder / "model.keras")
    text = "one two [MASK] four"
    done = command("predict", folder, "--text", text, "--json")
    (row,) = json.loads(done.out)
    best = model.fill(text)[0]
    assert [each["token"] for each in row["masks"][0]] == [token for token, _ in best]
    assert row["masks"][0][0]["probability"] == pytest.approx(best[0][1])
    assert best[0][0] in command("predict", folder, "--text", text).out
    words = ["--text", "one two", "--next", "three [MASK]"]
    done = command("predict", folder, *words, "--json")
    (row,) = json.loads(done.out)
    logits = model.predict([("one two", "three [MASK]")], verbose=0)["next"][0]
    p = np.exp(logits[1]) / np.exp(logits).sum()
    assert row["follows"] == pytest.approx(p, abs=1e-6) and len(row["masks"]) == 1
    (tmp_path / "pairs.txt").write_text("one\ttwo\n[MASK] three\n")
    done = command("predict", folder, "--file", "pairs.txt")
    assert "the second text follows: 0." in done.out and len(done.out.splitlines()) == 2
    assert "expected [MASK] in a text" in refused("predict", folder, "--text", "one")
    assert "which does not generate text" in refused("generate", folder)
    done = command("inspect", folder, "--text", "one two three", "--output-dir", "o")
    assert "token_dense" in done.out and set(snapshot(tmp_path / "o")) == {
        "attention.png"
    }


def test_a_file(command, refused, tmp_path):
    text = "The cat sees a dog. Then it runs. The dog sleeps! Is it late?\n\n"
    (tmp_path / "a.txt").write_text(text * 20)
    words = ["--mask-rate", 0.3, "--mask-token-rate", 1, "--random-token-rate", 0,
             "--next-rate", 0.25]  # fmt: skip
    done = command(*BERT, "--text", "a.txt", "--run", "r", *words, "--json")
    assert json.loads(done.out)["pairs"] > 1
    assert "a.txt: 8 documents" in done.err
    (tmp_path / "b.txt").write_text(text)
    line = refused(*BERT, "--text", "b.txt", "--run", "s")
    assert "at least four documents of 8 sentences, received 1" in line
    line = refused(*BERT, "--mask-token-rate", 0.8, "--random-token-rate", 0.3)
    assert "must add to at most 1" in line
    assert "at most 1" in refused(*BERT, "--next-rate", 2)
    assert not (tmp_path / "s").exists()


def test_parts_of_a_batch_are_the_batch(command):
    words = [*BERT, "--steps", "2", "--dropout", "0", "--json"]
    whole, parts = (
        json.loads(command(*words, "--run", name, *more).out)
        for name, more in (("whole", ()), ("parts", ("--micro-batches", "3")))
    )
    for key in ("loss", "after"):
        assert parts[key] == pytest.approx(whole[key], abs=1e-5)
