"""Files of preferences: JSON lines with prompt, chosen and rejected."""

import os

from kerasseq.core.checks import whole_number
from kerasseq.core.files import parse_json
from kerasseq.datasets.files import read_text
from kerasseq.datasets.preferences import Preferences, checked_row

_LOOK = '{"prompt": "1 + 1 = ", "chosen": "2", "rejected": "3"}'


def read_preferences(
    path: str | os.PathLike[str],
    *,
    encoding: str = "utf-8",
    limit: int | None = None,
) -> Preferences:
    r"""Reads a file of preferences, one JSON object a line, as the package trl does.

    Each line has the keys "prompt", "chosen" and "rejected", whose values are strings,
    or lists of messages with "role" and "content". Others are ignored, as are blank
    lines, and the ties in the votes of `kerasseq arena`, rows whose "tie" is true. A
    file compressed by gzip is decompressed.

    Args:
        path: The file.
        encoding: Name of its encoding.
        limit: Maximum number of rows. By default the whole file is read.

    Returns:
        The rows, as `Preferences`.

    Raises:
        FileNotFoundError: If there is no such file.
        IsADirectoryError: If it is a folder.
        TypeError: If an argument or a value of a line is of the wrong type.
        ValueError: If the file is empty, binary, damaged, in another encoding, or has
            no row; if a line is not JSON, lacks a key, has an empty text, or two equal
            answers. The message names the file and the line.

    Examples:
        >>> import pathlib, tempfile
        >>> line = '{"prompt": "1 + 1 = ", "chosen": "2", "rejected": "3"}\n'
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "votes.jsonl")
        ...     _ = path.write_text(line, encoding="utf-8")
        ...     read_preferences(path)
        Preferences(prompt=['1 + 1 = '], chosen=['2'], rejected=['3'])
    """
    if limit is not None:
        limit = whole_number("limit", limit)
    rows = preference_rows(path, encoding, limit)[0].values()
    return Preferences(*map(list, zip(*rows, strict=True)))


def preference_rows(
    path: str | os.PathLike[str], encoding: str = "utf-8", limit: int | None = None
) -> tuple[dict[int, tuple[str, str, str]], int]:
    """Returns the rows of a file by their lines, and the number of ties left out.

    Arguments and errors are those of `read_preferences`.
    """
    path, text = read_text(path, encoding)
    rows, ties = {}, 0
    for number, line in enumerate(text.split("\n"), start=1):  # not at U+2028
        if line.strip():
            where = f"{path}, line {number}"
            row = parse_json(line, where)
            texts = checked_row(row, where)
            if row.get("tie") is True:
                ties += 1
            else:
                rows[number] = texts
        if len(rows) == limit:
            break
    if not rows:
        kind = "row that is no tie" if ties else "row"
        raise ValueError(f"{path} has no {kind}. A line should be as in {_LOOK}")
    return rows, ties
