"""Every fenced block of the README is run, or says above it why not.

A block of Python is run, all of them in one process. A block of bash is run, unless a
line above it is `<!-- fresh-start: main -->` or `test`, which is checked here and run
by whoever starts from nothing, or `<!-- not run: reason -->`.
"""

import pathlib
import re
import subprocess
import sys

import pytest

from tests.processes import ROOT, clean_environment, run_python

pytestmark = pytest.mark.once("what the README says")

FENCE = re.compile(
    r"^(?:<!-- (?P<marker>.*?) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def blocks(page):
    """The fenced blocks of a page as `(marker, language, code)`.

    >>> blocks("<!-- not run: why -->\\n```bash\\nls\\n```")
    [('not run: why', 'bash', 'ls\\n')]
    """
    return [match.group("marker", "language", "code") for match in FENCE.finditer(page)]


README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = blocks(README)


def test_every_block_is_of_a_known_kind():
    assert README.count("\n```") == 2 * len(BLOCKS)
    for marker, language, code in BLOCKS:
        kind, _, what = (marker or "").partition(": ")
        assert (language, kind) in {
            ("python", ""),
            ("bash", ""),
            ("bash", "fresh-start"),
            ("bash", "not run"),
        }, code
        assert bool(kind) == bool(what), "a marker gives its reason"


def test_python_blocks_run(tmp_path):
    code = [code for _, language, code in BLOCKS if language == "python"]
    done = run_python("\n".join(code), cwd=tmp_path)
    assert "peephole_lstm/forget_gate" in done.stdout


@pytest.mark.parametrize(
    "code",
    [code for marker, language, code in BLOCKS if (marker, language) == (None, "bash")],
)
def test_bash_blocks_run(tmp_path, code):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    scripts = pathlib.Path(sys.executable).parent
    environment = clean_environment({"KERAS_HOME": str(tmp_path)})
    environment["PATH"] = f"{scripts}:{environment['PATH']}"
    subprocess.run(["bash", "-ec", code], cwd=tmp_path, env=environment, check=True)


@pytest.mark.parametrize("which", ["main", "test"])
def test_each_fresh_start_is_one_line(which):
    found = [code for marker, _, code in BLOCKS if marker == f"fresh-start: {which}"]
    assert len(found) == 1
    assert len(found[0].splitlines()) == 1


def test_what_is_always_run_includes_the_command_of_the_readme():
    command = next(code for marker, _, code in BLOCKS if marker == "fresh-start: test")
    assert command in (ROOT / ".ci" / "run").read_text()


def test_pictures_and_pages_exist():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
