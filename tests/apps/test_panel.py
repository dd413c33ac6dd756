"""The run panel on a page, two browsers, and models that all visitors use."""

import dataclasses
import json
from hashlib import sha256

import pytest
from streamlit.testing.v1 import AppTest

from parts import prepared, races, run_panel, runs, work
from tests.apps import pages
from tests.apps.test_runs import until

pytestmark = pytest.mark.once("pages and processes")

OWNERS = ("1" * 32, "2" * 32)


def button(page, name, lab="start"):
    """Returns the button with this text."""
    from parts import texts

    known = texts.catalogue("en", lab) | texts.catalogue("en", "common")
    return next(b for b in page.button if b.label == known[name])


def states(page):
    """Where the runs of a page stand, without `stopping` and the like in between."""
    owner = page.session_state["browser.key"]
    folder = sha256(owner.encode()).hexdigest()[:16]
    return [run.state for run in run_panel.manager().of(folder, "start")]


@pytest.fixture
def slow(stub, monkeypatch):
    """Runs take their time."""
    original = runs.command

    def command(request, folder):
        request.details.update(seconds=0.02, steps=request.details.get("steps", 400))
        return original(request, folder)

    monkeypatch.setattr(runs, "command", command)


def test_start_stop_continue_and_remove(slow):
    page = pages.open_lab("start", browser=OWNERS[0])
    button(page, "go").click().run()
    until(lambda: states(pages.checked(page.run())) == ["training"] * 2)
    charts = page.get("vega_lite_chart")
    until(lambda: pages.checked(page.run()).get("vega_lite_chart"))
    assert len(charts) <= 1
    button(page, "stop_run").click().run()
    until(lambda: sorted(states(page)) == ["stopped", "training"])
    page.run()
    button(page, "continue_run").click().run()
    until(lambda: states(page) == ["training"] * 2)
    page.run()
    for _ in range(2):
        button(page, "stop_run").click().run()
        page.run()
    until(lambda: states(page) == ["stopped"] * 2)
    page.run()
    button(page, "clear_runs").click().run()
    assert states(pages.checked(page)) == []


def test_too_many_are_refused_and_the_panel_stays(slow, monkeypatch):
    monkeypatch.setattr(runs, "WAITING_EACH", 2)
    page = pages.open_lab("start", browser=OWNERS[0])
    for _ in range(2):
        button(page, "go").click().run()
    pages.checked(page)
    button(page, "go").click().run()
    assert "None was started" in page.error[0].value
    assert len(states(page)) == 4 and len(page.get("progress")) == 4
    assert [b.label for b in page.button].count("Stop") == 4
    button(page, "stop_all").click().run()
    until(lambda: states(pages.checked(page.run())) == ["stopped"] * 4)
    pages.checked(page.run())  # the last run may have begun before they stopped
    assert not any(b.label == "Stop all" for b in page.button)


def test_another_browser_sees_no_run_and_a_reload_sees_all(slow):
    page = pages.open_lab("start", browser=OWNERS[0])
    button(page, "go").click().run()
    until(lambda: states(page) == ["training"] * 2)
    other = pages.open_lab("start", browser=OWNERS[1])
    assert states(other) == []
    assert [b for b in other.button if b.label == "Stop"] == []
    reloaded = pages.open_lab("start", browser=OWNERS[0])
    assert len([b for b in reloaded.button if b.label == "Stop"]) == 2


def test_a_damaged_run_is_shown_and_the_page_goes_on(slow, folder):
    page = pages.open_lab("start", browser=OWNERS[0])
    button(page, "go").click().run()
    until(lambda: states(page) == ["training"] * 2)
    (record, _) = sorted((folder / "runs").glob("*/start-*.json"))
    record.write_text("{")
    pages.checked(page.run())
    assert states(page)[0] == "damaged"


@pytest.mark.parametrize(
    ("lstm", "elman", "said"),
    [(0.99, 0.52, "overwrites"), (0.99, 0.97, "both"), (0.53, 0.5, "not learned")],
)
def test_start_says_what_was_seen_and_nothing_else(folder, lstm, elman, said):
    owner = folder / "runs" / sha256(OWNERS[0].encode()).hexdigest()[:16]
    for number, (cell, accuracy) in enumerate(
        {"elman": elman, "lstm": lstm}.items(), 1
    ):
        request = races.request(
            cell, backend="torch", title=cell, lab="start", seed=0, steps=9
        )
        run = owner / f"start-{number}"
        run.mkdir(parents=True)
        content = json.dumps(dataclasses.asdict(request))
        run.with_suffix(".json").write_text(content)
        line = {"state": "finished", "step": 9, "steps": 9, "accuracy": accuracy}
        (run / "progress.jsonl").write_text(json.dumps(line) + "\n")
    page = pages.open_lab("start", browser=OWNERS[0])
    (seen,) = [m.value for m in page.markdown if "What you saw" in m.value]
    assert said in seen
    (first, second) = [c.value for c in page.caption if "learning rate" in c.value]
    assert first == second and "seed 0" in first


