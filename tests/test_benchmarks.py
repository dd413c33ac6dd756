"""Tests of the benchmarks: they run, and report what they measured."""

import argparse
import json
import subprocess
import sys

import pytest

from benchmarks import transformer
from kerasseq.core import backend
from tests.processes import ROOT, clean_environment

pytestmark = pytest.mark.full("other tests check the code that benchmarks run")


def test_recurrent_layers():
    command = [sys.executable, "-m", "benchmarks", "recurrent", "--cell", "peephole"]
    command += ["--backend", backend.chosen(), "--sizes", "tiny", "--rounds", "1"]
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
    rows = {row["implementation"]: row for row in found["table"]}
    assert {"kerasseq", "keras.RNN(cell)"} <= set(rows) <= {*rows, "torch.nn"}
    assert all(row["train"] > 0 and row["us per step"] > 0 for row in rows.values())
    assert "batch 2, 3 steps, 5 -> 7" in rows["kerasseq"]["size"]


def test_attention():
    command = [sys.executable, "-m", "benchmarks", "attention", "--rounds", "1"]
    command += ["--backend", backend.chosen(), "--sizes", "tiny", "--json"]
    done = subprocess.run(
        [*command, "--seconds", "0.01"],
        cwd=ROOT,
        env=clean_environment({}),
        capture_output=True,
        text=True,
        check=True,
    )
    rows = {row["implementation"]: row for row in json.loads(done.stdout)["table"]}
    assert {"kerasseq", "keras"} <= set(rows) <= {*rows, "torch SDPA"}
    assert all(row["train"] > 0 and row["infer"] > 0 for row in rows.values())
    assert rows["kerasseq"]["token, full to empty cache"] > 0


@pytest.mark.parametrize("part", transformer.PARTS)
def test_transformer(part, monkeypatch):
    """In this process: new processes take long to start."""

    class LocalWorker:
        def __init__(self, module, task, worker_backend):
            (self.function,) = transformer.functions(task).values()
            assert worker_backend in (backend.chosen(), "torch")

    def time_in_rounds(workers, rounds):
        for worker in workers.values():
            worker.function()
        return {name: {part: n + 1.0, "MB": 0.0} for n, name in enumerate(workers)}

    monkeypatch.setattr(transformer, "Worker", LocalWorker)
    monkeypatch.setattr(transformer, "time_in_rounds", time_in_rounds)
    options = argparse.Namespace(
        parts=[part],
        size="tiny",
        rounds=1,
        seconds=0.01,
        jit=False,
        cpu_time=False,
        backend=None,
    )
    rows = {row["implementation"]: row for row in transformer.run(options)["table"]}
    assert {"kerasseq", "plain PyTorch"} <= set(rows) or backend.chosen() != "torch"
    assert set(rows) <= set(transformer.PARTS[part])
    for row in rows.values():
        assert row["time"] * row["speed"] == pytest.approx(1)


def test_ngrams():
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
    assert (found["training characters"], found["test characters"]) == (1800, 200)
    one, three = found["table"]
    assert (one["n"], three["n"]) == (1, 3)
    assert 1 < three["Kneser-Ney"] < three["back-off"] < three["add-k"] < one["add-k"]
    assert three["best k"] == "0.01"


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--n", "2,0", "must be at least 1, received 0"),
        ("--k", "-1", "must be at least 0, received -1"),
        ("--characters", "7", "must be at least 100, received 7"),
        ("--cell", "lstn", "must be among elman, gated, lstm"),
        ("--sizes", "small,huge", "received 'huge'"),
        ("--rounds", "0", "must be above 0, received 0"),
        ("--seconds", "x", "invalid"),
    ],
)
def test_errors_of_invalid_options(option, value, message):
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


def test_tokenizers(tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the cat sat on the mat, the rat sat on the cat. " * 40)
    command = [sys.executable, "-m", "benchmarks", "text", "--corpus", str(corpus)]
    command += ["--vocabulary-size", "290", "--naive-merges", "3", "--rounds", "1"]
    done = subprocess.run(
        [*command, "--json"],
        cwd=ROOT,
        env=clean_environment({}),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["naive loop to kerasseq"] > 0
    rows = [(row["tokenizer"], row["implementation"]) for row in found["table"]]
    both = ("kerasseq", "tokenizers")
    assert rows == [
        (kind, name) for kind in ("bpe", "wordpiece", "unigram") for name in both
    ]
    assert all(row["training"] > 0 and row["MB/s"] > 0 for row in found["table"])
