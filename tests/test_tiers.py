"""Tests of tiers, costs and budgets."""

import pathlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

import conftest
from tests import costs, tiers
from tests.tiers import ROOT

pytestmark = pytest.mark.once("plain Python")

MODULE = pytest.mark.full("several of one kind").mark
TEST = pytest.mark.everywhere("masks", cases=2).mark


def item(name, *marks, folder="tests/rnn"):
    """Returns a collected test; the closest mark is the first."""
    return SimpleNamespace(
        nodeid=f"{folder}/{name}",
        path=ROOT / folder / name.partition("::")[0],
        iter_markers=lambda: iter([pytest.mark.skip.mark, *marks]),
        stash={},
    )


def names(*items):
    tiers.assign(items, ("tests/text",))
    return [tiers.of(one).name for one in items]


def test_tier_is_the_closest_mark():
    assert names(item("a.py::one", TEST, MODULE), item("a.py::two", MODULE)) == [
        "everywhere",
        "full",
    ]


def test_a_mark_of_a_case_is_closer_than_that_of_the_test():
    case = item("a.py::one[x]", TEST, MODULE)
    case.callspec = SimpleNamespace(marks=[pytest.mark.once("as others").mark])
    assert names(case) == ["once"]


def test_cases_limits_a_tier():
    cases = [item(f"a.py::one[{n}]", TEST, MODULE) for n in range(4)]
    other = item("b.py::one[0]", TEST, MODULE)
    found = names(*cases, other)
    assert found == ["everywhere", "everywhere", "full", "full", "everywhere"]


def test_default_tier_without_keras_and_missing_mark():
    assert names(item("a.py::one", folder="tests/text")) == ["once"]
    with pytest.raises(pytest.UsageError, match=r"a.py::one has no tier.*everywhere"):
        names(item("a.py::one"))


@pytest.mark.parametrize(
    ("mark", "torch", "jax"),
    [
        (pytest.mark.everywhere("a"), True, True),
        (pytest.mark.once("a"), True, False),
        (pytest.mark.full("a"), True, False),
        (pytest.mark.full("a", cheap=False), False, False),
    ],
)
def test_backends_of_a_tier(mark, torch, jax):
    one = item("a.py::one", mark.mark)
    names(one)
    assert tiers.runs_on("torch", one) == torch
    assert tiers.runs_on("jax", one) == tiers.runs_on("tensorflow", one) == jax


@pytest.mark.parametrize(
    ("chosen", "line"),
    [
        (
            "jax",
            "3 tests were NOT RUN on jax: these run on PyTorch only (1 once, 2 full)",
        ),
        ("torch", "1 test was NOT RUN on torch: too expensive without --full"),
    ],
)
def test_the_summary_says_how_many_tests_do_not_run(monkeypatch, chosen, line):
    marks = (pytest.mark.once("a"), pytest.mark.full("a"), pytest.mark.everywhere("a"))
    marks += (pytest.mark.full("a", cheap=False),)
    items = [item(f"a.py::test_{n}", m.mark) for n, m in enumerate(marks)]
    stash, lines, hook = {}, [], SimpleNamespace(pytest_deselected=lambda items: None)
    config = SimpleNamespace(stash=stash, args=["tests/rnn"], hook=hook)
    config.getoption = lambda name: False
    reporter = SimpleNamespace(line=lambda text, **_: lines.append(text))
    monkeypatch.setattr(conftest.backend, "chosen", lambda: chosen)
    conftest.pytest_collection_modifyitems(config, items)
    conftest.pytest_terminal_summary(reporter, config)
    assert len(lines) == 1 and lines[0].startswith(line)
    conftest.pytest_collection_modifyitems(config, items)  # all of these run
    conftest.pytest_terminal_summary(reporter, config)
    assert len(lines) == 1


def test_sums_of_costs_and_budgets(tmp_path):
    file = tmp_path / "costs"
    assert costs.read(file) == []
    for unit in (0.1, 0.2, 0.4):
        costs.write(file, "jax", unit, 1.5, [("a.py::é", "once", 2.0)])
    runs = costs.read(file)
    assert costs.sums(runs) == {"jax once": 6, "jax start": 4.5}
    # The median of the units is 0.2: 6 s are 30 of it, 4.5 s are 22.5.
    lines, within = costs.judge(runs, {"jax once": 24, "jax start": 30})
    assert within and "1.25 of its budget WARNING" in lines[0]
    assert "0.75 of its budget" in lines[1] and "WARNING" not in lines[1]
    lines, within = costs.judge(runs, {"jax once": 19, "jax start": 30})
    assert not within and "TOO MUCH" in lines[0]
    assert not costs.judge(runs, {"jax once": 30})[1], "a missing budget is an error"


def test_every_tier_has_a_budget_on_each_backend():
    found = costs.budgets(pathlib.Path(__file__).parent / "budgets.toml")
    backends, tiers_ = ("jax", "tensorflow", "torch"), {*tiers.TIERS, "start"}
    only_torch = {f"{b} {t}" for b in backends[:2] for t in ("once", "full")}
    assert set(found) == {f"{b} {t}" for b in backends for t in tiers_} - only_torch


def test_cpu_seconds_include_children():
    before = costs.cpu_seconds()
    subprocess.run([sys.executable, "-c", "sum(range(10**6))"], check=True)
    assert costs.cpu_seconds() > before


def test_the_unit_is_sampled_in_the_whole_run(monkeypatch):
    unit = costs.Unit()
    unit.sample()  # too early for another
    assert len(unit.samples) == 1 and 1e-4 < unit.seconds < 10
    times = iter([10.0, 40.0])
    monkeypatch.setattr(costs, "_loop", lambda: next(times))
    monkeypatch.setattr(costs, "BETWEEN", -1)
    unit.sample()
    unit.sample()
    assert unit.seconds == 1.0  # √(0.1 · 10)
