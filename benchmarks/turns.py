"""Contenders that take turns: each a process of its own, A B C A B C ….

Machines slow down and speed up while a benchmark runs; who takes turns shares that.
What is reported are medians over the turns, divided by those of a peer.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile

import numpy as np


def take_turns(contenders, turns):
    """Let each contender measure itself `turns` times.

    Args:
        contenders: `Contender`s by name.
        turns: How many turns.

    Returns:
        By name, a dictionary of the median of each figure, in seconds, and the growth
        of the process's memory, "MB".
    """
    times = {who: [] for who in contenders}
    for _ in range(turns):
        for who, contender in contenders.items():
            times[who].append(contender.ask("turn"))
    found = {}
    for who, contender in contenders.items():
        figures = times[who][0]
        found[who] = {k: float(np.median([t[k] for t in times[who]])) for k in figures}
        found[who]["MB"] = contender.ask("end")
        contender.process.wait()
    return found


def report(options, backend, table):
    """What a benchmark in turns gives: where it ran, and its rows.

    Args:
        options: With `jit` and `turns`.
        backend: That of ours.
        table: The rows.
    """
    return {
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} "
        "cores",
        "backend": backend + (", XLA" if options.jit else ""),
        "turns": options.turns,
        "table": table,
    }


class Contender:
    """A process that measures itself when it is told to.

    Args:
        module: Module of the benchmarks with a function `functions(task)`, which gives
            functions to time by name.
        task: What it is told, plain data; "seconds" is the length of a turn.
        backend: That of Keras.
    """

    def __init__(self, module, task, backend):
        env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": backend}
        command = [sys.executable, "-m", "benchmarks.contender", module]
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [*command, json.dumps(task)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=env,
        )
        self.answer()

    def answer(self):
        """What the process says."""
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            raise SystemExit(f"a contender of the benchmark failed:\n{self.log.read()}")
        return json.loads(line)

    def ask(self, what):
        """Say a word, and wait for the answer."""
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.answer()
