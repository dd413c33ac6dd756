"""The pages of the documentation, without building the site."""

import doctest
import importlib
import re
import subprocess
import sys

import pytest

from tests.docs.site import PAGES, ROOT, documented
from tests.processes import clean_environment

pytestmark = pytest.mark.once("the documentation")

NAMESPACES = ("layers", "models", "tracing", "tracing.plots", "text", "datasets")
NAMESPACES += ("training", "decoding", "runs", "sklearn", "exercises", "exporting")


def public_names():
    """All public names: those of the namespaces, and `kerasseq.load_model`."""
    names = ["kerasseq.load_model"]
    for namespace in NAMESPACES:
        module = importlib.import_module(f"kerasseq.{namespace}")
        names += [f"kerasseq.{namespace}.{name}" for name in module.__all__]
    return [name for name in names if name != "kerasseq.tracing.plots"]  # a namespace


def test_the_reference_has_each_public_name_once():
    assert sorted(documented()) == sorted(public_names())


def test_each_public_name_is_used():
    """On a page besides the reference, or in an example, a lab or a benchmark."""
    pages = [p for p in PAGES.rglob("*.md") if p.parent.name != "reference"]
    folders = ("docs", "examples", "apps", "benchmarks")
    programs = [p for folder in folders for p in (ROOT / folder).rglob("*.py")]
    texts = (p.read_text(encoding="utf-8") for p in [*pages, *programs])
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    assert {
        name for name in public_names() if name.split(".")[-1] not in words
    } == set()


def test_all_namespaces_are_compared():
    kerasseq = importlib.import_module("kerasseq")
    names = {*kerasseq.__all__, *kerasseq._OPTIONAL} - {"load_model"}
    assert {name for name in NAMESPACES if "." not in name} == names


def test_french_pages_have_english_counterparts():
    for page in (PAGES / "fr").rglob("*.md"):
        assert (PAGES / "en" / page.relative_to(PAGES / "fr")).exists(), page


def test_the_start_is_in_french():
    english = {page.name for page in (PAGES / "en" / "start").glob("*.md")}
    assert english == {page.name for page in (PAGES / "fr" / "start").glob("*.md")}
    assert (PAGES / "fr" / "index.md").exists()


@pytest.mark.parametrize("language", ["en", "fr"])
def test_messages_on_the_page_of_errors(language):
    page = (PAGES / language / "start" / "errors.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```pycon\n(.*?)```", page, re.DOTALL))
    # The rest of the page must stay as it is: a traceback ends at the next prompt.
    case = doctest.DocTestParser().get_doctest(code, {}, language, None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    report = []
    runner.run(case, out=report.append)
    assert not runner.failures, "".join(report)
    assert len(case.examples) > 8


def test_the_equations_on_the_page_of_own_cells():
    page = (PAGES / "en" / "howto" / "own_cell.md").read_text(encoding="utf-8")
    cell, *_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {}
    exec(compile(cell, "own_cell.md", "exec"), names)
    names["layer"] = names["kerasseq"].layers.RNN(names["MinimalGatedCell"](8))
    code = "\n".join(re.findall(r"```pycon\n(.*?)```", page, re.DOTALL))
    case = doctest.DocTestParser().get_doctest(code, names, "own_cell", None, 0)
    report = []
    runner = doctest.DocTestRunner()
    runner.run(case, out=report.append, clear_globs=False)
    assert not runner.failures, "".join(report)
    assert f"$$\n{case.globs['explained'].latex('backward')}\n$$" in page


@pytest.mark.parametrize("language", ["en", "fr"])
def test_messages_about_backends(language):
    page = (PAGES / language / "start" / "errors.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| `([^\n]*?)` *\|", page, re.MULTILINE)
    source = (ROOT / "kerasseq" / "core" / "backend.py").read_text(encoding="utf-8")
    assert shown[0] in source
    command = "import kerasseq.layers"
    for message, backend in [(shown[2], "torhc"), (shown[3], "numpy")]:
        done = subprocess.run(
            [sys.executable, "-c", command],
            env=clean_environment({"KERAS_BACKEND": backend}),
            capture_output=True,
            text=True,
        )
        assert message in done.stderr
