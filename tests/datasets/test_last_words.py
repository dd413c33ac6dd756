"""Passages whose last word needs the whole passage: shown by counting."""

from collections import Counter

import numpy as np
import pytest

from kerasseq.datasets import last_words
from kerasseq.text import NGramModel

pytestmark = pytest.mark.once("NumPy alone")
DATA = last_words(16 * 60, seed=3)


def candidates(cast, clues):
    return [name for name in cast if name not in clues]


def test_all_clues_leave_one_name_and_all_but_one_leave_two():
    for passage in DATA.passages:
        words = passage.text.split()
        assert candidates(passage.cast, passage.clues) == [passage.last]
        for gone in range(len(passage.clues)):
            kept = passage.clues[:gone] + passage.clues[gone + 1 :]
            left = candidates(passage.cast, kept)
            assert len(left) == 2 and passage.last in left
        counts = Counter(word for word in words if word in DATA.names)
        assert counts == {**dict.fromkeys(passage.cast, 2), passage.last: 1}
    assert DATA.chance_without_clue == 1 / 2 and DATA.chance_of_cast == 1 / 4


def test_who_knows_the_names_and_no_clue_is_at_chance():
    """The place of the answer in the cast is random, and no name is more frequent."""
    places = Counter(passage.cast.index(passage.last) for passage in DATA.passages)
    assert all(abs(places[n] / len(DATA.passages) - 1 / 4) < 0.06 for n in range(4))


@pytest.mark.parametrize("n", [1, 2, 5, DATA.window + 1])
def test_a_model_of_n_grams_is_at_chance(n):
    """All that it reads before the last word stands before each name equally often."""
    number = {word: k for k, word in enumerate(DATA.vocabulary)}
    names = [number[name] for name in DATA.names]

    def ids(data):
        text = " ".join(f"{p.text} {p.last}" for p in data.passages)
        return np.array([number[word] for word in text.split()])

    model = NGramModel(n, k=1e-3).fit(ids(DATA), len(number))
    tested = last_words(16 * 6, seed=4)
    rows = ids(tested).reshape(len(tested.passages), -1)
    # The probability of each name as the last word: equal ones.
    right, bits = 0, []
    for row in rows:
        of_names = [
            model.log_probabilities(np.array([*row[-n:-1], name]))[-1] for name in names
        ]
        if n > 1:  # alone, names of the first sentence count as well
            np.testing.assert_allclose(of_names, of_names[0], rtol=1e-9)
        p = np.exp(of_names) / np.sum(np.exp(of_names))
        bits.append(-np.log2(p[names.index(row[-1])]))
        right += names[int(np.argmax(of_names))] == row[-1]
    assert right / len(rows) == DATA.chance == 1 / 16
    assert np.mean(bits) == pytest.approx(4, abs=0.01)


def test_one_word_more_tells_more():
    """The window is as wide as can be: before it stands the last name ruled out."""
    for passage in DATA.passages:
        words = passage.text.split()
        assert words[-DATA.window - 1] == passage.clues[-1]
        assert not set(words[-DATA.window :]) & {*DATA.names}


@pytest.mark.parametrize(
    ("language", "players"), [("en", 2), ("en", 16), ("fr", 2), ("fr", 7), ("fr", 16)]
)
def test_passages_are_as_long_and_their_words_known(language, players):
    data = last_words(32, players=players, language=language, seed=None)
    assert len({len(passage.text.split()) for passage in data.passages}) == 1
    words = {word for p in data.passages for word in [*p.text.split(), p.last]}
    assert words <= {*data.vocabulary}
    assert len(data.vocabulary) == len({*data.vocabulary})
    assert Counter(p.last for p in data.passages) == dict.fromkeys(data.names, 2)


def test_seeds():
    assert last_words(16, seed=1) == last_words(16, seed=1) != last_words(16, seed=2)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"count": 17}, ValueError, "multiple of the 16 names.*Choose 16"),
        ({"count": 0}, ValueError, "count"),
        ({"count": 1.5}, TypeError, "count"),
        ({"count": 16, "players": 1}, ValueError, "players"),
        ({"count": 16, "players": 17}, ValueError, "2..16"),
        ({"count": 16, "language": "de"}, ValueError, "language"),
    ],
)
def test_wrong_arguments_are_named(arguments, error, words):
    with pytest.raises(error, match=words):
        last_words(**arguments)
