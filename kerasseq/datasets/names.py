"""Names of countries, languages and currencies in fourteen languages.

The task is to tell the language of a name from its letters. The names are those of the
CLDR, by babel, and can differ slightly between versions of babel.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from kerasseq.core import packages
from kerasseq.core.checks import fraction, one_of, random_generator, several

LANGUAGES = (
    *("en", "de", "fr", "es", "it", "pt", "nl", "pl"),  # as in `dates`
    *("sv", "fi", "cs", "hu", "tr", "ro"),
)
KINDS = ("territories", "languages", "currencies")


class LabeledTexts(NamedTuple):
    """Texts and their classes.

    Attributes:
        texts: Strings.
        labels: int32 of shape `(len(texts),)`: the class of each text, an index of
            `names`.
        names: Names of the classes.
    """

    texts: list[str]
    labels: np.ndarray
    names: tuple[str, ...]


def names_by_language(
    *,
    languages: Iterable[str] = LANGUAGES,
    test: float = 0.2,
    seed: int | None = 0,
) -> tuple[LabeledTexts, LabeledTexts]:
    """Returns names of countries, languages and currencies, labeled by language.

    Only names that occur in exactly one of the languages are included, each once:
    "Dinamarca" is Spanish and Portuguese, and left out. In all fourteen languages there
    are 10,864 (babel 2.18).

    Args:
        languages: At least two of "en", "de", "fr", "es", "it", "pt", "nl", "pl", "sv",
            "fi", "cs", "hu", "tr" and "ro".
        test: Fraction of the test set.
        seed: Random seed of the split and of the order.

    Returns:
        Training set and test set, each a `LabeledTexts` in random order, without common
        texts. Labels are in the order of `languages`.

    Raises:
        ImportError: If babel is not installed.
        TypeError: If `test` is not a number, or `languages` not a list.
        ValueError: If a language is unknown, there are fewer than two, or `test` is not
            between 0 and 1.

    Examples:
        >>> training, test = names_by_language(languages=["de", "fr"])
        >>> texts = training.texts + test.texts
        >>> labels = np.concatenate([training.labels, test.labels])
        >>> training.names[labels[texts.index("Allemagne")]]
        'fr'
    """
    codes = _languages(languages)
    share = fraction("test", test)
    rng = random_generator(seed)
    by_language = [_names(code) for code in codes]
    counts = Counter(text for texts in by_language for text in texts)
    labeled = [
        (text, label)
        for label, texts in enumerate(by_language)
        for text in sorted(texts)
        if counts[text] == 1
    ]
    order = rng.permutation(len(labeled)).tolist()
    cut = len(order) - round(share * len(order))
    return _part(labeled, order[:cut], codes), _part(labeled, order[cut:], codes)


def _part(
    labeled: list[tuple[str, int]], order: list[int], codes: tuple[str, ...]
) -> LabeledTexts:
    texts = [labeled[i][0] for i in order]
    return LabeledTexts(texts, np.array([labeled[i][1] for i in order], "int32"), codes)


def _languages(languages: Iterable[str]) -> tuple[str, ...]:
    codes = dict.fromkeys(
        one_of("languages", code, LANGUAGES) for code in several("languages", languages)
    )
    if len(codes) < 2:
        raise ValueError(
            "`languages` must name at least two languages, received "
            f"{list(codes)}. Add another one, as in languages=['de', 'fr']."
        )
    return tuple(codes)


def _names(code: str) -> set[str]:
    """Returns the names in a language."""
    locale = _locale(code)
    return {name for kind in KINDS for name in getattr(locale, kind).values()}


def _locale(code: str) -> Any:
    babel = packages.load("babel", "babel", "names in several languages need")
    return babel.Locale(code)
