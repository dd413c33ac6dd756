"""Wrong files for classify, tag and forecast: each command names the file and mistake.

The folders of runs here have no model: a file must be refused before one is loaded.
"""

import gzip
import io
import json
import os
import pathlib

import keras
import pytest

from kerasseq.cli import classify, forecast, labeled, options, runs, tag
from kerasseq.cli.run import write_record
from kerasseq.core import files
from tests.cli.conftest import snapshot

pytestmark = pytest.mark.once("the command line")

TASKS = {"classify": classify, "tag": tag, "forecast": forecast}
KINDS = {"classify": "text.csv", "tag": "words.conll", "forecast": "sales.csv"}
TEXTS = "text,label\n" + "".join(f"{a * 3},{y}\n" for a, y in ("ax", "by") * 6)
WORDS = "Ada\tB\nruns\tO\n\nin\tO\nBath\tB\n\n" * 6
SALES = "date,sales\n" + "".join(
    f"{2019 + n // 12}-{n % 12 + 1:02}-01,{n % 7}\n" for n in range(40)
)
GOOD = {"classify": TEXTS, "tag": WORDS, "forecast": SALES}


def commands(task, file):
    """All commands that read a file for a task; `run` is a folder without a model."""
    found = [["train", task, "--file", file, "--run", "r"]]
    found.append(["predict", "run", "--file", file, "--out", "o.csv"])
    if task != "forecast":
        found.append(["evaluate", "run", "--file", file])
    return found


@pytest.fixture
def refused(command):
    """Runs the command, and expects exit code 2 and an error, after notes."""

    def run(*words):
        *notes, error = command(*words, code=2).err.splitlines()
        assert error.startswith("kerasseq: error: "), error
        assert "Traceback" not in "".join(notes)
        return error

    return run


@pytest.fixture
def refused_by_all(refused, tmp_path):
    """Checks that each command refuses a file, and leaves nothing behind."""

    def check(task, file, message, words=()):
        given = {"file": f"/data/{KINDS[task]}"}
        arguments = options.with_defaults(TASKS[task].DEFAULTS, given)
        if task == "classify":
            arguments |= {"text": "text", "label": "label"}
        data = {"source": "a", "sha256": "0"}
        if not (tmp_path / "run").exists():
            write_record(tmp_path / "run", task, arguments, "torch", data)
            (tmp_path / "run" / runs.MODEL).touch()
        before = sorted(tmp_path.rglob("*"))
        for command in commands(task, file):
            assert message in refused(*command, *words), command
        assert sorted(tmp_path.rglob("*")) == before

    return check


@pytest.mark.parametrize("task", TASKS)
def test_files_that_are_no_text(refused_by_all, task, tmp_path):
    name = KINDS[task]
    stem, ending = name.split(".")
    good = GOOD[task].encode()
    contents = {
        f"{stem}.{ending}": (b"", "is empty"),
        f"blank.{ending}": (b"\n \n\n", "blank."),
        f"binary.{ending}": (b"a,b\n\0\1\2\n", "looks like a binary file"),
        f"cut.{ending}.gz": (
            gzip.compress(good * 9)[:-30],
            f"cut.{ending}.gz is damag",
        ),
        f"wide.{ending}": (good.decode().encode("utf-16"), "--encoding utf-16"),
        f"long.{ending}": (b"x" * 10_000_000, "long."),
    }
    for file, (content, message) in contents.items():
        (tmp_path / file).write_bytes(content)
        refused_by_all(task, file, message)
    (tmp_path / f"folder.{ending}").mkdir()
    refused_by_all(task, f"folder.{ending}", "is a folder")
    os.mkfifo(tmp_path / f"pipe.{ending}")
    refused_by_all(task, f"pipe.{ending}", "is a pipe")
    refused_by_all(task, f"none.{ending}", f"There is no file none.{ending}")


