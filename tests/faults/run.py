"""Plants each fault in a copy of the project, and checks that a test fails.

    python -m tests.faults.run                        # all faults, default tiers
    python -m tests.faults.run jax-03 torch --jobs 2  # by prefix of the name
    python -m tests.faults.run torch-03 --paths tests/kernels

The copy is a git worktree of HEAD, without uncommitted changes. Tests that read the
source are not run, as they would find the patch instead of the fault.
"""

import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import NamedTuple

from tests.faults import FOLDER, Patch, patches

ROOT = FOLDER.parents[1]
FIRST = ("tests/kernels", "tests/test_layers_everywhere.py")
READ_SOURCE = ("tests/faults", "tests/test_faults.py", "tests/test_house_rules.py")
FAULTS_PER_MISS = 24  # one of so many faults may be missed
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "XLA_FLAGS": "--xla_backend_optimization_level=0 "
    "--xla_cpu_use_fusion_emitters=false",
    "MPLBACKEND": "Agg",
}
PASSED = 0  # exit code of pytest
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


class Result(NamedTuple):
    """The result of a fault.

    Attributes:
        patch: The fault.
        found_by: The first test that failed, or None.
        seconds: CPU seconds of the tests.
        error: Why there is no result, or None.
    """

    patch: Patch
    found_by: str | None
    seconds: float
    error: str | None = None


class Runs:
    """Current copies and processes, which `stop` and `clean_up` end and remove."""

    def __init__(self, full, paths):
        self.full, self.paths = full, paths
        self.processes, self.lock = set(), threading.Lock()
        self.stopped = False
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="faults-"))

    def run(self, patch) -> Result:
        """Plants a fault, and runs the tests of its backend up to the first failure."""
        copy = self.folder / patch.name
        try:
            with self.lock:  # git worktree fails if another one runs
                _git("worktree", "add", "--quiet", "--detach", str(copy), "HEAD")
            _git("apply", str(patch.file), folder=copy)
            return self._tested(patch, copy)
        except subprocess.CalledProcessError as error:
            reason = error.stderr.strip() or str(error)
            return Result(patch, None, 0.0, f"{patch.file.name}: {reason}")
        finally:
            self._remove(copy)

    def _tested(self, patch, copy):
        words = [f"--ignore={path}" for path in READ_SOURCE]
        words += ["--full"] * self.full
        code, text, seconds = self._pytest(
            patch, copy, words + (self.paths or in_order(copy))
        )
        failed = FAILED.search(text)
        if code == PASSED:
            return Result(patch, None, seconds)
        if not failed:
            tail = " / ".join(text.strip().splitlines()[-3:])
            return Result(patch, None, seconds, f"pytest ended with {code}: {tail}")
        # The test must pass without the fault.
        _git("apply", "--reverse", str(patch.file), folder=copy)
        code, _, more = self._pytest(patch, copy, ["--full", failed[1]])
        error = None
        if code != PASSED:
            error = f"{failed[1]} fails also without the fault"
        return Result(patch, None if error else failed[1], seconds + more, error)

    def _pytest(self, patch, copy, words):
        """Returns the exit code of pytest, its output, and its CPU seconds."""
        words = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=no", *words]
        log = self.folder / f"{patch.name}.txt"
        with self.lock, open(log, "wb") as out:
            if self.stopped:
                return None, "interrupted", 0.0
            # A new process group, to end the processes of tests with it.
            process = subprocess.Popen(
                words,
                cwd=copy,
                env=self._environment(patch, copy),
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self.processes.add(process)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        with self.lock:
            self.processes.discard(process)
        text = log.read_text(encoding="utf-8", errors="replace")
        return process.returncode, text, usage.ru_utime + usage.ru_stime

    def _environment(self, patch, copy):
        home = copy.with_name(f"{patch.name}-keras")
        return {
            **os.environ,
            **ENVIRONMENT,
            "KERAS_BACKEND": patch.backend,
            "KERAS_HOME": str(home),
            "PYTHONPATH": str(copy),  # before an installed kerasseq
        }

    def _remove(self, copy):
        with self.lock:
            subprocess.run(
                ["git", "worktree", "remove", "--force", str(copy)],
                cwd=ROOT,
                capture_output=True,
                check=False,
            )

    def stop(self):
        """Ends the running processes."""
        with self.lock:
            self.stopped = True
            for process in self.processes:
                _end(process)

    def clean_up(self):
        """Removes the remaining copies."""
        shutil.rmtree(self.folder, ignore_errors=True)
        subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=False)


