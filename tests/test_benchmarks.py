"""Tests of the benchmarks: they run, and report what they measured."""

import argparse
import functools
import importlib.util
import json
import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest

from benchmarks import (
    adaptation,
    attention,
    beyond,
    captioning,
    counting,
    ctc,
    export,
    fitting,
    gpu,
    linear,
    lora,
    memory,
    modifications,
    multimodal,
    optimum,
    own_data,
    own_rows,
    preferences,
    prepare,
    recurrent,
    residuals,
    resumed,
    rounds,
    scaling,
    sources,
    sparse,
    speech,
    speech_words,
    stages,
    training_memory,
    transformer,
    vectors,
    wavenet,
)
from kerasseq.core import backend
from tests.processes import ROOT, clean_environment

pytestmark = pytest.mark.full("other tests check the code that benchmarks run")


@pytest.mark.full("two checkouts in processes of their own", cheap=False)
def test_recurrent_layers_beside_another_checkout(tmp_path):
    other = tmp_path / "other"
    shutil.copytree(ROOT / "kerasseq", other / "kerasseq")
    command = [sys.executable, "-m", "benchmarks", "recurrent", "--sizes", "tiny"]
    command += ["--backend", backend.chosen(), "--cell", "minimal_gated", "--cpu-time"]
    command += ["--implementations", "kerasseq,torch.nn", "--beside", str(other)]
    done = subprocess.run(
        [*command, "--rounds", "1", "--seconds", "0.01", "--json"],
        cwd=ROOT,
        env=clean_environment({}),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["backend"] == backend.chosen()
    rows = {row["implementation"]: row for row in found["table"]}
    ours, theirs = rows["kerasseq"], rows["kerasseq (other)"]
    assert set(rows) <= {"kerasseq", "kerasseq (other)", "torch.nn"}
    assert all(row["train"] > 0 and row["us per step"] > 0 for row in rows.values())
    assert "batch 2, 3 steps, 5 -> 7" in ours["size"]
    expected = ours["us per step"] / theirs["us per step"]
    assert ours["train beside"] == pytest.approx(expected)
    assert theirs["train beside"] == ""


@pytest.fixture
def in_this_process(monkeypatch):
    """Replaces the workers of a benchmark, as new processes take long to start."""

    def replace(module):
        class LocalWorker:
            first = {"train": 0.5}

            def __init__(self, name, task, worker_backend, cache=None):
                assert worker_backend in (backend.chosen(), "torch")
                assert name == module.__name__
                self.functions = module.functions(task)

            def end(self):
                return 0.0

        def time_in_rounds(workers, rounds):
            times = {}
            for n, (name, worker) in enumerate(workers.items()):
                for function in worker.functions.values():
                    function()
                times[name] = dict.fromkeys(worker.functions, n + 1.0) | {"MB": 0.0}
            return times

        monkeypatch.setattr(module, "Worker", LocalWorker)
        monkeypatch.setattr(module, "time_in_rounds", time_in_rounds)

    return replace


OPTIONS = {"rounds": 1, "seconds": 0.01, "jit": False, "cpu_time": False}


RECURRENT = ["peephole", "gru_before", "layer_norm_lstm", "minimal_gated"]


@pytest.mark.parametrize("cell", RECURRENT)
def test_recurrent_layers(cell, in_this_process):
    in_this_process(recurrent)
    options = argparse.Namespace(
        **OPTIONS, cell=[cell], sizes=["tiny"], backend=backend.chosen(), beside=None
    )
    options.implementations, options.first_call = recurrent.IMPLEMENTATIONS, True
    rows = {row["implementation"]: row for row in recurrent.run(options)["table"]}
    a_users = cell in recurrent.OWN_CELLS
    expected = {"kerasseq"} if a_users else {"kerasseq", "own step", "keras.RNN(cell)"}
    assert expected <= set(rows) <= {*expected, "keras", "torch.nn"}
    assert all(row["train"] > 0 and row["first call"] == 0.5 for row in rows.values())


def test_a_cell_with_its_own_step_computes_the_same():
    import keras

    from benchmarks.own_cells import with_own_step
    from kerasseq import layers

    layer = layers.LSTM(7, peephole="diagonal", peephole_initializer="ones")
    x = np.random.default_rng(0).normal(size=(2, 3, 5)).astype("float32")
    expected = keras.ops.convert_to_numpy(layer(x))
    other = layers.RNN(with_own_step(layer.cell))
    other.build(x.shape)
    other.set_weights(layer.get_weights())
    assert type(other.cell) is not type(layer.cell)
    found = keras.ops.convert_to_numpy(other(x))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("baseline", "found", "expected"),
    [
        ("X86_V2", ["X86_V3", "X86_V4"], ", AVX-512"),
        ("SSE", ["AVX", "AVX2"], ", AVX2"),
        ("NEON", [], ", NEON"),
        ("VX", [], ""),
    ],
)
def test_the_processor_names_its_vectors(baseline, found, expected, monkeypatch):
    extensions = {"SIMD Extensions": {"baseline": [baseline], "found": found}}
    monkeypatch.setattr(np, "show_config", lambda mode: extensions)
    monkeypatch.setattr(rounds, "processor_name", lambda: "a machine")
    assert rounds.processor() == "a machine" + expected


