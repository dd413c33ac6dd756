"""`kerasseq export`: runs and files, messages, and what is printed."""

import errno
import json
import shutil

import pytest

from kerasseq.cli import export, main
from kerasseq.exporting import exports, formats
from tests.cli.conftest import TINY

pytestmark = pytest.mark.once("the command line")


@pytest.fixture
def with_tensorflow():
    """Tries TensorFlow first, or is skipped without it."""
    pytest.importorskip("tensorflow", exc_type=ImportError)


INT8 = {
    "file": "model.int8.onnx",
    "sizes": [200, 50],
    "milliseconds": [2.0, 1.0],
    "rows": 5,
    "answers": 5,
    "changed": 1,
    "difference": 0.01,
    "data": "the given inputs",
}
ANSWER = {
    "files": {"model.onnx": 200},
    "length": None,
    "batch": None,
    "checked_by": "onnxruntime 1.32.0",
    "difference": 3e-7,
    "notes": ["The inputs have 7 steps."],
    "int8": None,
}


@pytest.fixture
def asked(monkeypatch):
    """Answers in place of a process; returns the list of what it was asked."""
    asked = []

    def in_process(name, file, folder, request, samples=None):
        asked.append({**request, "file": file, "samples": samples})
        (folder / "model.onnx").write_bytes(b"x" * 200)
        return {**ANSWER, "int8": dict(INT8) if request["quantize"] else None}

    monkeypatch.setattr(exports, "in_process", in_process)
    return asked


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classified")
    rows = "".join(f"word {n % 3} and {n},{'ab'[n % 2]}\n" for n in range(23))
    (folder / "table.csv").write_text("text,label\n" + rows)
    words = ["train", "classify", "--file", folder / "table.csv"]
    words += ["--run", folder / "run", "--steps", "1", "--units", "3"]
    assert main([str(word) for word in [*words, "--batch-size", "3"]]) == 0
    return folder / "run"


@pytest.mark.usefixtures("with_tensorflow")
def test_files_and_check_are_printed(command, asked, trained, tmp_path):
    out = command("export", trained[0], "--out", "files").out
    assert "model.onnx" in out and "200" in out
    assert "run by onnxruntime 1.32.0: the largest difference" in out
    assert "Batch size and length are free." in out
    assert "The inputs have 7 steps." in out
    assert [path.name for path in (tmp_path / "files").iterdir()] == ["model.onnx"]
    assert asked[0]["samples"] is None and asked[0]["file"].endswith("model.keras")
    assert asked[0]["max_characters"] is None
    file = trained[0] / "model.keras"
    found = json.loads(command("export", file, "--out", "a/b", "--json").out)
    assert found["path"] == "a/b" and found["difference"] == 3e-7


@pytest.mark.usefixtures("with_tensorflow")
def test_what_is_not_checked_is_said(command, monkeypatch, asked, trained):
    monkeypatch.setitem(ANSWER, "checked_by", None)
    monkeypatch.setitem(ANSWER, "length", 7)
    out = command("export", trained[0], "--out", "files").out
    assert "not checked: that needs onnxruntime. In this environment: pip" in out
    assert "The batch size is free." in out


def test_answers_of_int8_on_held_out_texts(command, asked, classifier, tmp_path):
    words = ["export", classifier, "--quantize", "int8", "--out"]
    out = command(*words, "files").out
    texts = asked[0]["samples"]
    assert 0 < len(texts) < 23 and all(text.startswith("word") for text in texts)
    assert asked[0]["max_characters"] == 1000
    assert f"On {len(texts)} held-out texts 1 of 5 answers change" in out
    assert "0.25" in out and "0.50" in out  # of size and time
    plain = json.loads(command(*words, "other", "--json").out)
    assert plain["int8"]["data"] == f"{len(texts)} held-out texts"


def test_changed_data_are_not_held_out(command, asked, classifier, tmp_path):
    shutil.copytree(classifier, tmp_path / "run")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    record["data"]["sha256"] = "0"
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    done = command("export", "run", "--quantize", "int8", "--out", "files")
    assert asked[0]["samples"] is None and "inputs are random" in done.err
    assert "On random inputs 1 of 5" in done.out


