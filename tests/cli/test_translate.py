"""`kerasseq train translation` and `kerasseq translate`, with recurrent models."""

import io
import json
import os
import shutil
import signal
import sys

import pytest

from kerasseq.cli import main, translation
from kerasseq.datasets import Pairs
from tests.cli.conftest import at_step, snapshot

pytestmark = pytest.mark.once("the command line")

PAIRS = [(f"{a} {b}", f"{b}-{a}") for a in "abcde" for b in "abcde"]
TINY = ["train", "translation", "--units", "5", "--batch-size", "3", "--steps", "3",
        "--checkpoint-every", "2", "--seed", "3"]  # fmt: skip


@pytest.fixture(scope="session")
def pairs_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("pairs") / "reversed.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def finished(pairs_path, tmp_path_factory):
    """A folder with `runs/reversed`, for tests that change nothing in it."""
    folder = tmp_path_factory.mktemp("translation")
    run = folder / "runs/reversed"
    words = [*TINY, "--pairs", pairs_path, "--run", run]
    assert main([str(word) for word in words]) == 0
    return folder


@pytest.fixture
def in_folder(finished, command, monkeypatch):
    """Runs the command in the folder of the finished run."""
    monkeypatch.chdir(finished)
    return command


def test_files_of_a_run(finished):
    run = finished / "runs/reversed"
    found = json.loads((run / "results.json").read_text())
    assert found["task"] == "translation" and found["model"] == "gru"
    assert found["tested"] == 1 and found["steps"] == 3  # 5 % of 25
    assert (run / "alignments.png").stat().st_size > 1000
    record = json.loads((run / "run.json").read_text())
    assert record["data"]["pairs"] == len(PAIRS)
    assert record["data"]["source"] == "reversed.tsv"


def test_chunks_of_the_loss_do_not_change_it(finished, pairs_path, command, tmp_path):
    words = [*TINY, "--pairs", pairs_path, "--loss-chunk-size", "2"]
    command(*words, "--run", tmp_path / "run")
    histories = [
        json.loads((run / "history.json").read_text())
        for run in (finished / "runs/reversed", tmp_path / "run")
    ]
    for whole, chunked in zip(*histories, strict=True):
        assert chunked == pytest.approx(whole, rel=1e-4)


def test_answers_without_a_model():
    training = Pairs(["one", "two", "three four"], ["eins", "zwei", "drei vier"])
    tested = Pairs(["three fours", "zz"], ["drei vier", "zz"])
    found = translation.answers(training, tested)
    for each in found.values():
        assert translation.evaluate(each, tested.targets)["exact"] == 50
    references, advice = ["one", "two"] * 20, ["--epochs"]
    others = {"a copy of the source": ["one", "two", "one", "qq"] * 10}
    for own, words, gain in (
        (["one", "qq"] * 20, "does not beat a simple model", -25),
        (others["a copy of the source"], "does not beat a simple model", 0),
        (references, "is better than the best simple model", 25),
    ):
        words_of = "gru", own, others, references, advice
        verdict = translation.verdict_of(*words_of)
        assert verdict["sentence"].startswith(f"gru {words}")
        assert verdict["mean"] == pytest.approx(gain) and verdict["rows"] == 40


def test_predict_translates(in_folder, tmp_path):
    words = ["predict", "runs/reversed", "--file", tmp_path / "two.txt"]
    (tmp_path / "two.txt").write_text("a b\n\nc d\n")
    found = json.loads(in_folder(*words, "--json").out)
    expected = json.loads(in_folder("translate", "a b", "c d", "--json").out)
    for one, other in zip(found, expected, strict=True):
        assert one["text"] == other["source"]
        assert one["translation"] == other["translation"]
        assert one["score"] == pytest.approx(other["score"], abs=1e-5)
    assert in_folder(*words).out.splitlines() == [one["translation"] for one in found]
    in_folder(*words, "--out", tmp_path / "o.csv")
    lines = (tmp_path / "o.csv").read_text().splitlines()
    assert lines[0] == "text,translation,score" and lines[2].startswith("c d,")
    one = in_folder("predict", "runs/reversed", "--text", "a b").out
    assert one == found[0]["translation"] + "\n"


def test_newest_run_is_used(in_folder):
    assert (
        len(in_folder("translate", "a b", "c d", "--length", "4").out.splitlines()) == 2
    )
    printed = in_folder("translate", "a b", "--length", "4", "--json").out
    (one,) = json.loads(printed)
    assert one["source"] == "a b" and one["unknown"] == {}
    assert one["score"] < 0 and len(one["candidates"]) == 1
    both = in_folder("translate", "a b", "--length", "4", "--run", "runs/reversed").out
    assert both == one["translation"] + "\n"


def test_candidates_have_scores(in_folder):
    out = in_folder(
        "translate", "a b", "--length", "4", "--beam-width", "3", "--candidates", "3"
    ).out
    scores = [float(line.split()[0]) for line in out.splitlines()]
    assert len(scores) == 3 and scores == sorted(scores, reverse=True)


def test_unknown_characters_are_marked(in_folder):
    done = in_folder("translate", "a zé", "--length", "4")
    assert "not in the training data, and read as unknown: a [z][é]" in done.err
    assert len(done.out.splitlines()) == 1


def test_alignments_are_drawn(in_folder, tmp_path, drawn):
    file = tmp_path / "new/alignments.png"
    done = in_folder("translate", "a b", "--length", "4", "--align", file)
    assert file.read_bytes().startswith(b"\x89PNG") and str(file) in done.err


