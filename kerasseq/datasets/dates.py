"""Dates in eight languages, and in ISO 8601.

The source is a date in one of four formats, and the target always year, month, day: the
model has to find the parts and to translate the month. The formats are those of the
CLDR, by babel, and can differ slightly between versions of babel.
"""

import datetime
from collections.abc import Iterable

from kerasseq.core import packages
from kerasseq.core.checks import one_of, random_generator, several, whole_number
from kerasseq.datasets.pairs import Pairs

LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl")
# All are unambiguous, unlike babel's "short": "3/1/26" is March in English and January
# in Spanish.
FORMATS = ("medium", "long", "full", "weekday")


def dates(
    count: int,
    *,
    languages: Iterable[str] = LANGUAGES,
    first: str | datetime.date = "1950-01-01",
    last: str | datetime.date = "2049-12-31",
    seed: int | None = 0,
) -> Pairs:
    """Samples dates in the format of a language, and in ISO 8601.

    Day, language and format are uniform. A day can occur in several languages, but only
    once in each, and each source is unique.

    Args:
        count: Number of pairs.
        languages: Languages of the sources, of "en", "de", "fr", "es", "it", "pt", "nl"
            and "pl".
        first: First day, ISO 8601 or a `datetime.date`.
        last: Last day.
        seed: Random seed.

    Returns:
        The sources and their ISO dates, as `Pairs`.

    Raises:
        ImportError: If babel is not installed.
        TypeError: If a size is not a whole number, or a day is not a date.
        ValueError: If a language is unknown, a day does not exist, or there are fewer
            dates than `count`.

    Examples:
        >>> dates(1, languages=["de"], first="2026-11-21", last="2026-11-21")
        Pairs(sources=['Sa., 21. Nov. 2026'], targets=['2026-11-21'])
    """
    count = whole_number("count", count)
    languages = _languages(languages)
    start, end = _day("first", first), _day("last", last)
    if end < start:
        raise ValueError(f"last is {end}, which is before first, {start}")
    write = _writer()
    rng = random_generator(seed)
    cells = rng.permutation(((end - start).days + 1) * len(languages))
    formats = rng.integers(len(FORMATS), size=len(cells))
    by_text = {}
    for cell, how in zip(cells.tolist(), formats.tolist(), strict=True):
        day = start + datetime.timedelta(days=cell // len(languages))
        text = write(day, FORMATS[how], languages[cell % len(languages)])
        by_text[text] = day.isoformat()
        if len(by_text) == count:
            return Pairs(list(by_text), list(by_text.values()))
    raise ValueError(
        f"count is {count:,}, but from {start} to {end} only {len(by_text):,} "
        f"different dates were found in {len(languages)} languages. Use a longer period"
    )


def _languages(languages) -> list[str]:
    if isinstance(languages, str):
        languages = [languages]
    languages = several("languages", languages)
    if not languages:
        raise ValueError(
            "languages is empty: name at least one, as in languages=['fr']"
        )
    for language in languages:
        one_of("languages", language, LANGUAGES)
    return list(dict.fromkeys(languages))


def _day(name: str, value) -> datetime.date:
    if isinstance(value, datetime.date):
        return datetime.date(value.year, value.month, value.day)
    if not isinstance(value, str):
        raise TypeError(
            f'{name} must be a date such as "2026-11-21", received {value!r}'
        )
    try:
        return datetime.date.fromisoformat(value)
    except ValueError as error:
        raise ValueError(
            f'{name}="{value}" is no date such as "2026-11-21": {error}'
        ) from error


def _writer():
    """Returns a function that writes a day in one of `FORMATS`, in a language."""
    babel = packages.load("babel.dates", "babel", "formats of dates need")

    def write(day, how, language):
        if how == "weekday":
            noon = datetime.datetime(day.year, day.month, day.day, 12)
            return babel.format_skeleton("yMMMEd", noon, locale=language)
        return babel.format_date(day, how, locale=language)

    return write
