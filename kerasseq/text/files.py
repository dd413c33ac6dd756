"""Files of tokenizers and count-based models: JSON with a format name and a version."""

import json
import os
from typing import Any, Self

from kerasseq.core.files import read_json, replacing


def tokens_in_order(ids: dict[str, int], path: str | os.PathLike[str]) -> list[str]:
    """Returns the tokens in the order of their ids.

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


VERSION = 1  # of the format; raised when older code cannot read a file


def write_vocabulary(
    path: str | os.PathLike[str], kind: str, config: dict[str, Any]
) -> None:
    """Writes a config to a JSON file, atomically.

    Args:
        path: Where to write.
        kind: Name of the format, for example `"kerasseq.CharacterTokenizer"`.
        config: Plain JSON data.
    """
    content = json.dumps({"format": kind, "version": VERSION, **config}, indent=1)
    with replacing(path) as temporary:
        temporary.write_text(content, encoding="utf-8")


def read_vocabulary(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Reads a file of `write_vocabulary`.

    Args:
        path: The file.
        kind: Expected name of the format.

    Returns:
        The config, without the format's name and version.

    Raises:
        ValueError: If the file is damaged, of another format, or of a newer version.
    """
    content = read_json(path)
    received = content.pop("format", None) if isinstance(content, dict) else None
    if received != kind:
        raise ValueError(
            f"{path} must be a {kind} file, received the format {received!r}."
        )
    version = content.pop("version", None)
    if version != VERSION:
        raise ValueError(
            f"{path} has version {version!r} of {kind}; this kerasseq reads version "
            f"{VERSION}. Write it again with the same version of kerasseq."
        )
    return content


class Saved:
    """Mixin with `save` and `load`, for classes with `get_config` and `from_config`.

    Floating-point numbers are restored exactly.
    """

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves the model as a JSON file, atomically.

        Args:
            path: The file, for example `"model.json"`.

        Raises:
            ValueError: Before `fit`.
        """
        self._check_fitted()
        write_vocabulary(path, _format(type(self)), self.get_config())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Loads a model that `save` wrote.

        Args:
            path: The file.

        Returns:
            An equal model.

        Raises:
            ValueError: If the file is damaged or of another class.
        """
        config = read_vocabulary(path, _format(cls))
        try:
            model = cls.from_config(config)
            model._check_fitted()
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path} is damaged: {error}") from error
        return model


def _format(cls) -> str:
    return f"kerasseq.{cls.__name__}"
