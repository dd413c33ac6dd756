"""Numbers in prose: those that a program can print must be templates."""

import re
from collections.abc import Iterator

from docs.tools import results, templates
from docs.tools.places import LANGUAGES
from docs.tools.tutorial import Tutorial

# Where decimals are allowed: templates, equations, code, addresses of links.
EXEMPT = re.compile(
    r"\{\{.*?\}\}|\$\$.*?\$\$|\$[^$\n]*(?:\n[^$\n]+)?\$|```.*?```|`[^`]*`|\]\([^)]*\)",
    re.DOTALL,
)
PERCENT = r"\d[\u00a0\u202f ]?%"
DECIMAL = {
    "en": re.compile(rf"\d\.\d|\d,(?!\d{{3}}\b)\d|{PERCENT}"),
    "fr": re.compile(rf"\d[.,]\d|{PERCENT}"),
}
WITH_IDENTIFIERS = "references"  # arXiv:1409.0473


def problems(read: Tutorial) -> Iterator[str]:
    """Yields decimals in prose, and templates that are unknown or of one language."""
    values = results.read(read.name, results.OUTPUTS).get("values")
    for cell in read.prose:
        texts = {"en": cell.source, "fr": read.french.get(cell.name, cell.source)}
        for language in LANGUAGES:
            if cell.name != WITH_IDENTIFIERS:
                for found in decimals(texts[language], language):
                    yield (
                        f'{cell.name} ({language}): "{found}" must be a template or '
                        "within an equation"
                    )
        used = {language: templates.names(texts[language]) for language in LANGUAGES}
        if used["en"] != used["fr"]:
            both = ", ".join(sorted(used["en"] ^ used["fr"]))
            yield f"{cell.name}: only one language uses {both}"
        if values is not None:
            unknown = sorted((used["en"] | used["fr"]) - values.keys())
            yield from (
                f"{cell.name}: the template {name} is no number or text at the end "
                "of the execution"
                for name in unknown
            )


def decimals(text: str, language: str) -> list[str]:
    """Returns decimals and percentages outside of templates, equations and code.

    Examples:
        >>> decimals("0.5 of {{ n }} and $0.1$, 10,000 strings, 3 %", "en")
        ['0.5', '3 %']
    """
    plain = EXEMPT.sub(" ", text)
    found = []
    for match in DECIMAL[language].finditer(plain):
        start = re.search(r"\d*$", plain[: match.start()]).start()
        found.append(plain[start : match.end()])
    return found
