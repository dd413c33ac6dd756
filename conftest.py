"""Configuration of all tests: backend, tiers, costs, names for doctests."""

import gc
import os
import pathlib
import sys

import hypothesis
import numpy as np
import pytest

from kerasseq.core import backend
from tests import costs, tiers
from tests.run_all import WITHOUT_KERAS

HERE = pathlib.Path(__file__).parent
LOADS_NO_KERAS = tuple(map(os.path.normpath, WITHOUT_KERAS))
NOT_RUN = pytest.StashKey[str]()  # what the summary says about the other tests

hypothesis.settings.register_profile(
    "kerasseq", deadline=None, max_examples=20, derandomize=True, database=None
)
# TensorFlow and JAX trace and compile each example of a new shape.
hypothesis.settings.register_profile(
    "compiled", hypothesis.settings.get_profile("kerasseq"), max_examples=5
)


def pytest_addoption(parser):
    parser.addoption(
        "--skipped-to",
        metavar="FILE",
        help="append the ids of skipped tests to this file",
    )
    parser.addoption(
        "--costs-to",
        metavar="FILE",
        help="append the CPU seconds of each test to this file",
    )
    parser.addoption("--full", action="store_true", help="run the tests of every tier")


def pytest_configure(config):
    """Raises an error if the backend is not installed, and registers the tiers."""
    try:
        backend.require()
    except backend.BackendError as error:
        raise pytest.UsageError(str(error)) from None
    for tier, meaning in tiers.TIERS.items():
        config.addinivalue_line("markers", f"{tier}(reason, ...): {meaning}")
    quick = backend.chosen() != "torch" and not config.getoption("full")
    hypothesis.settings.load_profile("compiled" if quick else "kerasseq")
    if file := config.getoption("skipped_to"):
        config.pluginmanager.register(Skipped(pathlib.Path(file)))
    config.pluginmanager.register(Costs(config.getoption("costs_to")))


class Skipped:
    """Writes the ids of skipped tests to a file, to run them elsewhere."""

    def __init__(self, file):
        self.file = file

    def pytest_runtest_logreport(self, report):
        if report.skipped:
            with self.file.open("a", encoding="utf-8") as file:
                print(report.nodeid, file=file)

    pytest_collectreport = pytest_runtest_logreport


class Costs:
    """Measures the CPU seconds of each test, and prints the most expensive ones."""

    def __init__(self, file):
        self.file = file
        self.unit = costs.Unit()
        self.tests = []

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item):
        start = costs.cpu_seconds()
        yield
        seconds = costs.cpu_seconds() - start
        self.tests.append((item.nodeid, tiers.of(item).name, seconds))
        self.unit.sample()

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.section("CPU seconds")
        for line in costs.most_expensive(self.tests):
            terminalreporter.line(line)

    def pytest_sessionfinish(self):
        if self.file:
            around = costs.cpu_seconds() - sum(test[-1] for test in self.tests)
            costs.write(
                pathlib.Path(self.file),
                backend.chosen(),
                self.unit.seconds,
                around,
                self.tests,
            )


def pytest_collection_modifyitems(config, items):
    """Deselects the tests whose tier does not run here, except those named by id."""
    tiers.assign(items, LOADS_NO_KERAS)
    if config.getoption("full") or any("::" in word for word in config.args):
        return
    name = backend.chosen()
    deselected = [item for item in items if not tiers.runs_on(name, item)]
    config.stash[NOT_RUN] = tiers.not_run(name, deselected)
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if tiers.runs_on(name, item)]


def pytest_terminal_summary(terminalreporter, config):
    """Says how many tests of the given paths do not run on this backend."""
    if line := config.stash.get(NOT_RUN, ""):
        terminalreporter.line(line, yellow=True)


def pytest_collection_finish():
    """Exempts what was imported from garbage collection, which takes 0.5 s otherwise.

    Keras collects each time that a layer is quantized, JAX and Python more often. Less
    often takes a twelfth less time in total.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_ignore_collect(collection_path, config):
    """Ignores the doctests of the kernels of other backends, and tests of a browser.

    Those, and the tests of the built site, are a part of their own, and run if named:
    `pytest tests/browser tests/docs/test_site.py`.
    """
    for part in ("tests/browser", "tests/docs/test_site.py"):
        if collection_path == HERE / part:
            return not any(part in word for word in config.args) or None
    if collection_path.parent == HERE / "kerasseq" / "kernels":
        others = set(backend.BACKENDS) - {backend.chosen()}
        if collection_path.name in others:
            return True
    return None


def pytest_runtest_teardown(item, nextitem):
    """Clears JAX's compilation cache before the process runs out of memory mappings.

    Linux allows a process 65,530 mappings. A compiled operation uses three, a model
    hundreds, and the process is killed at the limit.
    """
    module_ends = nextitem is None or nextitem.path != item.path
    if "jax" in sys.modules and module_ends and mappings() > 20_000:
        sys.modules["jax"].clear_caches()
        gc.collect()


def mappings():
    """Returns the number of memory mappings of this process, 0 if unknown."""
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
