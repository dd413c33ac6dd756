"""Patches that each plant a fault on one backend, and a script that runs the tests.

The first line of each `<backend>-<number>-<slug>.patch` describes the fault. `patches`
lists them; `python -m tests.faults.run` applies each to a copy and runs the tests.
"""

import pathlib
from typing import NamedTuple

FOLDER = pathlib.Path(__file__).parent
NUMBERS = {"tensorflow": 9, "jax": 9, "torch": 6}


class Patch(NamedTuple):
    """A planted fault.

    Attributes:
        name: Name of the file without ".patch".
        backend: The backend with the fault.
        plants: Description in one line.
        file: Path of the patch.
    """

    name: str
    backend: str
    plants: str
    file: pathlib.Path


def patches() -> list[Patch]:
    """Returns all faults, sorted by name."""
    found = []
    for file in sorted(FOLDER.glob("*.patch")):
        plants = file.read_text(encoding="utf-8").partition("\n")[0]
        found.append(Patch(file.stem, file.stem.partition("-")[0], plants, file))
    return found