def test_attention(in_this_process):
    in_this_process(attention)
    options = argparse.Namespace(**OPTIONS, sizes="tiny", backend=backend.chosen())
    rows = {row["implementation"]: row for row in attention.run(options)["table"]}
    assert {"kerasseq", "keras"} <= set(rows) <= {*rows, "torch SDPA"}
    assert all(row["train"] > 0 and row["infer"] > 0 for row in rows.values())
    assert rows["kerasseq"]["token, full to empty cache"] > 0


def test_beyond_attention(in_this_process):
    pytest.importorskip("torch")
    in_this_process(beyond)
    options = argparse.Namespace(
        **OPTIONS, parts=["minimal"], sizes=["tiny"], backend=backend.chosen()
    )
    rows = {row["implementation"]: row for row in beyond.run(options)["table"]}
    assert set(rows) == set(beyond.PARTS["minimal"])
    assert all(row["train"] > 0 and row["infer"] > 0 for row in rows.values())


def test_mamba_beside_transformers(in_this_process, monkeypatch):
    pytest.importorskip("transformers")
    in_this_process(beyond)
    names = ["Mamba", beyond.TRANSFORMERS]
    monkeypatch.setitem(beyond.PARTS, "mamba", names)  # the loop has its own test
    options = argparse.Namespace(
        **OPTIONS, parts=["mamba"], sizes=["tiny"], backend=backend.chosen()
    )
    rows = beyond.run(options)["table"]
    assert [row["implementation"] for row in rows] == names
    assert all(row["train"] > 0 and row["infer"] > 0 for row in rows)
    assert rows[-1]["train"] == rows[-1]["infer"] == 1


@pytest.mark.everywhere("the peer is written for JAX")
@pytest.mark.skipif(backend.chosen() != "jax", reason="the peer is written for JAX")
def test_the_loop_of_mamba_equals_the_layer():
    from benchmarks.mamba_loop import LoopMamba
    from kerasseq import kernels, layers

    x = np.random.default_rng(0).normal(size=(2, 7, 5)).astype("float32")
    ours, loop = layers.Mamba(3), LoopMamba(3)
    ours.build(x.shape), loop.build(x.shape)
    weights = [v.value for v in ours.trainable_variables]

    def loss(weights, layer):
        rest = [v.value for v in layer.non_trainable_variables]
        return (layer.stateless_call(weights, rest, x)[0] ** 2).sum()

    np.testing.assert_allclose(loss(weights, loop), loss(weights, ours), rtol=1e-5)
    expected, found = (
        kernels.gradients(functools.partial(loss, layer=layer), weights)
        for layer in (ours, loop)
    )
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-6)


def test_linear(in_this_process):
    in_this_process(linear)
    options = argparse.Namespace(**OPTIONS, sizes=["tiny"], backend=backend.chosen())
    rows = {row["layer"]: row for row in linear.run(options)["table"]}
    assert rows.keys() == {"MultiHeadAttention", *linear.DECAYS}
    assert rows["Retention"]["training speed"] > 0
    assert rows["Retention"]["decay"] == "per head"


