import datetime
import re
import sys
from collections import defaultdict

import pytest

from kerasseq.datasets import dates
from kerasseq.datasets.dates import LANGUAGES

pytest.importorskip("babel")

# Written by hand: the months in the form that stands in a date.
MONTHS = {
    "en": "january february march april may june july august september october "
    "november december",
    "de": "januar februar märz april mai juni juli august september oktober november "
    "dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre "
    "décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre "
    "noviembre diciembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre "
    "novembre dicembre",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro "
    "novembro dezembro",
    "nl": "januari februari maart april mei juni juli augustus september oktober "
    "november december",
    "pl": "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września "
    "października listopada grudnia",
}
WEEKDAY = r"^(?:([^\W\d][\w-]*)[.,]* )?"
DAY_FIRST = re.compile(WEEKDAY + r"(\d{1,2})\.? (?:de )?([^\W\d]+)\.? (?:de )?(\d{4})$")
MONTH_FIRST = re.compile(WEEKDAY + r"([A-Z][a-z]+) (\d{1,2}), (\d{4})$")
NUMBERS = re.compile(r"^(\d\d)\.(\d\d)\.(\d{4})$")


def month_number(language, word):
    """Of a month written out or cut off; the Dutch cut March in a way of their own."""
    word = {"mrt": "maart"}.get(word.lower(), word.lower())
    months = MONTHS[language].split()
    found = [i for i, month in enumerate(months, start=1) if month.startswith(word)]
    assert len(found) == 1 and len(word) >= 3, (language, word)
    return found[0]


def read_back(language, text):
    """The day, and the word for its weekday or None."""
    if language == "de" and (numbers := NUMBERS.search(text)):
        day, month, year = map(int, numbers.groups())
        return datetime.date(year, month, day), None
    if language == "en":
        weekday, month, day, year = MONTH_FIRST.search(text).groups()
    else:
        weekday, day, month, year = DAY_FIRST.search(text).groups()
    month = month_number(language, month)
    return datetime.date(int(year), month, int(day)), weekday


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_date_is_read_back(language):
    pairs = dates(701, languages=[language], seed=3)
    weekdays = defaultdict(set)
    for text, iso in zip(*pairs, strict=True):
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", iso)
        day, weekday = read_back(language, text)
        assert day.isoformat() == iso
        if weekday:
            weekdays[weekday].add(day.weekday())
    assert len(weekdays) == 14  # written out and cut off
    assert all(len(found) == 1 for found in weekdays.values())
    assert len({iso[5:7] for iso in pairs.targets}) == 12


def test_all_languages_and_all_formats_occur():
    texts = dates(4000).sources
    words = "de maio de, de mayo de, settembre, Friday, vendredi, piątek, vrijdag, Dez"
    for word in words.split(", "):
        assert any(word in text for text in texts), word
    assert any(NUMBERS.search(text) for text in texts)


def test_no_source_means_two_days_and_none_occurs_twice():
    meaning = {}
    for seed in range(9):
        pairs = dates(2000, first="2026-01-01", last="2026-12-31", seed=seed)
        assert len(set(pairs.sources)) == 2000
        for text, iso in zip(*pairs, strict=True):
            assert meaning.setdefault(text, iso) == iso
            assert iso[:4] in text
            assert not {*text} & {"\u202f", "\xa0"}  # non-breaking spaces


def test_limits_and_kinds_of_arguments():
    leap = datetime.date(2024, 2, 29)
    pairs = dates(1, languages="en", first=leap, last=leap)
    assert pairs.targets == ["2024-02-29"]
    noon = datetime.datetime(2024, 2, 29, 12)
    assert dates(1, languages="en", first=noon, last=noon) == pairs
    ends = dates(60, first="2024-12-30", last="2025-01-08").targets
    assert min(ends) == "2024-12-30" and max(ends) == "2025-01-08"
    assert len(dates(10, languages=["fr", "fr"], last="1950-01-10").targets) == 10


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (dict(count=0), ValueError, "count must be at least 1"),
        (dict(languages=[]), ValueError, "languages is empty"),
        (dict(languages=["en", "tlh"]), ValueError, 'languages="tlh" is not one of'),
        (dict(first="2026-02-29"), ValueError, 'first="2026-02-29" is no date such as'),
        (dict(last="21.11.2026"), ValueError, 'last="21.11.2026"'),
        (dict(first=2026), TypeError, "first must be a date"),
        (dict(first="2026-01-02", last="2026-01-01"), ValueError, "which is before"),
        (dict(count=17, last="1950-01-02"), ValueError, "to 1950-01-02 only 1. diff"),
    ],
)
def test_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        dates(**{"count": 1, **arguments})


def test_without_babel(monkeypatch):
    monkeypatch.setitem(sys.modules, "babel.dates", None)
    with pytest.raises(ImportError, match="pip install babel"):
        dates(1)
