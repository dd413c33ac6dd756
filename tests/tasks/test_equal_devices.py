"""Batches that are divided among devices."""

import os
import subprocess
import sys

import pytest

from tests.processes import clean_environment
from tests.tasks import on_equal_devices

pytestmark = pytest.mark.everywhere("each backend divides a batch in its own way")

FLAGS = "--xla_backend_optimization_level=0"
TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node")


def run(folder, devices, names):
    """Trains on devices of this backend, and returns the names of what is equal."""
    program = ["-m", "tests.tasks.on_equal_devices", str(devices), *names]
    if os.environ["KERAS_BACKEND"] == "torch":
        program = ["-m", *TORCHRUN[:-1], f"{TORCHRUN[-1]}={devices}", *program]
    quick = {"XLA_FLAGS": FLAGS, "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, *program],
        cwd=folder,
        env=clean_environment(quick),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split()


def test_two_devices_are_one(tmp_path, request):
    """Losses, scores, outputs and weights; resumed on one device; no file is left."""
    every = request.config.getoption("full")
    names = [*(on_equal_devices.EVERY if every else on_equal_devices.USUAL)]
    assert run(tmp_path, 2, names) == names
    assert not list(tmp_path.iterdir())


@pytest.mark.full("eight processes, or compiled for eight devices", cheap=False)
def test_eight_devices_are_one(tmp_path):
    """More than the rows of the last batch, and of what is left of the others."""
    assert run(tmp_path, 8, ["tagger"]) == ["tagger"]