def test_fitting(in_this_process):
    in_this_process(fitting)
    options = argparse.Namespace(
        **OPTIONS, cell=["peephole"], sizes=["tiny"], backend=backend.chosen()
    )
    rows = {row["implementation"]: row for row in fitting.run(options)["table"]}
    assert {"kerasseq", "keras", "products"} <= set(rows) <= {*fitting.IMPLEMENTATIONS}
    assert "torch.nn" in rows or backend.chosen() != "torch"
    assert rows["kerasseq"]["ms per batch"] > 0


@pytest.mark.full("each part is checked by the tests of its layers", cheap=False)
@pytest.mark.skipif(backend.chosen() == "tensorflow", reason="not a part of it")
def test_gpu_checks_and_times_where_there_is_none(tmp_path):
    command = [sys.executable, "-m", "benchmarks", "gpu", "--size", "tiny"]
    command += ["--backends", backend.chosen(), "--out", str(tmp_path / "gpu.md")]
    done = subprocess.run(
        command, cwd=ROOT, env=clean_environment({}), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "gpu.md").read_text(encoding="utf-8")
    assert "failed |" not in text and "ended with" not in text
    assert text.count("passed |") > 40
    for part in gpu.PARTS:
        assert f"\n{part}:\n" in text
    assert "PeepholeLSTM, masked" in text and "DeltaNet" in text
    peers = ["KerasHub", "Hugging Face", "torch.nn, step by step", "plain PyTorch"]
    of_torch = peers if backend.chosen() == "torch" else peers[:1]
    assert all(f"| {name} |" in text for name in of_torch)


def test_gpu_divides_by_the_peer_and_says_what_failed(monkeypatch, tmp_path):
    rows = [
        {"case": "a", "implementation": "torch.nn", "train ms": 2.0, "infer ms": 4.0},
        {"case": "a", "implementation": "kerasseq", "train ms": 3.0, "infer ms": 1.0},
        {"case": "b", "implementation": "kerasseq", "train ms": 3.0, "infer ms": 1.0},
    ]
    _, ours, alone = gpu.with_ratios(rows, "torch.nn")
    assert ours["train ms / torch.nn"] == 1.5 and ours["infer ms / torch.nn"] == 0.25
    assert alone["train ms / torch.nn"] == ""
    rows = [
        {"backend": name, "case": "a", "implementation": who, "ms": ms}
        for name, who, ms in (
            ("torch", "KerasHub", 2.0),
            ("jax", "kerasseq", 3.0),
            ("jax", "KerasHub", 5.0),
        )
    ]
    assert gpu.with_ratios(rows, "KerasHub")[1]["ms / KerasHub"] == 0.6

    def work(part, name, options, reference, result, gpu=True):
        if part == "recurrent":
            raise KeyboardInterrupt
        row = {"part": part, "backend": name, "case": "LSTM", "check": "failed"}
        result["table"].append(row)

    monkeypatch.setattr(gpu, "work", work)
    monkeypatch.setattr(gpu, "has_gpu", lambda backend: False)
    out = tmp_path / "gpu.md"
    options = argparse.Namespace(parts=["checks"], backends=["torch"], out=out)
    options.size = None
    monkeypatch.setattr(gpu.importlib.util, "find_spec", lambda name: name)
    with pytest.raises(SystemExit, match="2 checks failed"):  # the reference, too
        gpu.run(options)
    options.parts = ["recurrent"]
    with pytest.raises(SystemExit, match="130"):
        gpu.run(options)
    assert "stopped by Ctrl-C" in out.read_text(encoding="utf-8")
    assert options.size == "tiny"
    parser = argparse.ArgumentParser()
    gpu.add_arguments(parser)
    with pytest.raises(SystemExit):  # before hours of work, not after
        parser.parse_args(["--out", str(tmp_path / "none" / "gpu.md")])


@pytest.mark.parametrize("part", transformer.PARTS)
def test_transformer(part, in_this_process):
    in_this_process(transformer)
    options = argparse.Namespace(**OPTIONS, parts=[part], size="tiny", backend=None)
    rows = {row["implementation"]: row for row in transformer.run(options)["table"]}
    peer = "Python" if part.startswith("steps") else "plain PyTorch"
    assert {"kerasseq", peer} <= set(rows) or backend.chosen() != "torch"
    assert set(rows) <= set(transformer.PARTS[part])
    for row in rows.values():
        assert row["time"] * row["speed"] == pytest.approx(1)