ROWS = TEXTS.splitlines()
TABLES = {
    "header only": (ROWS[0], "has no rows"),
    "empty text": (
        "\n".join([*ROWS[:4], " ,x"]),
        'cell in the column "text" (1), at line 5',
    ),
    "more cells": ("\n".join([*ROWS[:4], "a,b,c,d"]), "line 5, saw 4"),
    "open quotation": ("\n".join([*ROWS[:4], '"a,x', *ROWS]), "in row 4 is not closed"),
}
# Mistakes in labels, which prediction does not read.
LABELS = {
    "empty label": ("text,label\na,x\nb,\n", 'in the column "label" (1), at line 3'),
    "short row": ("text,label\na,x\nb\n", 'in the column "label" (1), at line 3'),
    "line breaks": ('text,label\n"a\nb",x\nc,\n', 'the column "label" (1), at line 4'),
}
CLASSES = {
    "one class": ("text,label\na,x\nb,x\n", "at least two labels"),
    "no class twice": ("text,label\na,x\nb,y\n", "two rows of a label"),
    "numbers": (
        "text,label\n" + "".join(f"a,{n / 7}\n" for n in range(50)),
        "labels that rows share, received 50 different ones in 50 rows, such as '0.0'",
    ),
    "too many classes": (
        "text,label\n" + "".join(f"a,{n // 2}\n" for n in range(2002)),
        "at most 1,000 labels, received 1,001",
    ),
}


def test_wrong_tables(refused_by_all, refused, tmp_path):
    for name, (content, message) in {**TABLES, **LABELS, **CLASSES}.items():
        (tmp_path / "t.csv").write_text(content)
        if name in TABLES:
            refused_by_all("classify", "t.csv", message)
            continue
        words = [["train", "classify"]]
        words += [["evaluate", "run"]] if name in LABELS else []
        for command in words:
            assert message in refused(*command, "--file", "t.csv"), name
    (tmp_path / "t.csv").write_text(TEXTS)
    for words in (["--column", "txt"], ["--column", "texts"]):
        line = refused("predict", "run", "--file", "t.csv", *words)
        assert 'Did you mean "text"? The columns are "text", "label"' in line
    (tmp_path / "t.csv").write_text(TEXTS.replace("text,label", "a,b"))
    line = refused("predict", "run", "--file", "t.csv")
    assert "--column is needed" in line and '"a", "b"' in line


def test_all_gaps_are_counted_or_dropped(refused_by_all, command, tmp_path, capsys):
    texts = [*ROWS[:4], ",x", "a,", *ROWS[4:], *[" ,"] * 5]
    (tmp_path / "t.csv").write_text("\n".join(texts))
    line = 't.csv: 7 rows have an empty cell in the column "text" (6) and "label" (6), '
    line += "at line 5, 6, 16, 17, 18, …. Fill the cells, or drop the rows by --missing"
    done = command("train", "classify", "--file", "t.csv", code=2)
    assert line in done.err
    given = {"file": str(tmp_path / "t.csv"), "missing": "skip"}
    settings = options.Settings(**options.with_defaults(classify.DEFAULTS, given))
    found = classify.read(settings)
    capsys.readouterr()
    (tmp_path / "t.csv").write_text(TEXTS)
    assert found == classify.read(settings)
    (tmp_path / "t.csv").write_text("text,label\n,x\n,y\n")
    words = ("--missing", "skip")
    refused_by_all("classify", "t.csv", "2 rows have an empty cell", words)


def test_a_table_without_a_header(command, refused, tmp_path):
    (tmp_path / "t.csv").write_text("\n".join(ROWS[1:]))
    line = refused("train", "classify", "--file", "t.csv")
    assert (
        '"aaa", "x". If these are no names, but a first row, give --no-header' in line
    )
    line = refused("train", "classify", "--file", "t.csv", "--no-header")
    assert 'The columns are "1", "2"' in line
    (tmp_path / "one.csv").write_text("so good\nso bad\n")
    words = ("train", "classify", "--file", "one.csv")
    err = command(*words, code=2).err
    assert '"so good". If this is no name, but a first row, give --no-header' in err
    assert "first row" not in command(*words, "--no-header", code=2).err
    given = {"file": "t.csv", "no_header": True, "text": "1", "label": "2"}
    settings = options.Settings(**options.with_defaults(classify.DEFAULTS, given))
    texts, labels, _ = classify.read(settings)
    assert (texts[0], labels[0], len(texts)) == ("aaa", "x", 12)
    (tmp_path / "t.csv").write_text("a,1\nb,\nc\n,2\n")
    words = ("--no-header", "--text", "1", "--label", "2")
    line = refused("train", "classify", "--file", "t.csv", *words)
    assert 'the column "1" (1) and "2" (2), at line 2, 3, 4' in line


SENTENCES = {
    "no tag": ("a\tO\nb\nc\tX\n", "line 2 has no tag: 'b'"),
    "empty tag": ("a\tO\n\nb\t\n", "line 3 has no tag"),
    "more columns": ("a\tO\n\nb\tx\tO\n", "line 3 must have 2 columns"),
}


