"""Checks of the arguments of decoding that `core.checks` does not have."""

import math
import numbers


def share(name: str, value) -> None:
    """Raise unless `value` is above 0 and at most 1.

    Examples:
        >>> share("p", 90)
        Traceback (most recent call last):
        ...
        ValueError: p must be above 0 and at most 1, got 90
    """
    _real(name, value)
    if not 0 < value <= 1:
        raise ValueError(f"{name} must be above 0 and at most 1, got {value}")


def temperature(value) -> None:
    """Raise unless `value` is finite and above 0.

    Examples:
        >>> temperature(0)
        Traceback (most recent call last):
        ...
        ValueError: temperature must be above 0 and finite, got 0: for the best token \
each time take Greedy()
    """
    _real("temperature", value)
    if not 0 < value < math.inf:
        raise ValueError(
            f"temperature must be above 0 and finite, got {value}: for the best token "
            "each time take Greedy()"
        )


def at_least_zero(name: str, value) -> None:
    """Raise unless `value` is finite and 0 or more.

    Examples:
        >>> at_least_zero("length_penalty", -1)
        Traceback (most recent call last):
        ...
        ValueError: length_penalty must be finite and 0 or more, got -1
    """
    _real(name, value)
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must be finite and 0 or more, got {value}")


def _real(name, value):
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
