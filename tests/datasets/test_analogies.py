import sys
from collections import Counter

import pytest

from kerasseq.datasets import analogies
from kerasseq.datasets.analogies import _names, _pairs, _table

pytest.importorskip("babel")
COUNTS = {"gender": 16, "plural": 28, "currency": 20, "dish": 16}


@pytest.fixture(scope="module", params=[0, 1])
def data(request):
    return analogies(20_000, seed=request.param)


def test_questions_are_the_ordered_couples_of_pairs(data):
    assert list(data.questions) == list(COUNTS)
    for name, count in COUNTS.items():
        questions = data.questions[name]
        assert len(questions) == len(set(questions)) == count * (count - 1)
        assert len({q[:2] for q in questions} | {q[2:] for q in questions}) == count
        assert all(len(set(question)) == 4 for question in questions)
    genders = {question[:2] for question in data.questions["gender"]}
    assert {("he", "she"), ("king", "queen")} < genders
    plurals = {question[:2] for question in data.questions["plural"]}
    assert {("is", "are"), ("mouse", "mice")} < plurals
    dishes = data.questions["dish"]
    assert ("japan", "sushi", "germany", "bratwurst") in dishes
    assert ("japan", "yen") in {question[:2] for question in data.questions["currency"]}


def test_words_of_pairs_are_distinct():
    words = [word for name in COUNTS for pair in _pairs(name) for word in pair.words]
    topics = {topic for name in COUNTS for pair in _pairs(name) for topic in pair[1]}
    markers = {
        word for name in ("gender", "plural") for side in _table()[name]["markers"]
        for word in side
    }  # fmt: skip
    assert len(words) == 2 * sum(COUNTS.values())
    # Japan has a currency and a dish.
    assert sorted(words) == sorted([*{*words}, "japan"])
    assert not topics & {*words} and not markers & {*words} and not markers & topics


def test_no_sentence_has_both_words_of_a_pair(data):
    for name in ("gender", "plural"):
        pairs = [set(pair.words) for pair in _pairs(name)]
        for sentence in data.sentences:
            words = set(sentence.split())
            assert not any(pair <= words for pair in pairs)


def test_sides_share_topics_and_have_their_own_markers(data):
    """What analogies follow from: contexts of pairs, and of sides of pairs."""
    contexts = {}
    for sentence in data.sentences:
        words = set(sentence.split())
        for word in words:
            contexts.setdefault(word, set()).update(words)
    for name in ("gender", "plural"):
        for first, second in (pair.words for pair in _pairs(name)):
            markers = _table()[name]["markers"]
            for word, own, other in ((first, *markers), (second, *markers[::-1])):
                assert contexts[word] & {*own} and not contexts[word] & {*other} - {"a"}
            topics = set(dict(map(tuple, _pairs(name)))[first, second])
            assert contexts[first] & contexts[second] & topics


def test_number_of_words_and_frequencies(data):
    words = " ".join(data.sentences).split()
    last = len(data.sentences[-1].split())
    assert 20_000 <= len(words) < 20_000 + last
    counts = Counter(words)
    assert len(counts) > 400
    assert min(counts[w] for q in data.questions.values() for w in q[0]) >= 10


def test_seed():
    assert analogies(100) == analogies(100, seed=0)
    assert analogies(100, seed=0).sentences != analogies(100, seed=1).sentences
    longer = analogies(200, seed=3).sentences
    assert analogies(100, seed=3).sentences == longer[: len(analogies(100, seed=3)[0])]


@pytest.mark.parametrize(
    ("words", "seed", "error", "message"),
    [
        (0, 0, ValueError, "words must be at least 1, received 0"),
        (2.5, 0, TypeError, "words must be a whole number"),
        (10, -1, ValueError, "`seed` must be a whole number of at least 0"),
        (10, "a", TypeError, "`seed` must be a whole number of at least 0"),
    ],
)
def test_refused(words, seed, error, message):
    with pytest.raises(error, match=message):
        analogies(words, seed=seed)


def test_without_babel(monkeypatch):
    _names.cache_clear()
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(ImportError, match="pip install babel"):
        analogies(10)
