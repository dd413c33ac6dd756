"""What an export has written. Loads no Keras."""

import pathlib
from typing import NamedTuple

from kerasseq.core.table import Table


class Rounded(NamedTuple):
    """A file whose weights are rounded to 8 bits, beside the one of float32.

    Attributes:
        file: Its name.
        sizes: Bytes of both files, float32 first.
        milliseconds: Median time of a call with one row, of both in turns.
        rows: Number of rows whose answers were compared.
        answers: Number of answers: one a row, or one a step.
        changed: How many differ; None for numbers, which have no label.
        difference: Largest difference of an output, relative to the largest output.
        data: What the rows are, such as "held-out texts of the run".
    """

    file: str
    sizes: tuple[int, int]
    milliseconds: tuple[float, float]
    rows: int
    answers: int
    changed: int | None
    difference: float
    data: str


class Exported(NamedTuple):
    """The files that `export_model` has written.

    Attributes:
        path: The folder.
        format: The format.
        backend: The backend that wrote them.
        files: The size of each file in bytes.
        length: Number of steps of the inputs; None if it is free.
        batch: Number of rows of the inputs; None if it is free.
        checked_by: What ran the files, such as "onnxruntime 1.32.0"; None if they were
            not checked, as it is not installed.
        difference: Largest difference of an output from that of the model, relative to
            the largest output; None if it was not checked.
        notes: What a user of the files must know, in sentences.
        int8: The file of 8 bits beside that of float32, or None.
    """

    path: pathlib.Path
    format: str
    backend: str
    files: dict[str, int]
    length: int | None
    batch: int | None
    checked_by: str | None
    difference: float | None
    notes: tuple[str, ...]
    int8: Rounded | None

    def _repr_html_(self) -> str:
        rows = [(name, f"{size:,}") for name, size in self.files.items()]
        checked = f"checked by {self.checked_by}" if self.checked_by else "not checked"
        notes = [(note, "") for note in (checked, *self.notes)]
        return Table([*rows, *notes], (str(self.path), "bytes")).html()
