import sys
from collections import Counter

import numpy as np
import pytest

from kerasseq.datasets import names_by_language
from tests.processes import run_python

babel = pytest.importorskip("babel")


def together(parts):
    """The label of each text of training and test set."""
    return {
        text: part.names[label]
        for part in parts
        for text, label in zip(part.texts, part.labels.tolist(), strict=True)
    }


def test_sizes():
    training, test = names_by_language()
    count = len(training.texts) + len(test.texts)
    if babel.__version__.startswith("2.18"):
        assert count == 10_864
    assert 9_000 < count < 13_000
    assert len(test.texts) == round(0.2 * count)
    assert training.labels.dtype == np.int32
    assert training.labels.shape == (len(training.texts),)
    assert len(training.names) == 14
    assert min(Counter(training.labels.tolist()).values()) > 300
    assert min(Counter(test.labels.tolist()).values()) > 70


def test_names_are_of_their_language_only():
    parts = names_by_language()
    labels = together(parts)
    assert len(labels) == sum(len(part.texts) for part in parts)
    for text, code in (
        ("Allemagne", "fr"),
        ("United States", "en"),
        ("Vereinigte Staaten", "de"),
        ("Ruotsi", "fi"),
        ("Magyarország", "hu"),
        ("złoty polski", "pl"),
    ):
        assert labels[text] == code
    assert not {"Dinamarca", "Peru", "Iran"} & labels.keys()  # of several languages


def test_languages_and_sizes_can_be_chosen():
    training, test = names_by_language(languages=["fr", "de", "fr"], test=0)
    assert training.names == test.names == ("fr", "de")
    assert test.texts == []
    assert test.labels.shape == (0,)
    labels = together((training, test))
    assert labels["Dänemark"] == "de"
    assert labels["Ruanda"] == "de"  # in German and Spanish, but not in French
    assert set(labels.values()) == {"fr", "de"}


def test_the_same_seed_gives_the_same_whatever_the_hashes():
    code = """
from kerasseq.datasets import names_by_language
a, b = names_by_language(languages=["de", "sv"], seed=5)
print(ascii((a.texts, a.labels.tolist(), b.texts, b.labels.tolist())))
"""
    runs = {run_python(code, PYTHONHASHSEED=seed).stdout for seed in ("1", "2")}
    assert len(runs) == 1
    one, same, other = (
        names_by_language(languages=["de", "sv"], seed=seed)[1] for seed in (5, 5, 6)
    )
    assert one.texts == same.texts != other.texts
    np.testing.assert_array_equal(one.labels, same.labels)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(languages=["de"]), ValueError, "at least two languages, received"),
        (dict(languages=["de", "dee"]), ValueError, 'Did you mean "de"'),
        (dict(languages="de"), TypeError, "`languages` must be a list"),
        (dict(test=20), ValueError, "test must lie between 0 and 1"),
        (dict(seed=-1), ValueError, "seed"),
    ],
)
def test_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        names_by_language(**arguments)


def test_without_babel(monkeypatch):
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(ImportError, match="pip install babel"):
        names_by_language()
