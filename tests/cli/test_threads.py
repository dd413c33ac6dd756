"""`kerasseq train --threads`, which each backend reads from another variable."""

import os

import pytest

from kerasseq.cli import console
from tests.processes import run_python

pytestmark = pytest.mark.everywhere("the threads of the backend")

# Prints the share of the busiest thread in the CPU time of some products.
CODE = """
import contextlib, os, sys
from kerasseq.cli import console, main

console.choose_backend(None, threads=1)
import keras
import numpy as np

def ticks():
    found = {}
    for thread in os.listdir("/proc/self/task"):
        with (
            contextlib.suppress(OSError),  # a thread that has ended
            open(f"/proc/self/task/{thread}/stat") as file,
        ):
            fields = file.read().rpartition(")")[2].split()
            found[thread] = int(fields[11]) + int(fields[12])
    return found

x = np.ones((2000, 2000), "float32")
model = keras.Sequential([keras.layers.Dense(2000), keras.layers.Dense(2000)])
model.predict(x, 2000, verbose=0)
before = ticks()
for _ in range(4):
    model.predict(x, 2000, verbose=0)
used = [now - before.get(thread, 0) for thread, now in ticks().items()]
print(max(used) / sum(used))
sys.exit(main(["train", "forecast", "--data", "ar", "--threads", "2"]))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs Linux")
def test_one_thread_computes(tmp_path):
    unset = dict.fromkeys(console.THREADS)
    done = run_python(CODE, check=False, cwd=tmp_path, **unset)
    assert done.returncode == 2, done.stderr
    assert float(done.stdout) > 0.7
    assert "--threads 2 must be given before Keras is loaded" in done.stderr
    assert not list(tmp_path.iterdir())
