"""The benchmarks run, and say what they measured."""

import json
import subprocess
import sys

import pytest

from kerasseq.core import backend
from tests.processes import ROOT, clean_environment


def test_recurrent_compares_us_with_peers():
    command = [sys.executable, "-m", "benchmarks", "recurrent", "--cell", "peephole"]
    command += ["--backend", backend.chosen(), "--sizes", "tiny", "--turns", "1"]
    done = subprocess.run(
        [*command, "--seconds", "0.01", "--json"],
        cwd=ROOT,
        env=clean_environment({}),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["backend"] == backend.chosen()
    rows = {row["who"]: row for row in found["table"]}
    assert {"kerasseq", "keras.RNN(cell)"} <= set(rows) <= {*rows, "torch.nn"}
    assert all(row["train"] > 0 and row["us per step"] > 0 for row in rows.values())
    assert "batch 2, 3 steps, 5 -> 7" in rows["kerasseq"]["size"]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--cell", "lstn", "'lstn' is none of elman, gated, lstm"),
        ("--sizes", "small,huge", "'huge' is none of small, large"),
        ("--turns", "0", "must be above 0, got 0"),
        ("--seconds", "x", "invalid"),
    ],
)
def test_wrong_options_say_what_would_be_right(option, value, message):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "recurrent", option, value],
        cwd=ROOT,
        env=clean_environment({}),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
