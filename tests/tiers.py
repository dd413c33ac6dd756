"""Tiers: the backends that a test runs on.

The tier of a test is the closest mark of its case, the test, its class and its module.
The argument of the mark is the reason. `everywhere("…", cases=2)` applies to the first
two cases of a parametrized test; the others are `full`. `full("…", cheap=False)` runs
with `--full` only, also on PyTorch. Doctests that print tensors run everywhere, others
once; tests that load no Keras run once.
"""

import collections
import os
import pathlib

import pytest

TIERS = {
    "everywhere": "the result may depend on the backend: runs on all three",
    "once": "the result does not depend on the backend: runs on PyTorch",
    "full": "other tests find the same faults: runs on PyTorch, elsewhere with --full",
}
ROOT = pathlib.Path(__file__).parent.parent
CHOSEN = pytest.StashKey()


def assign(items, loads_no_keras):
    """Stores the tier of each collected test."""
    met = collections.Counter()
    for item in items:
        mark = _mark(item, loads_no_keras)
        cases = mark.kwargs.get("cases")
        if cases is not None:
            function = item.nodeid.partition("[")[0]
            met[function] += 1
            if met[function] > cases:
                mark = pytest.mark.full("one of several").mark
        item.stash[CHOSEN] = mark


def _mark(item, loads_no_keras):
    of_case = getattr(item, "callspec", None)
    marks = [*(of_case.marks if of_case else ()), *item.iter_markers()]
    marks = [mark for mark in marks if mark.name in TIERS]
    if marks:
        return marks[0]
    if os.path.relpath(item.path, ROOT).startswith(loads_no_keras):
        return pytest.mark.once("loads no Keras").mark
    if isinstance(item, pytest.DoctestItem):
        source = "".join(example.source for example in item.dtest.examples)
        if "keras.ops" not in source:
            return pytest.mark.once("prints no tensor").mark
        return pytest.mark.everywhere("prints tensors").mark
    raise pytest.UsageError(
        f"{item.nodeid} has no tier. Mark it, or its module, with one of "
        + ", ".join(f"@pytest.mark.{tier}(reason)" for tier in TIERS)
    )


def of(item):
    """Returns the mark with the tier of a test."""
    return item.stash[CHOSEN]


def not_run(backend, deselected):
    """Returns a line that says which tests the backend leaves out; empty if none.

    Args:
        backend: The backend of this run.
        deselected: The tests that were left out.
    """
    if not deselected:
        return ""
    count = len(deselected)
    tests = "1 test was" if count == 1 else f"{count} tests were"
    line = f"{tests} NOT RUN on {backend}: "
    if backend == "torch":
        return line + "too expensive without --full"
    tiers = collections.Counter(of(item).name for item in deselected)
    counts = ", ".join(f"{tiers[name]} {name}" for name in TIERS if tiers[name])
    return (
        f"{line}these run on PyTorch only ({counts}). Use KERAS_BACKEND=torch or --full"
    )


def runs_on(backend, item):
    """Whether a test runs on this backend without `--full`."""
    mark = of(item)
    if mark.name == "everywhere":
        return True
    return backend == "torch" and mark.kwargs.get("cheap", True)
