"""Run the whole suite from nothing: on JAX, on TensorFlow, and with PyTorch alone.

Makes two environments, .venv-all and .venv-torch, and goes on with what is there when
it is run again. PyTorch has an environment without other backends, so that nothing
needs one by accident; what that one had to skip runs on PyTorch in the other. What
loads no Keras runs there only. Two things run at a time, one core each: a fresh process
spends most of its time on one. Arguments go to pytest:

    python3 tests/run_all.py -k peephole
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOGETHER = 2
NONE_SELECTED = 5  # pytest's exit code
# A process for each, and one for the rest: what a backend has compiled it never gives
# back, and all tests in one process would take more than 10 GB.
PARTS = (
    ("tests/language", "tests/pretrained", "tests/vision"),
    ("tests/seq2seq", "tests/tasks", "tests/training", "tests/transformer"),
)
# What loads no Keras runs once, with PyTorch alone.
WITHOUT_KERAS = ("tests/text", "tests/datasets", "kerasseq/text", "kerasseq/datasets")
# What is compiled here runs for milliseconds and takes a hundred to compile.
QUICK_TO_COMPILE = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)
EXTRAS = {
    "all": "tensorflow,jax,torch,nlp,text,data,weights,viz,dev",
    "torch": "torch,text,data,weights,viz,dev",
}


def main():
    if sys.version_info < (3, 11):  # noqa: UP036  # a system's python3 may be older
        sys.exit("kerasseq needs Python 3.11 or later, this is " + sys.version)
    start = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool,
    ):
        skipped = pathlib.Path(folder) / "skipped"
        installed = {name: pool.submit(install, name) for name in ("torch", "all")}
        steps = []
        if installed["torch"].result().ok:
            # Alone means with no other backend, and nothing that says so.
            steps += [
                pool.submit(test, "torch", None, part, f"--skipped-to={skipped}")
                for part in parts(sys.argv[1:])
            ]
        alone = list(steps)
        if installed["all"].result().ok:
            steps += [
                pool.submit(test, "all", backend, part)
                for backend in ("jax", "tensorflow")
                for part in parts(sys.argv[1:], WITHOUT_KERAS)
            ]
            concurrent.futures.wait(alone)
            if skipped.exists():
                steps.append(pool.submit(test, "all", "torch", [f"@{skipped}"]))
        tests = [step.result() for step in steps]
    results = [future.result() for future in installed.values()] + tests
    print("\nSummary")
    for step in results:
        print(
            f"  {'ok' if step.ok else 'FAILED':6}  {step.seconds:5.0f} s  {step.name}"
        )
    print(f"  in all  {time.monotonic() - start:5.0f} s")
    # With words for pytest a part may have no test, but not all of them.
    some = any(step.code == 0 for step in tests)
    sys.exit(0 if some and all(step.ok for step in results) else 1)


def install(name):
    folder = ROOT / f".venv-{name}"
    if not python_of(folder).exists():
        venv.create(folder, with_pip=True)
    return Step(
        f"install .venv-{name}",
        [python_of(folder), "-m", "pip", "install", "--quiet"]
        + ["--disable-pip-version-check", "-c", "tests/constraints.txt"]
        + ["-e", f".[{EXTRAS[name]}]"],
        clean_environment(),
    )


def test(name, backend, words, *more):
    python = python_of(ROOT / f".venv-{name}")
    threads = str(max(1, (os.cpu_count() or 1) // TOGETHER))
    settings = {
        "OMP_NUM_THREADS": threads,
        "TF_NUM_INTRAOP_THREADS": threads,
        "TF_NUM_INTEROP_THREADS": threads,
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "MPLBACKEND": "Agg",
    }
    if backend in ("jax", "tensorflow"):
        settings["XLA_FLAGS"] = QUICK_TO_COMPILE
    if backend:
        settings["KERAS_BACKEND"] = backend
    title = f"tests on {backend}" if backend else "tests with torch alone"
    with tempfile.TemporaryDirectory() as empty:
        return Step(
            f"{title}: {' '.join(words)}",
            [python, "-m", "pytest", "-q", "--durations=25", *words, *more],
            clean_environment() | settings | {"KERAS_HOME": empty},
            {0, NONE_SELECTED} if sys.argv[1:] else {0},
        )


def parts(words, left_out=()):
    """What each process of a suite is told; one is enough for paths."""
    if any((ROOT / word.partition("::")[0]).exists() for word in words):
        return [words]
    elsewhere = [*left_out, *(folder for part in PARTS for folder in part)]
    rest = [f"--ignore={folder}" for folder in elsewhere]
    return [[*part, *words] for part in (rest, *PARTS)]


class Step:
    """A command: run at once, what it said printed when it is done.

    An installation that worked is not worth the reading.
    """

    def __init__(self, name, command, environment, fine=(0,)):
        self.name = name
        print(f"{name}: started", flush=True)
        start = time.monotonic()
        done = subprocess.run(
            [str(part) for part in command],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.code = done.returncode
        self.ok = self.code in fine
        self.seconds = time.monotonic() - start
        end = "ok" if self.ok else f"exit code {self.code}"
        silent = self.ok and name.startswith("install")
        said = "" if silent else f"\n{done.stdout}"
        print(f"\n{name}: {end} in {self.seconds:.0f} s{said}", flush=True)


def clean_environment():
    """The user's environment without what would change the tests."""
    private = ("KERAS", "PYTHON", "VIRTUAL_ENV")
    return {k: v for k, v in os.environ.items() if not k.startswith(private)}


def python_of(folder):
    windows = os.name == "nt"
    return folder / ("Scripts/python.exe" if windows else "bin/python")


if __name__ == "__main__":
    main()
