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


def whole(at_least: int = 1):
    """Make a type for argparse: a whole number.

    Examples:
        >>> whole()("12")
        12
    """

    def check(value):
        try:
            number = int(value)
        except ValueError:
            number = None
        if number is None:
            raise argparse.ArgumentTypeError(f'"{value}" is no whole number')
        if number < at_least:
            raise argparse.ArgumentTypeError(
                f"must be at least {at_least}, got {number}"
            )
        return number

    return check


def positive(value) -> float:
    """Read a number above zero.

    Examples:
        >>> positive("0.5")
        0.5
    """
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not (0 < number < math.inf):
        raise argparse.ArgumentTypeError(f'"{value}" is no number above zero')
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
    return _distinct([whole(0)(number) for number in _parts(value)])


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
