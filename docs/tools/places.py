"""Where the files of the documentation are."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TUTORIALS = ROOT / "docs" / "tutorials"
PAGES = ROOT / "docs" / "pages"
LANGUAGES = ("en", "fr")
BACKENDS = ("torch", "jax", "tensorflow")


def course(language: str, pages: pathlib.Path = PAGES) -> pathlib.Path:
    """Returns the folder of the pages of the tutorials."""
    return pages / language / "course"
