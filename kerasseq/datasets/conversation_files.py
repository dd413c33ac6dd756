"""Files of conversations: JSON lines with messages."""

import os

from kerasseq.core.checks import short, whole_number
from kerasseq.core.files import parse_json
from kerasseq.core.messages import checked
from kerasseq.datasets.conversations import Message
from kerasseq.datasets.files import read_text

KEYS = ("role", "content")
_LOOK = (
    '{"messages": [{"role": "user", "content": "Hi"}, '
    '{"role": "assistant", "content": "Hello"}]}'
)


def read_conversations(
    path: str | os.PathLike[str],
    *,
    encoding: str = "utf-8",
    limit: int | None = None,
) -> list[list[Message]]:
    r"""Reads a file of conversations, one JSON object a line, as the package trl does.

    Each line has the key "messages": a list of objects with "role" ("system", "user" or
    "assistant") and "content". Others are ignored, as are blank lines. A file
    compressed by gzip is decompressed.

    Args:
        path: The file.
        encoding: Name of its encoding.
        limit: Maximum number of rows. By default the whole file is read.

    Returns:
        The conversations, lists of messages.

    Raises:
        FileNotFoundError: If there is no such file.
        IsADirectoryError: If it is a folder.
        TypeError: If an argument or a value of a line is of the wrong type.
        ValueError: If the file is empty, binary, damaged, in another encoding, or has
            no row; if a line is not JSON or lacks a key, or a content is empty. The
            message names the file and the line.

    Examples:
        >>> import json, pathlib, tempfile
        >>> line = json.dumps({"messages": [{"role": "user", "content": "Hi"}]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "talks.jsonl")
        ...     _ = path.write_text(line, encoding="utf-8")
        ...     read_conversations(path)
        [[{'role': 'user', 'content': 'Hi'}]]
    """
    if limit is not None:
        limit = whole_number("limit", limit)
    return [*conversation_rows(path, encoding, limit).values()]


def conversation_rows(
    path: str | os.PathLike[str], encoding: str = "utf-8", limit: int | None = None
) -> dict[int, list[Message]]:
    """Returns the conversations of a file by their lines.

    Arguments and errors are those of `read_conversations`.
    """
    path, text = read_text(path, encoding)
    rows = {}
    for number, line in enumerate(text.split("\n"), start=1):  # not at U+2028
        if line.strip():
            where = f"{path}, line {number}"
            row = parse_json(line, where)
            if not isinstance(row, dict) or "messages" not in row:
                raise ValueError(
                    f'{where} must have the key "messages", received {short(row)}'
                )
            messages = checked(row["messages"], f"{where}, messages")
            rows[number] = [{key: m[key] for key in KEYS} for m in messages]
        if len(rows) == limit:
            break
    if not rows:
        raise ValueError(f"{path} has no row. A line should be as in {_LOOK}")
    return rows
