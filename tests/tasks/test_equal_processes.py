"""Processes that share a training: of one machine, connected as those of several."""

import json
import socket
import subprocess
import sys

import pytest

from kerasseq.core import backend
from tests.processes import clean_environment
from tests.tasks.on_equal_devices import OF_PROCESSES

pytestmark = pytest.mark.full("two processes, as on several machines", cheap=False)

QUICK = {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
QUICK |= {"XLA_FLAGS": "--xla_backend_optimization_level=0"}


def environments():
    """What connects two processes on this backend, for each of them."""
    first, second = (f"127.0.0.1:{port()}" for _ in range(2))
    host, number = first.split(":")
    return {
        "torch": lambda n: {
            "MASTER_ADDR": host,
            "MASTER_PORT": number,
            "WORLD_SIZE": "2",
            "RANK": f"{n}",
            "LOCAL_RANK": f"{n}",
        },
        "tensorflow": lambda n: {
            "TF_CONFIG": json.dumps(
                {
                    "cluster": {"worker": [first, second]},
                    "task": {"type": "worker", "index": n},
                }
            )
        },
        "jax": lambda n: {
            "KERAS_DISTRIBUTION_JOB_ADDRESSES": first,
            "KERAS_DISTRIBUTION_NUM_PROCESSES": "2",
            "KERAS_DISTRIBUTION_PROCESS_ID": f"{n}",
        },
    }[backend.chosen()]


def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def run(folder, *words):
    """Runs a program in two processes, and returns what each has written."""
    of, started = environments(), []
    for n in (1, 0):
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=folder,
            env=clean_environment(QUICK | of(n)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
    try:
        found = [process.communicate(timeout=500) for process in started]
    finally:
        for process in started:
            process.kill()
    for process, (_, errors) in zip(started, found, strict=True):
        assert process.returncode == 0, errors[-3000:]
    return [output for output, _ in found]


def test_two_processes_are_one(tmp_path):
    """Losses, scores, outputs and weights; resumed in one; no file is left."""
    names = [*OF_PROCESSES]
    program = ["-m", "tests.tasks.on_equal_devices", "2", *names]
    second, first = run(tmp_path, *program)
    assert [word for word in first.split() if word in names] == names
    assert not [word for word in second.split() if word in names]
    assert not list(tmp_path.iterdir())


def test_the_first_process_draws_the_order(tmp_path):
    """Without a seed, or with others, the losses of shuffled rows are the same."""
    found = run(tmp_path, "-m", "tests.tasks.on_own_order")
    first, second = (output.splitlines()[-1] for output in found)
    assert first == second
    assert len(set(first.split())) > 2
