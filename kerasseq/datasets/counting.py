"""Texts that count in number words: a small language for the pre-training of BERT.

Each number follows from its neighbors, and each sentence from the one before, so that a
small model learns in seconds what masked tokens and sentence pairs are about. Prose
needs hours for it.
"""

import numpy as np

from kerasseq.core.checks import random_generator, whole_number

_UNITS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"),
    *("seventeen", "eighteen", "nineteen"),
)
_TENS = "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"
LARGEST = 99  # of two words
SENTENCES = (2, 9)  # in a document
NUMBERS = (3, 6)  # in a sentence


def counting(
    size: int, *, largest: int = LARGEST, seed: int | None = 0, step: int = 1
) -> list[list[str]]:
    """Generates documents whose sentences count on from a random number.

    A document has 2 to 9 sentences, and a sentence 3 to 6 numbers. After the largest
    number comes zero.

    Args:
        size: Number of documents.
        largest: The largest number, at most 99.
        seed: Random seed.
        step: Difference of consecutive numbers: -1 to count down. Results are taken
            modulo `largest + 1`.

    Returns:
        A list of documents, each a list of sentences, as `models.BERT` takes them.

    Raises:
        TypeError: If a number is not a whole number.
        ValueError: If `size` is below 1, `largest` below 9 or above 99, or `step` 0.

    Examples:
        >>> counting(1, seed=3)[0][:2]
        ['eighty one eighty two eighty three .', 'eighty four eighty five eighty six .']
        >>> counting(1, seed=3, step=-1)[0][0]
        'eighty one eighty seventy nine .'
    """
    size = whole_number("size", size, at_least=1)
    largest = whole_number("largest", largest, at_least=9)
    if largest > LARGEST:
        raise ValueError(f"largest must be at most {LARGEST}, received {largest}")
    if not whole_number("step", step, at_least=-LARGEST):
        raise ValueError("step must not be 0: choose 1 to count up, -1 to count down")
    rng = random_generator(seed)
    return [_document(rng, largest + 1, step) for _ in range(size)]


def number_word(number: int) -> str:
    """Returns the name of a number from 0 to 99, as in `counting`.

    Args:
        number: The number.

    Raises:
        TypeError: If it is not a whole number.
        ValueError: If it is below 0 or above 99.

    Examples:
        >>> number_word(7), number_word(40), number_word(83)
        ('seven', 'forty', 'eighty three')
    """
    number = whole_number("number", number, at_least=0)
    if number > LARGEST:
        raise ValueError(f"number must be at most {LARGEST}, received {number}")
    if number < len(_UNITS):
        return _UNITS[number]
    tens, units = divmod(number, 10)
    return _TENS[tens - 2] + (f" {_UNITS[units]}" if units else "")


def _document(rng: np.random.Generator, period: int, step: int) -> list[str]:
    number, sentences = int(rng.integers(period)), []
    for _ in range(rng.integers(SENTENCES[0], SENTENCES[1] + 1)):
        length = int(rng.integers(NUMBERS[0], NUMBERS[1] + 1))
        words = [number_word((number + n * step) % period) for n in range(length)]
        sentences.append(" ".join(words) + " .")
        number += length * step
    return sentences
