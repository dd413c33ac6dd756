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


def pytest_addoption(parser):
    parser.addoption(
        "--skipped-to", metavar="FILE", help="where to add the tests that are skipped"
    )


def pytest_configure(config):
    """A run on a backend that is not there fails: it must not look like a success."""
    try:
        backend.require()
    except backend.BackendError as error:
        raise pytest.UsageError(str(error)) from None
    if file := config.getoption("skipped_to"):
        config.pluginmanager.register(Skipped(pathlib.Path(file)))


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
