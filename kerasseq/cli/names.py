"""Names that the command knows, and checks of what is typed. Loads no Keras."""

import argparse
import math

from kerasseq.core import backend, checks

COMMANDS = (
    "quickstart",
    "train",
    "generate",
    "translate",
    "inspect",
    "tokens",
    "params",
    "data",
    "eliza",
    "positions",
    "info",
)
TASKS = ("language-model", "parentheses", "forecast", "translation")
# Those of kerasseq.tasks.architectures, which would load Keras; a test compares them.
ARCHITECTURES = (
    "elman",
    "gated",
    "lstm",
    "peephole_lstm",
    "full_peephole_lstm",
    "coupled_lstm",
    "gru",
)
LANGUAGE_MODELS = (*ARCHITECTURES, "gpt")
TRANSLATORS = (*ARCHITECTURES, "transformer")
TEXTS = ("python-reference",)
SERIES = ("ar", "sunspots", "co2")
PAIRS = ("numbers-de", "numbers-fr", "dates", "copy", "reverse", "sort")
ATTENTIONS = ("bahdanau", "luong", "none")
TOKENIZERS = ("character", "word", "bpe", "wordpiece", "unigram")
LANGUAGES = ("en", "fr")  # of the rules that come with kerasseq.text.Eliza


def one_of(what: str, choices):
    """Make a type for argparse: one of the names, or an error with the nearest.

    Examples:
        >>> one_of("backend", ["jax", "torch"])("jaxx")
        Traceback (most recent call last):
        ...
        argparse.ArgumentTypeError: there is no backend "jaxx". Did you mean "jax"? \
Choose from jax, torch
    """

    def check(value):
        if value in choices:
            return value
        raise argparse.ArgumentTypeError(
            f'there is no {what} "{value}".{checks.nearest(value, choices)} '
            f"Choose from {', '.join(choices)}"
        )

    return check


architecture = one_of("model", ARCHITECTURES)
language_model = one_of("model", LANGUAGE_MODELS)
translator = one_of("model", TRANSLATORS)
backend_name = one_of("backend", backend.BACKENDS)


def whole(at_least: int = 1, at_most: int = 10**9):
    """Make a type for argparse: a whole number between two bounds.

    Examples:
        >>> whole()("12")
        12
        >>> whole(at_most=1000)("1001")
        Traceback (most recent call last):
        ...
        argparse.ArgumentTypeError: must be at most 1,000, got 1001
    """

    def check(value):
        try:
            number = int(value)
        except ValueError:  # also of thousands of digits
            number = None
        if number is None:
            raise argparse.ArgumentTypeError(f'"{value}" is no whole number')
        if number < at_least:
            raise argparse.ArgumentTypeError(
                f"must be at least {at_least}, got {number}"
            )
        if number > at_most:
            raise argparse.ArgumentTypeError(
                f"must be at most {at_most:,}, got {number}"
            )
        return number

    return check


seed = whole(0, 2**32 - 1)  # what NumPy and Keras take
units, heads = whole(at_most=2**20), whole(at_most=2**16)
layers = whole(at_most=1000)
length = whole(at_most=10**6)  # of a sequence
examples = whole(at_most=10**6)  # of which each takes some 700 bytes


def positive(value) -> float:
    """Read a number above zero.

    Examples:
        >>> positive("0.5")
        0.5
    """
    number = real(value)
    if not 0 < number <= 10**6:
        raise argparse.ArgumentTypeError(
            f"must be above 0 and at most 1,000,000, got {value}"
        )
    return number


def fraction(value) -> float:
    """Read a number from 0 to 1, 1 left out.

    Examples:
        >>> fraction("0.5")
        0.5
    """
    number = real(value)
    if not 0 <= number < 1:
        raise argparse.ArgumentTypeError(f"must be 0 or more and below 1, got {value}")
    return number


def temperature(value) -> float:
    """Read a number of at least zero.

    Examples:
        >>> temperature("0")
        0.0
    """
    number = real(value)
    if not number >= 0:
        raise argparse.ArgumentTypeError(f"must be 0 or more, got {value}")
    return number


def probability(value) -> float:
    """Read a number above 0 and at most 1.

    Examples:
        >>> probability("1")
        1.0
    """
    number = real(value)
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most 1, got {value}")
    return number


def real(value) -> float:
    """Read a finite number.

    Examples:
        >>> real("-2.5")
        -2.5
    """
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f'"{value}" is no number')
    return number


def architectures(value) -> list:
    """Read names of architectures with commas between.

    Examples:
        >>> architectures("elman,gru")
        ['elman', 'gru']
    """
    return _distinct([architecture(name) for name in _parts(value)])


def seeds(value) -> list:
    """Read seeds with commas between.

    Examples:
        >>> seeds("0,1,2")
        [0, 1, 2]
    """
    return _distinct([seed(number) for number in _parts(value)])


def _parts(value):
    parts = [part.strip() for part in value.split(",")]
    if not all(parts):
        raise argparse.ArgumentTypeError(f'"{value}" has nothing between two commas')
    return parts


def _distinct(values):
    for value in values:
        if values.count(value) > 1:
            raise argparse.ArgumentTypeError(f'"{value}" is there more than once')
    return values
