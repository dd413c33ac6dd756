"""Vocabularies on disk: JSON that says what it is, and writes that cannot do harm.

A file carries the name of its format and a version, so that a foreign or newer file is
refused in words instead of being misread.
"""

import json

from kerasseq.core.files import read_json, replacing

VERSION = 1


def write_vocabulary(path, kind: str, config: dict) -> None:
    """Writes `config` to `path` as JSON, atomically.

    Args:
        path: Where to write.
        kind: Name of the format, for example `"kerasseq.CharacterTokenizer"`.
        config: Plain JSON data.
    """
    content = json.dumps({"format": kind, "version": VERSION, **config}, indent=1)
    with replacing(path) as temporary:
        temporary.write_text(content, encoding="utf-8")


def read_vocabulary(path, kind: str) -> dict:
    """Read what `write_vocabulary` wrote.

    Args:
        path: The file.
        kind: The format's name it must carry.

    Returns:
        The config, without the format's name and version.

    Raises:
        ValueError: If the file is damaged, of another format, or of a newer version.
    """
    content = read_json(path)
    found = content.pop("format", None) if isinstance(content, dict) else None
    if found != kind:
        raise ValueError(f"{path} is no {kind} file: its format is {found!r}.")
    version = content.pop("version", None)
    if version != VERSION:
        raise ValueError(
            f"{path} has version {version!r} of {kind}; this kerasseq reads version "
            f"{VERSION}. Write it again with the same version of kerasseq."
        )
    return content
