"""Checks of arguments: each says which one, what it was, what would be right.

Loads no Keras: the text tools and the data sets stand on it, too.
"""

import difflib
import numbers
import operator


def nearest(value: object, choices) -> str:
    """End a message about a wrong name with the right one, if one is near.

    Examples:
        >>> nearest("lsmt", ["lstm", "gru"])
        ' Did you mean "lstm"?'
        >>> nearest("zebra", ["lstm", "gru"])
        ''
    """
    found = difflib.get_close_matches(str(value), [str(c) for c in choices], 1)
    return f' Did you mean "{found[0]}"?' if found else ""


def one_of(name: str, value, choices):
    """Return `value` if it is one of `choices`.

    Examples:
        >>> one_of("peephole", "ful", [None, "diagonal", "full"])
        Traceback (most recent call last):
        ...
        ValueError: peephole="ful" is not one of None, "diagonal", "full". Did you \
mean "full"?
    """
    if any(value is c or (isinstance(value, str) and value == c) for c in choices):
        return value
    listed = ", ".join(f'"{c}"' if isinstance(c, str) else str(c) for c in choices)
    shown = f'"{value}"' if isinstance(value, str) else repr(value)
    raise ValueError(f"{name}={shown} is not one of {listed}.{nearest(value, choices)}")


def whole_number(name: str, value, at_least: int = 1) -> int:
    """Return `value` as a plain `int` of at least `at_least`.

    Examples:
        >>> whole_number("units", 3)
        3
        >>> whole_number("units", 2.5)
        Traceback (most recent call last):
        ...
        TypeError: units must be a whole number, got 2.5
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if number < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {number}")
    if number >= 2**63:  # no array has such a size, no seed such a value
        raise ValueError(f"{name} must be below 2 ** 63, got {number}")
    return number


def number(name: str, value):
    """Return `value` if it is a number.

    Examples:
        >>> number("scale", "1")
        Traceback (most recent call last):
        TypeError: scale must be a number, got '1'
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    return value


def fraction(name: str, value) -> float:
    """Return `value` as a `float` between 0 and 1, both included.

    Examples:
        >>> fraction("dropout", 20)
        Traceback (most recent call last):
        ...
        ValueError: dropout must lie between 0 and 1, got 20
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number between 0 and 1, got {value!r}")
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must lie between 0 and 1, got {value}")
    return float(value)


def rate(name: str, value) -> float:
    """Return `value` as a `float` from 0 up to, not including, 1.

    Examples:
        >>> rate("dropout", 1)
        Traceback (most recent call last):
        ...
        ValueError: dropout=1 would drop everything: it must be below 1
    """
    value = fraction(name, value)
    if value == 1:
        raise ValueError(f"{name}=1 would drop everything: it must be below 1")
    return value


def truth(name: str, value) -> bool:
    """Return `value` if it is True or False.

    Examples:
        >>> truth("lowercase", "yes")
        Traceback (most recent call last):
        ...
        TypeError: lowercase must be True or False, got 'yes'
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {short(value)}")
    return value


def several(name: str, value, what: str = "strings") -> list:
    """Return `value` as a list, if it is one, a tuple, or anything else but a string.

    Examples:
        >>> several("texts", "ab")
        Traceback (most recent call last):
        ...
        TypeError: `texts` must be a list of strings, got 'ab'. For one alone: [...]
    """
    try:
        if isinstance(value, str | bytes | dict):
            raise TypeError
        return list(value)
    except TypeError:
        raise TypeError(
            f"`{name}` must be a list of {what}, got {short(value)}. For one alone: "
            "[...]"
        ) from None


def random_generator(seed, name: str = "seed"):
    """Return NumPy's generator for a seed: a whole number, several, or None.

    Examples:
        >>> random_generator("now")
        Traceback (most recent call last):
        ...
        TypeError: `seed` must be a whole number of at least 0, or None, got 'now'
    """
    import numpy as np

    try:
        if isinstance(seed, str | bytes | dict | bool):
            raise TypeError
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        kind = ValueError if isinstance(seed, int) else TypeError
        raise kind(
            f"`{name}` must be a whole number of at least 0, or None, got {short(seed)}"
        ) from error


def short(value) -> str:
    """A value in a message, cut where it is long.

    Examples:
        >>> len(short(list(range(99))))
        60
    """
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
