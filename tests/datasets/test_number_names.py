import re
import sys
from collections import Counter

import pytest

from kerasseq.datasets import number_names
from tests.processes import run_python

pytest.importorskip("num2words")

ONES, TENS, EINS, ZEHN = (
    words.split()
    for words in (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen "
        "fourteen fifteen sixteen seventeen eighteen nineteen",
        "twenty thirty forty fifty sixty seventy eighty ninety",
        "null ein zwei drei vier fünf sechs sieben acht neun",
        "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    )
)
VALUES = {
    **{word: i for i, word in enumerate(ONES)},
    **{word: 10 * i for i, word in enumerate(TENS, start=2)},
}


def read_english(name):
    """The number of an English name below a billion."""
    total = part = 0
    for word in re.findall("[a-z]+", name.replace(" and ", " ")):
        if word == "hundred":
            part *= 100
        elif word in ("thousand", "million"):
            total, part = total + part * 1000 ** (1 + (word == "million")), 0
        else:
            part += VALUES[word]
    return total + part


def test_german_turns_the_digits_round():
    pairs = number_names(80, low=20, high=99)
    named = dict(zip(*pairs, strict=True))
    assert named["twenty-one"] == "einundzwanzig"
    for ten, (english, german) in enumerate(zip(TENS, ZEHN, strict=True), start=2):
        assert named[english] == german
        for one in range(1, 10):
            assert named[f"{english}-{ONES[one]}"] == f"{EINS[one]}und{german}"
            assert read_english(f"{english}-{ONES[one]}") == 10 * ten + one
    assert len(named) == 80


def test_french_counts_on_from_sixty_and_in_twenties():
    named = dict(zip(*number_names(100, target="fr", high=99), strict=True))
    assert named["twenty-one"] == "vingt et un"
    assert named["seventy-one"] == "soixante et onze"
    assert named["eighty"] == "quatre-vingts"
    assert named["ninety-two"] == "quatre-vingt-douze"


def test_languages_may_be_any_two():
    ways = (("en", "fr"), ("fr", "de"), ("de", "en"))
    by_way = [number_names(31, source=s, target=t) for s, t in ways]
    assert by_way[0].targets == by_way[1].sources
    assert by_way[1].targets == by_way[2].sources
    assert by_way[2].targets == by_way[0].sources


def test_short_and_long_numbers_occur_and_none_twice():
    pairs = number_names(3000, seed=2)
    numbers = [read_english(source) for source in pairs.sources]
    assert len(set(numbers)) == 3000
    assert len(set(pairs.sources)) == len(set(pairs.targets)) == 3000
    digits = Counter(len(str(number)) for number in numbers)
    # All of one and of two digits; what is left is shared by the longer ones.
    assert [digits[d] for d in range(1, 7)] == [10, 90, 725, 725, 725, 725]
    assert {len(str(n)) for n in numbers[:50]} >= {3, 4, 5, 6}  # in no order


def test_limits_are_kept_and_all_can_be_had():
    pairs = number_names(94, low=7, high=100)
    assert sorted(map(read_english, pairs.sources)) == list(range(7, 101))
    assert number_names(1, high=0).sources == ["zero"]
    big = number_names(40, low=10**14, high=10**15 - 1)
    assert len(set(big.targets)) == 40
    with pytest.raises(ValueError, match="only 94 numbers from 7 to 100"):
        number_names(95, low=7, high=100)


def test_the_same_seed_gives_the_same_whatever_the_hashes():
    code = """
from kerasseq.datasets import copy_task, dates, number_names, split
made = number_names(40, seed=5), dates(40, seed=5), copy_task(40, seed=5)
print(ascii(made), ascii([split(pairs, seed=5) for pairs in made]))
"""
    runs = {run_python(code, PYTHONHASHSEED=seed).stdout for seed in ("1", "2")}
    assert len(runs) == 1
    assert number_names(40, seed=5) == number_names(40, seed=5)
    assert number_names(40, seed=5) != number_names(40, seed=6)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (dict(count=0), ValueError, "count must be at least 1"),
        (dict(count=2.5), TypeError, "count must be a whole number"),
        (dict(target="gr"), ValueError, 'target="gr" is not one of "en", "fr", "de"'),
        (dict(source="eng"), ValueError, 'Did you mean "en"'),
        (dict(source="de"), ValueError, 'both "de"'),
        (dict(low=-1), ValueError, "low must be at least 0"),
        (dict(low=9, high=8), ValueError, "high must be at least 9"),
        (dict(high=10**15), ValueError, "high must be below 1,000,000,000,000,000"),
    ],
)
def test_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        number_names(**{"count": 1, **arguments})


def test_without_num2words(monkeypatch):
    monkeypatch.setitem(sys.modules, "num2words", None)
    with pytest.raises(ImportError, match="pip install num2words"):
        number_names(1)
