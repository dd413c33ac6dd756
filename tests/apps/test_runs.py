"""Runs of the app: the queue, stop and continue, owners, damaged files."""

import os
import sys
import time

import pytest

import kerasseq
from parts import runs
from parts.errors import Refused

pytestmark = pytest.mark.once("processes and files")


def request(steps=3, seconds=0.01, *words):
    details = {"steps": steps, "seconds": seconds}
    return runs.Request(("parentheses", *words), "torch", "LSTM", "race", details)


def until(condition, seconds=60):
    """Waits until a condition holds, and returns its value."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError("the condition never held")


def state_of(manager, name, owner="a"):
    return manager.run(owner, name).state


def test_a_third_run_waits_and_starts_when_another_ends(manager):
    first, second = manager.start_all("a", [request(400, 0.05)] * 2)
    third, fourth = manager.start_all("b", [request()] * 2)
    until(lambda: state_of(manager, first) == state_of(manager, second) == "training")
    assert [manager.run("b", n).place for n in (third, fourth)] == [1, 2]
    assert (
        [r.id for r in manager.of("a", "race")]
        == [first, second]
        == ["race-1", "race-2"]
    )
    assert [r.state for r in manager.of("b", "race")] == ["waiting", "waiting"]
    manager.stop("a", first)
    until(lambda: state_of(manager, fourth, "b") == "finished")
    assert state_of(manager, first) == "stopped"
    assert state_of(manager, second) == "training"


def test_stop_continue_and_finish(manager):
    name = manager.start("a", request(30, 0.02))
    until(lambda: manager.run("a", name).line.get("step", 0) > 2)
    manager.stop("a", name)
    stopped = until(
        lambda: (r := manager.run("a", name)).state == "stopped" and r
    ).line["step"]
    assert 2 < stopped < 30
    manager.resume("a", name)
    until(lambda: state_of(manager, name) == "finished")
    lines = runs.Curves().update(manager.folder("a", name))
    assert [line["step"] for line in lines] == list(range(1, 31))


def test_a_run_leaves_processors_and_ctrl_c_to_the_server(manager):
    name = manager.start("a", request(400, 0.05))
    until(lambda: state_of(manager, name) == "training")
    process = manager._processes["a", name].pid
    assert os.getpgid(process) != os.getpgid(0)  # Ctrl-C
    assert os.getsid(process) == os.getsid(0)  # one share of the processors for both
    assert os.getpriority(os.PRIO_PROCESS, process) > os.getpriority(
        os.PRIO_PROCESS, os.getpid()
    )


def test_continue_up_to_a_step(manager):
    name = manager.start("a", request(10_000, 0.02))
    manager.stop("a", name)
    until(lambda: not manager.run("a", name).is_active)
    done = manager.run("a", name).line.get("step", 0)
    manager.resume("a", name, until=done + 5)
    until(lambda: state_of(manager, name) == "stopped" and manager.run("a", name).line)
    assert done + 5 <= manager.run("a", name).line["step"] < done + 60


def test_a_run_that_only_begins_is_stopped(manager, monkeypatch):
    # As below a server in the background: SIGINT is ignored, and no folder is there.
    code = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    code += "; print('ready', flush=True); time.sleep(60)"
    command = [sys.executable, "-c", code]
    monkeypatch.setattr(runs, "command", lambda request, folder: command)
    name = manager.start("a", request())
    log = manager.folder("a", name).with_suffix(".log")
    until(lambda: log.exists() and "ready" in log.read_text())
    manager.stop("a", name)
    until(lambda: not manager.run("a", name).is_active, seconds=20)


def test_a_run_that_fails_says_why(manager):
    name = manager.start("a", request(3, 0.01, "--fail"))
    until(lambda: state_of(manager, name) == "failed")
    assert manager.run("a", name).message == "planted"


def test_a_run_that_is_killed_can_be_continued(manager):
    name = manager.start("a", request(200, 0.02))
    until(lambda: manager.run("a", name).line.get("step", 0) > 2)
    process = manager._processes["a", name]
    process.kill()
    process.wait()
    assert state_of(manager, name) == "killed"
    manager.resume("a", name)
    until(lambda: state_of(manager, name) == "training")


def test_a_run_of_a_terminal_is_followed_and_stopped(manager, folder):
    """Another process trains the run: this server only reads its folder."""
    other = runs.Runs(folder / "runs")
    name = other.start("a", request(500, 0.02))
    until(lambda: manager.run("a", name).line.get("step", 0) > 2)
    assert manager._processes == {}
    manager.stop("a", name)
    until(lambda: state_of(manager, name) == "stopped")
    other.close()


def test_closing_stops_all(manager):
    names = [manager.start("a", request(10_000, 0.02)) for _ in range(3)]
    until(lambda: manager.run("a", names[1]).line.get("step", 0) > 2)
    manager.close()
    assert [state_of(manager, name) for name in names] == ["stopped"] * 3


def test_a_second_browser_neither_sees_nor_stops(manager):
    name = manager.start("a", request(500, 0.02))
    until(lambda: state_of(manager, name) == "training")
    assert manager.of("b", "race") == []
    with pytest.raises(Refused):
        manager.run("b", name)
    manager.stop("b", name)
    time.sleep(0.3)
    assert state_of(manager, name) == "training"


@pytest.mark.parametrize("name", ["../a", "a/b", "", ".", "A", "a\x00", "ä"])
def test_names_cannot_leave_the_folder(manager, name):
    with pytest.raises(Refused):
        manager.folder("a", name)
    with pytest.raises(Refused):
        manager.folder(name, "race-1")


def test_remove_and_damaged_records(manager):
    name = manager.start("a", request())
    until(lambda: state_of(manager, name) == "finished")
    record = manager.folder("a", name).with_suffix(".json")
    content = record.read_text()
    for damaged in ("", "{", "[]", '{"words": 3}', '{"words": []}'):
        record.write_text(damaged)
        with pytest.raises(Refused):
            manager.run("a", name)
        assert [run.state for run in manager.of("a", "race")] == ["damaged"]
    record.write_text(content)
    manager.remove("a", name)
    assert manager.of("a", "race") == []
    assert not manager.folder("a", name).exists()


def test_visitors_are_served_in_rounds_and_shared_models_come_first(manager):
    manager.start_all("a", [request(400, 0.05)] * 5)
    manager.start_all("b", [request()] * 2)
    for name in ("x", "y"):
        manager.start(runs.EVERYBODY, request(), name)
    waiting = manager._order()
    assert waiting[:2] == [(runs.EVERYBODY, "x"), (runs.EVERYBODY, "y")]
    assert waiting[2:4] == [("b", "race-1"), ("b", "race-2")]  # "a" has two that train
    assert [name for _, name in waiting[4:]] == ["race-3", "race-4", "race-5"]
    assert manager.run("b", "race-2").place == 4
    manager.stop("a", "race-1")
    manager.stop("a", "race-2")
    until(lambda: state_of(manager, "race-2", "b") == "finished")
    assert state_of(manager, "race-5") == "waiting"


def test_a_visitor_trains_at_most_two_at_once(folder, stub):
    manager = runs.Runs(folder / "runs", at_once=4)
    manager.start_all("a", [request(400, 0.05)] * 3)
    assert len(manager._processes) == 2
    manager.start("b", request(400, 0.05))
    assert len(manager._processes) == 3
    manager.close()


def test_too_many_runs_are_refused_before_any_starts(manager, monkeypatch):
    slow = request(400, 0.05)
    with pytest.raises(Refused, match="too_many_at_once"):
        manager.start_all("a", [slow] * 240)
    assert manager.of("a", "race") == []
    names = manager.start_all("a", [slow] * 7)
    with pytest.raises(Refused, match="too_many_at_once"):
        manager.start("a", slow)
    manager.start("b", slow)  # others may
    for name in names[2:]:
        manager.stop("a", name)  # out of the queue
    for name in names[2:]:
        manager.resume("a", name)
    manager.stop("a", names[6])
    manager.start("a", slow)
    with pytest.raises(Refused, match="too_many_at_once"):
        manager.resume("a", names[6])
    monkeypatch.setattr(runs, "MOST", 8)
    with pytest.raises(Refused, match="too_many_runs"):
        manager._start(runs.EVERYBODY, [slow] * 9, "")


@pytest.mark.parametrize(
    ("address", "refused"),
    [("127.0.0.1", False), ("localhost", False), ("::1", False)]
    + [("0.0.0.0", True), (None, True), ("192.0.2.7", True)],
)
def test_long_runs_are_refused_where_others_wait(
    manager, monkeypatch, address, refused
):
    monkeypatch.setattr("streamlit.get_option", lambda name: address)
    words = ("parentheses", "--steps=10000", "--units=128")
    long = runs.Request(words, "torch", "LSTM", "race", {"steps": 1})
    short = request()
    if refused:
        with pytest.raises(Refused, match="too_much_work"):
            manager.start_all("a", [short, long])
        assert manager.of("a", "race") == []
    else:
        assert len(manager.start_all("a", [short, long])) == 2


def test_curves_are_read_as_they_grow(folder):
    file = folder / "progress.jsonl"
    curves = runs.Curves()
    assert curves.update(folder) == []
    file.write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "lo')
    assert curves.update(folder) == [{"step": 1, "loss": 2.0}]
    file.write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0}\n')
    assert [line["step"] for line in curves.update(folder)] == [1, 2]
    file.write_text('{"step": 1, "loss": 3.0}\n')
    assert curves.update(folder) == [{"step": 1, "loss": 3.0}]


def test_the_command_resumes_what_exists(folder):
    first = runs.command(request(), folder)
    words = ["-m", "kerasseq", "train", "parentheses", "--threads", "1"]
    assert first[1:] == [*words, "--run", str(folder)]
    (folder / "run.json").write_text("{}")
    again = runs.command(request(), folder)
    words = ["-m", "kerasseq", "train", "--resume", str(folder), "--threads", "1"]
    assert again[1:] == words
    assert kerasseq.runs.read_state(folder) is None
