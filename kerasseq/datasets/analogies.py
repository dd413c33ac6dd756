"""English sentences whose words stand in analogies: for training word vectors.

A pair such as "king" and "queen" shares its topics ("crown"), and each of the two words
shares pronouns and titles with all others of its gender. No sentence has both words of
a pair of gender or number, so that what they have in common is in their contexts alone.

From: Mikolov et al., "Efficient Estimation of Word Representations in Vector Space",
2013, whose questions have the same form. `analogies.toml` has words and sentences. The
names of countries and currencies are those of the CLDR, by babel, and can differ
slightly between versions of babel.
"""

import functools
import itertools
import re
from typing import Any, NamedTuple

import numpy as np

from kerasseq.core import packages
from kerasseq.core.checks import random_generator, whole_number
from kerasseq.core.files import table_beside

CLASSES = ("gender", "plural", "currency", "dish")
OF_COUNTRIES = {"currency": "money", "dish": "dish"}  # the slots of the second word
_SLOT = re.compile(r"\{(\w+)\}")

Question = tuple[str, str, str, str]


class Analogies(NamedTuple):
    """Sentences, and analogies between their words.

    Attributes:
        sentences: Strings, in lowercase and without punctuation.
        questions: For each of "gender", "plural", "currency" and "dish" a list of
            `(a, b, c, d)`: a is to b as c is to d.
    """

    sentences: list[str]
    questions: dict[str, list[Question]]


class _Pair(NamedTuple):
    """Two words, and the topics that they share."""

    words: tuple[str, str]
    topics: list[str]


def analogies(words: int = 125_000, *, seed: int | None = 0) -> Analogies:
    """Generates sentences with 80 pairs of words, and analogies between the pairs.

    There are 16 pairs of gender ("he" and "she", "king" and "queen"), 28 of number
    ("is" and "are", "mouse" and "mice"), 20 countries with their currencies, and 16
    with a dish, as on a slide (E:116): sushi + germany - japan = bratwurst. No sentence
    has both words of a pair of gender or number.

    Args:
        words: Number of words. The sentence that reaches it is the last.
        seed: Random seed of the sentences. The questions are always the same.

    Returns:
        An `Analogies`. Each ordered couple of pairs of a class gives a question: 240 of
        gender, 756 of number, 380 of currencies, 240 of dishes.

    Raises:
        ImportError: If babel is not installed.
        TypeError: If `words` or `seed` is not a whole number.
        ValueError: If `words` is below 1.

    Examples:
        >>> data = analogies(1000)
        >>> data.sentences[0]
        'the cook serves hot ratatouille after paris outside'
        >>> data.questions["gender"][0]
        ('he', 'she', 'his', 'her')
        >>> {name: len(rows) for name, rows in data.questions.items()}
        {'gender': 240, 'plural': 756, 'currency': 380, 'dish': 240}
    """
    words = whole_number("words", words)
    rng = random_generator(seed)
    pairs = {kind: _pairs(kind) for kind in CLASSES}
    drawn = [(kind, pair) for kind in CLASSES for pair in pairs[kind]]
    sentences, count = [], 0
    while count < words:
        kind, pair = drawn[rng.integers(len(drawn))]
        sentence = _sentence(kind, pair, pairs[kind], rng)
        sentences.append(" ".join(sentence))
        count += len(sentence)
    return Analogies(sentences, {kind: _questions(pairs[kind]) for kind in CLASSES})


def _table() -> dict[str, Any]:
    return table_beside(__file__, "analogies")


def _pairs(kind: str) -> list[_Pair]:
    """Returns the pairs of a class, in the order of the file."""
    rows = _table()[kind]["pairs"]
    if kind == "currency":
        return [_Pair(_names(*row["codes"]), row["topics"]) for row in rows]
    if kind == "dish":
        return [
            _Pair((_country(*row["codes"]), row["dish"]), row["topics"]) for row in rows
        ]
    return [_Pair(tuple(row["words"]), row["topics"]) for row in rows]


def _questions(pairs: list[_Pair]) -> list[Question]:
    """Returns a question for each ordered couple of pairs."""
    couples = itertools.permutations(pairs, 2)
    return [(*first.words, *second.words) for first, second in couples]


@functools.cache
def _names(country: str, currency: str) -> tuple[str, str]:
    """Returns the English names of a country and its currency, one word each.

    Examples:
        >>> _names("JP", "JPY")
        ('japan', 'yen')
    """
    # The last word, as in "Japanese Yen".
    currency_name = _locale().currencies[currency].split()[-1]
    return _country(country), currency_name.lower()


def _country(code: str) -> str:
    """Returns the English name of a country.

    Examples:
        >>> _country("DE")
        'germany'
    """
    return _locale().territories[code].lower()


def _locale() -> Any:
    babel = packages.load("babel", "babel", "names of countries and currencies need")
    return babel.Locale("en")


def _sentence(
    kind: str, pair: _Pair, pairs: list[_Pair], rng: np.random.Generator
) -> list[str]:
    """Returns the words of a sentence with one word of a pair."""
    table = _table()[kind]
    side = int(rng.integers(2))
    slots = {"1": [pair.words[side]], "topic": pair.topics}
    slots["other"] = _table()["other"]["words"]
    if kind in OF_COUNTRIES:
        slots |= {"1": [pair.words[0]], OF_COUNTRIES[kind]: [pair.words[1]]}
    else:
        slots["marker"] = table["markers"][side]
        both = {one.words[0]: one.words for one in pairs}
        slots |= {name: [both[name][side]] for name in table["grammar"]}
    form = table["sentences"][rng.integers(len(table["sentences"]))]
    return [_word(part, slots, rng) for part in form.split()]


def _word(part: str, slots: dict[str, list[str]], rng: np.random.Generator) -> str:
    """Returns a word of a sentence, drawn if it is a slot."""
    slot = _SLOT.fullmatch(part)
    if not slot:
        return part
    choices = slots[slot[1]]
    return choices[rng.integers(len(choices))]
