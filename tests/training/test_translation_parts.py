"""BLEU by length and on bootstrap samples, and what becomes of names."""

import numpy as np
import pytest

from kerasseq.training import (
    NameScores,
    bleu,
    bleu_by_length,
    bootstrap_bleu,
    name_scores,
    unseen_names,
)

pytestmark = pytest.mark.once("NumPy arrays: the same on all backends")

pytest.importorskip("sacrebleu")

WORDS = ["a", "cat", "dog", "sat", "ran", "on", "in", "the", "mat", "park"]


def texts(count=23, seed=0):
    """Sources of 5 to 9 words, hypotheses and references."""
    rng = np.random.default_rng(seed)
    rows = [rng.choice(WORDS, 5 + n % 5).tolist() for n in range(count)]
    changed = [[*row[:-1], "the"] if n % 3 else row for n, row in enumerate(rows)]
    sources, hypotheses = ([" ".join(r) for r in part] for part in (rows, changed))
    return sources, hypotheses, sources


def test_bins_are_bleu_of_their_sentences():
    sources, hypotheses, references = texts()
    parts = bleu_by_length(sources, hypotheses, references, bins=2)
    assert sum(part.count for part in parts) == 23
    assert [(part.shortest, part.longest) for part in parts] == [(5, 7), (8, 9)]
    for part in parts:
        rows = [
            n
            for n, source in enumerate(sources)
            if part.shortest <= len(source.split()) <= part.longest
        ]
        chosen = ([column[n] for n in rows] for column in (hypotheses, references))
        assert part.bleu == bleu(*chosen)
    same = bleu_by_length(["a b"] * 5, hypotheses[:5], references[:5])
    assert [part.count for part in same] == [5]


def test_samples_are_bleu_of_rows_that_are_drawn():
    _, hypotheses, references = texts(7)
    found = bootstrap_bleu(hypotheses, references, samples=5, seed=3)
    weights = np.random.default_rng(3).multinomial(7, np.full(7, 1 / 7), 5)
    for score, row in zip(found, weights, strict=True):
        drawn = np.repeat(np.arange(7), row)
        chosen = ([column[n] for n in drawn] for column in (hypotheses, references))
        assert score == pytest.approx(bleu(*chosen), abs=1e-9)
    both = [[reference, "a cat"] for reference in references]
    once = bootstrap_bleu(iter(hypotheses), iter(references), samples=5, seed=3)
    assert (once == found).all()
    several = bootstrap_bleu(hypotheses, both, samples=5, seed=3)
    assert (several >= found - 1e-9).all()


def test_samples_come_in_parts(monkeypatch):
    _, hypotheses, references = texts(7)
    whole = bootstrap_bleu(hypotheses, references, samples=11)
    monkeypatch.setattr("kerasseq.training.translation_parts.PART", 20)
    np.testing.assert_array_equal(
        bootstrap_bleu(hypotheses, references, samples=11), whole
    )


def test_names():
    sources = ["Hier Ada L'Orme lit .", "Le Roi dort", "Max et Max"]
    targets = ["Yesterday Ada L’Orme reads .", "The king sleeps", "Max and Max"]
    names = unseen_names(sources, targets, ["Ada", "le roi"])
    assert names == [["L'Orme"], [], ["Max"]]
    translated = ["Ada <unk> reads <unk>", "king", "<unk> and Maxi"]
    assert name_scores(translated, names) == NameScores(2, 0, 2)
    assert name_scores(["L'Orme", "", "Max <unk>"], names) == NameScores(2, 2, 0)
    assert name_scores(["??"], [["Ada"]], unknown="?") == NameScores(1, 0, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bleu_by_length(["a"], ["a", "b"], ["a", "b"]), "sources must have"),
        (lambda: bleu_by_length([1], ["a"], ["a"]), "sources must be strings"),
        (lambda: bleu_by_length(["a"], ["a"], ["a"], bins=0), "bins must be"),
        (lambda: bootstrap_bleu(["a"], ["a"], samples=0), "samples must be"),
        (lambda: bootstrap_bleu([], []), "at least one"),
        (lambda: bootstrap_bleu(["a"], ["a"], tokenize="x"), "is not one of"),
        (lambda: unseen_names(["A"], [], []), "targets must have"),
        (lambda: unseen_names(["A"], [3], []), "targets must be strings"),
        (lambda: name_scores(["a"], []), "names must have a list"),
        (lambda: name_scores(["a"], [["A"]], unknown=""), "unknown must be"),
    ],
)
def test_errors(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