def test_wrong_sentences(refused_by_all, refused, tmp_path):
    for content, message in SENTENCES.values():
        (tmp_path / "t.conll").write_text(content)
        refused_by_all("tag", "t.conll", message)
    (tmp_path / "t.conll").write_text("".join(f"a\tt{n}\n\n" for n in range(1001)))
    assert "at most 1,000 tags" in refused("train", "tag", "--file", "t.conll")
    (tmp_path / "t.conll").write_text("a\tO\n\nb\tO\n")
    assert "and two tags" in refused("train", "tag", "--file", "t.conll")


def test_labels_that_the_training_does_not_have():
    labeled.check_known(["x", "z"], ["x", "y"], "t.csv")
    for labels, message in (
        (["z"], "received 0 of them and 1 others, such as 'z'"),
        ([*map(str, range(1001)), "x"], "received 1 of them and 1,001 others"),
    ):
        with pytest.raises(ValueError, match=message):
            labeled.check_known(labels, ["x", "y"], "t.csv")


@pytest.mark.parametrize("task", TASKS)
def test_a_file_that_changes_while_it_is_read(refused_by_all, task, monkeypatch):
    file = pathlib.Path(KINDS[task])
    file.write_text(GOOD[task])

    class Growing(io.FileIO):
        """Another program appends to the file at each reading."""

        def read(self, size=-1):
            found = super().read(size)
            with open(file, "a") as other:
                other.write("\n")
            return found

    class Path(type(file)):
        def open(self, mode):
            return Growing(self, mode)

    monkeypatch.setattr(files, "regular", Path)
    refused_by_all(task, file.name, f"{file.name} changed while it was read")


@pytest.mark.parametrize("task", TASKS)
def test_a_file_that_changed_before_a_run_is_resumed(refused, task, tmp_path):
    file = tmp_path / KINDS[task]
    file.write_text(GOOD[task])
    arguments = options.with_defaults(TASKS[task].DEFAULTS, {"file": str(file)})
    found = TASKS[task].read(options.Settings(**arguments))
    data = found.data if task == "forecast" else found[-1]
    write_record(tmp_path / "r", task, arguments, keras.config.backend(), data)
    last = {"classify": "a,y\n", "tag": "in\tB\n", "forecast": "2022-05-01,9\n"}[task]
    file.write_text(GOOD[task] + last)
    before = snapshot(tmp_path)
    line = refused("train", "--resume", "r")
    assert f"{KINDS[task]} has changed since the run in r was started" in line
    after = snapshot(tmp_path)
    assert '"failed"' in str(after.pop("r/progress.jsonl"))
    assert after == before


def test_lists_in_a_table_are_left_out(command, capsys, tmp_path):
    lines = [{"text": "a", "label": ["x", "y"]}, {"text": "b", "label": ["x"]}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    done = command("train", "classify", "--file", "t.jsonl", code=2)
    assert 'the column "label" has lists or objects, and is left out' in done.err
    assert 'The columns are "text"' in done.err
    (tmp_path / "t.jsonl").write_text("[" * 100_000)
    done = command("train", "classify", "--file", "t.jsonl", code=2)
    assert "t.jsonl, line 1: no JSON" in done.err


def test_predictions_cannot_be_written(refused, classified_folder):
    for words, message in (
        (["--text", "a", "--out", "nowhere/o.csv"], "there is no folder nowhere"),
        (["--text", "a", "--column", "x"], "--column is for a table"),
        (["--text", "a", "--missing", "skip"], "--missing is for a file"),
        (["--file", "t.txt", "--no-header"], "--no-header is for a table"),
        (["--file", "t.txt", "--word-column", "1"], "--word-column is for words with"),
        (
            ["--file", "t.txt", "--missing", "forward"],
            "forward is for the run of a forecast",
        ),
        (["--file", "t.txt", "--column", "x"], "--column is for a table, received t."),
    ):
        assert message in refused("predict", classified_folder, *words)


@pytest.fixture
def classified_folder(tmp_path):
    arguments = options.with_defaults(classify.DEFAULTS, {"data": "names"})
    data = {"source": "names", "sha256": "0"}
    write_record(tmp_path / "c", "classify", arguments, "torch", data)
    (tmp_path / "c" / runs.MODEL).touch()
    (tmp_path / "t.txt").write_text("a\n")
    return "c"
