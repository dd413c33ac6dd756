"""Files of the user, kept for the runs that train on them.

    <root>/uploads/<owner>/<hash of the content>.<ending>

The name that a file had in the browser is not used: no file leaves the folder, or
replaces one that another run reads. A file lives as long as a run names it, else until
the browser sends another one, or an hour after a page has used it.
"""

import contextlib
import hashlib
import os
import pathlib
import time

from parts import browser, places
from parts.errors import Refused

QUOTA, ALL = 20_000_000, 500_000_000  # bytes of a browser, and of all together
END = 3600.0  # seconds after which a file that no run uses is deleted


def folder() -> pathlib.Path:
    """Returns the folder of the uploads of this browser."""
    return places.root() / "uploads" / browser.owner()


def keep(content: bytes, ending: str) -> pathlib.Path:
    """Writes a file, unless it is there already, and returns its path.

    Other files of this browser that no run uses are deleted: a page that still shows
    one writes it again.

    Args:
        content: The file.
        ending: The ending of its name, such as "csv".

    Raises:
        Refused: If this browser, or all together, have too many bytes.
    """
    file = folder() / f"{hashlib.sha256(content).hexdigest()[:16]}.{ending}"
    if file.exists():
        os.utime(file)  # a page uses it
        return file
    _remove(other for other in _unused(folder()) if other != file)
    sweep()
    for place, most in ((folder(), QUOTA), (folder().parent, ALL)):
        if _size(place) + len(content) > most:
            raise Refused("uploads_full", most=most // 1_000_000)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_bytes(content)
    os.replace(part, file)
    return file


def sweep() -> None:
    """Deletes the files of all browsers that neither a run nor a page uses any more."""
    for owner in folder().parent.glob("*"):
        _remove(file for file in _unused(owner) if _age(file) > END)


def _unused(owner):
    """Returns the files of a browser that no record of its runs names."""
    records = (places.runs() / owner.name).glob("*.json")
    named = "".join(record.read_text("utf-8", "replace") for record in records)
    return [file for file in owner.glob("*") if file.name not in named]


def _remove(files):
    for file in files:
        file.unlink(missing_ok=True)


def _age(file):
    with contextlib.suppress(OSError):
        return time.time() - file.stat().st_mtime
    return 0.0


def _size(place):
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
