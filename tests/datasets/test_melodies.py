"""Melodies and corrections: the rules of their grammars hold."""

import re

import numpy as np
import pytest

from kerasseq import datasets
from kerasseq.datasets.melody_grammar import CHORDS, LENGTHS, PHRASES, SCALE

NOTE = re.compile(r"([a-g])([45])([eqdh])")


def bars_of(melody):
    assert melody.endswith(" |")
    return [[NOTE.fullmatch(n) for n in bar.split()] for bar in melody.split("|")[:-1]]


def test_melodies_follow_the_rules():
    found = datasets.melodies(200, seed=3)
    assert len({*found}) > 190
    for melody in found:
        bars = bars_of(melody)
        assert len(bars) == 8
        assert all(sum(LENGTHS[note[3]] for note in bar) == 8 for bar in bars)
        texts = [[note[0] for note in bar] for bar in bars]
        assert texts[:2] == texts[2:4] and texts[6] == texts[0]
        chords = [*PHRASES["A"] * 2, *PHRASES["B"], PHRASES["A"][0], "V"]
        for bar, chord in zip(bars, chords, strict=True):
            assert SCALE.index(bar[0][1]) in CHORDS[chord]
        assert bars[-1][-1][1] == "c" and bars[-1][-1][3] == "h"


def test_melodies_move_by_small_steps():
    """Within a bar; the last note goes to the nearest C."""
    for melody in datasets.melodies(50, seed=1):
        for bar in bars_of(melody)[:7]:
            places = [7 * int(note[2]) + SCALE.index(note[1]) for note in bar]
            assert np.abs(np.diff(places)).max() <= 2


def test_seed_of_melodies():
    assert datasets.melodies(3) == datasets.melodies(3, seed=0)
    assert datasets.melodies(3, seed=1) != datasets.melodies(3, seed=0)
    assert datasets.melodies(5, seed=0)[:3] == datasets.melodies(3, seed=0)
    with pytest.raises(ValueError, match="count must be at least 1, received 0"):
        datasets.melodies(0)
    with pytest.raises(TypeError, match="count must be a whole number"):
        datasets.melodies("3")


def test_corrections_have_the_words_of_their_sources():
    pairs = datasets.corrections(500, errors=0.2)
    written = [text.split(" ") for text in pairs.sources]
    right = [text.split(" ") for text in pairs.targets]
    assert list(map(len, written)) == list(map(len, right))
    wrong = np.mean([a != b for x, y in zip(written, right, strict=True)
                     for a, b in zip(x, y, strict=True)])  # fmt: skip
    assert wrong == pytest.approx(0.2, abs=0.02)
    assert len({*pairs.targets}) > 490


def test_corrections_without_errors():
    pairs = datasets.corrections(20, errors=0.0)
    assert pairs.sources == pairs.targets
    assert datasets.corrections(20, errors=1.0).targets == pairs.targets
    assert datasets.corrections(20, seed=1).targets != pairs.targets
    with pytest.raises(ValueError, match="errors"):
        datasets.corrections(20, errors=1.5)
    with pytest.raises(ValueError, match="size must be at least 1, received 0"):
        datasets.corrections(0)
