"""Argument checks shared by the data sets: each one names what is wrong."""

import difflib
import operator


def whole_number(name: str, value, *, at_least: int) -> int:
    """Return `value` as an int, or say why it is not one that will do.

    Args:
        name: The argument's name, for the message.
        value: What the caller passed.
        at_least: The smallest value allowed.

    Returns:
        The value as a plain `int`.

    Raises:
        TypeError: If `value` is not a whole number.
        ValueError: If it is below `at_least`.

    Examples:
        >>> whole_number("size", 3, at_least=0)
        3
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"`{name}` must be a whole number, got {value!r}.")
    if number < at_least:
        raise ValueError(f"`{name}` must be at least {at_least}, got {number}.")
    return number


def one_of(name: str, value, choices) -> str:
    """Return `value` if it is one of `choices`, else name the nearest right one.

    Args:
        name: The argument's name, for the message.
        value: What the caller passed.
        choices: The strings allowed.

    Returns:
        The value.

    Raises:
        ValueError: If it is none of them.

    Examples:
        >>> one_of("kind", "hrad", ["hard", "training"])
        Traceback (most recent call last):
        ValueError: `kind` is 'hrad'. Did you mean 'hard'? Choices: 'hard', 'training'.
    """
    choices = list(choices)
    if value in choices:
        return value
    near = difflib.get_close_matches(str(value), choices, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(
        f"`{name}` is {value!r}.{hint} Choices: {', '.join(map(repr, choices))}."
    )
