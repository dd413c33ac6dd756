"""Parsing the command line, and its error messages."""

import pathlib
import re
import shlex

import pytest

from kerasseq.cli import errors, forecast, language_model, options
from kerasseq.cli.commands import ALIASES, COMMANDS, COMPARISONS, TASKS
from kerasseq.cli.main import main, parse
from tests.processes import run_python

pytestmark = pytest.mark.once("the command line")

HELPS = [
    ["--help"],
    ["--version"],
    *([command, "--help"] for command in COMMANDS),
    *(["train", task, "--help"] for task in TASKS),
    *(["compare", task, "--help"] for task in COMPARISONS),
]


def test_help_loads_no_keras():
    code = f"""
import sys
from kerasseq.cli import main
for words in {HELPS!r} + [[]]:
    assert main(words) == 0, words
loaded = {{"keras", "tensorflow", "jax", "torch", "matplotlib"}} & set(sys.modules)
assert not loaded, loaded
"""
    done = run_python(code, only=["jax"], KERAS_BACKEND=None)
    assert done.stderr == ""
    out = done.stdout
    for command in COMMANDS:
        assert f"kerasseq {command}" in out
    assert out.count("xamples:") == len(HELPS) - 2


def test_examples_of_the_help_are_command_lines(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/mine").mkdir(parents=True)
    (tmp_path / "ids").mkdir()  # that examples name
    (tmp_path / "runs/mine/run.json").write_text("{}")
    found = []
    for words in HELPS:
        assert main(words) == 0
        text = capsys.readouterr().out.replace("\\\n", "")
        found += re.findall(r"^  kerasseq (\S.*)$", text, re.MULTILINE)
    assert len(found) > 60
    for line in found:
        words = shlex.split(line.partition("  ")[0], comments=True)
        parse(words)


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (["trian"], "train"),
        (["train", "langauge-model"], "language-model"),
        (["train", "language-model", "--model", "lsmt"], "lstm"),
        (["train", "language-model", "--data", "python-refrence"], "python-reference"),
        (["train", "forecast", "--data", "sunspot"], "sunspots"),
        (["train", "parentheses", "--model", "elman,grru"], "gru"),
        (["info", "--backend", "tensorflw"], "tensorflow"),
        (["train", "language-model", "--untis", "5"], "--units"),
        (["data", "parenthese"], "parentheses"),
    ],
)
def test_nearest_name_is_suggested(refused, words, nearest):
    line = refused(*words)
    assert "Did you mean" in line and nearest in line.partition("Did you mean")[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train"], "expected a task: language-model, classify, tag"),
        (["train", "language-model", "--units", "0"],
         "expected an integer of at least 1, received 0"),
        (["train", "language-model", "--units", "x"],
         'expected an integer, received "x"'),
        (["train", "language-model", "--epochs", "-1"], 'expected a number above 0'),
        (["train", "language-model", "--text", "a", "--data", "python-reference"],
         "--text and --data exclude each other"),
        (["train", "language-model", "--steps", "1", "--epochs", "1"],
         "--epochs and --steps exclude each other"),
        (["train", "language-model", "--dropout", "1"], "below 1"),
        (["train", "parentheses", "--seeds", "0,0"], 'received "0" more than once'),
        (["train", "parentheses", "--seeds", "0,"], "separated by commas"),
        (["generate"], "RUN"),
        (["generate", "x", "--temperature", "-1"], "--temperature"),
        (["generate", "x", "--top-p", "2"], "--top-p"),
        (["generate", "x", "--prompt", ""], "--prompt must have at least one"),
        (["predict", "x", "--text", "a", "--text", "b"],
         "argument --text: expected one text, received 'a' and 'b'"),
        (["generate", "x", "--prompt", "a", "--prompt", "b"], "expected one text"),
        (["data", "ar", "--count", "0"], "at least 1"),
        (["train", "--resume=x", "--steps", "8"],
         "unrecognized argument --steps. A resumed run keeps its options"),
        (["train", "--steps", "8"], "--steps. Name the task first"),
        (["train", "classify", "my mails.csv"], "Did you mean --file 'my mails.csv'?"),
        (["train", "forecast", "sales.csv"], "Did you mean --file sales.csv?"),
        (["train", "language-model", "a.txt"], "Did you mean --text a.txt?"),
        (["train", "translation", "pairs.tsv"], "Did you mean --pairs pairs.tsv?"),
        (["predict", "x", "new.csv"], "Did you mean --file new.csv?"),
        (["predict", "x", "good fun"], "Did you mean --text 'good fun'?"),
        (["generate", "x", "Once"], "Did you mean --prompt Once?"),
        (["train", "translation", "--file", "a.tsv"], 'Did you mean "--pairs"?'),
        (["train", "classify", "--multi-label"],
         "Several labels of a row are learned by kerasseq compare"),
        (["train", "classify", "--csv", "a.csv"], 'Did you mean "--file"?'),
        (["train", "classify", "--vocab", "9"], 'Did you mean "--vocab-size"?'),
        (["train", "classify", "--lr=1"], 'Did you mean "--learning-rate"?'),
        (["train", "forecast", "--target", "y"], 'Did you mean "--value"?'),
        (["compare", "--step", "8"], "kerasseq compare: unrecognized argument --step"),
        (["train", "--json", "zzz"], "invalid choice: 'zzz'"),
    ],
)  # fmt: skip
def test_wrong_values(refused, tmp_path, words, message):
    assert message in refused(*words)
    assert not list(tmp_path.iterdir())


