r"""Data on a terminal: escape sequences are shown, and formulas are named."""

import ast
import json
import pathlib
import sys

import pytest

import kerasseq.cli
from kerasseq.cli import console, predict
from kerasseq.core.printable import printable
from kerasseq.training import label_report

pytestmark = pytest.mark.once("the command line")

TITLE = "\x1b]0;title\x07"
SHOWN = r"\x1b]0;title\x07"
C1 = "\x9b2K"  # as \x1b[2K
PRINTING = {
    "console.py",
    "eliza.py",
    "lines.py",
    "main.py",
}  # main prints what errors.py made


def test_control_characters():
    every = "".join(map(chr, range(0x250)))
    found = printable(every)
    assert "\t" in found and "\n" in found and "é" in found
    assert not any(c < " " or "\x7f" <= c < "\xa0" for c in found if c not in "\t\n")
    assert printable(f"a{TITLE}b{C1}\r") == rf"a{SHOWN}b\x9b2K\x0d"


def test_results_on_a_terminal_and_elsewhere(capsys, monkeypatch):
    console.print_result(TITLE)
    assert capsys.readouterr().out == f"{TITLE}\n"  # as it is, for other programs
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    console.print_result(TITLE)
    assert capsys.readouterr().out == f"{SHOWN}\n"
    console.print_json({TITLE: C1})
    out = capsys.readouterr().out
    assert json.loads(out) == {TITLE: C1}
    assert not set(out) & {"\x1b", "\x07", "\x9b"}


def test_messages_and_tables(capsys):
    shown = console.Console()
    shown.write(f"{TITLE} written")
    shown.table(TITLE, (f">{TITLE}",), [(TITLE,), (C1,)])
    console.note(TITLE)
    with console.status(TITLE, size=console.LARGE):
        pass
    out, err = capsys.readouterr()
    assert SHOWN in out and SHOWN in err and r"\x9b2K" in out
    assert not set(out + err) & {"\x1b", "\x07", "\x9b"}
    report = label_report([TITLE, "a"], ["a", TITLE])
    assert SHOWN in str(report) and TITLE not in str(report)
    widths = [len(line) for line in str(report).splitlines()[:-1]]
    assert len(set(widths)) == 1


def test_errors_quote_no_control_characters(refused, tmp_path):
    (tmp_path / "t.csv").write_text(f"text,{TITLE}\n" + "a,b\n" * 3, encoding="utf-8")
    words = ("--text", "text", "--label", "none")
    line = refused("train", "classify", "--file", "t.csv", *words)
    assert SHOWN in line and TITLE not in line
    assert TITLE not in refused("predict", TITLE, "--text", "a")


def test_only_the_console_prints():
    """A `print` of a command would hand data to the terminal as they are."""
    found = []
    for file in pathlib.Path(kerasseq.cli.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called in ("print", "sys.stdout.write", "sys.stderr.write"):
                found.append(file.name)
    assert set(found) <= PRINTING


def test_formulas_of_a_csv_are_named(capsys, tmp_path):
    rows = [{"text": "=1+1", "label": "a", "probability": -0.5},
            {"text": "-3", "label": "@x", "probability": 0.5}]  # fmt: skip
    predict.write(str(tmp_path / "a.csv"), rows)
    err = capsys.readouterr().err
    assert "2 cells of" in err and "may compute as formulas" in err
    assert "=1+1,a,-0.5" in (tmp_path / "a.csv").read_text()  # as it is
    predict.write(str(tmp_path / "a.jsonl"), rows)
    predict.write(str(tmp_path / "b.csv"), [{"text": "1=1", "label": "-2.5"}])
    assert "as formulas" not in capsys.readouterr().err
