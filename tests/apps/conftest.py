"""What the tests of the app share: a folder of its own, and runs without Keras."""

import sys

import pytest

from parts import runs

pytest.importorskip("streamlit")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The app keeps its files in a folder of the test."""
    monkeypatch.setenv("KERASSEQ_APP_RUNS", str(tmp_path))
    return tmp_path


@pytest.fixture
def stub(monkeypatch):
    """Runs do not train: `tests.apps.stub` writes their progress."""

    def command(request, folder):
        steps = request.details.get("steps", 3)
        seconds = request.details.get("seconds", 0.01)
        words = [folder, steps, seconds, *request.words[1:]]
        return [sys.executable, "-m", "tests.apps.stub", *map(str, words)]

    monkeypatch.setattr(runs, "command", command)


@pytest.fixture
def manager(folder, stub):
    """Runs of stubs, two at once."""
    made = runs.Runs(folder / "runs")
    yield made
    made.close()