def test_the_runs_of_the_folder_are_named(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "required: RUN, the folder of a training. See" in refused("predict")
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "run.json").write_text("{}")
    where = pathlib.Path("runs", "mine")
    assert f"required: RUN. Runs here: {where}. See" in refused("predict")


def test_names_equal_those_of_the_library():
    from kerasseq import datasets
    from kerasseq.tasks.architectures import ARCHITECTURES
    from kerasseq.tasks.transformer_stack import NEVER_CAUSAL

    assert tuple(ARCHITECTURES) == options.ARCHITECTURES
    assert NEVER_CAUSAL == options.NEVER_CAUSAL
    known = [entry.name for entry in datasets.catalogue()]
    assert set(language_model.TEXTS + forecast.SERIES) < set(known)


@pytest.mark.parametrize("task", [t for t in TASKS if "data" in TASKS[t].DEFAULTS])
def test_a_file_as_data_set_names_the_option_for_it(task):
    if (option := TASKS[task].FILE) is None:  # whose `--data` is a folder as well
        return
    for value, own in (("mine.csv", "mine.csv"), ("mine", "FILE"), (".", ".")):
        if task == "language-model" and value == ".":  # perhaps of kerasseq prepare
            continue
        with pytest.raises(errors.UsageError) as found:
            parse(["train", task, "--data", value])
        assert f'"{value}"' in str(found.value)
        assert f"or give your own data as --{option} {own}" in str(found.value)


@pytest.mark.parametrize("task", TASKS)
def test_each_option_of_a_task_has_a_default(task):
    args = vars(parse(["train", task]))
    rest = {"command", "task", "run", "backend", "resume", "json", "threads"}
    rest |= {"config", "dry_run", "quiet", "words"}
    rest |= {"devices", "parallel", "micro_batches"}
    assert set(args) - rest == set(TASKS[task].DEFAULTS)
    assert {args[name] for name in TASKS[task].DEFAULTS} == {None}


def test_aliases_of_tasks(command, refused):
    for alias, task in ALIASES.items():
        assert task in TASKS and task not in ALIASES
        assert f"train {task} " in command("train", alias, "--help").out
    assert "Choose from" in refused("train", "racing")
    assert "train parentheses" in refused("train", "race", "--lengths", "x")


@pytest.mark.parametrize("where", ["before", "after"])
def test_resume_and_json_before_and_after_the_task(where):
    words = ["--resume", "x", "--json", "--threads", "2"]
    before, after = (words, []) if where == "before" else ([], words)
    args = parse(["train", *before, "forecast", *after])
    assert (args.resume, args.json, args.threads) == ("x", True, 2)


def test_bug_is_one_line_with_its_location(monkeypatch, command):
    def broken(*args):
        raise KeyError("a bug")

    monkeypatch.setattr("kerasseq.datasets.sample", broken)
    line = command("data", "ar", code=1).err
    assert "unexpected KeyError at test_parser.py:" in line and "'a bug'" in line
    assert "KERASSEQ_DEBUG=1" in line and len(line.splitlines()) == 1
    monkeypatch.setenv("KERASSEQ_DEBUG", "1")
    with pytest.raises(KeyError):
        command("data", "ar")


def test_debug_raises_the_error(monkeypatch, command):
    monkeypatch.setenv("KERASSEQ_DEBUG", "1")
    with pytest.raises(errors.UsageError):
        command("trian")
