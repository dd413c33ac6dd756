"""Run Python code in a process of its own, where nothing is loaded yet."""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parent.parent

# Makes the process see these backends, and no other, as installed. One that is not
# there at all can be looked for and found, but not imported.
ONLY = """\
import importlib.machinery, sys

class Only:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in {"tensorflow", "jax", "torch"} - set(ONLY):
            return None
        return self.finder.find_spec(name, path, target)

class Pretend:
    def find_spec(self, name, path=None, target=None):
        if name in ONLY:
            return importlib.machinery.ModuleSpec(name, None, origin="pretended")

sys.meta_path[:] = [*map(Only, sys.meta_path), Pretend()]
"""


def run_python(code, *arguments, only=None, check=True, cwd=None, **environment):
    """Run `code` in a fresh interpreter.

    The environment is ours without Python's and Keras' settings, except that the
    backend stays; what `environment` names is set, or unset if None. Keras finds an
    empty home. `only` lists the backends to be seen as installed.

    Returns:
        The `subprocess.CompletedProcess`, with `returncode`, `stdout` and `stderr`.
    """
    if only is not None:
        code = f"ONLY = {tuple(only)!r}\n{ONLY}\n{code}"
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            env=clean_environment({"KERAS_HOME": empty} | environment),
            cwd=cwd or empty,
            capture_output=True,
            text=True,
        )
    if check and done.returncode:
        raise AssertionError(
            f"exit code {done.returncode} from\n{code}\n"
            f"--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}"
        )
    return done


def clean_environment(changes):
    """Our environment without Python's and Keras' settings, and with `changes`."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KERAS", "PYTHON"))
    }
    clean |= {"KERAS_BACKEND": os.environ.get("KERAS_BACKEND"), "PYTHONPATH": str(ROOT)}
    return {name: v for name, v in (clean | changes).items() if v is not None}
