"""Runs Python code in a new process."""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parent.parent

# The sitecustomize.py in this folder hides backends from a process.
VISIBLE = ROOT / "tests" / "visible"
VISIBLE_BACKENDS = "KERASSEQ_VISIBLE_BACKENDS"


def run_python(code, *arguments, only=None, check=True, cwd=None, **environment):
    """Runs `code` in a new interpreter.

    The environment is the current one without variables of Python and Keras, except
    `KERAS_BACKEND`; `environment` sets variables, or unsets those that are None.
    `KERAS_HOME` is an empty folder. `only` lists the backends that can be imported.

    Returns:
        The `subprocess.CompletedProcess`, with `returncode`, `stdout` and `stderr`.
    """
    if only is not None:
        environment[VISIBLE_BACKENDS] = " ".join(only)
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
    """Returns the environment without variables of Python and Keras, with `changes`."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KERAS", "PYTHON"))
    }
    clean["PYTHONPATH"] = os.pathsep.join(map(str, (VISIBLE, ROOT)))
    for name in ("KERAS_BACKEND", VISIBLE_BACKENDS):
        clean[name] = os.environ.get(name)
    return {name: v for name, v in (clean | changes).items() if v is not None}