def _end(process):
    with contextlib.suppress(ProcessLookupError):  # it has ended
        os.killpg(process.pid, signal.SIGKILL)


def _git(*words, folder=ROOT):
    subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, text=True
    )


def in_order(copy) -> list[str]:
    """Returns the paths for pytest, beginning with those that find most faults.

    Folders and files are disjoint, as pytest drops paths within other paths.
    """
    inside = sorted((copy / "tests").iterdir())
    tests = [
        path.relative_to(copy).as_posix()
        for path in inside
        if path.name.startswith("test_")
        or (path.is_dir() and any(path.rglob("test_*.py")))
    ]
    first = [path for path in FIRST if (copy / path).exists()]
    rest = [path for path in tests if path not in (*first, *READ_SOURCE)]
    return [*first, *rest, "kerasseq"]


def chosen(names) -> list[Patch]:
    """Returns the faults whose names begin with one of `names`, or all.

    Raises:
        SystemExit: If no fault has such a name.
    """
    known = patches()
    for name in names:
        if not any(patch.name.startswith(name) for patch in known):
            listed = "\n  ".join(patch.name for patch in known)
            raise SystemExit(
                f"NAME must be a prefix of a fault, received {name!r}:\n  {listed}"
            )
    return [p for p in known if not names or p.name.startswith(tuple(names))]


def line(result) -> str:
    """Returns a row of the table."""
    found = result.found_by or "NOT FOUND"
    if result.error:
        found = f"ERROR: {result.error}"
    name, plants = result.patch.name, result.patch.plants
    return f"| {name} | {plants} | {found} | {result.seconds:.0f} |"


def report(results, seconds) -> int:
    """Prints a summary, and returns the exit code."""
    found = sum(result.found_by is not None for result in results)
    cpu = sum(result.seconds for result in results)
    print(f"\n{found} of {len(results)} found; {cpu:.0f} CPU s, {seconds:.0f} s")
    broken = [result for result in results if result.error]
    for result in broken:
        print(f"{result.patch.name}: {result.error}", file=sys.stderr)
    missed = len(results) - found
    return int(bool(broken) or missed > len(results) // FAULTS_PER_MISS)


def main(words=None) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.run")
    parser.add_argument("names", nargs="*", metavar="NAME", help="prefix of names")
    parser.add_argument("--full", action="store_true", help="run tests of every tier")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--paths", nargs="+", help="run these tests instead of all")
    given = parser.parse_args(words)
    faults, start = chosen(given.names), time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # cleans up, too
    runs = Runs(given.full, given.paths)
    print(
        "| fault | what it plants | found by | CPU s |\n|---|---|---|---|", flush=True
    )
    pool = concurrent.futures.ThreadPoolExecutor(max(1, given.jobs))
    try:
        results = []
        futures = [pool.submit(runs.run, fault) for fault in faults]
        for future in concurrent.futures.as_completed(futures):
            results.append(future.result())
            print(line(results[-1]), flush=True)
    except KeyboardInterrupt:
        print("interrupted: the copies are removed", file=sys.stderr)
        return 130
    finally:
        for number in (
            signal.SIGINT,
            signal.SIGTERM,
        ):  # a second signal would leave copies
            signal.signal(number, signal.SIG_IGN)
        pool.shutdown(wait=False, cancel_futures=True)
        runs.stop()
        pool.shutdown(wait=True)
        runs.clean_up()
    return report(results, time.monotonic() - start)


if __name__ == "__main__":
    sys.exit(main())
