"""Arguments, folders and processes of `export_model`; no file is converted."""

import errno
import json
import os
import pathlib
import signal

import keras
import numpy as np
import pytest

from kerasseq import exporting, models
from kerasseq.exporting import exports, failures, formats, worker

pytestmark = pytest.mark.once("files and messages")
ANSWER = {
    "files": {"model.onnx": 5},
    "length": None,
    "batch": None,
    "checked_by": None,
    "difference": None,
    "notes": [],
    "int8": None,
}


@pytest.fixture
def with_tensorflow():
    """Tries TensorFlow first, or is skipped without it."""
    pytest.importorskip("tensorflow", exc_type=ImportError)


@pytest.fixture
def model():
    return models.SequenceClassifier("gru", 2, vocabulary_size=5, units=3)


@pytest.fixture
def answers(monkeypatch):
    """Lets each process answer what is put here, by backend."""
    answers = {}

    def in_process(name, file, folder, request, samples=None):
        assert pathlib.Path(file).exists()
        pathlib.Path(folder, "model.onnx").write_bytes(b"12345")
        answer = answers.get(name, ANSWER)
        if isinstance(answer, BaseException):
            raise answer
        return dict(answer)

    monkeypatch.setattr(exports, "in_process", in_process)
    monkeypatch.setattr(exports, "_runs_here", lambda model, name: False)
    return answers


@pytest.mark.usefixtures("with_tensorflow")
def test_files_of_a_model(model, answers, tmp_path):
    found = exporting.export_model(model, tmp_path / "a" / "out")
    assert found.path == tmp_path / "a" / "out" and found.backend == "tensorflow"
    assert [path.name for path in found.path.iterdir()] == ["model.onnx"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["out"]


@pytest.mark.usefixtures("with_tensorflow")
def test_another_backend_is_tried(model, answers, tmp_path):
    answers["tensorflow"] = {"error": "no such operation"}
    assert exporting.export_model(model, tmp_path / "out").backend == "torch"
    answers["torch"] = {"error": "no loop"}
    with pytest.raises(
        ValueError,
        match="cannot be exported to onnx, .*on tensorflow: no such operation; on "
        "torch: no loop",
    ):
        exporting.export_model(model, tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.usefixtures("with_tensorflow")
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "full"), MemoryError()]
)
def test_nothing_is_left_after_an_error(model, answers, tmp_path, error):
    answers["tensorflow"] = error
    with pytest.raises(type(error)):
        exporting.export_model(model, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("with_tensorflow")
def test_folders_above_are_removed_again(model, answers, tmp_path):
    (tmp_path / "mine").mkdir()
    answers["tensorflow"] = MemoryError()
    with pytest.raises(MemoryError):
        exporting.export_model(model, tmp_path / "mine" / "a" / "b" / "out")
    assert [*tmp_path.rglob("*")] == [tmp_path / "mine"]


def test_a_folder_that_another_process_makes_meanwhile(tmp_path):
    with (
        pytest.raises(FileExistsError, match="was made meanwhile"),
        exports.new_folder(tmp_path / "out") as folder,
    ):
        (folder / "mine").write_text("mine")
        (tmp_path / "out").mkdir()
    assert [path.name for path in tmp_path.rglob("*")] == ["out"]


def test_the_worker_ends_with_its_parent(monkeypatch):
    """A process that is killed closes the standard input of the worker."""
    ended = []
    monkeypatch.setattr(worker.os, "read", lambda file, count: b"")
    monkeypatch.setattr(worker.os, "kill", lambda *args: ended.append(args))
    worker.end_with_parent()
    assert ended == [(os.getpid(), signal.SIGTERM)]


def test_nothing_is_overwritten(model, answers, tmp_path):
    for name in ("file", "folder"):
        path = tmp_path / name
        path.mkdir() if name == "folder" else path.write_text("mine")
        with pytest.raises(FileExistsError, match="nothing is overwritten"):
            exporting.export_model(model, path)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "tensorrt"}, 'format="tensorrt" is not one of "onnx"'),
        ({"quantize": "int4"}, 'quantize="int4" is not one of'),
        ({"length": 0}, "length must be .*received 0"),
        ({"format": "openvino", "quantize": "int8"}, "nncf"),
        ({"format": "torch", "quantize": "int8"}, "float weights. Choose"),
        ({"path": ""}, "must name a file or a folder"),
    ],
)
def test_wrong_arguments(model, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        exporting.export_model(model, **{"path": tmp_path / "out", **options})
    assert list(tmp_path.iterdir()) == []


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr(exports.backend, "installed", lambda: ("jax",))
    monkeypatch.setattr(exports.packages, "is_installed", lambda name: name == "onnx")
    with pytest.raises(
        ImportError,
        match="onnx is written by tensorflow or torch, and needs tensorflow and "
        "tf2onnx or torch and onnxscript, which is not installed. In this "
        "environment: pip install tensorflow tf2onnx",
    ):
        exports._usable("onnx", formats.FORMATS["onnx"])


def test_the_worker_answers_in_a_file(model, tmp_path):
    if keras.backend.backend() != "torch":
        pytest.skip("a program of PyTorch")
    model = models.SequenceClassifier("bag", 2, vocabulary_size=5, units=3)
    model.save(tmp_path / "model.keras")
    (tmp_path / "out").mkdir()
    question = {
        **{"format": "torch", "quantize": None, "length": None, "samples": None},
        "file": str(tmp_path / "model.keras"),
        "folder": str(tmp_path / "out"),
        "answer": str(tmp_path / "answer.json"),
    }
    (tmp_path / "question.json").write_text(json.dumps(question))
    worker.main(str(tmp_path / "question.json"))
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert "files" in answer, answer
    assert answer["difference"] < 1e-5 and "model.pt2" in answer["files"]
    (tmp_path / "model.keras").write_bytes(b"no model")
    worker.main(str(tmp_path / "question.json"))
    answer = json.loads((tmp_path / "answer.json").read_text())
    with pytest.raises(ValueError, match="not a .keras file, or is damaged"):
        exports._raised(answer)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"errno": errno.ENOSPC}, OSError),
        ({"memory": "none left"}, MemoryError),
        ({"damaged": "no model"}, ValueError),
    ],
)
def test_errors_of_a_process(answer, error):
    with pytest.raises(error):
        exports._raised(answer)


def test_a_full_disk_is_known_from_its_message():
    full = failures.as_final(RuntimeError("write failed: No space left on device"))
    assert isinstance(full, OSError) and failures.is_final(full)
    other = RuntimeError("unknown operation")
    assert failures.as_final(other) is other and not failures.is_final(other)


def test_arrays_in_a_question():
    assert json.dumps({"x": np.ones(2)}, default=exports._plain) == '{"x": [1.0, 1.0]}'
