"""The texts of the app in English and French, from `apps/texts/`."""

import functools
import os
import pathlib
import re
import tomllib

import streamlit as st

FOLDER = pathlib.Path(__file__).parent.parent / "texts"
LANGUAGES = {"en": "English", "fr": "Français"}
OPTION = "KERASSEQ_APP_LANGUAGE"  # set by `kerasseq app --language`
PREFIXES = {21: "Z", 18: "E", 15: "P", 12: "T", 9: "G", 6: "M", 3: "k"}
BROAD = "\N{NO-BREAK SPACE}"
THIN = "\N{NARROW NO-BREAK SPACE}"


@functools.cache
def catalogue(language: str, lab: str) -> dict[str, str]:
    """Reads the texts of a lab."""
    file = FOLDER / language / f"{lab}.toml"
    found = tomllib.loads(file.read_text(encoding="utf-8"))
    if language == "fr":
        return {key: typeset(line) for key, line in found.items()}
    return found


def typeset(line: str) -> str:
    """Sets the spaces of French typography: none of them may break a line.

    Examples:
        >>> typeset("Qui ? « Moi » : 12 000").replace(THIN, "_").replace(BROAD, "~")
        'Qui_? «~Moi~»~: 12_000'
    """
    line = re.sub(r" (?=[;?!%](?:\W|$))", THIN, line)
    line = re.sub(r" (?=:(?:\s|$)|»)", BROAD, line)
    line = line.replace("« ", f"«{BROAD}")
    return re.sub(r"(?<=\d) (?=\d{3}\b)", THIN, line)


def default_language() -> str:
    """Returns the language of the option, else of the browser, else English."""
    named = os.environ.get(OPTION)
    if named in LANGUAGES:
        return named
    locale = st.context.locale or ""
    return "fr" if locale.lower().startswith("fr") else "en"


def text(lab: str, key: str, language: str, /, **values: object) -> str:
    """Returns a text of a lab, or of `common`.

    Args:
        lab: The name of the catalogue.
        key: The key.
        language: "en" or "fr".
        **values: For the placeholders, numbers written as in the language. Without
            values braces are just braces, as in LaTeX.

    Raises:
        KeyError: If there is no such text.
    """
    found = catalogue(language, lab)
    if key not in found:
        raise KeyError(f"{FOLDER / language / lab}.toml has no text {key!r}")
    shown = {name: number(v, language) for name, v in values.items()}
    return found[key].format(**shown) if values else found[key]


def has(lab: str, key: str, language: str) -> bool:
    """Whether there is such a text."""
    return key in catalogue(language, lab)


def number(value: object, language: str, digits: int | None = None) -> str:
    """Writes a number as in the language; anything else as it is.

    Args:
        value: A number, or something else.
        language: "en" or "fr".
        digits: Digits after the point; if None, as many as a float has, at most 3, or
            6 below 1.

    Examples:
        >>> number(1234.5, "en")
        '1,234.5'
        >>> number(1234.5, "fr").replace(THIN, "_")
        '1_234,5'
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if digits is None:
        written = f"{value:,}" if isinstance(value, int) else _short(value)
    else:
        written = f"{value:,.{digits}f}"
    if language == "fr":
        written = written.replace(",", THIN).replace(".", ",")
    return written


def _short(value):
    written = f"{value:,.6f}" if abs(value) < 1 else f"{value:,.3f}"
    return written.rstrip("0").rstrip(".")


def short(value: float, language: str) -> str:
    """Writes a large number with three digits and a prefix of the SI.

    Examples:
        >>> short(349_208_518_656, "en").replace(THIN, "_")
        '349_G'
    """
    for power, prefix in PREFIXES.items():
        if value >= 10**power:
            return _with_prefix(value / 10**power, prefix, language)
    return number(value, language) + THIN


def _with_prefix(value, prefix, language):
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return number(float(value), language, digits) + THIN + prefix
