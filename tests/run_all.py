"""Installs and runs all tests: on JAX, on TensorFlow, and with PyTorch alone.

Creates the environment .venv-all, or uses the existing one. The tests on PyTorch run
with the other backends hidden, so that nothing depends on them by mistake; tests that
are skipped for this reason run again on PyTorch with all backends visible. The tier of
a test (`tests/tiers.py`) determines its backends. Two processes run at a time, the most
expensive ones first. Arguments are passed to pytest:

    python3 tests/run_all.py -k peephole
    python3 tests/run_all.py --full   every test on every backend
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
if str(ROOT) not in sys.path:  # run as a script
    sys.path.insert(0, str(ROOT))

from tests import costs  # noqa: E402

TOGETHER = 2
NONE_SELECTED = 5  # pytest's exit code
FOLDER = ROOT / ".venv-all"
EXTRAS = "tensorflow,jax,torch,nlp,text,data,weights,viz,app,export,docs,dev"
BUDGETS = ROOT / "tests" / "budgets.toml"
# Each part runs in its own process, and one process runs the rest: backends keep what
# they compile, and all tests in one process would need more than 10 GB.
PARTS = (
    ("tests/models", "tests/pretrained"),
    ("tests/series", "tests/tasks", "tests/training", "tests/transformer"),
)
# These load no Keras, and run once, with PyTorch alone.
WITHOUT_KERAS = ("tests/text", "tests/datasets", "kerasseq/text", "kerasseq/datasets")
# Compilation takes longer than the compiled functions run.
QUICK_TO_COMPILE = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1"
)


def main():
    if sys.version_info < (3, 11):  # noqa: UP036  # a system's python3 may be older
        sys.exit("kerasseq needs Python 3.11 or later, this is " + sys.version)
    installed = install()
    if not installed.ok:
        sys.exit(1)
    words = sys.argv[1:]
    start = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool,
    ):
        skipped, spent = (pathlib.Path(folder) / name for name in ("skipped", "costs"))
        alone = [
            pool.submit(test, "torch", part, spent, f"--skipped-to={skipped}")
            for part in parts(words)
        ]
        steps = alone + [
            pool.submit(test, backend, part, spent)
            for backend in ("jax", "tensorflow")
            for part in parts(words, WITHOUT_KERAS)
        ]
        concurrent.futures.wait(alone)
        if skipped.exists():
            steps.append(pool.submit(test, "torch", [f"@{skipped}"], spent))
        tests = [step.result() for step in steps]
        runs = costs.read(spent)
    print("\nSummary")
    for step in [installed, *tests]:
        print(
            f"  {'ok' if step.ok else 'FAILED':6}  {step.seconds:5.0f} s  {step.name}"
        )
    within = report(runs, words)
    print(f"  total   {time.monotonic() - start:5.0f} s after installing")
    # With arguments for pytest a part may have no tests, but not all parts.
    some = any(step.code == 0 for step in tests)
    sys.exit(0 if some and within and all(step.ok for step in tests) else 1)


def report(runs, words):
    """Prints the costs; returns False if a run of all tests exceeds its budgets."""
    print("\nThe most expensive tests, in CPU seconds")
    named = [
        (f"{run['backend']:10}  {name}", tier, seconds)
        for run in runs
        for name, tier, seconds in run["tests"]
    ]
    print(*costs.most_expensive(named), sep="\n")
    if words:
        print(*(f"{s:7.0f} s  {key}" for key, s in costs.sums(runs).items()), sep="\n")
        return True
    lines, within = costs.judge(runs, costs.budgets(BUDGETS))
    print(*lines, sep="\n")
    return within


def install():
    if not python().exists():
        venv.create(FOLDER, with_pip=True)
    return Step(
        f"install {FOLDER.name}",
        [python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        + ["-c", "tests/constraints.txt", "-e", f".[{EXTRAS}]"],
        clean_environment(),
    )


def test(backend, words, spent, *more):
    """Runs pytest on a backend; with `more`, with the other backends hidden."""
    threads = str(max(1, (os.cpu_count() or 1) // TOGETHER))
    settings = {
        "KERAS_BACKEND": backend,
        "OMP_NUM_THREADS": threads,
        "TF_NUM_INTRAOP_THREADS": threads,
        "TF_NUM_INTEROP_THREADS": threads,
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "MPLBACKEND": "Agg",
        "XLA_FLAGS": QUICK_TO_COMPILE,
    }
    title = f"tests on {backend}"
    if more:
        title = f"tests with {backend} alone"
        # The backend is found without KERAS_BACKEND, as no other is visible.
        del settings["KERAS_BACKEND"]
        settings["PYTHONPATH"] = str(ROOT / "tests" / "visible")
        settings["KERASSEQ_VISIBLE_BACKENDS"] = backend
    with tempfile.TemporaryDirectory() as empty:
        return Step(
            f"{title}: {' '.join(words)}",
            [python(), "-m", "pytest", "-q", f"--costs-to={spent}", *words, *more],
            clean_environment() | settings | {"KERAS_HOME": empty},
            {0, NONE_SELECTED} if sys.argv[1:] else {0},
        )


def parts(words, left_out=()):
    """Returns the arguments of each process; paths need one process only."""
    if any((ROOT / word.partition("::")[0]).exists() for word in words):
        return [words]
    elsewhere = [*left_out, *(folder for part in PARTS for folder in part)]
    rest = [f"--ignore={folder}" for folder in elsewhere]
    return [[*part, *words] for part in (rest, *PARTS)]


class Step:
    """Runs a command and prints its output at the end, except after installation."""

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
        output = "" if silent else f"\n{done.stdout}"
        print(f"\n{name}: {end} in {self.seconds:.0f} s{output}", flush=True)


def clean_environment():
    """Returns the environment without variables that affect the tests."""
    private = ("KERAS", "PYTHON", "VIRTUAL_ENV")
    return {k: v for k, v in os.environ.items() if not k.startswith(private)}


def python():
    windows = os.name == "nt"
    return FOLDER / ("Scripts/python.exe" if windows else "bin/python")


if __name__ == "__main__":
    main()
