"""Faults to plant, each of one backend, and a script that sees whether tests find them.

Each `<backend>-<number>-<slug>.patch` says in its first line what it plants. `patches`
lists them; `python -m tests.faults.run` plants each in a copy and runs the tests there.
"""

import pathlib
from typing import NamedTuple

FOLDER = pathlib.Path(__file__).parent
NUMBERS = {"tensorflow": 9, "jax": 9, "torch": 6}


class Patch(NamedTuple):
    """A fault.

    Attributes:
        name: That of its file, without ".patch".
        backend: On which it does harm.
        plants: What it plants, in one line.
        file: The patch.
    """

    name: str
    backend: str
    plants: str
    file: pathlib.Path


def patches() -> list[Patch]:
    """All faults, in the order of their names."""
    found = []
    for file in sorted(FOLDER.glob("*.patch")):
        plants = file.read_text(encoding="utf-8").partition("\n")[0]
        found.append(Patch(file.stem, file.stem.partition("-")[0], plants, file))
    return found
