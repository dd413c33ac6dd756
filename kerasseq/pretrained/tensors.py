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
    """

    name: str
    file: pathlib.Path
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]
