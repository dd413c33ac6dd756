"""What every test run shares: a right backend, names for doctests, hypothesis."""

import gc
import os
import pathlib
import sys

import hypothesis
import numpy as np
import pytest

from kerasseq.core import backend
from tests.run_all import WITHOUT_KERAS

HERE = pathlib.Path(__file__).parent
LOADS_NO_KERAS = tuple(map(os.path.normpath, WITHOUT_KERAS))

hypothesis.settings.register_profile(
    "kerasseq", deadline=None, max_examples=20, derandomize=True, database=None
)
hypothesis.settings.load_profile("kerasseq")


# Every test has a tier, the closest of the test's, the class's and the module's. Its
# argument is the reason. `full` may say cheap=False, for what is slow on PyTorch, too.
TIERS = {
    "everywhere": "a backend can break it: runs on each of the three",
    "once": "no backend has a say: runs on PyTorch",
    "full": "others would find the same fault: runs on PyTorch; elsewhere with --full",
}


def pytest_addoption(parser):
    parser.addoption(
        "--skipped-to", metavar="FILE", help="where to add the tests that are skipped"
    )
    parser.addoption("--full", action="store_true", help="run the tests of every tier")


def pytest_configure(config):
    """A run on a backend that is not there fails: it must not look like a success."""
    for tier, meaning in TIERS.items():
        config.addinivalue_line("markers", f"{tier}(reason, cheap=True): {meaning}")
    try:
        backend.require()
    except backend.BackendError as error:
        raise pytest.UsageError(str(error)) from None
    if file := config.getoption("skipped_to"):
        config.pluginmanager.register(Skipped(pathlib.Path(file)))


def pytest_collection_modifyitems(config, items):
    """Leave out the tests whose tier does not run here; not those asked for by name."""
    if config.getoption("full") or any("::" in word for word in config.args):
        return
    left_out = [item for item in items if not runs_on(backend.chosen(), item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def runs_on(name, item):
    """Whether the tier of a test runs on the backend of this name."""
    mark = tier(item)
    if mark is None or mark.name == "everywhere":
        return True
    return name == "torch" and mark.kwargs.get("cheap", True)


def tier(item):
    """The closest mark that names a tier."""
    return next((m for m in item.iter_markers() if m.name in TIERS), None)


class Skipped:
    """Writes down the tests that could not run here, so that they run elsewhere."""

    def __init__(self, file):
        self.file = file

    def pytest_runtest_logreport(self, report):
        if report.skipped:
            with self.file.open("a", encoding="utf-8") as file:
                print(report.nodeid, file=file)

    pytest_collectreport = pytest_runtest_logreport


def pytest_ignore_collect(collection_path):
    """Leave out the doctests of the kernels written for the other backends."""
    if collection_path.parent == HERE / "kerasseq" / "kernels":
        others = set(backend.BACKENDS) - {backend.chosen()}
        if collection_path.name.startswith(tuple(f"{name}_" for name in others)):
            return True
    return None


def pytest_runtest_teardown(item, nextitem):
    """Let JAX give up what it has compiled before the system runs out of mappings.

    Linux allows a process 65,530, a compiled operation takes three, a model hundreds.
    What cannot be mapped any more ends the process without a word of why.
    """
    module_ends = nextitem is None or nextitem.path != item.path
    if "jax" in sys.modules and module_ends and mappings() > 20_000:
        sys.modules["jax"].clear_caches()
        gc.collect()


def mappings():
    """How many pieces of memory this process has mapped, where that can be known."""
    try:
        return len(pathlib.Path("/proc/self/maps").read_bytes().splitlines())
    except OSError:
        return 0


@pytest.fixture(autouse=True)
def _names_for_doctests(request, doctest_namespace):
    doctest_namespace["np"] = np
    if os.path.relpath(request.path, HERE).startswith(LOADS_NO_KERAS):
        return
    import keras

    doctest_namespace["keras"] = keras
