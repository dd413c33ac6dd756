"""Tests of the tutorials: each runs at small size, and its files agree."""

import runpy
import xml.etree.ElementTree

import pytest

from docs.tools import check, kernel, templates, tutorial
from docs.tools.places import TUTORIALS

pytestmark = pytest.mark.full("their layers and models are tested on all backends")
NAMES = tutorial.names()


@pytest.mark.parametrize("name", NAMES)
def test_runs_at_small_size(name, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    monkeypatch.setenv("KERASSEQ_SMALL", "1")
    with matplotlib.rc_context():
        matplotlib.use("agg")
        found = runpy.run_path(str(TUTORIALS / f"{name}.py"))
        matplotlib.pyplot.close("all")
    values = kernel.plain(found)
    assert isinstance(values["result"], float)
    assert values["result_name"] in tutorial.read(name).labels
    used = set().union(
        *(templates.names(cell.source) for cell in tutorial.read(name).prose)
    )
    assert used <= values.keys()


@pytest.mark.once("reads files")
@pytest.mark.parametrize("name", NAMES)
def test_files_agree(name):
    assert check.problems(name) == []


@pytest.mark.once("reads files")
def test_size():
    assert NAMES
    assert [*check.size_problems()] == []


@pytest.mark.once("reads files")
def test_figures_are_whole():
    for path in (TUTORIALS / "results").rglob("*.svg"):
        drawn = {part.tag for part in xml.etree.ElementTree.parse(path).iter()}
        assert {"{http://www.w3.org/2000/svg}path"} <= drawn, path
