"""Renders pages, figures and notebooks: all files of a tutorial, and writes them."""

import pathlib

from docs.tools import figures, notebooks, pages, results
from docs.tools.places import LANGUAGES, PAGES, course
from docs.tools.tutorial import Tutorial


def files(tutorial: Tutorial, home: pathlib.Path = PAGES) -> dict[pathlib.Path, str]:
    """Returns the contents of all files of a tutorial by their paths."""
    found = {}
    for language in LANGUAGES:
        folder = course(language, home)
        found[folder / f"{tutorial.name}.md"] = pages.page(tutorial, language)
        found[folder / "notebooks" / f"{tutorial.name}.ipynb"] = notebooks.notebook(
            tutorial, language
        )
        for cell in tutorial.code:
            if "figure" in cell.tags:
                path = results.figure(tutorial.name, cell.name, language)
                drawn = figures.for_phones(path.read_text(encoding="utf-8"))
                light = figures.with_classes(drawn)
                stem = folder / "figures" / f"{tutorial.name}_{cell.name}"
                found[stem.with_name(f"{stem.name}_light.svg")] = light
                found[stem.with_name(f"{stem.name}_dark.svg")] = figures.dark(light)
    return found


def existing(name: str, home: pathlib.Path = PAGES) -> set[pathlib.Path]:
    """Returns the files of a tutorial that exist."""
    return {
        path
        for language in LANGUAGES
        for path in course(language, home).rglob(f"{name}*")
        if path.is_file()
    }


def render(tutorial: Tutorial, home: pathlib.Path = PAGES) -> None:
    """Writes the files of a tutorial, and deletes those that it no longer has."""
    made = files(tutorial, home)
    for path, content in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    for path in existing(tutorial.name, home) - made.keys():
        path.unlink()
