"""The rows of a training, by their checksums: which of other rows are among them?

A run keeps 8 bytes a row in `training_rows.npy`, so that `kerasseq evaluate` can say
how many rows of a file the model was trained on.
"""

import hashlib
import pathlib
from collections.abc import Iterable

import numpy as np

from kerasseq.core.files import replacing

FILE = "training_rows.npy"  # in the folder of a run
BYTES = 8


def keep(folder: pathlib.Path, rows: Iterable[str | bytes]) -> None:
    """Writes the checksums of the training rows into the folder of a run, sorted."""
    found = np.unique(_checksums(rows))
    with replacing(folder / FILE) as temporary:
        np.save(temporary, found)


def repeated(folder: str | pathlib.Path, rows: Iterable[str | bytes]) -> int | None:
    """Counts the rows that a run was trained on; None if it does not keep any.

    Args:
        folder: The folder of a run; those of earlier versions keep no rows.
        rows: Other rows, in the form of those that were kept.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     keep(pathlib.Path(folder), ["a", "b", "b"])
        ...     repeated(folder, ["b", "c", "b"])
        2
    """
    file = pathlib.Path(folder) / FILE
    if not file.exists():
        return None
    try:
        known = np.load(file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(
            f"{file} is damaged: {error}. Delete it to evaluate without it"
        ) from error
    return int(np.isin(_checksums(rows), known).sum())


def _checksums(rows):
    """uint64 `(rows,)`."""
    parts = [
        hashlib.blake2b(
            row if isinstance(row, bytes) else row.encode("utf-8", "surrogatepass"),
            digest_size=BYTES,
        ).digest()
        for row in rows
    ]
    return np.frombuffer(b"".join(parts), "<u8")
