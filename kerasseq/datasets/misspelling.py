"""Spelling errors of children: homophones, accents, double and mute letters."""

import re
import unicodedata
from collections.abc import Iterable

import numpy as np

# What is replaced, and by what: one place in a word.
RULES = (
    (r"([lmnprstf])\1", r"\1"),
    (r"(?<=\w\w)[est]$", ""),
    (r"er$", "é"),
    (r"ez$", "er"),
    (r"é$", "er"),
    (r"eau", "o"),
    (r"au", "o"),
    (r"qu(?=[ei])", "k"),
    (r"ph", "f"),
    (r"ç", "s"),
    (r"ss", "c"),
    (r"ai", "é"),
    (r"en", "an"),
    (r"(?<=[aeiou])([lnrt])(?=[aeiou])", r"\1\1"),
)


def misspelled(
    text: str,
    fraction: float,
    homophones: Iterable[Iterable[str]],
    rng: np.random.Generator,
) -> str:
    """Misspells a part of the words of a text.

    Args:
        text: Words with spaces between them.
        fraction: Probability of each word.
        homophones: Pairs of a word and one that is written for it.
        rng: The generator.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> misspelled("ma sœur est gentille", 1.0, [("est", "et")], rng)
        'ma sœur et gentile'
    """
    words = text.split(" ")
    count = int(rng.binomial(len(words), fraction))
    for n in rng.permutation(len(words)).tolist() if count else ():
        choices = variants(words[n], homophones)
        if choices:
            words[n] = choices[int(rng.random() * len(choices))]
            count -= 1
        if not count:
            break
    return " ".join(words)


def variants(word: str, homophones: Iterable[Iterable[str]] = ()) -> list[str]:
    """Returns the errors that are possible in a word.

    Examples:
        >>> variants("belle,")
        ['bele,', 'bell,']
        >>> variants("été")
        ['ete', 'éter']
    """
    match = re.match(r"(.*?)([.,;!?]*)$", word)
    core, end = match[1], match[2]
    wrong_forms = [wrong for right, wrong in homophones if right == core]
    if not wrong_forms and core.isalpha():
        wrong_forms = [_plain(core), *(re.sub(*rule, core, count=1) for rule in RULES)]
    return [each + end for each in dict.fromkeys(wrong_forms) if each != core]


def _plain(word: str) -> str:
    """Returns a word without accents."""
    letters = unicodedata.normalize("NFD", word)
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
