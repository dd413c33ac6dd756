"""Which tests run on which backend.

Every test has a tier: the closest mark of the test, its class and its module. The
argument of the mark is the reason. `everywhere("…", cases=2)` means the first two cases
of a parametrized test; the others are `full`. `full("…", cheap=False)` is left to
`--full` on PyTorch as well. Doctests that print tensors run everywhere, others once;
what loads no Keras runs once.
"""

import collections
import os
import pathlib

import pytest

TIERS = {
    "everywhere": "a backend can break it: runs on each of the three",
    "once": "no backend has a say: runs on PyTorch alone",
    "full": "others would find the same fault: elsewhere than on PyTorch with --full",
}
ROOT = pathlib.Path(__file__).parent.parent
CHOSEN = pytest.StashKey()


def assign(items, loads_no_keras):
    """Give each collected test its tier."""
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
    marks = [mark for mark in item.iter_markers() if mark.name in TIERS]
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
    """The mark that gives a test its tier."""
    return item.stash[CHOSEN]


def runs_on(backend, item):
    """Whether a test runs on this backend without `--full`."""
    mark = of(item)
    if mark.name == "everywhere":
        return True
    return backend == "torch" and mark.kwargs.get("cheap", True)