def test_wavenet(in_this_process):
    in_this_process(wavenet)
    options = argparse.Namespace(**OPTIONS, sizes=["tiny"], backend=backend.chosen())
    (row,) = wavenet.run(options)["table"]
    assert row["receptive field"] == 8 and row["again / state"] == 1


def test_lora(in_this_process):
    in_this_process(lora)
    options = argparse.Namespace(**OPTIONS, sizes=["tiny"], backend=backend.chosen())
    rows = {row["weights"]: row for row in lora.run(options)["table"]}
    assert set(rows) == set(lora.NAMES) and rows["full"]["train"] == 1
    assert all(row["train"] > 0 and row["infer"] > 0 for row in rows.values())


@pytest.mark.parametrize("name", ["dense", "band", "longformer"])
def test_sparse(name):
    """A window reads less than all pairs; the rows are those of `rounds`."""
    sizes = {"window": 3, "T": 13, "block_size": 5}
    layer, x = sparse.built({"name": name, **sizes})
    dense, _ = sparse.built({"name": "dense", **sizes})
    if name != "dense":
        dense.attention.sliding_window = 3
    dense.set_weights(layer.get_weights())
    assert x.shape == (1, 13, 256)
    np.testing.assert_allclose(
        *map(keras.ops.convert_to_numpy, (layer(x), dense(x))), atol=1e-4
    )


@pytest.mark.parametrize("part", ctc.PARTS)
def test_ctc(part, in_this_process):
    in_this_process(ctc)
    options = argparse.Namespace(
        **OPTIONS, parts=[part], sizes=["tiny"], backend=backend.chosen()
    )
    table = ctc.run(options)["table"]
    assert [row["implementation"] for row in table] == [*ctc.PARTS[part]]
    assert table[0]["times the peer"] == 1 / len(table)


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
        ("--implementations", "torch", "must be among kerasseq, own step"),
        ("--beside", "tests", "must be a folder with another checkout"),
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


def test_prepare():
    parser = argparse.ArgumentParser()
    prepare.add_arguments(parser)
    words = ["--names", "bpe,character", "--megabytes", "0.03", "--processes", "1"]
    words += ["--vocabulary-size", "300"]
    found = prepare.run(parser.parse_args(words))["table"]
    assert [row["tokenizer"] for row in found] == ["bpe", "character"]
    for row in found:
        assert row["MB/s"] > 0 and row["training MB/s"] > 0 and row["peak MB"] > 10


def test_export_has_all_formats():
    from kerasseq.cli.export import FORMATS

    assert export.FORMATS == FORMATS
    message = "the model cannot be exported to onnx, and nothing is left of the files. "
    assert message.endswith(export.REFUSED)


@pytest.mark.full("another process writes the format elsewhere", cheap=False)
def test_export(tmp_path):
    parser = argparse.ArgumentParser()
    export.add_arguments(parser)
    words = ["--models", "bag", "--formats", "torch", "--out", str(tmp_path / "t.md")]
    (row,) = export.run(parser.parse_args(words))["table"]
    assert row["torch"] in ("1e-09", "not checked") or "e-0" in row["torch"]
    assert (tmp_path / "t.md").read_text().splitlines()[-1].startswith("| bag | ")


def test_word_vectors():
    parser = argparse.ArgumentParser()
    vectors.add_arguments(parser)
    options = parser.parse_args(
        ["--words", "1000", "--rounds", "1", "--methods", "skip_gram,cbow,glove"]
    )
    found = vectors.run(options)
    rows = {row["implementation"]: row for row in found["table"]}
    ours = {f"kerasseq {method}" for method in vectors.METHODS}
    assert ours <= set(rows) <= ours | {"gensim skip_gram", "gensim cbow"}
    assert ("gensim" in found) == ("gensim skip_gram" not in rows)
    assert all(row["words/s"] > 0 for row in rows.values())


def test_examples_of_memory():
    """What the tasks ask for, found by reading each example."""
    x, y, asked = memory.examples("copying", np.random.default_rng(0), 7)
    for row, wanted, mask in zip(x, y, asked, strict=True):
        assert row[row < memory.KINDS].tolist() == wanted[mask > 0].tolist()
        assert mask.sum() == memory.SYMBOLS and len(row) == 38
    x, y, asked = memory.examples("recall", np.random.default_rng(0), 7, pairs=5)
    for row, wanted, mask in zip(x, y, asked, strict=True):
        known = dict(zip(row[:10:2].tolist(), row[1:10:2].tolist(), strict=True))
        answers = [known[key] for key in row[mask > 0].tolist()]
        assert answers == wanted[mask > 0].tolist() and len(known) == 5


