"""The lab Tape: its machine, its answers, and the program that trains it."""

import runpy
import sys

import numpy as np
import pytest

from parts import tapes
from tests.apps import pages
from tests.processes import ROOT

pytestmark = [
    pytest.mark.once("pages are drawn on one backend"),
    pytest.mark.usefixtures("models"),
]


def right(pattern, length, seed=3):
    found = tapes.copied(pattern, length, seed)
    return float(((found["written"] > 0.5) == found["wanted"]).mean()), found


@pytest.mark.everywhere("stored weights in the loop of a backend", cases=2)
@pytest.mark.parametrize("length", [32, 33, 10, 20])
def test_it_copies_what_fits_on_its_tape(length):
    share, found = right("random", length)
    if length > tapes.PLACES:
        assert share < 0.6
        return
    assert share > 0.99
    writes = found["write_weights"][:length].argmax(1)
    reads = found["read_weights"][length + 1 :].argmax(1)
    turn = np.diff(writes) % tapes.PLACES  # one place at each step: a diagonal
    assert (turn == turn[0]).all() and turn[0] in (1, tapes.PLACES - 1)
    assert (np.diff(reads) % tapes.PLACES == turn[0]).all()
    assert found["tape"].shape == (2 * length + 1, tapes.PLACES, tapes.COLUMNS)


def test_other_vectors_than_those_of_the_training():
    assert right("stairs", 10)[0] == right("same", 10)[0] == 1
    assert 0.8 < right("stairs", 20)[0] < 1


def test_the_page_says_how_many_bits_are_right():
    page = pages.open_lab("tape", length="33")
    text = " ".join(html.proto.body for html in page.get("html"))
    assert "128 of 264" in text
    assert any("writes over the first" in each.value for each in page.markdown)


def test_the_program_that_trains_it(tmp_path, monkeypatch, capsys):
    file = tmp_path / "tape.npz"
    monkeypatch.setattr(sys, "argv", ["prepare_tape.py", str(file), "--steps", "2"])
    runpy.run_path(str(ROOT / "apps" / "prepare_tape.py"), run_name="__main__")
    assert "of the bits of (10, 20) vectors are right" in capsys.readouterr().out
    with np.load(file) as made, np.load(tapes.FILE) as kept:
        assert [made[n].shape for n in made] == [kept[n].shape for n in kept]
