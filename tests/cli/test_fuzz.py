"""Random wrong options and random damage to the folder of a run, with a seed.

Each attempt ends in success, or in exit code 2 and one line that names the option, the
file or the key. Exit code 1, a traceback or a hang fails the test.
"""

import contextlib
import io
import json
import os
import pathlib
import random
import re
import shutil
import signal

import numpy as np
import pytest

from kerasseq.cli import main
from kerasseq.cli.commands import TASKS
from kerasseq.cli.main import build_parser
from tests.cli.conftest import TINY

pytestmark = pytest.mark.once("the command line")

TRIES, MANY = 30, 400  # of each kind: quick, and with --full
SECONDS = 60  # that a try may take
DEEP = '{"a":' * 5000 + "1" + "}" * 5000
WORDS = [
    "", " ", "x", "-", "-1", "0", "0.5", "3", "1e400", "nan", "inf", "-inf", "1,2", ",",
    "10000000000000000000", "9" * 5000, "a" * 5000, "0x10", "\u0663", "1_0", "[1]",
    "None", "é\udcff", "missing.txt", "folder", "pipe", "/dev/zero", "binary.bin",
    "deep.json", "bpee", "utf-8", "utf-16", "gru", "elman", "jax",
]  # fmt: skip
VALUES = [
    None, True, False, -1, 0, 1, 0.5, 1e308, float("nan"), float("inf"), 10**19, "",
    "x", "/dev/zero", "a" * 5000, [], ["elman"], [[]], {}, {"a": None}, "10", "\udcff",
    "\0",
]  # fmt: skip
# The arguments of each command beside the random ones. Commands that would start a long
# run get a folder or file with which they cannot.
BASES = [
    ["train", "language-model", "--text", "missing.txt"],
    ["train", "parentheses", "--run", "words.txt"],
    ["train", "forecast", "--data", "ar", "--run", "words.txt"],
    ["train", "translation", "--pairs", "missing.txt"],
    ["train", "bert", "--text", "missing.txt"],
    ["train", "preferences", "--base", "missing", "--file", "missing.jsonl"],
    ["train", "conversations", "--base", "missing", "--file", "missing.jsonl"],
    ["train", "speech", "--data", "missing"],
    ["train", "contrastive", "missing"],
    ["train", "captions", "missing"],
    ["train", "draw", "missing"],
    ["train", "--resume", "missing"],
    ["quickstart", "--run", "words.txt"],
    ["generate", "missing"],
    ["chat", "missing"],
    ["report", "missing"],
    ["inspect", "missing"],
    ["translate", "one", "--run", "missing"],
    ["transcribe", "missing", "missing.wav"],
    ["transcribe", "missing", "missing.wav", "--beam", "2", "--language-model", "x"],
    ["train", "classify", "--file", "missing.csv"],
    ["train", "tag", "--file", "missing.conll"],
    ["predict", "missing", "--text", "one"],
    ["evaluate", "missing", "--file", "missing.csv"],
    ["tokenize", "to be", "--corpus", "words.txt", "--tokenizer", "character"],
    ["prepare", "words.txt", "--out", "ids", "--tokenizer", "character"],
    ["export", "missing", "--out", "ids"],
    ["data", "ar"],
    ["params", "gpt3"],
    ["eliza", "--rules", "missing.txt"],
    ["arena", "missing", "one", "--prompts", "words.txt"],
    ["app", "--deck", "missing.toml"],
    ["scale", "--text", "missing.txt"],
    ["compare", "translators", "--pairs", "missing.txt"],
    ["compare", "cells", "--run", "words.txt"],
    [],
]


class TooLong(BaseException):
    """An attempt that does not end."""


def tries(request):
    return MANY if request.config.getoption("full") else TRIES


@pytest.fixture
def attempt(capsys, monkeypatch):
    """Runs the command, and returns what is wrong with its end, or None."""

    def run(words, expected):
        monkeypatch.setattr("sys.stdin", io.StringIO())
        with limited():
            code = main(list(words))
        err = capsys.readouterr().err
        lines = [s for s in err.splitlines() if s.startswith("kerasseq: error: ")]
        if code == 0 and not lines:
            return None
        if code != 2 or len(lines) != 1 or "Traceback" in err:
            return f"{words}: exit code {code}, {err[-500:]}"
        if len(lines[0]) > 2500:
            return f"{words}: an error of {len(lines[0]):,} characters"
        if not any(word and word in lines[0] for word in expected):
            return f"{words}: names none of {expected}: {lines[0][:500]}"
        return None

    return run


