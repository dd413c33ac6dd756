"""`kerasseq train --threads`, which each backend reads from another variable."""

import pytest

from kerasseq.cli import console
from tests.processes import run_python

pytestmark = pytest.mark.everywhere("the threads of the backend")

# Prints how many threads computed on average. Which of them did is up to the backend:
# TensorFlow passes the work on from one to another.
CODE = """
import sys, time
from kerasseq.cli import console, main

console.choose_backend(None, threads=1)
import keras
import numpy as np

x = np.ones((2000, 2000), "float32")
model = keras.Sequential([keras.layers.Dense(2000), keras.layers.Dense(2000)])
model.predict(x, 2000, verbose=0)
cpu, clock = time.process_time(), time.perf_counter()
for _ in range(4):
    model.predict(x, 2000, verbose=0)
print((time.process_time() - cpu) / (time.perf_counter() - clock))
sys.exit(main(["train", "forecast", "--data", "ar", "--threads", "2"]))
"""


def test_one_thread_computes(tmp_path):
    unset = dict.fromkeys(console.THREADS)
    done = run_python(CODE, check=False, cwd=tmp_path, **unset)
    assert done.returncode == 2, done.stderr
    assert float(done.stdout) < 1.2
    assert "--threads 2 must be given before Keras is loaded" in done.stderr
    assert not list(tmp_path.iterdir())
