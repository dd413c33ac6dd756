"""The example of four tasks runs, and its data are right."""

import importlib.util
import random
import re

import pytest

from tests.processes import ROOT

pytestmark = pytest.mark.once("an example: its model is tested everywhere")

pytest.importorskip("num2words")
spec = importlib.util.spec_from_file_location("t5_tasks", ROOT / "examples/t5_tasks.py")
t5_tasks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(t5_tasks)


def test_its_data_are_right():
    draw = random.Random(1)
    for task in t5_tasks.TASKS:
        pairs = t5_tasks.examples(task, 200, draw)
        assert len({source for source, _ in pairs}) == len(pairs) > 150
        for source, target in pairs:
            check(*source.split(": "), target)
    shares = [t for _, t in t5_tasks.examples(t5_tasks.acceptability, 1000, draw)]
    assert 0.3 < shares.count("acceptable") / len(shares) < 0.7


def check(prefix, text, target):
    if prefix == "sort":
        assert target == "".join(sorted(text))
    elif prefix == "acceptable":
        right = re.fullmatch(r"the \w+[^s] near the \w+[^s] \w+s", text)
        assert target == ("acceptable" if right else "unacceptable")
    elif prefix == "similarity":
        one, other = text.split()
        assert target == f"{sum(map(str.__eq__, one, other))} of 3"
    else:
        assert prefix == "translate English to German" and target


def test_it_runs(capsys):
    sizes = ["--width", "8", "--layers", "1"]
    t5_tasks.main(["--steps", "2", "--examples", "20", *sizes])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-4:]] == [
        "translation",
        "order",
        "acceptability",
        "similarity",
    ]
