"""Uploaded texts, kept for the runs that train on them.

    <root>/uploads/<owner>/<hash of the content>.txt

The name that a file had in the browser is not used.
"""

import hashlib
import os
import pathlib
from collections.abc import Iterable

from parts import browser, places


def folder() -> pathlib.Path:
    """Returns the folder of the uploads of this browser."""
    return places.root() / "uploads" / browser.owner()


def keep(text: str) -> pathlib.Path:
    """Writes a text to a file, unless it is there already, and returns the file."""
    content = text.encode("utf-8")
    file = folder() / f"{hashlib.sha256(content).hexdigest()[:16]}.txt"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_bytes(content)
        os.replace(part, file)
    return file


def remove_except(used: Iterable[pathlib.Path]) -> None:
    """Deletes the texts of this browser that neither a run nor the page uses."""
    for file in set(folder().glob("*.txt")) - set(used):
        file.unlink(missing_ok=True)
