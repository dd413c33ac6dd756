"""Tests that backends can be hidden from a process."""

import sys

import pytest

from tests.processes import run_python
from tests.visible.sitecustomize import NEEDS

pytestmark = pytest.mark.once("Python's imports: no backend is loaded")

FOUND = """
import importlib, importlib.util, sys

def importable(name):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return False
    return True

for name in sys.argv[1:]:
    if importlib.util.find_spec(name) is not None:
        print("found", name)
    elif importable(name):
        print("imported", name)
"""
IN_A_CHILD = "import subprocess, sys\nsubprocess.run(sys.argv[1:], check=True)"


def found(visible, code, *arguments):
    return run_python(code, *arguments, only=visible).stdout.split()


@pytest.mark.parametrize("visible", [[], ["torch"], ["tensorflow", "jax"]])
def test_only_visible_backends_are_found(visible):
    direct = found(visible, FOUND, *NEEDS)
    command = [sys.executable, "-c", FOUND, *NEEDS]
    assert found(visible, IN_A_CHILD, *command) == direct
    names = direct[1::2]
    assert direct[::2] == ["found"] * len(names)
    backends = {"tensorflow", "jax", "torch"}
    assert backends & set(names) == set(visible)
    assert {NEEDS[name] for name in names} == set(visible)


def test_missing_backend_is_found_but_not_imported():
    code = """
import importlib.util, sys
sys.path[:] = []
from importlib import machinery
sys.path_importer_cache.clear()
assert importlib.util.find_spec("jax") is not None
try:
    import jax
except ImportError:
    print("not imported")
"""
    assert found(["jax"], code) == ["not", "imported"]
