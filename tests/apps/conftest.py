"""What the tests of the app share: a folder of its own, and runs without Keras."""

import logging
import sys

import pytest

pytest.importorskip("streamlit")

from parts import run_panel, runs
from tests.apps import tiny_models

# Resources are made outside pages, too.
CONTEXT = "streamlit.runtime.scriptrunner_utils.script_run_context"
logging.getLogger(CONTEXT).setLevel("ERROR")


@pytest.fixture(autouse=True, scope="session")
def no_components():
    """Streamlit looks for components in the metadata of all packages at each start."""
    scan = "streamlit.components.v2.manifest_scanner.scan_component_manifests"
    with pytest.MonkeyPatch.context() as changes:
        changes.setattr(scan, list, raising=False)
        yield


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The app keeps its files in a folder of the test."""
    monkeypatch.setenv("KERASSEQ_APP_RUNS", str(tmp_path))
    yield tmp_path
    run_panel.manager().close()
    run_panel.manager.clear()


@pytest.fixture
def stub(monkeypatch):
    """Runs do not train: `tests.apps.stub` writes their progress."""

    def command(request, folder):
        steps = request.details.get("steps", 3)
        seconds = request.details.get("seconds", 0.01)
        fail = [word for word in request.words if word == "--fail"]
        words = [folder, steps, seconds, *fail]
        return [sys.executable, "-m", "tests.apps.stub", *map(str, words)]

    monkeypatch.setattr(runs, "command", command)


@pytest.fixture
def manager(folder, stub):
    """Runs of stubs, two at once."""
    made = runs.Runs(folder / "runs")
    yield made
    made.close()


@pytest.fixture(scope="session")
def models_folder(tmp_path_factory):
    """Where the small models are kept for all tests."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def models(monkeypatch, models_folder):
    """Pages find small models that are not trained; pages that train take few steps."""
    monkeypatch.setattr("labs.code.gradients.STEPS", 3)
    monkeypatch.setattr("labs.code.bert.STEPS", 2)
    monkeypatch.setattr("labs.code.bert.SIZES", (4,))
    for name, value in (("GENERATED", 200), ("TESTED", 9), ("MOST", 13)):
        monkeypatch.setattr(f"parts.translation.{name}", value)
    return tiny_models.install(monkeypatch, models_folder)
