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

# Variables of a worker that measures CPU time. It has one thread, since threads that
# wait would count, and keeps its memory: whether glibc returns it to the system between
# two steps is an accident of the process, and took 0 or 6 of 22 ms for the same code.
STEADY = {
    "OMP_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "NPROC": "1",  # JAX
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
}


def time_in_rounds(workers, rounds):
    """Times each worker `rounds` times, one after the other in each round.

    Args:
        workers: Dictionary of `Worker`s by the name of the implementation.
        rounds: Number of rounds.

    Returns:
        Dictionary by name of dictionaries: the median of each time in seconds, and the
        growth of the process's peak memory in the first calls as `"MB"`.
    """
    times = {name: [] for name in workers}
    for _ in range(rounds):
        for name, worker in workers.items():
            times[name].append(worker.send("measure"))
    medians = {}
    for name, worker in workers.items():
        keys = times[name][0]
        medians[name] = {k: float(np.median([t[k] for t in times[name]])) for k in keys}
        medians[name]["MB"] = worker.end()
    return medians


def run_sizes(options, measure):
    """Returns the result of a benchmark with a table for each of `options.sizes`.

    Args:
        options: The options of the command.
        measure: Function of a size, the backend and the options; it returns rows.
    """
    backend = options.backend or os.environ.get("KERAS_BACKEND", "tensorflow")
    table = [row for size in options.sizes for row in measure(size, backend, options)]
    return report(options, backend, table)


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
    """Returns the name of the processor, and its widest vector instructions."""
    name = processor_name() or platform.processor() or platform.machine()
    found = np.show_config(mode="dicts")["SIMD Extensions"]
    names = {*found.get("baseline", ()), *found.get("found", ())}
    for vectors, known in VECTORS.items():
        if any(name.startswith(known) for name in names):
            return f"{name}, {vectors}"
    return name


# What NumPy calls them: by the level of x86-64 since 2.4, by the extension before.
VECTORS = {
    "AVX-512": ("X86_V4", "AVX512"),
    "AVX2": ("X86_V3", "AVX2"),
    "NEON": ("NEON", "ASIMD"),
}


def processor_name():
    """Returns the name that the system has for the processor, or None."""
    if sys.platform == "win32":
        import winreg

        place = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, place) as key:
            return winreg.QueryValueEx(key, "ProcessorNameString")[0].strip()
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    about = pathlib.Path("/proc/cpuinfo")
    found = about.read_text(encoding="utf-8") if about.exists() else ""
    name = re.search(r"^model name\s*: (.*)$", found, re.MULTILINE)
    return name and name[1]


class Worker:
    """A process that times one implementation on request.

    Args:
        module: Name of a module with a function `functions(task)`, which returns a
            dictionary of the functions to time.
        task: JSON-serializable argument of `functions`. `task["seconds"]` is the length
            of a round. With `task["cpu_time"]` the process is `STEADY`. It imports
            kerasseq from the folder `task["checkout"]`, if that is given.
        backend: The Keras backend of the process.
        cache: Folder for compiled code; that of the user by default.

    Attributes:
        first: The times of the first calls, in seconds.
    """

    def __init__(self, module, task, backend, cache=None):
        env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": backend}
        if task.get("cpu_time"):
            env |= STEADY
        if cache is not None:
            env |= {"KERASSEQ_CACHE": cache, "NUMBA_CACHE_DIR": cache}
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
        self.first = self.receive()

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

    def end(self):
        """Ends the process, and returns by how many MB its first calls let it grow."""
        memory = self.send("end")
        self.process.wait()
        return memory


def main():
    """Serves requests in a worker process: times for "measure", memory for "end"."""
    module, task = sys.argv[1], json.loads(sys.argv[2])
    replies = sys.stdout
    sys.stdout = sys.stderr  # libraries print, too
    if "checkout" in task:
        import_kerasseq(task["checkout"])
    functions = importlib.import_module(module).functions(task)
    before = peak_memory()
    clock = time.process_time if task.get("cpu_time") else time.perf_counter
    first = {name: time_of(function, clock) for name, function in functions.items()}
    # Calls that follow need no more, but leave gaps between what they free.
    grown = peak_memory() - before

    def reply(value):
        print(json.dumps(value), file=replies, flush=True)

    reply(first)
    for line in sys.stdin:
        if line.strip() == "end":
            reply(grown)
            return
        share = task["seconds"] / len(functions)
        reply({n: median_time(f, share, clock) for n, f in functions.items()})


def import_kerasseq(checkout):
    """Imports kerasseq from a folder; the benchmarks stay those of this one."""
    sys.path.insert(0, checkout)
    import kerasseq

    found = pathlib.Path(kerasseq.__file__).parent.parent
    if found.resolve() != pathlib.Path(checkout).resolve():
        raise SystemExit(f"expected kerasseq from {checkout}, received {found}")


def time_of(function, clock):
    """Returns the seconds of one call."""
    start = clock()
    function()
    return clock() - start


def median_time(function, seconds, clock=time.perf_counter):
    """Median time of the calls that fit into `seconds`, after one that is not timed."""
    function()
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        times.append(time_of(function, clock))
    return float(np.median(times))


def peak_memory():
    """Peak memory of this process so far, in MB."""
    import resource  # not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
