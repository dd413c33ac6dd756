"""Files of the user, kept for the runs that train on them.

    <root>/uploads/<owner>/<hash of the content>.<ending>

The name that a file had in the browser is not used: no file leaves the folder, or
replaces one that another run reads.
"""

import hashlib
import os
import pathlib
from collections.abc import Iterable

from parts import browser, places


def folder() -> pathlib.Path:
    """Returns the folder of the uploads of this browser."""
    return places.root() / "uploads" / browser.owner()


def keep(content: bytes, ending: str) -> pathlib.Path:
    """Writes a file, unless it is there already, and returns its path.

    Args:
        content: The file.
        ending: The ending of its name, such as "csv".
    """
    file = folder() / f"{hashlib.sha256(content).hexdigest()[:16]}.{ending}"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_bytes(content)
        os.replace(part, file)
    return file


def remove_except(used: Iterable[pathlib.Path], ending: str) -> None:
    """Deletes the files of this browser that neither a run nor the page uses."""
    for file in set(folder().glob(f"*.{ending}")) - set(used):
        file.unlink(missing_ok=True)
