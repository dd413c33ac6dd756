"""The files of `kerasseq arena`: prompts, and votes that are appended one by one."""

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from kerasseq.cli.text_tables import JSON_LINES
from kerasseq.core.files import parse_json, read_text


class Prompt(NamedTuple):
    """A prompt.

    Attributes:
        line: Its line in the file.
        text: The text to continue.
    """

    line: int
    text: str


def read_prompts(file: str) -> list[Prompt]:
    """Reads prompts: the lines of a text, or "prompt" of the objects of JSON lines.

    Args:
        file: The file; lines with whitespace alone are left out.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it has no prompt, or a line of JSON lines has none.
    """
    is_json = pathlib.Path(file).suffix.lower() in JSON_LINES
    lines = enumerate(read_text(file).split("\n"), 1)
    prompts = [Prompt(n, line.rstrip("\r")) for n, line in lines if line.strip()]
    if is_json:
        prompts = [Prompt(n, _prompt(line, f"{file}, line {n}")) for n, line in prompts]
    if not prompts:
        raise ValueError(f"expected at least one prompt in {file}, which has no text")
    return prompts


def _prompt(line, where):
    row = parse_json(line, where)
    text = row.get("prompt") if isinstance(row, dict) else None
    if not isinstance(text, str) or not text.strip():
        raise ValueError(
            f'{where}: expected an object with a text as "prompt", received {line:.60}'
        )
    return text


def count_votes(file: str) -> int:
    """Counts the votes in a file; 0 if there is none. Needs Keras to be loaded.

    Raises:
        TypeError: If a line of it has a value of a wrong type.
        ValueError: If a line is not a vote. The message has its number.
    """
    from kerasseq.training.votes import read_votes  # loads Keras

    path = pathlib.Path(file)
    if not path.exists() or (path.is_file() and not read_text(path).strip()):
        return 0
    return len(read_votes(path))


def check_writable(file: str) -> None:
    """Raises an `OSError` if no votes can be appended to a file, before one is lost."""
    path = pathlib.Path(file)
    folder = path.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder} for the votes {path}")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise PermissionError(f"the votes {path} cannot be written. Choose others")


def append_vote(file: str, row: Mapping[str, Any]) -> None:
    """Appends a vote as one line; after an error the file is as it was before.

    Args:
        file: The file, which is created if it does not exist.
        row: The vote.

    Raises:
        OSError: If it cannot be written.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "votes.jsonl")
        ...     append_vote(path, {"chosen_model": "a"})
        ...     append_vote(path, {"chosen_model": "b"})
        ...     print(path.read_text(), end="")
        {"chosen_model": "a"}
        {"chosen_model": "b"}
    """
    text = json.dumps(row, ensure_ascii=False) + "\n"
    data = text.encode("utf-8", "backslashreplace")  # lone surrogates, as in JSON
    with open(file, "a+b", buffering=0) as opened:
        end = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, end - 1))
        if opened.read(1) not in (b"", b"\n"):  # a last line without its end
            data = b"\n" + data
        try:
            if opened.write(data) < len(data):
                raise OSError(f"{file} could not be written")
        except OSError:
            opened.truncate(end)
            raise
