"""Text and JSON from files, or a message that says where they are damaged."""

import json
import pathlib


def read_text(path) -> str:
    r"""The text of a UTF-8 file.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is not UTF-8; the text says on which line.
    """
    data = pathlib.Path(path).read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path} is not UTF-8: byte 0x{data[error.start]:02x} on line {line} (byte "
            f"{error.start} of the file). Save it as UTF-8, or convert it with  "
            "iconv -f LATIN1 -t UTF-8"
        ) from error


def read_json(path):
    """What is in a JSON file.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is not JSON; the text says where it ends to be.
    """
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is damaged: it is not JSON ({error})") from error
    except RecursionError as error:
        raise ValueError(f"{path} is damaged: nested too deep") from error


def tokens_in_order(ids: dict, path) -> list[str]:
    """Tokens by id, from a dictionary of ids by token.

    Raises:
        ValueError: If the ids are not 0, 1, 2 and so on.

    Examples:
        >>> tokens_in_order({"b": 1, "a": 0}, "vocab.json")
        ['a', 'b']
    """
    if not isinstance(ids, dict) or not ids:
        raise ValueError(f"{path}: the vocabulary must give each token an id")
    if not all(isinstance(i, int) for i in ids.values()):
        raise ValueError(f"{path}: ids must be whole numbers")
    tokens = sorted(ids, key=ids.get)
    for expected, token in enumerate(tokens):
        if ids[token] != expected:
            raise ValueError(
                f"{path}: ids must be 0, 1, 2 …, but {token!r} has {ids[token]} where "
                f"{expected} is next"
            )
    return tokens