@contextlib.contextmanager
def limited():
    def stop(signum, frame):
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def folder(tmp_path, monkeypatch, text_path):
    """Runs the test in a folder with unusual files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "binary.bin").write_bytes(bytes(range(256)))
    (tmp_path / "deep.json").write_text(DEEP)
    shutil.copy(text_path, tmp_path / "words.txt")
    return tmp_path


def task_of(base):
    """Returns the task of `kerasseq train` or `compare`, or None."""
    return base[1] if base[1:] and base[1] in TASKS else None


def options_of(base):
    """Returns the options of a command, except those that end it at once."""
    _, parsers = build_parser()
    made = parsers.get((base[0], task_of(base))) if base else None
    found = set(re.findall(r"--[a-z][a-z-]*", made.format_help() if made else ""))
    # Without --devices, which would start processes by the dozen.
    return sorted(found - {"--help", "--version", "--devices"}) + ["--nope", "--"]


def shown(word):
    """Returns the forms in which a message may show an argument."""
    word = word.encode("utf-8", "backslashreplace").decode()[:40]
    quoted = [f'"{word}"', f"'{word}'", f"folder {word}"]
    return quoted if len(word.strip()) < 2 else [word]


def test_random_options(attempt, folder, request):
    rng, wrong = random.Random(18), []
    for _ in range(3 * tries(request)):
        base = rng.choice(BASES)
        typed = []
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            typed += rng.choice([[rng.choice(options_of(base))], []])
            typed += rng.choice([[rng.choice(WORDS)], []])
        first = 0 if rng.random() < 0.1 else 1 + (task_of(base) is not None)
        words = base[:first] + typed + base[first:]  # of two the last one counts
        expected = [form for word in words for form in shown(word)]
        wrong.append(attempt(words, expected))
    wrong = [w for w in wrong if w]
    assert not wrong, "\n".join(wrong)


@pytest.fixture(scope="module")
def healthy(text_path, tmp_path_factory):
    """A run of two steps that is not finished."""
    run = tmp_path_factory.mktemp("healthy") / "run"
    words = ["train", "language-model", "--text", str(text_path), "--run", str(run)]
    words += [*TINY, "--model", "elman", "--steps", "2", "--checkpoint-every", "1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kerasseq.cli.figures.available", lambda: False)
        assert main(words) == 0
    (run / "results.json").unlink()
    return run


def paths(value, before=()):
    """Yields the path of each value in nested dictionaries."""
    for key in value if isinstance(value, dict) else ():
        yield (*before, key)
        yield from paths(value[key], (*before, key))


def damage_record(rng, run):
    """Change, remove or add a value of run.json."""
    file = run / "run.json"
    record = json.loads(file.read_text())
    path = rng.choice([p for p in paths(record) if p[0] not in ("versions", "created")])
    inside = record
    for key in path[:-1]:
        inside = inside[key]
    how = rng.choice(["change", "change", "change", "remove", "add"])
    if how == "change":
        inside[path[-1]] = rng.choice(VALUES)
    elif how == "remove":
        del inside[path[-1]]
    else:
        inside["strange"] = rng.choice(VALUES)
    file.write_text(json.dumps(record))
    return ["run.json", path[-1], "strange", "There is no file"]


def damage_file(rng, run):
    """Removes, truncates, changes or replaces a file."""
    choices = ["run.json", "checkpoint.npz", "model.keras", "history.json"]
    file = run / rng.choice(choices)
    content = file.read_bytes()
    file.unlink()
    how = rng.randrange(7)
    if how == 0:
        file.mkdir()
    elif how == 1:
        os.mkfifo(file)
    elif how == 2:
        file.write_text(rng.choice([DEEP, "null", "[]", '"x"', "0", "{}"]))
    elif how == 3:
        file.write_bytes(content[: rng.randrange(len(content))])
    elif how == 4:
        changed = bytearray(content)
        for _ in range(rng.randint(1, 20)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        file.write_bytes(changed)
    elif how == 5:
        file.symlink_to(rng.choice(["/dev/zero", "nowhere", file.name]))
    return [file.name, "run.json", "--text"]


def damage_checkpoint(rng, run):
    """Changes the state or an array of the checkpoint."""
    file = run / "checkpoint.npz"
    with np.load(file) as stored:
        arrays = dict(stored)
    state = json.loads(str(arrays["state"]))
    name = rng.choice(sorted(arrays))
    how = rng.randrange(4)
    if how == 0:
        del arrays[name]
    elif how == 1 and name != "state":
        arrays[name] = np.zeros(rng.choice([(), (3,), (2, 2)]))
    elif how == 2:
        del state[rng.choice(["history", "epochs", "paths"])]
        arrays["state"] = np.array(json.dumps(state))
    else:
        state[rng.choice(["history", "epochs"])] = rng.choice(VALUES)
        arrays["state"] = np.array(json.dumps(state))
    np.savez(file, **arrays)
    return ["checkpoint.npz"]


@pytest.mark.parametrize(
    ("damage", "share"),
    [(damage_record, 1.5), (damage_file, 1), (damage_checkpoint, 0.5)],
)
def test_random_damage(attempt, folder, healthy, request, damage, share):
    rng, wrong = random.Random(18), []
    for number in range(int(share * tries(request))):
        run = folder / f"run{number}"
        shutil.copytree(healthy, run)
        expected = damage(rng, run)
        words = [["train", "--resume"], ["train", "--resume"], ["generate"],
                 ["translate", "one", "--run"]][rng.randrange(4)]  # fmt: skip
        words = [*words, str(run)]
        if words[0] == "generate":
            words += ["--length", "2"]
        others = ["does not translate", "has changed since the run"]
        problem = attempt(words, [*expected, *others])
        wrong += [f"{problem} ({run}: {expected})"] if problem else []
        shutil.rmtree(run)
    assert not wrong, "\n".join(wrong)


def test_run_without_its_checkpoint_starts_from_scratch(healthy, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(healthy, run)
    (run / "checkpoint.npz").unlink()
    assert main(["train", "--resume", str(run)]) == 0
    assert "checkpoint.npz is missing" in capsys.readouterr().err


def test_record_with_numbers_out_of_bounds(attempt, folder, healthy):
    for name in ("steps", "num_layers", "units", "batch_size", "sequence_length"):
        record = json.loads((healthy / "run.json").read_text())
        record["arguments"][name] = 10**19
        pathlib.Path("r").mkdir(exist_ok=True)
        pathlib.Path("r/run.json").write_text(json.dumps(record))
        option = f"--{name.replace('_', '-')}"
        assert not attempt(["train", "--resume", "r"], [option])
