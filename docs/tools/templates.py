"""Values in prose: `{{ accuracy | percent }}` gives 97.3 %, and 97,3 % in French."""

import functools
import math
from collections.abc import Mapping

import babel.numbers
import jinja2
import jinja2.meta

from docs.tools.tutorial import TutorialError

SPACES = {"en": "\u00a0", "fr": "\u202f"}  # before a percent sign


def number(value: float, digits: int, language: str) -> str:
    """Writes a number with a fixed count of decimals.

    Examples:
        >>> number(1234.567, 1, "en"), number(-0.5, 2, "fr")
        ('1,234.6', '-0,50')
    """
    pattern = "#,##0" + ("." + "0" * digits if digits else "")
    return babel.numbers.format_decimal(value, pattern, locale=language)


def percent(value: float, digits: int, language: str) -> str:
    """Writes a share of 1 as a percentage."""
    return number(100 * value, digits, language) + SPACES[language] + "%"


def integer(value: float, language: str) -> str:
    """Writes a number without decimals."""
    return number(round(value), 0, language)


def scientific(value: float, digits: int, language: str) -> str:
    r"""Writes a very small or large number as an equation.

    Examples:
        >>> scientific(3.14e-9, 1, "fr")
        '$3{,}1 \\times 10^{-9}$'
    """
    if not value or not math.isfinite(value):
        return number(value, digits, language)
    exponent = math.floor(math.log10(abs(value)))
    front = f"{value / 10**exponent:.{digits}f}"
    if language == "fr":
        front = front.replace(".", "{,}")
    return rf"${front} \times 10^{{{exponent}}}$"


def significant(value: float, language: str) -> str:
    """Writes three significant digits, for tables.

    Examples:
        >>> significant(0.97349, "fr"), significant(1.0, "en"), significant(512.4, "en")
        ('0,973', '1.00', '512')
    """
    size = math.floor(math.log10(abs(value))) if value else 0
    return number(value, max(0, 2 - size), language)


@functools.cache
def environment(language: str) -> jinja2.Environment:
    """Returns the templates of a language: values with filters, and nothing else."""
    made = jinja2.Environment(
        block_start_string="\x00{%",
        block_end_string="%}\x00",
        comment_start_string="\x00{#",
        comment_end_string="#}\x00",
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    made.filters.clear()
    made.filters |= {
        "percent": lambda value, digits=1: percent(value, digits, language),
        "number": lambda value, digits=2: number(value, digits, language),
        "integer": lambda value: integer(value, language),
        "scientific": lambda value, digits=1: scientific(value, digits, language),
    }
    return made


def fill(text: str, values: Mapping[str, object], language: str, where: str) -> str:
    """Fills in the values of a text.

    Raises:
        TutorialError: If a name or a filter is unknown.

    Examples:
        >>> fill("of {{ n | integer }}", {"n": 4000}, "en", "04_gates: summary")
        'of 4,000'
    """
    try:
        return environment(language).from_string(text).render(values)
    except (jinja2.TemplateError, TypeError) as error:
        raise TutorialError(f"{where} ({language}): template: {error}") from None


def names(text: str) -> set[str]:
    """Returns the names that a text uses."""
    made = environment("en")
    try:
        return jinja2.meta.find_undeclared_variables(made.parse(text))
    except jinja2.TemplateError:
        return set()
