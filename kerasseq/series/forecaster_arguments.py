"""Arguments of a `Forecaster`, checked, and the numbers of features they give."""

from collections.abc import Mapping, Sequence

from kerasseq.core import checks
from kerasseq.core.types import Config
from kerasseq.series.columns import features_of
from kerasseq.series.dates import CALENDAR

SLIDES = ("day", "month", "year")  # of `calendar=True`


def checked_calendar(calendar: Sequence[str] | bool) -> list[str]:
    """Returns the names of the features of dates; those of the slides for True."""
    if calendar is True:
        return list(SLIDES)
    names = checks.several("calendar", calendar or ())
    for name in names:
        checks.one_of("calendar", name, CALENDAR)
    return names


def checked_categories(
    categories: Sequence[str] | Mapping[str, Sequence[str]], columns: Sequence[str]
) -> list[str] | dict[str, list[str]]:
    """Returns the columns whose categories are learned, or the categories of each.

    Args:
        categories: The argument.
        columns: The columns that may have categories.
    """
    is_known = isinstance(categories, Mapping)
    names = checks.several("categories", list(categories) if is_known else categories)
    for name in names:
        checks.one_of("categories", name, columns)
    if not is_known:
        return names or {}
    return {
        name: checks.several(f"categories[{name!r}]", each, "names")
        for name, each in categories.items()
    }


def number_of_features(arguments: Config) -> int:
    """Returns the number of features of a step: the value and the named columns."""
    features, named = arguments["features"], named_features(arguments)
    if features is None:
        return named
    if named > 1 and features != named:
        raise ValueError(
            f"features must be {named}, the value and the columns past, known and "
            f"calendar, received features={features}. Leave it out"
        )
    return features


def number_ahead(arguments: Config) -> int:
    """Returns the number of features that are known in advance."""
    known = features_of(arguments["known"], arguments["categories"])
    return len(known) + len(arguments["calendar"])


def named_features(arguments: Config) -> int:
    """Returns the number of features of the value and the named columns."""
    past = features_of(arguments["past"], arguments["categories"])
    return 1 + len(past) + number_ahead(arguments)
