"""Tests of `run_all.py`: arguments of its processes, and skipped tests."""

from types import SimpleNamespace

import pytest

from conftest import Skipped
from tests import run_all

pytestmark = pytest.mark.once("plain Python")


def test_parts_cover_each_folder_once():
    rest, *parts = run_all.parts(["-k", "peephole"], run_all.WITHOUT_KERAS)
    assert all(part[-2:] == ["-k", "peephole"] for part in (rest, *parts))
    named = [word for part in parts for word in part[:-2]]
    ignored = {word.removeprefix("--ignore=") for word in rest[:-2]}
    assert ignored == {*named, *run_all.WITHOUT_KERAS}
    assert len(named) == len(set(named))
    assert all((run_all.ROOT / folder).is_dir() for folder in ignored)


def test_paths_run_in_one_process():
    words = ["tests/rnn/test_lstm.py::test_is_the_lstm_of_keras"]
    assert run_all.parts(words, run_all.WITHOUT_KERAS) == [words]


def test_ids_of_skipped_tests_are_written(tmp_path):
    skipped = Skipped(tmp_path / "skipped")
    for name, is_skipped in (("a.py", True), ("b.py::c", False), ("b.py::d[é]", True)):
        report = SimpleNamespace(nodeid=name, skipped=is_skipped)
        skipped.pytest_runtest_logreport(report)
    lines = (tmp_path / "skipped").read_text(encoding="utf-8").splitlines()
    assert lines == ["a.py", "b.py::d[é]"]
