"""`kerasseq train --devices`, `--parallel` and `--micro-batches`."""

import argparse
import contextvars
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from contextlib import nullcontext

import pytest

from kerasseq import training
from kerasseq.cli import devices, errors
from kerasseq.core import backend
from kerasseq.kernels import parts
from kerasseq.training import checkpoint
from tests.cli.conftest import RUN, at_step
from tests.processes import clean_environment

pytestmark = pytest.mark.once("PyTorch alone starts processes; messages")

GPT = ["--model", "gpt", *RUN, "--num-layers", "1", "--num-heads", "1"]


@pytest.mark.parametrize(
    "words, message",
    [
        (["--devices", "0"], "expected an integer of at least 1, received 0"),
        (["--devices", "65"], "expected an integer of at most 64, received 65"),
        (["--devices", "two"], 'expected an integer, received "two"'),
        (["--parallel", "modle", "--devices", "2"], 'Did you mean "model"?'),
        (["--parallel", "model"], "needs --devices of at least 2, received 1"),
        (
            ["--parallel", "model", "--devices", "2", "--backend", "tensorflow"],
            "received the backend tensorflow",
        ),
        (["--micro-batches", "0"], "expected an integer of at least 1, received 0"),
        (
            ["--micro-batches", "7", "--batch-size", "5"],
            "must be at most the 5 examples of a batch (--batch-size), received 7",
        ),
        (
            ["--micro-batches", "3", "--batch-size", "5", "--devices", "2"],
            "divided among 2 devices, received 3. Choose fewer parts",
        ),
    ],
)
def test_wrong_options(words, message, refused, text_path, tmp_path):
    task = ["train", "language-model", "--text", str(text_path)]
    run = ["--run", str(tmp_path / "run")]
    assert message in refused(*task, *run, *words)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("task", ["parentheses", "draw", "preferences", "contrastive"])
def test_tasks_that_train_several_models_or_compare_rows(task, refused, tmp_path):
    words = ["train", task, "--micro-batches", "2", "--run", str(tmp_path / "run")]
    assert f"language-model, classify, .* Received {task}"[:24] in refused(*words)
    assert not (tmp_path / "run").exists()


def test_parts_of_a_batch(command, text_path, tmp_path):
    """The history is that of whole batches; a run goes on with another number."""
    histories = []
    for words in ([], ["--micro-batches", "2"]):
        folder = tmp_path / f"run{len(words)}"
        task = ["train", "language-model", "--text", str(text_path), *GPT]
        with at_step(15):
            command(*task, "--run", str(folder), *words, code=130)
        command("train", "--resume", str(folder), "--micro-batches", "3")
        histories.append(json.loads((folder / "history.json").read_text()))
    whole, parts = histories
    assert [[*row] for row in parts] == [[*row] for row in whole]
    for one, other in zip(whole, parts, strict=True):
        assert one == pytest.approx(other, rel=1e-5)