def test_memory():
    options = {"tasks": ["recall"], "models": ["delta_rule", "mamba"], "seeds": "0"}
    found = memory.run(argparse.Namespace(**options, pairs=3, steps=2))
    assert [row["model"] for row in found["table"]] == ["delta_rule", "mamba"]
    assert all(0 <= row["accuracy"] < 0.5 for row in found["table"])


def test_sources_of_data():
    options = {"models": "SequenceClassifier,Forecaster"}
    options["sources"] = "lists,generator,endless stream"
    found = sources.run(argparse.Namespace(**options))
    table = found.pop("table")
    assert [row["SequenceClassifier"] for row in table] == ["same"] * 3
    cells = [row["Forecaster"] for row in table]
    assert cells == ["predict: see above", "same", "same"]
    assert ["Use forecast(table" in message for message in found.values()] == [True]


@pytest.mark.once("tables, and the words of a command")
def test_rows_of_own_data(monkeypatch):
    pairs = dict(zip(own_rows.BRACKETS[:3], own_rows.BRACKETS[:2:-1], strict=True))
    table = own_rows.brackets()
    assert len(dict(table)) == len(table) > 10_000
    for text, label in table[:60]:
        while any(a + b in text for a, b in pairs.items()):
            for a, b in pairs.items():
                text = text.replace(a + b, "")
        assert (text == "") == (label == "balanced")
    assert {"fr", "de"} < {label for _, label in own_rows.names()}
    trained = []

    def train(task, heading, rows, seed, folder, options, words=()):
        trained.append((options.model, len(rows), seed, words))
        accuracy = {"gru": 0.5, "bag": 0.75}[options.model] + seed / 8
        simple = {"one": {"accuracy": 0.25}, "two": {"accuracy": 0.625}}
        return {"accuracy": accuracy, "baselines": simple}, 3.0

    monkeypatch.setattr(own_data, "train", train)
    options = argparse.Namespace(
        data=["brackets"], play=None, rows="300,20000", seeds="0,1"
    )
    assert own_rows.run(options)["table"] == [
        {"data": "brackets", "rows": 300, "gru": 0.5625, "gru seconds": 3.0,
         "bag": 0.8125, "bag seconds": 3.0, "simple": 0.625}
    ]  # fmt: skip
    assert [each[:3] for each in trained] == [
        (model, 1300, seed) for seed in (0, 1) for model in ("gru", "bag")
    ]
    assert all(float(words[1]) * 1300 == 1000 for *_, words in trained)


def test_runs_are_shared_and_resumed(tmp_path):
    """Two parts make all runs once; a line that was cut off is run again."""
    runs, called = [{"name": name, "steps": 7} for name in "abcde"], []

    def measure(run):
        called.append(run["name"])
        return {"loss": ord(run["name"])}

    def options(part, out=tmp_path / "runs.jsonl", minutes=1.0):
        text = f"{part}/2"
        given = {"part": resumed.part(text), "out": out, "minutes": minutes}
        return argparse.Namespace(**given)

    first = resumed.run_all(runs, measure, options(1))
    assert called == ["a", "c", "e"] == [row["name"] for row in first]
    with (tmp_path / "runs.jsonl").open("a") as file:
        file.write('{"name": "b", "st\n')
    both = resumed.run_all(runs, measure, options(2))
    assert called == [*"acebd"] and [row["name"] for row in both] == [*"abcde"]
    assert [row["loss"] for row in both] == [97, 98, 99, 100, 101]
    again = [{**run, "steps": 8} for run in runs]
    assert resumed.run_all(again, measure, options(1, minutes=-1.0)) == []
    assert len(called) == 5


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "x/y", "1/0"])
def test_a_part_is_one_of_n(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"must be i/n .* received"):
        resumed.part(text)


def shared(**options):
    return argparse.Namespace(out=None, part=(1, 1), minutes=9.0, seeds="0", **options)


