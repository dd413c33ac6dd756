"""Names of numbers in two languages: a regular translation task.

German reverses the order of the digits: twenty-one is einundzwanzig, one and twenty, so
that the alignment of attention crosses. French is based on twenties: ninety-two is
quatre-vingt-douze. The names are those of num2words.
"""

import numpy as np

from kerasseq.core import packages
from kerasseq.core.checks import one_of, random_generator, whole_number
from kerasseq.datasets.drawing import shares
from kerasseq.datasets.pairs import Pairs

LANGUAGES = ("en", "fr", "de")
HIGHEST = 10**15  # exclusive limit of num2words in all languages


def number_names(
    count: int,
    *,
    source: str = "en",
    target: str = "de",
    low: int = 0,
    high: int = 999_999,
    seed: int | None = 0,
) -> Pairs:
    """Samples distinct numbers, and returns their names in two languages.

    Samples are uniform in the number of digits, not in the number: nine in ten numbers
    below a million have six digits. If there are too few short numbers, there are more
    long ones.

    Args:
        count: Number of pairs.
        source: Language of the source: `"en"`, `"fr"` or `"de"`.
        target: Language of the target, another one.
        low: Smallest number.
        high: Largest number.
        seed: Random seed.

    Returns:
        The names, as `Pairs`. All numbers are distinct, so that after `split` no test
        number is in the training set.

    Raises:
        ImportError: If num2words is not installed.
        TypeError: If a size is not a whole number.
        ValueError: If a language is unknown, both are the same, or there are fewer
            numbers from `low` to `high` than `count`.

    Examples:
        >>> number_names(1, low=21, high=21)
        Pairs(sources=['twenty-one'], targets=['einundzwanzig'])
    """
    for name, language in (("source", source), ("target", target)):
        one_of(name, language, LANGUAGES)
    if source == target:
        raise ValueError(
            f'source and target are both "{source}": to learn copying, take copy_task'
        )
    low = whole_number("low", low, at_least=0)
    high = whole_number("high", high, at_least=low)
    if high >= HIGHEST:
        raise ValueError(f"high must be below {HIGHEST:,}, received {high:,}")
    numbers = _draw(count, low, high, seed)
    name = _num2words()
    return Pairs(
        [name(number, lang=source) for number in numbers],
        [name(number, lang=target) for number in numbers],
    )


def _draw(count: int, low: int, high: int, seed) -> list[int]:
    """Returns random numbers from `low` to `high`, uniform over their lengths."""
    rng = random_generator(seed)
    ranges = []
    for digits in range(len(str(low)), len(str(high)) + 1):
        shortest = 10 ** (digits - 1) if digits > 1 else 0
        ranges.append((max(low, shortest), min(high, 10**digits - 1)))
    sizes = [last - first + 1 for first, last in ranges]
    parts = shares(count, sizes, f"numbers from {low:,} to {high:,}")
    drawn = [
        first + rng.choice(size, part, replace=False)
        for (first, _), size, part in zip(ranges, sizes, parts, strict=True)
    ]
    return rng.permutation(np.concatenate(drawn)).tolist()


def _num2words():
    need = "names of numbers need"
    return packages.load("num2words", "num2words", need).num2words
