"""What every test run shares: its backend, tiers, costs, names for doctests."""

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

hypothesis.settings.register_profile(
    "kerasseq", deadline=None, max_examples=20, derandomize=True, database=None
)
# Each example of another shape is traced and compiled there.
hypothesis.settings.register_profile(
    "compiled", hypothesis.settings.get_profile("kerasseq"), max_examples=5
)


def pytest_addoption(parser):
    parser.addoption(
        "--skipped-to", metavar="FILE", help="where to add the tests that are skipped"
    )
    parser.addoption(
        "--costs-to", metavar="FILE", help="where to add the CPU seconds of each test"
    )
    parser.addoption("--full", action="store_true", help="run the tests of every tier")


def pytest_configure(config):
    """A run on a backend that is not there fails: it must not look like a success."""
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
    """Writes down the tests that could not run here, so that they run elsewhere."""

    def __init__(self, file):
        self.file = file

    def pytest_runtest_logreport(self, report):
        if report.skipped:
            with self.file.open("a", encoding="utf-8") as file:
                print(report.nodeid, file=file)

    pytest_collectreport = pytest_runtest_logreport


class Costs:
    """Measures the CPU seconds of each test, shows the dearest, and hands all on."""

    def __init__(self, file):
        self.file = file
        self.unit = costs.calibrate()
        self.tests = []

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item):
        start = costs.cpu_seconds()
        yield
        seconds = costs.cpu_seconds() - start
        self.tests.append((item.nodeid, tiers.of(item).name, seconds))

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.section("CPU seconds")
        for line in costs.dearest(self.tests):
            terminalreporter.line(line)

    def pytest_sessionfinish(self):
        if self.file:
            around = costs.cpu_seconds() - sum(test[-1] for test in self.tests)
            costs.write(
                pathlib.Path(self.file), backend.chosen(), self.unit, around, self.tests
            )


def pytest_collection_modifyitems(config, items):
    """Leave out the tests whose tier does not run here; not those asked for by name."""
    tiers.assign(items, LOADS_NO_KERAS)
    if config.getoption("full") or any("::" in word for word in config.args):
        return
    left_out = {item for item in items if not tiers.runs_on(backend.chosen(), item)}
    if left_out:
        config.hook.pytest_deselected(items=[i for i in items if i in left_out])
        items[:] = [item for item in items if item not in left_out]


def pytest_ignore_collect(collection_path):
    """Leave out the doctests of the kernels written for the other backends."""
    if collection_path.parent == HERE / "kerasseq" / "kernels":
        others = set(backend.BACKENDS) - {backend.chosen()}
        if collection_path.name in others:
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
