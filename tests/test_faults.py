"""The faults of `tests/faults` can still be planted."""

import collections
import pathlib
import re
import shutil
import subprocess

import pytest

from tests.faults import NUMBERS, patches

pytestmark = pytest.mark.once("patches as text")
ROOT = pathlib.Path(__file__).parents[1]


def test_there_are_so_many_of_each_backend():
    backends = collections.Counter(patch.backend for patch in patches())
    assert backends == NUMBERS


@pytest.mark.parametrize("backend", NUMBERS)
def test_names_count_and_first_lines_explain(backend):
    own = [patch for patch in patches() if patch.backend == backend]
    numbers = [patch.name.split("-")[1] for patch in own]
    assert numbers == [f"{n:02}" for n in range(1, NUMBERS[backend] + 1)]
    for patch in own:
        assert re.match(r"[a-z ]+: \S", patch.plants), patch.name


def test_every_patch_still_applies():
    """By git; where there is no repository, by looking for the text it replaces."""
    git = shutil.which("git") is not None and (ROOT / ".git").exists()
    problem = problem_by_git if git else problem_by_text
    problems = [found for patch in patches() if (found := problem(patch))]
    assert not problems, "\n".join(
        [
            *problems,
            "plant each of these faults anew in the code as it is now, and write its "
            "patch by git diff, with the first line as before",
        ]
    )


def test_without_git_the_same_is_found(tmp_path):
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
    """Whether what stands before and between the changes is in the files once."""
    text = patch.file.read_text(encoding="utf-8")
    for part in text.split("\ndiff --git ")[1:]:
        file = ROOT / re.search(r"^--- a/(.+)$", part, re.MULTILINE)[1]
        source = file.read_text(encoding="utf-8") if file.exists() else ""
        for hunk in re.split(r"^@@ .*$\n", part, flags=re.MULTILINE)[1:]:
            old = [row[1:] for row in hunk.splitlines() if row[:1] in (" ", "-", "")]
            if "\n".join(old) not in source:
                return f"{patch.file.name}: {file.name} has changed where it applies"
    return None
