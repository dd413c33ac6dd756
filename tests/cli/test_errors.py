"""Errors of files, disks, packages and backends, each of one line."""

import errno
import json
import os
import sys

import pytest

from tests.cli.conftest import TINY, snapshot
from tests.processes import run_python

pytestmark = pytest.mark.once("the command line")

MAIN = "import sys\nfrom kerasseq.cli import main\nsys.exit(main(sys.argv[1:]))"
TRAIN = ["train", "language-model", *TINY, "--steps", "2", "--checkpoint-every", "1"]
TRAIN += ["--model", "elman"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n\n", "only whitespace"),
        (b"\x7fELF\x00\x01\x02\x00", "looks like a binary file"),
        ("été ".encode("cp1252") * 99, "Try --encoding cp1252"),
        ("été ".encode("utf-16") * 9, "Try --encoding utf-16"),
        (b"short", "too few"),
        (b"abc def gh \n", "too few"),
    ],
)
def test_unusable_texts(refused, tmp_path, content, message):
    (tmp_path / "a.txt").write_bytes(content)
    assert message in refused(*TRAIN, "--text", "a.txt", "--run", "r")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_held_out_text_of_one_token(refused, tmp_path):
    (tmp_path / "a.txt").write_text("abcabcabc" * 3 + "ab")
    words = ["--text", "a.txt", "--tokenizer", "bpe", "--vocabulary-size", 300]
    message = refused(*TRAIN, *words, "--sequence-length", 2, "--run", "r")
    assert "a.txt: the held-out text must have at least two tokens" in message
    assert "received one: 'ab'" in message
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_missing_text_or_folder(refused, tmp_path):
    assert "There is no file no.txt" in refused(*TRAIN, "--text", "no.txt")
    assert "is a folder" in refused(*TRAIN, "--text", tmp_path)
    assert not list(tmp_path.iterdir())


def test_encoding(command, refused, tmp_path):
    (tmp_path / "a.txt").write_bytes("l'été est là \n".encode("cp1252") * 40)
    words = [*TRAIN, "--text", "a.txt", "--encoding"]
    assert "Did you mean 'cp1258'?" in refused(*words, "cp12588")
    done = command(*words, "cp1252", "--run", "r", "--json")
    assert json.loads(done.out)["held_out_characters"] == 14 * 4 - 1


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("run.json", errno.EROFS),
        ("checkpoint.npz", errno.ENOSPC),
    ],
)
def test_unwritable_disk(refused, text_path, tmp_path, monkeypatch, name, number):
    replace = os.replace

    def fails(source, target):
        if os.path.basename(target) == name:
            raise OSError(number, os.strerror(number), str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", fails)
    line = refused(*TRAIN, "--text", text_path, "--run", "r")
    assert os.strerror(number).lower() in line.lower() and name in line
    assert "part" not in " ".join(snapshot(tmp_path))


def test_unwritable_folder(refused, text_path, monkeypatch):
    def fails(self, *args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))

    monkeypatch.setattr("pathlib.Path.mkdir", fails)
    assert "read-only file system: r" in refused(
        *TRAIN, "--text", text_path, "--run", "r"
    )


def test_disk_that_fills_up(command, text_path, tmp_path):
    """The system limits the size of a file."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        done = command(*TRAIN, "--text", text_path, "--run", "r", code=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert done.err.splitlines()[-1] == "kerasseq: error: file too large"
    assert set(snapshot(tmp_path)) == {"r/run.json", "r/progress.jsonl"}


def test_stdout_on_a_full_disk(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    code = "import sys\nsys.stdout = open('/dev/full', 'w')\n" + MAIN
    code = code.replace("sys.exit(main(sys.argv[1:]))", "c = main(['data', 'ar'])\n")
    code += "sys.stdout = None\nsys.exit(c)"
    done = run_python(code, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("kerasseq: error: no space left on device")


def test_closed_pipe_is_not_an_error():
    code = """
import os, sys
read, write = os.pipe()
os.close(read)
os.dup2(write, 1)
from kerasseq.cli import main
sys.exit(main(["data"]))
"""
    done = run_python(code, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("environment", "only", "words", "message"),
    [
        ({"KERAS_BACKEND": "tensorflwo"}, None, [], 'Did you mean "tensorflow"?'),
        ({"KERAS_BACKEND": "jax"}, ["torch"], [], "jax is not installed"),
        ({"KERAS_BACKEND": "torch"}, ["torch"], ["--backend", "jax"],
         "jax is not installed"),
        ({"KERAS_BACKEND": None}, [], [], "pip install tensorflow"),
    ],
)  # fmt: skip
def test_wrong_backend(tmp_path, environment, only, words, message):
    done = run_python(MAIN, "train", "forecast", "--data", "ar", *words, only=only,
                      check=False, cwd=tmp_path, **environment)  # fmt: skip
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and message in done.stderr
    assert not list(tmp_path.iterdir())


def test_backend_cannot_change_within_a_process(refused):
    import keras

    other = next(b for b in ("jax", "torch") if b != keras.backend.backend())
    line = refused("info", "--backend", other)
    assert "cannot change" in line or "is not installed" in line


@pytest.mark.parametrize("words", [["data", "co2"], ["train", "forecast"]])
def test_without_statsmodels(refused, monkeypatch, tmp_path, words):
    monkeypatch.setitem(sys.modules, "statsmodels", None)
    monkeypatch.setitem(sys.modules, "statsmodels.datasets", None)
    assert "pip install statsmodels" in refused(*words)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["train", "bert", "--units", "5", "--data", "counting"],
            "--num-heads must divide the hidden size 5, received --num-heads 4. Choose "
            "a divisor",
        ),
        (
            ["train", "vectors", "batch_size.txt", "--batch-size", "33"],
            "--batch-size must be a multiple of 32, received 33",
        ),
        (
            ["params", "gpt3", "--num-heads", "7", "--hidden-size", "10"],
            "for --hidden-size 10, received --num-heads 7",
        ),
        (["predict", "vocabulary_size.keras"], 'no folder "vocabulary_size.keras"'),
    ],
)
def test_arguments_have_the_names_of_options(refused, tmp_path, words, message):
    (tmp_path / "batch_size.txt").write_text("a b c\n" * 9)
    line = refused(*words)
    assert message in line and "head_dim" not in line


def test_a_task_is_no_command(refused):
    for task in ("race", "classify"):
        assert f"kerasseq train {task}" in refused(task, "--units", "3")
    assert 'Did you mean "tensorflow"' in refused("info", "--backend", "TF")
    words = ("train", "language-model", "--model", "LSTM")
    assert 'Did you mean "lstm"' in refused(*words)