def test_counting():
    table = counting.run(shared(names=["slstm"], steps=2))["table"]
    assert [row["name"] for row in table] == ["slstm"]
    assert 0 <= table[0]["accuracy"] <= 1 and table[0]["steps"] == 2


def test_adaptation(monkeypatch, tmp_path):
    (tmp_path / "other.txt").write_text("to be, or not to be\n" * 30)
    small = {"num_layers": 1, "num_heads": 1, "hidden_dim": 10}
    monkeypatch.setattr(adaptation, "SHAPE", small)
    monkeypatch.setattr(adaptation, "LENGTH", 7)
    found = adaptation.run(shared(text=tmp_path / "other.txt", steps=3, pretraining=1))
    (row,) = found["table"]
    assert row["trained"] == 8 * (4 * 20 + 2 * 50) and row["weights"] > 1000
    losses = [row[name] for name in ("base", "nf4", "full 1e-3", "lora 2 1e-2")]
    assert 2 < min(losses) <= max(losses) < 6 and row["lora 8 5e-3"] < row["base"]
    assert found["mean"]["share"] == row["share"]


def test_speech(monkeypatch, tmp_path):
    monkeypatch.setattr(speech, "SIZES", {"units": 8, "num_layers": 1})
    monkeypatch.setattr(speech, "TESTED", 3)
    options = shared(models="gru,lstm", steps=3, every=2, save=tmp_path)
    options.out, options.part = tmp_path / "out.jsonl", (1, 2)  # the first run alone
    found = speech.run(options)
    (row,) = found["table"]
    assert found["finished"] == "1 of 2" and row["model"] == "gru"
    assert float(row["after 3"].strip("%")) > 50  # nothing is learned yet
    assert [name for name in row if "after" in name] == ["after 2", "after 3"]
    monkeypatch.setattr(speech, "train", None)  # not called for what is finished
    options.part, options.minutes = (1, 1), -1.0
    assert speech.run(options)["table"] == [row]
    assert (tmp_path / "gru-0.keras").exists()


def test_speech_words(monkeypatch, tmp_path):
    monkeypatch.setattr(speech, "SIZES", {"units": 8, "num_layers": 1})
    monkeypatch.setattr(speech, "TESTED", 3)
    model, _ = speech.train({"model": "gru", "seed": 0, "steps": 2, "every": 2})
    model.save(tmp_path / "model.keras")
    small = {"TESTED": 5, "VALIDATED": 3, "CLEAR": -7, "WEIGHTS": (0.4,)}
    for name, value in small.items():
        monkeypatch.setattr(speech_words, name, value)
    options = argparse.Namespace(model=tmp_path / "model.keras", n=4, beam=2, seed=0)
    found = speech_words.run(options)
    assert found["test words"] == 5 and found["words of the n-gram model"] > 2000
    greedy, beam, both = found["table"]
    assert greedy["mended"] == 0 and both["decoding"] == "and 4-gram"
    assert beam["mended"] == 1 - beam["characters wrong"] / greedy["characters wrong"]


def test_sequences_of_stages_have_each_hand_over_twice_at_each_place():
    found = stages.sequences()
    for place in range(4):
        pairs = [each[place : place + 2] for each in found]
        assert len({*pairs}) == 6 and all(pairs.count(pair) == 2 for pair in pairs)


@pytest.mark.full("five processes, each with its backend", cheap=False)
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in stages.BACKENDS),
    reason="each stage has another backend",
)
def test_a_model_goes_through_five_stages_on_three_backends(tmp_path):
    options = argparse.Namespace(steps=3, sequences=1, folder=tmp_path)
    [row] = stages.run(options)["table"]
    assert row["backends"] == "tensorflow jax torch tensorflow jax"
    for place in ("1 > 2", "2 > 3", "3 > 4", "4 > 5", "export"):
        assert row[place] <= stages.TOLERANCE
    assert row["adapter bytes"] <= row["limit"]


