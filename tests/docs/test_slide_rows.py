"""The table "Row by row" of the page of the slides: all that it names is there."""

import argparse
import ast
import functools
import importlib
import re
import shlex

import pytest
from markdown.extensions.toc import slugify

from benchmarks.__main__ import BENCHMARKS
from docs import slide_rows
from kerasseq import datasets
from kerasseq.cli.main import main, parse
from tests.docs.site import PAGES, ROOT

pytestmark = pytest.mark.once("the documentation")

KEYS = ("id", "slides", "what", "shown", "missing")
ROWS = slide_rows.rows()
SHOWN = sorted({shown for row in ROWS for shown in row["shown"]})
LINK = re.compile(r"\[[^\]]+\]\(([^#)]+\.md)(?:#([\w-]+))?\)")


def test_the_table_is_that_of_the_data():
    page = slide_rows.PAGE.read_text(encoding="utf-8")
    assert page.count(slide_rows.BEGIN) == page.count(slide_rows.END) == 1
    assert slide_rows.written(page) == page  # else: python -m docs.slide_rows


def test_no_row_is_left_out():
    assert [row["id"] for row in ROWS] == list(range(1, 177))
    for row in ROWS:
        assert {*KEYS[:4]} <= {*row} <= {*KEYS}
        assert re.fullmatch(r"[A-E]:\d+(-\d+)?(, [A-E]:\d+(-\d+)?)*", row["slides"])
        assert row["what"] and row["shown"] and row.get("missing", "some")


@functools.cache
def functions(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@functools.cache
def anchors(page):
    text = (PAGES / "en" / page).read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^#+ (.*?)(?: *\{ #([\w-]+) \})?$", text, re.MULTILINE)
    return {anchor or slugify(title, "-") for title, anchor in found} | {""}


def benchmark(name, *words):
    """Parses the options of a benchmark, as `python -m benchmarks` does."""
    assert name in BENCHMARKS
    parser = argparse.ArgumentParser(exit_on_error=False)
    importlib.import_module(f"benchmarks.{name}").add_arguments(parser)
    parser.parse_args(words)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The files that the commands name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/1").mkdir(parents=True)
    (tmp_path / "runs/1/run.json").write_text("{}")
    for name in ("reviews.csv", "votes.jsonl"):
        (tmp_path / name).touch()


@pytest.mark.usefixtures("files")
def test_what_is_named_exists():
    for shown in SHOWN:
        if shown.startswith("tests/"):
            path, _, name = shown.partition("::")
            assert name in functions(path), shown
        elif shown.startswith("kerasseq "):
            parse(shlex.split(shown)[1:])
        elif shown.startswith("python -m benchmarks "):
            benchmark(*shlex.split(shown)[3:])
        elif shown.startswith("examples/"):
            assert (ROOT / shown).is_file(), shown
        elif shown.startswith("["):
            page, anchor = LINK.fullmatch(shown).groups("")
            assert anchor in anchors(page), shown
        else:
            assert datasets.slides(shown).id == shown


@pytest.mark.parametrize("shown", [s for s in SHOWN if s.startswith("kerasseq params")])
def test_counting_commands_run_as_they_stand(shown, capsys):
    main(shlex.split(shown)[1:])
    assert capsys.readouterr().out


def test_names_that_do_not_exist_are_found():
    found = functions("tests/docs/test_slide_rows.py")
    assert "test_what_is_named_exists" in found and "test_none" not in found
    assert "errata-of-the-slides" in anchors("slides.md")
    assert "no-section" not in anchors("slides.md")
    with pytest.raises(SystemExit):
        benchmark("senses", "--no-option")
    with pytest.raises(AssertionError):
        benchmark("no_benchmark")