RECIPE = prepared.Recipe("toy", "start", ("parentheses",))


@pytest.fixture
def recipe(monkeypatch):
    monkeypatch.setattr(prepared, "recipes", lambda: {"toy": RECIPE})
    return RECIPE


def test_a_model_is_trained_once_for_all_visitors(manager, recipe):
    assert prepared.find(manager, "toy", "torch") is None
    first = prepared.make(manager, "toy", "torch")
    second = prepared.make(manager, "toy", "torch")
    assert first.id == second.id
    until(lambda: prepared.find(manager, "toy", "torch"))
    records = list((manager.root / runs.EVERYBODY).glob("*.json"))
    assert len(records) == 1
    again = prepared.make(manager, "toy", "torch")
    assert again.state == "finished"
    assert prepared.find(manager, "toy", "jax") is None


def test_two_servers_train_a_model_once(manager, recipe, folder):
    other = runs.Runs(folder / "runs")
    first = prepared.make(manager, "toy", "torch")
    until(lambda: manager.run(runs.EVERYBODY, first.id).line)
    prepared.make(other, "toy", "torch")
    assert other._processes == {}
    until(lambda: prepared.find(other, "toy", "torch"))
    other.close()


def test_a_model_for_all_is_first_in_the_queue(manager, recipe):
    details = {"steps": 400, "seconds": 0.02}
    slow = runs.Request(("parentheses",), "torch", "LSTM", "race", details)
    for _ in range(3):
        manager.start("a", slow)
    run = prepared.make(manager, "toy", "torch")
    assert manager.run(runs.EVERYBODY, run.id).place == 1
    assert manager.run("a", "race-3").place == 2


class Slow(prepared.Recipe):
    """A model with which a page works from step 5 on."""

    def request(self, backend):
        details = {"steps": 2000, "seconds": 0.02}
        return dataclasses.replace(super().request(backend), details=details)


def waiting():
    """A page that needs one model."""
    import streamlit as st

    from parts import errors, prepared

    class Here:
        name, view, language = "start", "", "en"

        def text(self, key, **values):
            return key

        def write(self, value, digits=None):
            return str(value)

    try:
        st.write(f"works with {prepared.wait(Here(), 'toy').name}")
    except errors.NotReady:
        st.write("waits")


def test_a_page_works_with_a_model_that_trains(monkeypatch, stub):
    recipe = Slow("toy", "start", ("parentheses",), early=5)
    monkeypatch.setattr(prepared, "recipes", lambda: {"toy": recipe})
    stored = prepared.picture("gates", "race", "en")
    monkeypatch.setattr(prepared, "picture", lambda *of: stored)
    page = AppTest.from_function(waiting, default_timeout=60).run()
    assert (page.info[0].value, page.markdown[-1].value) == ("preparing", "waits")
    assert len(page.get("image")) == 1
    shown = until(lambda: page.run().info[0].value == "early" and page.markdown[-1])
    key = recipe.id(work.backend())
    assert shown.value == f"works with {key}"
    assert page.get("image") == []
    run = run_panel.manager().run(runs.EVERYBODY, key)
    assert run.state == "training" and run.line["step"] >= 5
    assert prepared.find(run_panel.manager(), "toy", work.backend()) is None
    saved = prepared.saved(run, recipe)
    assert not prepared.is_due(run, recipe)
    monkeypatch.setattr(prepared, "REFRESH", 0.0)
    until(lambda: page.run() and prepared.saved(run, recipe) > saved)
    assert page.markdown[-1].value == f"works with {key}"
    never = dataclasses.replace(recipe, early=0)
    assert prepared.saved(run, never) is None and not prepared.is_due(run, never)


def test_recipes_name_tasks_of_the_command():
    """Each recipe parses as `kerasseq train` does, for a lab that exists."""
    from kerasseq.cli.main import parse

    for name, found in prepared.recipes().items():
        assert found.lab in pages.LABS, name
        parse(["train", *found.words, "--run", "x"])
        json.dumps(found.words)