def test_preferences(monkeypatch):
    monkeypatch.setattr(preferences, "ASKED", 30)
    monkeypatch.setattr(preferences, "PAIRS", 7)
    method = list(preferences.METHODS)
    found = preferences.run(shared(steps=2, pretraining=1, method=method))
    rows = found["table"]
    names = ["best", "best", "votes", "votes", "best", *preferences.GRPO]
    assert [row["of"] for row in rows] == names
    writers = [row for row in rows if row["method"] != "reward"]
    assert all(0 < row["even"] < 1 and 0 <= row["KL"] < 1 for row in writers)
    assert 0 < rows[4]["right pairs"] < 1
    for name, share in {"votes": 0.731, "GRPO, unscaled": 0.949}.items():
        assert found[f"share at the optimum of {name}"] == pytest.approx(
            share, abs=1e-3
        )
    share = found["share at the optimum of GRPO, no ratio"]
    assert share == pytest.approx(0.858, abs=1e-3)


def test_modifications(tmp_path):
    names = ["multi_head", "min_gru", "feed_forward=none"]
    file = tmp_path / "table.png"
    found = modifications.run(shared(names=names, steps=4, figure=file))
    assert file.stat().st_size > 10_000
    assert found["runs"] == len(modifications.RATES) * len(names)
    assert [row["name"] for row in found["table"]] == names
    wanted = found["table"][0]["weights"]
    assert all(abs(row["weights"] / wanted - 1) < 0.01 for row in found["table"])
    assert all(3 < row["late"] < 5 for row in found["table"])


def test_modifications_has_every_option_of_the_block():
    from kerasseq.positions import by_name
    from kerasseq.transformer import feed_forward, mixers

    def never_causal(name):
        return hasattr(mixers.OF_PAIRS.get(name), "never_causal")

    causal = {name for name in mixers.ATTENTIONS if not never_causal(name)}
    assert {*modifications.OF_PAIRS, *modifications.IN_ITS_PLACE} == causal
    others = {*feed_forward.FEED_FORWARDS, feed_forward.NONE} - {"gelu"}
    assert {*modifications.FEED_FORWARDS} == others
    positions = {name or "none" for name in by_name.DECODER_POSITIONS}
    assert {*modifications.POSITIONS} == positions - {"learned"}


@pytest.mark.full("two models for 2 steps")
def test_captioning(monkeypatch, tmp_path):
    monkeypatch.setattr(captioning, "UNITS", 8)
    monkeypatch.setattr(captioning, "TESTED", 5)
    options = shared(attention="soft,hard", steps=2)
    options.seeds, options.out = "0", tmp_path / "out.jsonl"
    found = captioning.run(options)
    assert found["finished"] == "2 of 2"
    assert [row["attention"] for row in found["table"]] == ["soft", "hard"]
    shares = [float(row["in_box"]) for row in found["table"]]
    assert all(0 <= share <= 1 for share in shares)
    test = captioning.test_scenes()
    areas = [
        np.prod(test.boxes[n][shape][2:] - test.boxes[n][shape][:2]) / 24**2
        for n in range(5)
        for _, shape in test.mentions(n)
    ]
    uniform = float(found["uniform map, in box"])
    assert uniform == pytest.approx(np.mean(areas), abs=6e-4)
    monkeypatch.setattr(captioning, "measure", None)  # not called for what is finished
    assert captioning.run(options) == found


@pytest.mark.full("six small networks, of a command that is tested")
def test_scaling(tmp_path):
    options = shared(data="markov-source", widths="2,4,6", steps=2)
    options.seeds, options.out = "0,1", tmp_path / "run"
    found = scaling.run(options)
    results = json.loads((tmp_path / "run/results.json").read_text())
    assert found["falls by more than the deviation"] == results["falls"]
    assert [row["loss"] for row in found["table"]] == [
        row["loss"] for row in results["widths"]
    ]
    (known, free) = (name for name in found if name.startswith("exponent, "))
    assert known == "exponent, E = 2.669" and free == "exponent, E free"
    assert scaling.run(options) == found  # which is finished


@pytest.mark.full("eight small networks")
def test_residuals(monkeypatch, tmp_path):
    for name, value in {"STEPS": 20, "LINES": 2, "POINTS": 5, "GPT_STEPS": 3}.items():
        monkeypatch.setattr(residuals, name, value)
    options = shared(depths="7")
    options.seeds, options.out = "0,1", tmp_path / "out.jsonl"
    found = residuals.run(options)
    assert found["finished"] == "8 of 8"
    assert found["spread of the states with / without"] > 20
    rows = [json.loads(line) for line in options.out.read_text().splitlines()]
    rises = {(r["residual"], r["seed"]): r["rise"] for r in rows if "rise" in r}
    least = min(rises[False, 0], rises[False, 1]) / max(rises[True, 0], rises[True, 1])
    assert found["rise without / with, depth 7"] == pytest.approx(least, abs=0.051)
    assert found["trained to 0.9, depth 7"] == "0 with, 0 without"


