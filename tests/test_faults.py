"""Tests that the patches of `tests/faults` apply."""

import collections
import pathlib
import re
import shutil
import subprocess

import pytest

from tests.faults import NUMBERS, patches

pytestmark = pytest.mark.once("reads patches")
ROOT = pathlib.Path(__file__).parents[1]


def test_numbers_of_patches():
    backends = collections.Counter(patch.backend for patch in patches())
    assert backends == NUMBERS


@pytest.mark.parametrize("backend", NUMBERS)
def test_names_and_descriptions(backend):
    own = [patch for patch in patches() if patch.backend == backend]
    numbers = [patch.name.split("-")[1] for patch in own]
    assert numbers == [f"{n:02}" for n in range(1, NUMBERS[backend] + 1)]
    for patch in own:
        assert re.match(r"[a-z ]+: \S", patch.plants), patch.name


def test_patches_apply():
    """With git; without a repository, by searching the text that a patch replaces."""
    git = shutil.which("git") is not None and (ROOT / ".git").exists()
    problem = problem_by_git if git else problem_by_text
    problems = [found for patch in patches() if (found := problem(patch))]
    assert not problems, "\n".join(
        [
            *problems,
            "plant these faults in the current code, and write the patches with git "
            "diff, after the same first line",
        ]
    )


def test_without_git(tmp_path):
    patch = patches()[0]
    assert problem_by_text(patch) is None
    moved = re.sub(r"^-(?!--)", "-gone ", patch.file.read_text(), flags=re.MULTILINE)
    broken = tmp_path / patch.file.name
    broken.write_text(moved)
    assert patch.file.name in problem_by_text(patch._replace(file=broken))


def problem_by_git(patch):
    words = ["git", "apply", "--check", str(patch.file)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return f"{patch.file.name}: {done.stderr.strip()}" if done.returncode else None


def problem_by_text(patch):
    """Returns a problem if the files do not contain the replaced text, or None."""
    text = patch.file.read_text(encoding="utf-8")
    for part in text.split("\ndiff --git ")[1:]:
        file = ROOT / re.search(r"^--- a/(.+)$", part, re.MULTILINE)[1]
        source = file.read_text(encoding="utf-8") if file.exists() else ""
        for hunk in re.split(r"^@@ .*$\n", part, flags=re.MULTILINE)[1:]:
            old = [row[1:] for row in hunk.splitlines() if row[:1] in (" ", "-", "")]
            if "\n".join(old) not in source:
                return f"{patch.file.name}: {file.name} has changed where it applies"
    return None
