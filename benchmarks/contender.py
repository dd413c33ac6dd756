"""One process of a benchmark in turns: tells times at "turn", memory at "end"."""

import importlib
import json
import resource
import sys
import time

import numpy as np


def main():
    """Build what the task says, and take turns until told to end."""
    module, task = sys.argv[1], json.loads(sys.argv[2])
    answer = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no answer
    functions = importlib.import_module(module).functions(task)
    before = peak()
    for function in functions.values():
        function()

    def reply(value):
        print(json.dumps(value), file=answer, flush=True)

    reply("ready")
    for line in sys.stdin:
        if line.strip() == "end":
            reply(peak() - before)
            return
        share = task["seconds"] / len(functions)
        reply({name: timed(function, share) for name, function in functions.items()})


def timed(function, seconds):
    """Median time of a call after the first, over calls that fill `seconds`."""
    function()
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def peak():
    """Largest memory of the process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
