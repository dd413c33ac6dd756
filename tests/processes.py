"""Run Python code in a process of its own, where nothing is loaded yet."""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parent.parent

# Has Python hide backends when it starts: see the file in this folder.
VISIBLE = ROOT / "tests" / "visible"
VISIBLE_BACKENDS = "KERASSEQ_VISIBLE_BACKENDS"


def run_python(code, *arguments, only=None, check=True, cwd=None, **environment):
    """Run `code` in a fresh interpreter.

    The environment is ours without Python's and Keras' settings, except that the
    backend stays; what `environment` names is set, or unset if None. Keras finds an
    empty home. `only` lists the backends to be seen as installed.

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
    """Our environment without Python's and Keras' settings, and with `changes`."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KERAS", "PYTHON"))
    }
    clean["PYTHONPATH"] = os.pathsep.join(map(str, (VISIBLE, ROOT)))
    for name in ("KERAS_BACKEND", VISIBLE_BACKENDS):
        clean[name] = os.environ.get(name)
    return {name: v for name, v in (clean | changes).items() if v is not None}
