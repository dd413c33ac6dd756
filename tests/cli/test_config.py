"""`--config`, `--dry-run`, `--quiet` and `kerasseq completion`."""

import json
import sys

import pytest

from kerasseq.cli import classify, options, text_tables
from kerasseq.cli.main import parse
from tests.cli.conftest import snapshot

pytestmark = pytest.mark.once("the command line")


def test_options_of_a_file_come_before_typed_ones(tmp_path):
    file = tmp_path / "c.json"
    file.write_text('{"units": 7, "num-layers": 2, "balanced": true, "steps": 9}')
    args = parse(["train", "classify", "--config", str(file), "--units", "5"])
    assert (args.units, args.num_layers, args.balanced, args.steps) == (5, 2, True, 9)
    args = parse(["train", "classify", f"--config={file}"])
    assert args.units == 7
    args = parse(["train", "classify", "--config", str(file), "--epochs", "2"])
    assert (args.epochs, args.steps) == (2, None)  # which exclude each other
    file.write_text('{"seeds": [1, 2], "models": "svc,gru", "file": null}')
    args = parse(["compare", "--config", str(file), "--run", "r"])
    assert (args.seeds, args.models, args.run) == ([1, 2], ["svc", "gru"], "r")
    file.write_text('{"task": "scale", "widths": [6, 10], "steps": 7}')
    for words in (["scale"], ["train", "scale"], ["train"]):
        args = parse([*words, "--config", str(file), "--steps", "9"])
        assert (args.widths, args.steps) == ([6, 10], 9)


def test_the_record_of_a_run_names_its_task(tmp_path):
    given = {"data": "names", "model": "bert", "epochs": 2.5}
    arguments = options.with_defaults(classify.DEFAULTS, given)
    record = {"task": "classify", "arguments": arguments, "backend": "jax"}
    (tmp_path / "run.json").write_text(json.dumps(record))
    args = parse(["train", "--config", str(tmp_path / "run.json"), "--seed", "3"])
    assert (args.task, args.model, args.epochs, args.seed) == (
        "classify",
        "bert",
        2.5,
        3,
    )
    # What is a default is not given, as with an option that needs --file.
    assert args.encoding is None and args.dropout is None
    args = parse(
        ["train", "classify", "--config", str(tmp_path / "run.json"), "--file", "a.csv"]
    )
    assert (args.file, args.data) == ("a.csv", None)
    (tmp_path / "own.json").write_text('{"task": "tag", "units": 7}')
    args = parse(["train", "--config", str(tmp_path / "own.json")])
    assert (args.task, args.units) == ("tag", 7)


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        ('{"unitz": 3}', ["classify"], 'option "unitz" of classify. Did you mean '
         '"units"?'),
        ('{"units": "x"}', ["classify"], 'c.json: argument --units'),
        ('{"units": 3}', [], "c.json names no task"),
        ('{"task": "tag", "arguments": {}}', ["classify"], "of the task tag"),
        ('{"task": "bert", "arguments": {}}', ["vectors"], "of the task bert"),
        ("[1]", ["classify"], "must have an object of options"),
        ("{", ["classify"], "c.json"),
        ("{}", ["classify", "--resume", "r"], "--config and --resume exclude"),
    ],
)  # fmt: skip
def test_wrong_files_of_options(refused, tmp_path, content, words, message):
    (tmp_path / "c.json").write_text(content)
    assert message in refused("train", *words[:1], "--config", "c.json", *words[1:])


def test_a_dry_run_writes_nothing(command, trained, tmp_path):
    words = ["train", "--config", trained[0] / "run.json", "--steps", "7"]
    found = json.loads(command(*words, "--dry-run", "--json").out)
    assert found == {
        "dry_run": True, "task": "language-model", "model": "peephole_lstm",
        "parameters": trained[1]["parameters"], "steps": 7,
        "run": "runs/language-model-peephole_lstm-1",
    }  # fmt: skip
    done = command(
        "train", "parentheses", "--seeds", "0,1", "--dry-run", "--examples", 9
    )
    assert "10 competitors would be trained" in done.out
    (tmp_path / "one.csv").write_text("text,label\na,x\nb,y\n")
    words = ["train", "classify", "--dry-run", "--file", "one.csv"]
    assert "two rows" in command(*words, code=2).err
    assert set(snapshot(tmp_path)) == {"one.csv"}


def test_quiet_prints_results_and_errors_alone(command, trained, monkeypatch):
    monkeypatch.setattr("kerasseq.cli.console.LARGE", 0)  # each status at once
    words = ["train", "--config", trained[0] / "run.json", "--steps", "2", "--run", "r"]
    done = command(*words, "--quiet")
    assert done.err == ""
    assert done.out.startswith("\nOn the held-out text (")
    assert "step" not in done.out and "Figures" not in done.out
    assert "no folder" in command("--quiet", "generate", "none", code=2).err
    assert 'received ""' in command("--quiet", "generate", "", code=2).err
    assert "first steps" in command("--quiet").out


def test_completion(command, refused, monkeypatch):
    pytest.importorskip("shtab")
    out = command("completion", "bash").out
    assert "--pretraining-steps" in out and "language-model" in out
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert "pip install shtab" in refused("completion", "bash")
    assert 'Did you mean "zsh"' in refused("completion", "zhs")


def test_tables_of_texts_need_no_pandas(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pandas", None)
    text = '\ufeffname, "a, b",name\r\n\r\nx,"two\nlines"\n  y, z ,"say ""a"""\n'
    (tmp_path / "t.csv").write_bytes(text.encode())
    table = text_tables.read_texts(str(tmp_path / "t.csv"))
    assert table.columns == {
        "name": ["x", "y"], "a, b": ["two\nlines", "z "], "name.1": ["", 'say "a"'],
    }  # fmt: skip
    assert table.where([0, 1]) == "line 3, 5"
    lines = [{"t": "a", "n": 3}, {"n": None, "t": True, "more": 1.5}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    table = text_tables.read_texts(str(tmp_path / "t.jsonl"))
    assert table.columns == {"t": ["a", "True"], "n": ["3", ""], "more": ["", "1.5"]}
