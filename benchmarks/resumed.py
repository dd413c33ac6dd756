"""Runs that several processes share, and that go on where they were interrupted.

A run is described by a dictionary of plain data. Each finished run is one line of a
file, JSON with the description and the figures, and is not run again.
"""

import argparse
import json
import pathlib
import time

from benchmarks.options import positive


def add_resume_arguments(parser):
    """Adds the options of runs that are shared and resumed."""
    parser.add_argument(
        "--out", type=pathlib.Path, help="a file of JSON lines, one for each run"
    )
    parser.add_argument(
        "--part", type=part, default=(1, 1), help="i/n: the i-th of n processes"
    )
    parser.add_argument(
        "--minutes",
        type=positive(float),
        default=float("inf"),
        help="begin no run after this many minutes",
    )


def part(text):
    """An argparse type: "i/n" with i from 1 to n."""
    first, _, last = text.partition("/")
    if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
        message = f"must be i/n with i from 1 to n, such as 1/4, received {text!r}"
        raise argparse.ArgumentTypeError(message)
    return int(first), int(last)


def rows_of(file):
    """Returns the rows of a file of JSON lines, without one that was cut off."""
    rows = []
    if file is None or not file.exists():
        return rows
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:  # the process was ended while it wrote
            continue
    return rows


def run_all(runs, measure, options):
    """Runs what is not finished of this process's part, and returns all rows.

    Args:
        runs: List of dictionaries of plain data, which tell the runs apart.
        measure: A function of one of them, which returns a dictionary of figures.
        options: The options of the command, with those of `add_resume_arguments`.

    Returns:
        A list of dictionaries: the runs that are finished, with their figures.
    """
    rows, start = rows_of(options.out), time.monotonic()
    i, n = options.part
    for run in runs[i - 1 :: n]:
        if find(rows, run) is not None:
            continue
        if time.monotonic() - start > 60 * options.minutes:
            break
        begin = time.perf_counter()
        figures = measure(run)
        seconds = round(time.perf_counter() - begin, 1)
        rows.append({**run, **figures, "seconds": seconds})
        if options.out is not None:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows[-1]) + "\n")  # one write: lines stay whole
    return [row for run in runs if (row := find(rows, run)) is not None]


def find(rows, run):
    """Returns the row of a run, or None."""
    return next((row for row in rows if run.items() <= row.items()), None)
