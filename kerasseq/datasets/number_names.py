"""Numbers by name in two languages: a translation with a grammar and no exceptions.

From English to German the digits turn round: twenty-one is einundzwanzig, one and
twenty. The alignment of a model with attention has to cross there. French counts on
from sixty, and in twenties: ninety-two is quatre-vingt-douze. The names come from
num2words (`pip install "kerasseq[data]"`).
"""

import numpy as np

from kerasseq.core.checks import one_of, random_generator, whole_number
from kerasseq.datasets.drawing import shares
from kerasseq.datasets.pairs import Pairs

LANGUAGES = ("en", "fr", "de")
HIGHEST = 10**15  # below it num2words has a name for every number in all of them


def number_names(
    count: int,
    *,
    source: str = "en",
    target: str = "de",
    low: int = 0,
    high: int = 999_999,
    seed=0,
) -> Pairs:
    """Draw numbers, each once, and name them in two languages.

    The draw is uniform in the number of digits, not in the number itself: of the
    numbers below a million nine in ten have six digits. Here there are as many of one
    digit as of six, until the short ones run out; then the longer ones have more.

    Args:
        count: How many pairs.
        source: Language of the source: `"en"`, `"fr"` or `"de"`.
        target: Language of the target, another one.
        low: Smallest number.
        high: Largest number.
        seed: Which numbers, in which order.

    Returns:
        The names, as `Pairs`. No number occurs twice, so that after `split` the numbers
        of the test were never seen in training.

    Raises:
        ImportError: If num2words is not installed.
        TypeError: If a size is not a whole number.
        ValueError: If a language is unknown or there twice, or there are fewer numbers
            from `low` to `high` than `count`.

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
        raise ValueError(f"high must be below {HIGHEST:,}, got {high:,}")
    numbers = _draw(count, low, high, seed)
    name = _num2words()
    return Pairs(
        [name(number, lang=source) for number in numbers],
        [name(number, lang=target) for number in numbers],
    )


def _draw(count: int, low: int, high: int, seed) -> list[int]:
    """Numbers from `low` to `high`, evenly over their lengths, in random order."""
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
    try:
        from num2words import num2words
    except ImportError as error:
        raise ImportError(
            "Names of numbers come from num2words, which is not installed: "
            'pip install "kerasseq[data]"'
        ) from error
    return num2words
