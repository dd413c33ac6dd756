"""CPU seconds of tests, and their budgets.

The unit of a budget comes from the time of a loop that each run measures between its
tests, as CPUs differ, and the same one is up to twice as slow while others use it.
"""

import collections
import json
import math
import statistics
import time
import tomllib

try:
    import resource
except ImportError:  # Windows
    resource = None

WARN, FAIL = 1.2, 1.5
SHOWN = 10
BETWEEN = 10  # CPU seconds between two samples of the unit


def cpu_seconds():
    """Returns the CPU seconds of this process and its finished children."""
    if resource is None:
        return time.process_time()
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


class Unit:
    """The unit of budgets, from the median time of a loop sampled in the whole run.

    A faster processor gains more on the loop, which stays in its caches, than on tests,
    which load and compile: where the loop took 0.041 s in place of 0.11 s (2.7 times as
    fast), the tests on JAX and on PyTorch took 1.66 and 1.69 times less. So the unit
    goes with the square root of the loop, and is the loop where that takes 0.1 s.
    """

    def __init__(self):
        self.samples = [_loop()]
        self.sampled = cpu_seconds()

    def sample(self):
        """Measures the loop again if enough CPU time has passed."""
        if cpu_seconds() - self.sampled > BETWEEN:
            self.samples.append(_loop())
            self.sampled = cpu_seconds()

    @property
    def seconds(self):
        """The CPU seconds of the unit."""
        return math.sqrt(0.1 * statistics.median(self.samples))


def _loop():
    start = time.process_time()
    counts = collections.Counter()
    for n in range(200_000):
        counts[str(n % 97)] += len([n, n])
    return time.process_time() - start


def most_expensive(tests, count=SHOWN):
    """Returns lines about the most expensive tests, in decreasing order.

    Args:
        tests: Triples of id, tier and CPU seconds.
        count: Number of lines.

    >>> most_expensive([("a.py::test", "once", 0.5), ("b.py::test", "full", 2.25)], 1)
    ['   2.25  full        b.py::test']
    """
    ordered = sorted(tests, key=lambda test: -test[-1])[:count]
    return [f"{seconds:7.2f}  {tier:10}  {name}" for name, tier, seconds in ordered]


def write(file, backend, unit, around, tests):
    """Appends the costs of a run to a file."""
    line = {"backend": backend, "unit": unit, "around": around, "tests": tests}
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")


def read(file):
    """Returns the runs in a file of `write`."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]


def sums(runs):
    """Returns CPU seconds by backend and tier; `start` is the time outside the tests.

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
    """Compares the costs of each tier on each backend with its budget.

    Args:
        runs: As `read` gives them.
        budgets: Dictionary of budgets, in units of `Unit`, by the keys of `sums`.

    Returns:
        Lines to print, and whether all costs are below 1.5 times the budget.

    >>> run = {"backend": "jax", "unit": 0.1, "around": 0, "tests": [["a", "once", 3]]}
    >>> judge([run], {"jax once": 60, "jax start": 1})[0][0]
    '      3 s  jax once: 0.50 of its budget'
    >>> judge([run], {"jax once": 10, "jax start": 1})[1]
    False
    """
    unit = statistics.median(run["unit"] for run in runs)
    lines, within = [], True
    for key, seconds in sums(runs).items():
        share = seconds / unit / budgets[key] if budgets.get(key) else float("inf")
        word = " WARNING" if WARN < share <= FAIL else " TOO MUCH" * (share > FAIL)
        lines.append(f"{seconds:7.0f} s  {key}: {share:.2f} of its budget{word}")
        within = within and share <= FAIL
    total = sum(sums(runs).values())
    lines.append(f"{total:7.0f} s  CPU time in total; the unit was {unit:.4f} s")
    return lines, within


def budgets(file):
    """Reads the budgets from a TOML file with a table for each backend."""
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    return {
        f"{backend} {tier}": runs
        for backend, table in tables.items()
        for tier, runs in table.items()
    }
