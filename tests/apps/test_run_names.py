"""How runs are called: no two alike, and by what differs alone."""

import pathlib

import pytest

from parts import lab, races, run_names, runs, style

pytestmark = pytest.mark.once("text")


def here(language="en"):
    return lab.Lab("race", language, style.Style(language=language), None)


def run(number, cell="lstm", backend="torch", **settings):
    settings = {"seed": 0, "steps": 7} | settings
    request = races.request(
        cell, backend=backend, title="as begun", lab="race", **settings
    )
    return runs.Run(f"race-{number}", request, pathlib.Path("x"), "finished")


def named(*found, language="en"):
    return list(run_names.names(here(language), found).values())


def test_a_run_alone_and_different_networks_need_no_settings():
    assert named(run(1)) == ["LSTM"]
    assert named(run(1), run(2, "elman", seed=0)) == ["LSTM", "Elman"]


def test_only_settings_that_differ_are_named():
    assert named(run(1, seed=1), run(2, seed=1203)) == [
        "LSTM, seed 1",
        "LSTM, seed 1,203",
    ]
    found = run(1), run(2, lengths=(20, 30)), run(3, "elman", learning_rate=0.01)
    assert named(*found) == [
        "LSTM, lengths 40–60, learning rate 0.005",
        "LSTM, lengths 20–30, learning rate 0.005",
        "Elman, lengths 40–60, learning rate 0.01",
    ]
    found = run(1), run(2, backend="jax", colors=2, kind="training")
    assert named(*found) == [
        "LSTM, torch, hard strings, one color",
        "LSTM, jax, mixed strings, 2 colors",
    ]


def test_equal_runs_are_numbered():
    found = run(1), run(2), run(13), run(4, "gru")
    assert named(*found) == ["LSTM, run 1", "LSTM, run 2", "LSTM, run 13", "GRU"]


def test_names_follow_the_language_of_the_page():
    found = run(1, "peephole_lstm"), run(2, learning_rate=0.01)
    assert named(*found, language="fr") == [
        "LSTM à peepholes, taux 0,005",
        "LSTM, taux 0,01",
    ]


def test_runs_without_settings_have_their_titles():
    damaged = runs.Run("race-2", runs.Request((), "", "race-2"), pathlib.Path("x"), "")
    found = run(1, seed=3), damaged, run(3, seed=5)
    assert named(*found) == ["LSTM, seed 3", "race-2", "LSTM, seed 5"]
    assert run_names.about(here(), damaged) == ""


def test_a_row_says_all_settings_and_the_parameters():
    found = run(1, seed=3)
    found.line.update(parameters=8482)
    assert run_names.about(here(), found) == (
        "torch · lengths 40–60 · hard strings · one color · 32 units · seed 3 · "
        "learning rate 0.005 · batch size 64 · 7 steps · 8,482 parameters"
    )
