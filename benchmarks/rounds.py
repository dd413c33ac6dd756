"""Timing in rounds: each implementation runs in its own process, A B C A B C ….

The speed of a machine changes while a benchmark runs. In rounds such a change affects
all implementations alike. Benchmarks report medians over the rounds as ratios to one
implementation.
"""

import importlib
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import time

import numpy as np


def time_in_rounds(workers, rounds):
    """Times each worker `rounds` times, one after the other in each round.

    Args:
        workers: Dictionary of `Worker`s by the name of the implementation.
        rounds: Number of rounds.

    Returns:
        Dictionary by name of dictionaries: the median of each time in seconds, and the
        growth of the process's peak memory as `"MB"`.
    """
    times = {name: [] for name in workers}
    for _ in range(rounds):
        for name, worker in workers.items():
            times[name].append(worker.send("measure"))
    medians = {}
    for name, worker in workers.items():
        keys = times[name][0]
        medians[name] = {k: float(np.median([t[k] for t in times[name]])) for k in keys}
        medians[name]["MB"] = worker.send("end")
        worker.process.wait()
    return medians


def report(options, backend, table):
    """Returns the result of a benchmark: where it ran, and its table.

    Args:
        options: The options of the command, with `jit` and `rounds`.
        backend: The Keras backend.
        table: Rows of the table.
    """
    return {
        "machine": f"{processor()}, {os.cpu_count()} cores",
        "backend": backend + (", XLA" if options.jit else ""),
        "rounds": options.rounds,
        "table": table,
    }


def processor():
    """Returns the name of the processor, and whether it has AVX-512."""
    try:
        about = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:  # no Linux
        return platform.processor() or platform.machine()
    name = re.search(r"^model name\s*: (.*)$", about, re.MULTILINE)
    found = name[1] if name else platform.machine()
    return found + (", AVX-512" if " avx512f " in about else "")


class Worker:
    """A process that times one implementation on request.

    Args:
        module: Name of a module with a function `functions(task)`, which returns a
            dictionary of the functions to time.
        task: JSON-serializable argument of `functions`. `task["seconds"]` is the length
            of a round.
        backend: The Keras backend of the process.
    """

    def __init__(self, module, task, backend):
        env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": backend}
        command = [sys.executable, "-m", "benchmarks.rounds", module]
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [*command, json.dumps(task)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=env,
        )
        self.receive()

    def receive(self):
        """Returns the next reply of the process."""
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            raise SystemExit(f"a process of the benchmark failed:\n{self.log.read()}")
        return json.loads(line)

    def send(self, request):
        """Sends a request, "measure" or "end", and returns the reply."""
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return self.receive()


def main():
    """Serves requests in a worker process: times for "measure", memory for "end"."""
    module, task = sys.argv[1], json.loads(sys.argv[2])
    replies = sys.stdout
    sys.stdout = sys.stderr  # libraries print, too
    functions = importlib.import_module(module).functions(task)
    before = peak_memory()
    for function in functions.values():
        function()

    def reply(value):
        print(json.dumps(value), file=replies, flush=True)

    reply("ready")
    for line in sys.stdin:
        if line.strip() == "end":
            reply(peak_memory() - before)
            return
        share = task["seconds"] / len(functions)
        clock = time.process_time if task.get("cpu_time") else time.perf_counter
        reply({n: median_time(f, share, clock) for n, f in functions.items()})


def median_time(function, seconds, clock=time.perf_counter):
    """Median time of the calls that fit into `seconds`, after one that is not timed."""
    function()
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = clock()
        function()
        times.append(clock() - start)
    return float(np.median(times))


def peak_memory():
    """Peak memory of this process so far, in MB."""
    import resource  # not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
