"""Files of the user that a run reads: kept in the folder of the browser's runs."""

import hashlib
import pathlib

from parts import browser, places

FOLDER = "uploads"


def keep(content: bytes, ending: str) -> pathlib.Path:
    """Writes a file once, and returns its path.

    Its name is made of its content, so that it neither leaves the folder nor replaces
    a file that another run reads.

    Args:
        content: The file.
        ending: The ending of its name, such as "csv".
    """
    folder = places.runs() / browser.owner() / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{hashlib.sha256(content).hexdigest()[:16]}.{ending}"
    if not file.exists():
        temporary = file.with_suffix(".part")
        temporary.write_bytes(content)
        temporary.replace(file)
    return file
