"""Sentences with names: which are known, how frequent, and the translations."""

from collections import Counter

import pytest

from kerasseq import datasets

pytestmark = pytest.mark.once("NumPy arrays: the same on all backends")


def test_names_are_in_both_languages_and_new_ones_are_new():
    known = datasets.named_sentences(499, family_names=53, seed=1)
    new = datasets.named_sentences(101, new_names=True, family_names=53, seed=2)
    seen = Counter(name for s in known for name in s.names)
    assert len(seen) <= 53 < len({name for s in new for name in s.names})
    assert not set(seen) & {name for s in new for name in s.names}
    for sentence in (*known, *new):
        for text in (sentence.source, sentence.target):
            words = text.split()
            assert [w for w in words if w in sentence.names] == [*sentence.names]
    # Shares 1/k: the first is drawn twice as often as the second.
    first, second = (n for _, n in seen.most_common(2))
    assert 1.3 < first / second < 3


def test_only_names_differ_if_they_are_new():
    known, new = (
        datasets.named_sentences(47, new_names=flag, seed=5) for flag in (False, True)
    )
    for a, b in zip(known, new, strict=True):
        left, right = a.target.split(), b.target.split()
        changed = {x for x, y in zip(left, right, strict=True) if x != y}
        assert changed <= set(a.names)
    lengths = [len(s.source.split()) for s in known]
    assert min(lengths) < 14 < 22 < max(lengths)
    assert datasets.named_sentences(47, seed=5) == known


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 0}, "count must be"),
        ({"count": 10**15}, "count must be a size that fits into memory"),
        ({"count": 1, "family_names": 0}, "family_names must be"),
        ({"count": 1, "family_names": 10**6}, "family_names must be below 39,375"),
        ({"count": 1, "new_names": 2}, "new_names must be"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        datasets.named_sentences(**arguments)
