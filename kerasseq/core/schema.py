r"""Checks the content of a file against a schema before anything is built from it.

A schema looks like what it describes:

| schema | fits |
|---|---|
| `str`, `bool`, `int` | such a value |
| `float` | a finite number, a whole one too |
| `object` | anything |
| `int \| None` | one of these types |
| `[str]` | a list of strings |
| `(str, str, int)` | a list of two strings and a number |
| `{"n": int, "k?": float}` | a table with these keys alone, of which k may be missing |
| `{str: int}` | a table of numbers under any keys |
| `Maybe([str])` | null, or a list of strings |
"""

import math
import types
from typing import Any, NamedTuple

from kerasseq.core.checks import nearest

WORDS = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    type(None): "null",
    None: "null",
}


class Maybe(NamedTuple):
    """A schema that null fits, too."""

    schema: object


def check(content: Any, schema: Any, path: str = "") -> Any:
    """Returns `content` if it fits a schema.

    Args:
        content: Of a file, as `json.loads` gives it.
        schema: What it must be.
        path: The keys that led to it, for messages.

    Raises:
        TypeError: If a value does not fit; the text names the key, what was expected
            and what was received.
        ValueError: If a list has another length, or a table other keys.

    Examples:
        >>> check({"n": 3, "tokens": ["a", 7]}, {"n": int, "tokens": [str]})
        Traceback (most recent call last):
        ...
        TypeError: tokens[1]: expected a string, received 7
        >>> check({"m": 3}, {"n": int})
        Traceback (most recent call last):
        ...
        ValueError: expected the key "n", received "m"
    """
    if isinstance(schema, Maybe):
        if content is not None:
            check(content, schema.schema, path)
    elif isinstance(schema, dict):
        _check_table(content, schema, path)
    elif isinstance(schema, list):
        _check_list(content, schema[0], path)
    elif isinstance(schema, tuple):
        _check_row(content, schema, path)
    elif not _fits(content, schema):
        raise fault(path, _words(schema), content)
    return content


def fault(
    path: str, expected: str, received: object, kind: type[Exception] = TypeError
) -> Exception:
    """Builds the error about a value in a file."""
    where = f"{path}: " if path else ""
    return kind(f"{where}expected {expected}, received {_shown(received)}")


def _shown(value):
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _check_table(content, schema, path):
    if not isinstance(content, dict):
        raise fault(path, "a table", content)
    if str in schema:
        for key, value in content.items():
            check(value, schema[str], _below(path, key))
        return
    keys = {key.removesuffix("?"): part for key, part in schema.items()}
    missing = [k for k in schema if k not in content and not k.endswith("?")]
    strange = [key for key in content if key not in keys]
    where = f"{path}: " if path else ""
    if missing:
        received = ", ".join(f'"{key}"'[:60] for key in strange[:3])
        received = received or f'"{missing[0]}" nowhere'
        raise ValueError(f'{where}expected the key "{missing[0]}", received {received}')
    if strange:
        near = nearest(strange[0], keys)
        raise ValueError(
            f"{where}expected the keys {', '.join(keys)}, received "
            f'"{strange[0][:60]}".{near}'
        )
    for key, value in content.items():
        check(value, keys[key], _below(path, key))


def _below(path, key):
    key = str(key)
    return f"{path}.{key[:60]}" if path else key[:60]


def _check_row(content, schema, path):
    if not isinstance(content, list | tuple):
        raise fault(path, "a list", content)
    if len(content) != len(schema):
        raise fault(path, f"a list of {len(schema)}", content, ValueError)
    for number, (value, part) in enumerate(zip(content, schema, strict=True)):
        check(value, part, f"{path}[{number}]")


def _check_list(content, item, path):
    if not isinstance(content, list | tuple):
        raise fault(path, "a list", content)
    if isinstance(item, type):  # quick: there may be a million
        bad = (n for n, value in enumerate(content) if not _fits(value, item))
        number = next(bad, None)
        if number is not None:
            raise fault(f"{path}[{number}]", _words(item), content[number])
        return
    for number, value in enumerate(content):
        check(value, item, f"{path}[{number}]")


def _kinds(schema):
    return schema.__args__ if isinstance(schema, types.UnionType) else (schema,)


def _fits(value, schema):
    if schema is object:
        return True
    for kind in _kinds(schema):
        if kind in (None, type(None)):
            fits = value is None
        elif kind is float:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            fits = number and _is_finite(value)
        elif kind is int:
            fits = isinstance(value, int) and not isinstance(value, bool)
        else:
            fits = isinstance(value, kind)
        if fits:
            return True
    return False


def _is_finite(number):
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number that no float holds
        return False


def _words(schema):
    return " or ".join(WORDS[kind] for kind in _kinds(schema))
