"""One version, one contact, and files of a release that agree."""

import pathlib
import re
import tomllib

import pytest

import kerasseq
from kerasseq.core import packages
from tests import release

pytestmark = pytest.mark.once("reads files")

ROOT = pathlib.Path(__file__).parent.parent
HOME = ROOT / ".github"
UNSET = 'use "Report a vulnerability" on the Security page of the repository.'


def yaml(path):
    return pytest.importorskip("yaml").safe_load(path.read_text(encoding="utf-8"))


def test_the_version_stands_in_one_place():
    assert release.version() == kerasseq.__version__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"] == {"path": "kerasseq/__init__.py"}


def test_the_citation_is_of_this_version():
    citation = yaml(ROOT / "CITATION.cff")
    assert citation["version"] == kerasseq.__version__
    assert citation["license"] == "Apache-2.0"
    assert citation["cff-version"] == "1.2.0" and citation["authors"]


def test_the_change_log_says_what_a_user_must_do():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert versions[0].startswith(f"{kerasseq.__version__} (")
    for version in versions:
        assert version.count("### To do when you update\n\n") == 1, version[:30]


def test_the_contact_is_one_setting():
    policy = (HOME / "SECURITY.md").read_text(encoding="utf-8")
    contact = re.search(r"^Contact: (.+)$", policy, re.MULTILINE)[1]
    assert contact == (packages.CONTACT or UNSET)
    assert "SECURITY.md" in (HOME / "CODE_OF_CONDUCT.md").read_text(encoding="utf-8")


def test_workflows_run_what_exists():
    jobs = yaml(HOME / "workflows" / "release.yml")["jobs"]
    assert [*jobs] == ["build", "check", "publish", "documentation"]
    for before, after in zip(jobs, [*jobs][1:], strict=False):
        assert jobs[after]["needs"] == before
    matrix = jobs["check"]["strategy"]["matrix"]
    assert ",".join(matrix["python"]) == release.PYTHONS
    assert ",".join(matrix["backend"]) == release.BACKENDS
    # Only what publishes may do so, and without a stored password.
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    steps = [step for job in jobs.values() for step in job["steps"]]
    assert not [step for step in steps if "password" in step.get("with", {})]
    lines = [step["run"] for step in steps if "run" in step]
    assert sum("tests/release.py" in line for line in lines) == 2
    assert (ROOT / "tests" / "release.py").exists()
    tests = yaml(HOME / "workflows" / "tests.yml")
    assert {"run": ".ci/run"} in tests["jobs"]["tests"]["steps"]


@pytest.mark.parametrize("name", ["fault", "wish"])
def test_templates_of_issues(name):
    form = yaml(HOME / "ISSUE_TEMPLATE" / f"{name}.yml")
    assert {"name", "description", "body"} <= form.keys()
    kinds = [part["type"] for part in form["body"]]
    assert set(kinds) <= {"textarea", "checkboxes"} and len(kinds) >= 3
    assert all(part["attributes"]["label"] for part in form["body"])


def test_wrong_tags_are_found():
    now = kerasseq.__version__
    dated = f"## {now} (1 May 2027)\n"
    assert release.problems_of_tag(f"v{now}", dated) == []
    assert release.problems_of_tag(now, dated) == [
        f"the tag {now} is not v{now}, the version"
    ]
    undated = f"## {now} (unreleased)\n"
    assert release.problems_of_tag(f"v{now}", undated) == [
        f"CHANGELOG.md has no date of {now}"
    ]


def test_a_folder_without_a_wheel(tmp_path):
    assert release.check(tmp_path, ["3.11"], ["torch"]) == [
        f"expected one wheel in {tmp_path}, found 0"
    ]
    (tmp_path / "kerasseq-0-py3-none-any.whl").write_bytes(b"")
    assert release.check(tmp_path, ["2.0"], ["torch"]) == [
        "Python 2.0 is not on this machine: not checked"
    ]
