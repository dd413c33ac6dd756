"""The lab Votes: votes, their file, ratings, training on them, and its program."""

import json
import runpy
import sys

import numpy as np
import pytest

from kerasseq import datasets
from parts import voting
from parts.errors import Refused
from tests.apps import pages
from tests.processes import ROOT

pytestmark = [
    pytest.mark.once("pages are drawn on one backend"),
    pytest.mark.usefixtures("models"),
]


def press(page, name):
    """Presses a button of the lab, and returns the page."""
    [found] = [b for b in page.button if b.key == f"votes.{name}.button"]
    return pages.checked(found.click().run())


def answers_on(page):
    """The two answers that a page shows."""
    values = [each.value for each in page.markdown]
    return [text[5:-1] for text in values if text.startswith("### `")]


def test_a_class_votes_and_the_table_moves():
    page = pages.open_lab("votes")
    shown = answers_on(page)
    assert all(len(text) == voting.DIGITS and text.isdecimal() for text in shown)
    assert not page.table
    page = press(page, "better_b")
    [row] = page.session_state["votes.rows"]
    assert [row["chosen"], row["rejected"]] == shown[::-1]
    assert answers_on(page) != shown
    assert len(page.table[0].value) == 2  # of three writers two have met
    page = press(page, "simulate")
    rows = page.session_state["votes.rows"]
    assert len(rows) == 51 and len(page.table[0].value) == 3
    assert rows[0] == row
    names = [*page.table[0].value.iloc[:, 0]]
    assert names[0] == "70 % even digits" and names[-1] == "30 % even digits"


def test_the_file_of_votes_is_a_file_of_preferences(tmp_path):
    rows = voting.simulated(0, 20, 0.3, seed=1)
    file = tmp_path / "votes.jsonl"
    file.write_text(voting.written(rows))
    assert datasets.read_preferences(file).chosen == [row["chosen"] for row in rows]
    assert voting.read(file.read_text()) == rows


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "x"}, {"chosen": "12a"}, {"chosen": ""}, {"chosen": 1},
        {"rejected": "123456789"}, {"chosen_model": "gpt"}, {"rejected_model": []},
        {"rejected_model": "odd", "chosen_model": "odd"},
    ],
)  # fmt: skip
def test_wrong_files_are_refused(change):
    row = voting.simulated(0, 1, 0.3, seed=1)[0]
    text = voting.written([row, {**row, **change}])
    with pytest.raises(Refused) as refused:
        voting.read(text)
    assert (refused.value.key, refused.value.values["line"]) == ("bad_vote", 2)
    for text in ("", "\n", json.dumps(row) * 2, "[]"):
        with pytest.raises(Refused):
            voting.read(text)


def test_a_simulated_class_votes_by_the_rule():
    rows = voting.simulated(0, 300, 3.0, seed=1)
    right = [voting.even(row["chosen"]) >= voting.even(row["rejected"]) for row in rows]
    assert np.mean(right) > 0.95
    found = voting.ratings(rows)
    assert [row["writer"] for row in found] == ["even", "balanced", "odd"]
    assert all(row["low"] < row["rating"] < row["high"] for row in found)


def test_a_model_that_is_trained_on_votes_moves(monkeypatch):
    page = pages.open_lab("votes", view="train", steps="10", worth="2.0", beta="0.05")
    assert any("Press the button" in each.value for each in page.markdown)
    page = press(page, "train")
    assert not any("Press the button" in each.value for each in page.markdown)
    rows = voting.usable(voting.simulated(0, 1000, 2.0, 0))
    found = voting.aligned(rows, 0.05, 10)
    assert found["shares"]["after"] > found["shares"]["before"] + 0.02
    assert 0 < found["kl"] < voting.DIGITS * np.log(2) + 1
    assert sum(found["after"]) == pytest.approx(1)


def test_training_needs_votes():
    page = pages.open_lab("votes", view="train", source="class")
    [found] = [b for b in page.button if b.key == "votes.train.button"]
    assert "at least 10 votes" in found.click().run().error[0].value


def test_limits_are_those_of_the_equations():
    found = {
        kind: values["even"][-5:].mean() for kind, values in voting.curves().items()
    }
    assert found["unscaled"] == pytest.approx(0.949, abs=0.02)
    assert found["no_ratio"] == pytest.approx(0.858, abs=0.03)
    assert found["scaled"] >= 0.98


@pytest.mark.full("the program runs by hand, and its results are tested")
def test_the_program_that_trains_the_writers(tmp_path, monkeypatch, capsys):
    file = tmp_path / "votes.npz"
    monkeypatch.setattr(sys, "argv", ["prepare_votes.py", str(file), "--steps", "1"])
    runpy.run_path(str(ROOT / "apps" / "prepare_votes.py"), run_name="__main__")
    assert "of the digits are even" in capsys.readouterr().out
    with np.load(file) as made, np.load(voting.FILE) as kept:
        assert made.files == kept.files
        weights = [n for n in made.files if n.startswith(voting.WRITERS)]
        assert [made[n].shape for n in weights] == [kept[n].shape for n in weights]
