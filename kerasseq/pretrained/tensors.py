"""A tensor of a file: looked at first, read when all is well."""

import dataclasses
import pathlib
from collections.abc import Callable

import numpy as np


@dataclasses.dataclass(frozen=True)
class Tensor:
    """One tensor of a file.

    Attributes:
        name: Its name there.
        file: The file.
        shape: Its shape.
        read: A function that gives it as an array.
        other: Its type, if that is not one of floats. What is no weight may have it.
    """

    name: str
    file: pathlib.Path
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]
    other: str | None = None

    def check(self):
        """Raise unless it is of floats."""
        if self.other is not None:
            raise ValueError(
                f'"{self.name}" in {self.file} is of type {self.other}, but weights '
                "are floats"
            )