def start(folder, *words):
    """Starts a run on two devices, and waits for its first checkpoint."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kerasseq", "train", *words, "--devices", "2"],
        cwd=folder,
        env=clean_environment({"KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )
    file = folder / "run" / checkpoint.FILE
    until = time.monotonic() + 300
    while not file.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    assert file.exists(), process.stdout.read()
    return process


def workers(process):
    """The numbers of the processes that a run has started, in order."""
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(number) for number in children.read_text().split()]


@pytest.mark.full("16 CPU seconds: four processes load PyTorch", cheap=False)
@pytest.mark.parametrize("parallel", devices.PARALLEL)
def test_a_killed_process_ends_the_others(parallel, command, text_path, tmp_path):
    """With a message; the run resumes, also on one device; one process writes files."""
    steps = ["--steps", "100000", "--patience", "0", "--parallel", parallel]
    words = ["--text", str(text_path), *GPT, *steps, "--run", "run"]
    process = start(tmp_path, "language-model", *words)
    first, second = workers(process)
    os.kill(second, signal.SIGKILL)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2, output
    assert "another process of the run has ended" in output
    assert "kerasseq train --resume run --devices N" in output
    assert output.count("whose 2 devices share the ") == 1
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    done = checkpoint.read(tmp_path / "run" / checkpoint.FILE)[1]["epochs"] * 10
    assert sorted(os.listdir(tmp_path)) == ["run"]
    with at_step(done + 5):
        command("train", "--resume", str(tmp_path / "run"), code=130)


@pytest.mark.full("as Ctrl-C on one device, which is tested", cheap=False)
@pytest.mark.parametrize("parallel", devices.PARALLEL)
def test_a_stopped_run_resumes_on_two_devices(parallel, text_path, tmp_path):
    """Ctrl-C saves a checkpoint within an interval; the history is that of one."""
    words = ["--text", str(text_path), *GPT, "--patience", "0"]
    how = ["--parallel", parallel]
    process = start(tmp_path, "language-model", *words, "--run", "run", *how)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode in (0, 130), output
    environment = clean_environment({"KERAS_BACKEND": "torch"})
    program = [sys.executable, "-m", "kerasseq", "train"]
    for arguments in (
        ["--resume", "run", "--devices", "2", *how],
        ["language-model", *words, "--run", "one"],
    ):
        subprocess.run(
            [*program, *arguments],
            cwd=tmp_path,
            env=environment,
            check=True,
            capture_output=True,
        )
    two, one = (
        json.loads((tmp_path / name / "history.json").read_text())
        for name in ("run", "one")
    )
    for a, b in zip(two, one, strict=True):
        assert a == pytest.approx(b, rel=1e-5)


def of_jax(monkeypatch, number):
    """Lets the environment name two processes of JAX, of which this is one."""
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    for name, value in zip(devices.OF_JAX, ("2", number), strict=True):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(backend, "chosen", lambda: "jax")


def test_processes_of_jax_need_the_number_of_devices(monkeypatch, refused, text_path):
    of_jax(monkeypatch, "1")
    task = ["train", "language-model", "--text", str(text_path)]
    assert "expected --devices N, the number of all" in refused(*task)


@pytest.mark.parametrize("number", ["0", "1"])
@pytest.mark.parametrize("name", ["run", "resume"])
def test_one_process_of_jax_writes_and_prints(
    number, name, monkeypatch, tmp_path, capsys
):
    of_jax(monkeypatch, number)
    given = argparse.Namespace(devices=2, run=None, resume=None)
    setattr(given, name, str(tmp_path))
    (tmp_path / "file").write_text("of the run")
    with devices.in_own_folder(given):
        print("seen")
        folder = pathlib.Path(getattr(given, name))
        is_own = folder != tmp_path
        assert (folder / "file").exists() is (name == "resume" or not is_own)
    assert is_own is (number == "1")
    assert capsys.readouterr().out == ("" if is_own else "seen\n")
    assert folder.exists() is not is_own


def test_a_lost_process_of_jax(monkeypatch):
    """The error says how to resume, and nothing waits for the process at the end."""
    ended = []
    of_jax(monkeypatch, "0")
    monkeypatch.setattr("atexit.register", lambda *call: ended.append(call))
    monkeypatch.setattr(training, "on_devices", lambda *_, **__: nullcontext())
    monkeypatch.setattr(backend, "chosen", lambda: "jax")
    message = "--resume runs/one --devices N"
    with (
        pytest.raises(errors.UsageError, match=message),
        devices.Devices(2).in_run(pathlib.Path("runs/one")),
    ):
        raise RuntimeError(parts.LOST)
    assert ended == [(getattr(os, "_exit"), 2)]  # noqa: B009


def test_no_run_is_divided_without_being_asked(monkeypatch):
    assert devices.Devices() == (1, "data", 1)
    monkeypatch.setenv(devices.WORKERS, "folder")
    monkeypatch.setenv("RANK", "1")
    assert devices.is_worker()


def test_sizes_that_devices_do_not_divide_are_told_by_the_options(monkeypatch):
    """The message of `on_devices`, as the command prints it."""
    monkeypatch.setattr(training, "on_devices", lambda *_, **__: nullcontext())
    monkeypatch.setattr(backend, "chosen", lambda: "jax")
    error = ValueError("devices=2 must divide 3. Choose 4, or leave layout_map out")

    def message():
        errors.typed_options.set({"devices": "--devices"})
        with devices.Devices(2, "model").in_run(pathlib.Path("run")):
            return errors.exit_code_and_message(error)

    found = contextvars.copy_context().run(message)
    assert found == (2, "--devices 2 must divide 3. Choose 4, or leave --parallel out")