@pytest.mark.usefixtures("with_tensorflow")
def test_weights_that_are_not_rounded_are_said(command, monkeypatch, asked, trained):
    monkeypatch.setitem(INT8, "sizes", [200, 200])
    words = "--format", "litert", "--quantize", "int8", "--out", "files"
    assert "No weight has 8 bits" in command("export", trained[0], *words).out


@pytest.mark.usefixtures("with_tensorflow")
def test_a_run_that_is_not_finished(command, asked, trained, tmp_path):
    shutil.copytree(trained[0], tmp_path / "run")
    (tmp_path / "run" / "results.json").unlink()
    done = command("export", "run", "--out", "files")
    assert "the run in run" in done.err and "kerasseq train --resume run" in done.err


@pytest.mark.usefixtures("with_tensorflow")
def test_forecasts_have_no_answers_to_count(command, monkeypatch, asked, trained):
    monkeypatch.setitem(INT8, "changed", None)
    words = "--format", "litert", "--quantize", "int8", "--out", "files"
    done = command("export", trained[0], *words)
    assert "On random inputs outputs differ by 0.01 of the largest" in done.out


@pytest.mark.usefixtures("with_tensorflow")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing", "--out", "o"], 'there is no folder "missing"'),
        (["RUN"], "expected a folder, as in --out exported"),
        (["RUN", "--out", ""], "expected a folder, as in --out exported"),
        (["RUN", "--out", "o", "--backend", "torch"], "leave --backend out"),
        (["RUN", "--out", "taken"], "taken exists, and nothing is overwritten"),
        (["RUN", "--out", "taken/file/o"], "taken/file is a file: choose"),
        (["taken", "--out", "o"], "taken contains no run"),
        (["taken/file", "--out", "o"], "is not a .keras file, or is damaged"),
        (["RUN", "--format", "onx", "--out", "o"], 'Did you mean "onnx"'),
        (["RUN", "--format", "torch", "--quantize", "int8", "--out", "o"],
         "--quantize int8 is not for torch"),
        (["RUN", "--quantize", "int8", "--out", "o"],
         "--quantize int8 is not for the format onnx of a LanguageModel"),
        (["RUN", "--length", "0", "--out", "o"], "--length"),
    ],
)  # fmt: skip
def test_wrong_words(refused, asked, trained, tmp_path, words, message):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    words = [trained[0] if word == "RUN" else word for word in words]
    assert message in refused("export", *words)
    assert (tmp_path / "taken" / "file").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    assert asked == []


@pytest.mark.usefixtures("with_tensorflow")
@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "kerasseq: stopped"),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "free some space"),
        (MemoryError("none left"), 2, "not enough memory"),
    ],
)
def test_nothing_is_left(command, monkeypatch, trained, tmp_path, error, code, message):
    def in_process(name, file, folder, request, samples=None):
        (folder / "model.onnx").write_bytes(b"half")
        raise error

    monkeypatch.setattr(exports, "in_process", in_process)
    done = command("export", trained[0], "--out", "files", code=code)
    assert message in done.err and list(tmp_path.iterdir()) == []


def test_a_backend_that_is_not_installed(refused, monkeypatch, trained, tmp_path):
    monkeypatch.setattr(exports.backend, "installed", lambda: ("jax", "torch"))
    line = refused("export", trained[0], "--format", "litert", "--out", "files")
    assert "litert is written by tensorflow, and needs tensorflow" in line
    assert list(tmp_path.iterdir()) == []


def test_names_equal_those_of_the_library():
    assert tuple(formats.FORMATS) == export.FORMATS
    readers = {name: each.reader for name, each in formats.FORMATS.items()}
    assert {n: r for n, r in readers.items() if r is not None} == export.READERS
    assert TINY  # of the run that is exported


@pytest.mark.full("another process loads a backend", cheap=False)
@pytest.mark.parametrize("name", ["onnx", "torch"])
def test_a_run_in_a_process_of_its_own(command, classifier, name):
    found = json.loads(
        command(
            *("export", classifier, "--format", name, "--out", "files", "--json"),
            *("--length", 7),
        ).out
    )
    assert found["difference"] < 1e-5 and found["checked_by"]
