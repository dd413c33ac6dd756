"""Runs the fenced blocks of the README and of the pages in `docs/pages`.

All Python blocks run in one process, with new variables for each page. A bash block is
run, unless the line above it is `<!-- fresh-start: main -->` or `test`, which CI and
users run, or `<!-- not run: reason -->`. Not here: the course, which is generated from
programs that the tests run; the pycon blocks, which `tests/docs/test_pages.py` runs,
and French blocks that equal the English ones.
"""

import pathlib
import re
import runpy
import subprocess
import sys

import pytest

from tests.processes import ROOT, clean_environment, run_python

pytestmark = pytest.mark.once("the README and the documentation")

FENCE = re.compile(
    r"^(?:<!-- (?P<marker>.*?) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def blocks(page):
    """Returns the fenced blocks of a page as `(marker, language, code)`.

    >>> blocks("<!-- not run: why -->\\n```bash\\nls\\n```")
    [('not run: why', 'bash', 'ls\\n')]
    """
    return [match.group("marker", "language", "code") for match in FENCE.finditer(page)]


FOLDER = ROOT / "docs" / "pages"
GENERATED = FOLDER / "en" / "course"
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", *sorted((FOLDER / "en").rglob("*.md"))]
    if GENERATED not in path.parents
}
FIRST_MODEL = "docs/pages/en/start/first_model.md"
KERAS_HUB = "docs/pages/en/howto/keras_hub.md"
BLOCKS = blocks(PAGES["README.md"])


@pytest.mark.parametrize("name", PAGES)
def test_markers_of_blocks(name):
    found = blocks(PAGES[name])
    assert PAGES[name].count("\n```") == 2 * len(found)
    for marker, language, code in found:
        kind, _, what = (marker or "").partition(": ")
        assert (language, kind) in {
            ("python", ""),
            ("pycon", ""),
            ("mermaid", ""),
            ("bash", ""),
            ("bash", "fresh-start"),
            ("bash", "not run"),
        }, code
        assert bool(kind) == bool(what), "a marker needs a reason"


def program(name):
    """Returns the Python blocks of a page as one program."""
    return "\n".join(
        code for _, language, code in blocks(PAGES[name]) if language == "python"
    )


def test_python_blocks_run(tmp_path):
    programs = {name: program(name) for name in PAGES if name != KERAS_HUB}
    programs[FIRST_MODEL] += "\nassert accuracy > 0.9, accuracy"
    run = "print({0!r}, file=sys.stderr); exec(compile({1!r}, {0!r}, 'exec'), {{}})"
    lines = [run.format(name, code) for name, code in programs.items() if code]
    done = run_python("\n".join(["import sys", *lines]), cwd=tmp_path)
    assert "peephole_lstm/forget_gate" in done.stdout
    assert "lstm/cell_state" in done.stdout  # of the first model
    assert (tmp_path / "gates.png").read_bytes().startswith(b"\x89PNG")


def test_python_blocks_with_keras_hub_run(tmp_path):
    pytest.importorskip("tensorflow")  # KerasHub and its tokenizers need it
    run_python(program(KERAS_HUB), cwd=tmp_path)


@pytest.mark.parametrize(
    "code",
    [
        code
        if name == "README.md"
        else pytest.param(
            code, marks=pytest.mark.full("the tests of the command", cheap=False)
        )
        for name, page in PAGES.items()
        for marker, language, code in blocks(page)
        if (marker, language) == (None, "bash")
    ],
)
def test_bash_blocks_run(tmp_path, code):
    scripts = pathlib.Path(sys.executable).parent
    environment = clean_environment({"KERAS_HOME": str(tmp_path)})
    environment["PATH"] = f"{scripts}:{environment['PATH']}"
    subprocess.run(["bash", "-ec", code], cwd=tmp_path, env=environment, check=True)


def test_script_of_the_picture(tmp_path, monkeypatch):
    command = re.search(r"`python (examples/\S+) (\S+)`", PAGES["README.md"])
    script, picture = command.groups()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [script, picture])
    runpy.run_path(str(ROOT / script), run_name="__main__")
    assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("which", ["main", "test"])
def test_fresh_start_is_one_line(which):
    found = [code for marker, _, code in BLOCKS if marker == f"fresh-start: {which}"]
    assert len(found) == 1
    assert len(found[0].splitlines()) == 1


def test_ci_runs_the_command_of_the_readme():
    command = next(code for marker, _, code in BLOCKS if marker == "fresh-start: test")
    assert command in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("name", PAGES)
def test_linked_pages_and_pictures_exist(name):
    for target in re.findall(r"\]\((?!http|lab:)([^)#]+)", PAGES[name]):
        assert (ROOT / name).parent.joinpath(target).exists(), target


def test_readme_links_all_guides():
    for path in (FOLDER / "en").glob("*.md"):
        assert f"({path.relative_to(ROOT)})" in PAGES["README.md"], path


def test_french_blocks_are_the_english_ones():
    for path in (FOLDER / "fr").rglob("*.md"):
        english = FOLDER / "en" / path.relative_to(FOLDER / "fr")
        if english.parent != GENERATED:
            own, there = (_programs(page.read_text()) for page in (path, english))
            assert own <= there, path


def _programs(page):
    """The programs of a page, without comments and labels, which are translated."""
    return {
        re.sub(r"#.*|(accuracy|exactitude) \{", "", code)
        for _, language, code in blocks(page)
        if language != "pycon"
    }