def test_optimum_has_all_causal_architectures():
    from kerasseq.tasks.architectures import ARCHITECTURES
    from kerasseq.tasks.transformer_stack import NEVER_CAUSAL

    names = [*optimum.RECURRENT, *optimum.OF_TWO_LAYERS]
    assert sorted(names) == sorted({*ARCHITECTURES} - {*NEVER_CAUSAL})
    assert {name for bars in optimum.BARS.values() for name in bars} <= {*names}


@pytest.mark.full("three models for 40 steps")
def test_optimum(monkeypatch, tmp_path):
    monkeypatch.setattr(optimum, "TESTED", 200)
    monkeypatch.setattr(optimum, "UNITS", 16)
    options = shared(names="gru,mamba", steps=40, leak=0.0)
    options.seeds, options.out = "0", tmp_path / "out.jsonl"
    found = optimum.run(options)
    assert found["finished"] == "2 of 2" and found["optimum"] == "1.6640"
    assert [row["below -3 errors"] for row in found["table"]] == ["no", "no"]
    assert all(0 < float(row["excess"]) < 1 for row in found["table"])
    options.names, options.leak = "mamba", 1.0
    (row,) = optimum.run(options)["table"]
    assert row["below -3 errors"] == "yes" and -1.7 < float(row["excess"]) < -0.2
    ids = optimum.source().sample(500, 33)
    x = optimum.leaking(ids, 0.05, 3)
    assert abs((x >= 5).mean() - 0.05) < 0.01
    told = (x - 5) % 5  # the next symbol, in the inputs that tell it
    np.testing.assert_array_equal(told[x >= 5], ids[:, 1:][x >= 5])
    np.testing.assert_array_equal(x[x < 5], ids[:, :-1][x < 5])


@pytest.mark.full("nine models for 2 steps")
def test_multimodal(monkeypatch, tmp_path):
    small = {"image_size": 24, "num_layers": 1, "num_heads": 1, "hidden_dim": 8}
    monkeypatch.setattr(multimodal, "SIZES", small)
    tasks = {
        name: (scenes, {**model, **small, "image_size": size}, 2, rate, 5, bar)
        for name, (scenes, model, _, rate, _, bar) in multimodal.TASKS.items()
        for size in [model.get("image_size", 24)]
    }
    monkeypatch.setattr(multimodal, "TASKS", tasks)
    options = shared(tasks=",".join(multimodal.TASKS), steps=None)
    options.seeds, options.out = "0", tmp_path / "out.jsonl"
    found = multimodal.run(options)
    assert found["finished"] == "9 of 9"
    assert [row["task"] for row in found["table"]] == [*multimodal.TASKS]
    assert "+0.02" in found["loss of experts beside dense"]
    assert all(0 <= float(row["mean share"]) <= 1 for row in found["mean"])
    test = multimodal.test_rows("unseen", {"held_out": 0.2}, 128)
    shown = multimodal.training_rows("unseen", {"held_out": 0.2}, 4096, 0)[1]
    seen = [text in shown for (text,) in test.right]
    assert len({*test.right}) == 128 and 80 < test.asked <= 90
    assert seen == [n >= test.asked for n in range(128)]
    films, texts = multimodal.training_rows("shuffled", {"frames": 4}, 10, 0)
    halves = films["images"].reshape(5, 2, 2, 2, -1)  # order, half, frame
    assert (halves[:, 0] == halves[:, 1, ::-1]).all()
    assert texts == ["in order", "exchanged"] * 5
    monkeypatch.setattr(multimodal, "measure", None)  # not called for what is finished
    assert multimodal.run(options) == found


@pytest.mark.parametrize("model, way", [("gpt", "plain"), ("t5", "full and chunks")])
def test_training_memory(model, way):
    sizes = {"model": model, "vocabulary_size": 11, "num_layers": 2, "width": 8}
    found = training_memory.measure(way, **sizes, sequence_length=13, batch_size=3)
    assert found["MB"] >= 0
    assert found["losses"][1] < found["losses"][0]