def test_inspect_draws_gates_and_alignment(in_folder, refused, tmp_path, drawn):
    words = ["inspect", "runs/reversed", "--output-dir"]
    done = in_folder(*words, tmp_path / "a")  # a source of the training data
    assert "update_gate" in done.out and "Translation" in done.out
    assert set(snapshot(tmp_path / "a")) == {"gates.png", "alignment.png"}
    found = in_folder("translate", "a é", "--json").out
    shown = in_folder(*words, tmp_path / "b", "--text", "a é")
    words_of = json.loads(found)[0]["translation"].split() or [""]  # after 3 steps
    assert words_of[0] in shown.out
    assert "read as unknown: a [é]" in shown.err
    (tmp_path / "lines.txt").write_text("\nb c\nd e\n")
    layer = "bidirectional_gru/backward_gru"
    words += [tmp_path / "c", "--file", tmp_path / "lines.txt", "--layer", layer]
    assert "b c" in in_folder(*words).out
    line = refused("inspect", "runs/reversed", "--text", "a b", "--layer", "gru")
    assert layer in line
    model = "runs/reversed/model.keras"
    assert "give one with --text" in refused("inspect", model)


def test_texts_from_a_file_and_a_pipe(in_folder, tmp_path, monkeypatch):
    lines = tmp_path / "lines.txt"
    lines.write_text("a b\n\nb c\n", encoding="utf-8")
    read = in_folder("translate", "--file", lines, "--length", "4").out
    monkeypatch.setattr(sys, "stdin", io.StringIO("a b\nb c\n"))
    assert in_folder("translate", "--length", "4").out == read
    assert len(read.splitlines()) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a b", ""], "received an empty text"),
        (["a b", "--beam-width", "0"], "an integer of at least 1, received 0"),
        (["a b", "--candidates", "2"], "--candidates 2 needs a --beam-width"),
        (
            ["a b", "--beam-width", "2", "--candidates", "3"],
            "--candidates 3 needs a --beam-width",
        ),
        (["a b", "--run", "runs/other"], "runs/other"),
        (["--file", "nowhere.txt"], "nowhere.txt"),
        (["x" * 10_001], "at most 10,000 characters, received one of 10,001"),
    ],
)
def test_wrong_arguments(finished, refused, monkeypatch, words, message):
    monkeypatch.chdir(finished)
    assert message in refused("translate", *words)


def test_no_translation_run(refused, command, tmp_path, trained):
    assert "no translation run in runs/" in refused("translate", "a")
    shutil.copytree(trained[0], tmp_path / "runs/words")
    assert "no translation run in runs/" in refused("translate", "a")
    message = refused("translate", "a", "--run", "runs/words")
    assert "does not translate" in message and "kerasseq train translation" in message


def test_model_without_alignments(refused, command, pairs_path):
    run = ["--run", "runs/none"]
    command(*TINY, "--pairs", pairs_path, "--attention", "none", *run)
    message = refused("translate", "a b", "--align", "x.png", *run)
    assert "has no alignments to draw" in message and "--attention none" in message


def test_lines_that_are_not_pairs_are_reported(command, refused, tmp_path):
    good = [f"{a}\t{b}" for a, b in PAIRS]
    bad = ["no tab", "\tempty", "half\t", "again none"]
    text = "\n".join([*good[:2], *bad, *good[2:]]) + "\n"
    (tmp_path / "some.tsv").write_text(text, encoding="utf-8")
    done = command(*TINY, "--pairs", "some.tsv", "--run", "runs/some")
    message = " ".join(done.err.split())
    assert "29 lines read, 25 kept as pairs, 4 left out" in message
    for line in ("line 3 'no tab'", "line 4", "line 5"):
        assert line in message
    assert json.loads((tmp_path / "runs/some/results.json").read_text())["steps"] == 3
    wrong = refused(*TINY, "--pairs", "some.tsv", "--strict", "--run", "runs/strict")
    assert "line 3" in wrong
    assert not (tmp_path / "runs/strict").exists()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"one line without a tab\n", "no pair"),
        ("a\té\n".encode("utf-16") * 30, "UTF-16"),
        (b"a\tb\n" * 3, "too few"),
    ],
)
def test_files_without_pairs(refused, tmp_path, data, message):
    (tmp_path / "pairs.tsv").write_bytes(data)
    assert message.lower() in refused(*TINY, "--pairs", "pairs.tsv").lower()
    assert not (tmp_path / "runs").exists()


def test_pairs_and_data_exclude_each_other(refused, pairs_path):
    message = refused(*TINY, "--pairs", pairs_path, "--data", "sort")
    assert "--pairs" in message and "--data" in message
    assert "numbers-de" in refused(*TINY, "--data", "numbers-da")


def test_resumed_run_equals_uninterrupted_run(command, finished, pairs_path):
    with at_step(2, lambda: os.kill(os.getpid(), signal.SIGINT)):
        done = command(*TINY, "--pairs", pairs_path, "--run", "runs/parts", code=130)
    assert "kerasseq train --resume runs/parts" in done.err
    results = json.loads(command("train", "--resume", "runs/parts", "--json").out)
    whole = json.loads((finished / "runs/reversed/results.json").read_text())
    assert results["loss"] == pytest.approx(whole["loss"], abs=1e-4)
    assert results["steps"] == 3
