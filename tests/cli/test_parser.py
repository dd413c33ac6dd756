import pytest

from kerasseq.cli import defaults, errors, names, parser
from tests.processes import run_python

pytestmark = pytest.mark.once("the command line")

HELPS = [
    ["--help"],
    ["--version"],
    *([command, "--help"] for command in names.COMMANDS),
    *(["train", task, "--help"] for task in names.TASKS),
]


def test_no_help_loads_keras():
    code = f"""
import sys
from kerasseq.cli import main
for words in {HELPS!r} + [[]]:
    assert main(words) == 0, words
loaded = {{"keras", "tensorflow", "jax", "torch", "matplotlib"}} & set(sys.modules)
assert not loaded, loaded
"""
    out = run_python(code).stdout
    for command in names.COMMANDS:
        assert f"kerasseq {command}" in out
    assert out.count("examples:") == len(HELPS) - 2


@pytest.mark.parametrize(
    ("words", "right"),
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
def test_a_wrong_name_gets_the_nearest_right_one(refused, words, right):
    line = refused(*words)
    assert "Did you mean" in line and right in line.partition("Did you mean")[2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train"], "say what to train: language-model, parentheses, forecast"),
        (["train", "language-model", "--units", "0"], "must be at least 1, got 0"),
        (["train", "language-model", "--units", "x"], '"x" is no whole number'),
        (["train", "language-model", "--epochs", "-1"], 'must be above 0'),
        (["train", "language-model", "--text", "a", "--data", "python-reference"],
         "--text or --data, not both"),
        (["train", "language-model", "--steps", "1", "--epochs", "1"],
         "--epochs or --steps, not both"),
        (["train", "language-model", "--dropout", "1"], "below 1"),
        (["train", "parentheses", "--seeds", "0,0"], '"0" is there more than once'),
        (["train", "parentheses", "--seeds", "0,"], "nothing between two commas"),
        (["generate"], "RUN"),
        (["generate", "x", "--temperature", "-1"], "--temperature"),
        (["generate", "x", "--top-p", "2"], "--top-p"),
        (["generate", "x", "--prompt", ""], "--prompt is empty"),
        (["data", "ar", "--count", "0"], "at least 1"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused(refused, tmp_path, words, said):
    assert said in refused(*words)
    assert not list(tmp_path.iterdir())


def test_the_names_are_those_of_the_library():
    from kerasseq import datasets
    from kerasseq.tasks.architectures import ARCHITECTURES

    assert tuple(ARCHITECTURES) == names.ARCHITECTURES
    known = [entry.name for entry in datasets.catalogue()]
    assert set(names.TEXTS + names.SERIES) < set(known)


@pytest.mark.parametrize("task", names.TASKS)
def test_every_option_of_a_task_has_a_default_and_the_other_way_round(task):
    args = vars(parser.parse(["train", task]))
    rest = {"command", "module", "task", "run", "backend", "resume", "json"}
    assert set(args) - rest == set(defaults.DEFAULTS[task])
    assert {args[name] for name in defaults.DEFAULTS[task]} == {None}


@pytest.mark.parametrize("where", ["before", "after"])
def test_resume_and_json_may_stand_before_and_after_the_task(where):
    words = ["--resume", "x", "--json"]
    before, after = (words, []) if where == "before" else ([], words)
    args = parser.parse(["train", *before, "forecast", *after])
    assert args.resume == "x" and args.json is True


def test_a_bug_is_one_line_that_says_where_it_is(monkeypatch, command):
    def broken(*args):
        raise KeyError("a bug")

    monkeypatch.setattr("kerasseq.datasets.sample", broken)
    line = command("data", "ar", code=1).err
    assert "unexpected KeyError at test_parser.py:" in line and "'a bug'" in line
    assert "KERASSEQ_DEBUG=1" in line and len(line.splitlines()) == 1
    monkeypatch.setenv("KERASSEQ_DEBUG", "1")
    with pytest.raises(KeyError):
        command("data", "ar")


def test_with_debug_an_error_shows_where_it_comes_from(monkeypatch, command):
    monkeypatch.setenv("KERASSEQ_DEBUG", "1")
    with pytest.raises(errors.UsageError):
        command("trian")
