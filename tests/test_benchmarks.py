"""The benchmarks run, and say what they measured."""

import argparse
import json
import subprocess
import sys

import pytest

from benchmarks import transformer, transformer_contender
from kerasseq.core import backend
from tests.processes import ROOT, clean_environment

pytestmark = pytest.mark.full("they run the code that the other tests check")


def test_recurrent_compares_us_with_peers():
    command = [sys.executable, "-m", "benchmarks", "recurrent", "--cell", "peephole"]
    command += ["--backend", backend.chosen(), "--sizes", "tiny", "--turns", "1"]
    done = subprocess.run(
        [*command, "--seconds", "0.01", "--json"],
        cwd=ROOT,
        env=clean_environment({}),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["backend"] == backend.chosen()
    rows = {row["who"]: row for row in found["table"]}
    assert {"kerasseq", "keras.RNN(cell)"} <= set(rows) <= {*rows, "torch.nn"}
    assert all(row["train"] > 0 and row["us per step"] > 0 for row in rows.values())
    assert "batch 2, 3 steps, 5 -> 7" in rows["kerasseq"]["size"]


def test_attention_compares_us_with_peers():
    command = [sys.executable, "-m", "benchmarks", "attention", "--turns", "1"]
    command += ["--backend", backend.chosen(), "--sizes", "tiny", "--json"]
    done = subprocess.run(
        [*command, "--seconds", "0.01"],
        cwd=ROOT,
        env=clean_environment({}),
        capture_output=True,
        text=True,
        check=True,
    )
    rows = {row["who"]: row for row in json.loads(done.stdout)["table"]}
    assert {"kerasseq", "keras"} <= set(rows) <= {*rows, "torch SDPA"}
    assert all(row["train"] > 0 and row["infer"] > 0 for row in rows.values())
    assert rows["kerasseq"]["token, full to empty cache"] > 0


@pytest.mark.parametrize("part", transformer.PARTS)
def test_contenders_of_transformers_run(part, monkeypatch):
    """Without processes of their own, which take long to start."""

    class Here:
        def __init__(self, module, task, its_backend):
            (self.function,) = transformer_contender.functions(task).values()
            assert its_backend in (backend.chosen(), "torch")

    def take_turns(contenders, turns):
        for one in contenders.values():
            one.function()
        return {who: {part: n + 1.0, "MB": 0.0} for n, who in enumerate(contenders)}

    monkeypatch.setattr(transformer, "Contender", Here)
    monkeypatch.setattr(transformer, "take_turns", take_turns)
    options = argparse.Namespace(
        parts=[part], size="tiny", turns=1, seconds=0.01, jit=False, backend=None
    )
    rows = {row["who"]: row for row in transformer.run(options)["table"]}
    assert {"kerasseq", "plain PyTorch"} <= set(rows) or backend.chosen() != "torch"
    assert set(rows) <= set(transformer.PARTS[part])
    for row in rows.values():
        assert row["time"] * row["speed"] == pytest.approx(1)


def test_ngrams_compares_smoothings():
    command = [sys.executable, "-m", "benchmarks", "ngrams", "--n", "1,3"]
    done = subprocess.run(
        [*command, "--k", "1,0.01", "--characters", "2000", "--json"],
        cwd=ROOT,
        env=clean_environment({}),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert (found["characters to count"], found["characters to score"]) == (1800, 200)
    one, three = found["table"]
    assert (one["n"], three["n"]) == (1, 3)
    assert 1 < three["Kneser-Ney"] < three["back-off"] < three["add-k"] < one["add-k"]
    assert three["best k"] == "0.01"


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--n", "2,0", "must be at least 1, got 0"),
        ("--k", "-1", "must be at least 0, got -1"),
        ("--characters", "7", "must be at least 100, got 7"),
        ("--cell", "lstn", "'lstn' is none of elman, gated, lstm"),
        ("--sizes", "small,huge", "'huge' is none of small, large"),
        ("--turns", "0", "must be above 0, got 0"),
        ("--seconds", "x", "invalid"),
    ],
)
def test_wrong_options_say_what_would_be_right(option, value, message):
    benchmark = "ngrams" if option in ("--n", "--k", "--characters") else "recurrent"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", benchmark, option, value],
        cwd=ROOT,
        env=clean_environment({}),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_tokenizers_are_compared_with_peers(tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the cat sat on the mat, the rat sat on the cat. " * 40)
    command = [sys.executable, "-m", "benchmarks", "text", "--corpus", str(corpus)]
    command += ["--vocabulary-size", "290", "--plain-merges", "3", "--turns", "1"]
    done = subprocess.run(
        [*command, "--json"],
        cwd=ROOT,
        env=clean_environment({}),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["plain loop to ours"] > 0
    kinds = [(row["tokenizer"], row["who"]) for row in found["table"]]
    both = ("kerasseq", "tokenizers")
    assert kinds == [
        (kind, who) for kind in ("bpe", "wordpiece", "unigram") for who in both
    ]
    assert all(row["learning"] > 0 and row["MB/s"] > 0 for row in found["table"])
