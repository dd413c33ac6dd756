"""What tests cost, in CPU seconds, and what they may cost.

CPUs differ, so budgets are numbers of runs of a loop that every run times for itself.
"""

import collections
import json
import statistics
import time
import tomllib

try:
    import resource
except ImportError:  # Windows
    resource = None

WARN, FAIL = 1.2, 1.5
SHOWN = 10


def cpu_seconds():
    """CPU seconds of this process so far, and of its children that have ended."""
    if resource is None:
        return time.process_time()
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def calibrate(turns=5):
    """CPU seconds of a loop of plain Python, the unit of budgets."""
    return min(_loop() for _ in range(turns))


def _loop():
    start = time.process_time()
    counts = collections.Counter()
    for n in range(200_000):
        counts[str(n % 97)] += len([n, n])
    return time.process_time() - start


def dearest(tests, shown=SHOWN):
    """Lines about the dearest tests, dearest first.

    Args:
        tests: Triples of id, tier and CPU seconds.
        shown: How many.

    >>> dearest([("a.py::test", "once", 0.5), ("b.py::test", "full", 2.25)], 1)
    ['   2.25  full        b.py::test']
    """
    ordered = sorted(tests, key=lambda test: -test[-1])[:shown]
    return [f"{seconds:7.2f}  {tier:10}  {name}" for name, tier, seconds in ordered]


def write(file, backend, unit, around, tests):
    """Add the costs of a run to a file that several runs write to."""
    line = {"backend": backend, "unit": unit, "around": around, "tests": tests}
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")


def read(file):
    """The runs that `write` has added."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]


def sums(runs):
    """CPU seconds per backend and tier; `start` is what is spent around the tests.

    >>> run = {"backend": "jax", "unit": 1, "around": 3.0, "tests": [["a", "once", 2]]}
    >>> sums([run, run])
    {'jax once': 4, 'jax start': 6.0}
    """
    found = collections.Counter()
    for run in runs:
        for _, tier, seconds in run["tests"]:
            found[f"{run['backend']} {tier}"] += seconds
        found[f"{run['backend']} start"] += run["around"]
    return dict(sorted(found.items()))


def judge(runs, budgets):
    """What each tier on each backend took of its budget, and whether all is well.

    Args:
        runs: As `read` gives them.
        budgets: Runs of the calibrating loop for each key of `sums`.

    Returns:
        Lines to print, and whether no budget is exceeded by half.

    >>> run = {"backend": "jax", "unit": 0.1, "around": 0, "tests": [["a", "once", 3]]}
    >>> judge([run], {"jax once": 60, "jax start": 1})[0][0]
    '      3 s  jax once: 0.50 of its budget'
    >>> judge([run], {"jax once": 10, "jax start": 1})[1]
    False
    """
    unit = statistics.median(run["unit"] for run in runs)
    lines, well = [], True
    for key, seconds in sums(runs).items():
        share = seconds / unit / budgets[key] if budgets.get(key) else float("inf")
        word = " WARNING" if WARN < share <= FAIL else " TOO MUCH" * (share > FAIL)
        lines.append(f"{seconds:7.0f} s  {key}: {share:.2f} of its budget{word}")
        well = well and share <= FAIL
    total = sum(sums(runs).values())
    lines.append(f"{total:7.0f} s  in all, of CPU; the loop took {unit:.4f} s")
    return lines, well


def budgets(file):
    """The budgets in a TOML file, as `everywhere = 30` in a table for each backend."""
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    return {
        f"{backend} {tier}": runs
        for backend, table in tables.items()
        for tier, runs in table.items()
    }
