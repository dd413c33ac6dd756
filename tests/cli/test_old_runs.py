"""Run folders of an earlier version are read, and answer as they did there."""

import json
import pathlib

import pytest

from kerasseq.cli import runs
from kerasseq.cli.commands import TASKS

pytestmark = pytest.mark.once("the command line")

FILES = pathlib.Path(__file__).parent / "files"
# The arguments that the runs of an earlier version have, by task.
ARGUMENTS = json.loads((FILES / "arguments.json").read_text())


def test_runs_of_an_earlier_version_answer_as_there(command):
    words = "predict", FILES / "classify", "--text", "b a", "--json"
    (row,) = json.loads(command(*words).out)
    assert row["label"] == "y"
    assert row["probability"] == pytest.approx(0.5006194, abs=1e-5)
    words = "generate", FILES / "language-model", "--prompt", "to ", "--length", 12
    assert command(*words, "--temperature", 0).out.strip() == "to " + 12 * "t"


@pytest.mark.parametrize("task", ARGUMENTS)
def test_new_arguments_have_a_value_for_earlier_runs(task):
    """So that a record without them is read; `runs.ADDED` has what they meant."""
    new = set(TASKS[task].DEFAULTS) - set(ARGUMENTS[task])
    assert new <= set(runs.ADDED), "add them to ADDED, as earlier runs lack them"
    assert set(ARGUMENTS[task]) <= set(TASKS[task].DEFAULTS)
