"""Captions of scenes in English and French; `scenes.toml` has their words."""

from typing import Any

from kerasseq.core.files import table_beside

LANGUAGES = ("en", "fr")
INVERSE = {"left of": "right of", "above": "below"}
INVERSE |= {after: before for before, after in INVERSE.items()}


def _words(language: str) -> dict[str, Any]:
    return table_beside(__file__, "scenes")[language]


def named(language: str, color: str, shape: str, size: str | None = None) -> list[str]:
    """Returns the words that name a shape, of which the first is the article.

    Args:
        language: "en" or "fr".
        color: The color, in English.
        shape: The shape, in English.
        size: "small" or "large". The words tell no size if None.

    Examples:
        >>> named("fr", "green", "square"), named("fr", "green", "cross", "small")
        (['un', 'carré', 'vert'], ['une', 'petite', 'croix', 'verte'])
    """
    words = _words(language)
    parts = {
        "article": words["article"],
        "size": words["sizes"].get(size),
        "color": words["colors"][color],
        "shape": words["shapes"][shape],
    }
    gender = int(shape in words["feminine"])
    forms = (parts[part] for part in words["order"])
    return [form if isinstance(form, str) else form[gender] for form in forms if form]


def located(language: str, kind: str, first: list[str], layout: str) -> str:
    """Returns the caption of one shape.

    Args:
        language: "en" or "fr".
        kind: "places" or "motions".
        first: The words that name the shape.
        layout: The place or the motion, in English.

    Examples:
        >>> located("fr", "motions", ["une", "croix", "bleue"], "up")
        'une croix bleue va vers le haut'
    """
    return f"{' '.join(first)} {_words(language)[kind][layout]}"


def related(language: str, first: list[str], relation: str, second: list[str]) -> str:
    """Returns the caption of two shapes.

    Args:
        language: "en" or "fr".
        first: The words that name the first shape.
        relation: The relation of the first to the second, in English.
        second: The words that name the second shape.

    Examples:
        >>> related("fr", ["un", "carré"], "above", ["une", "croix"])
        "un carré au-dessus d'une croix"
    """
    between = _words(language)["relations"][relation]  # of French without the blank
    return f"{' '.join(first)} {between}{' '.join(second)}"
