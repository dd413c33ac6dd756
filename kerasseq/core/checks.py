"""Checks of arguments, with errors that name the argument, its value and valid ones.

Loads no Keras: the text tools and the data sets stand on it, too.
"""

import difflib
import functools
import math
import numbers
import operator
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, SupportsIndex, TypeVar

if TYPE_CHECKING:
    import numpy as np

Value = TypeVar("Value")
Listed = ParamSpec("Listed")
Checked = TypeVar("Checked")
ABBREVIATIONS = {"tf": "tensorflow"}


def nearest(value: object, choices: Iterable[object]) -> str:
    """Returns the end of a message about a wrong name: the nearest right one.

    Examples:
        >>> nearest("lsmt", ["lstm", "gru"])
        ' Did you mean "lstm"?'
        >>> nearest("LSTM", ["lstm", "gru"]), nearest("zebra", ["lstm", "gru"])
        (' Did you mean "lstm"?', '')
    """
    names = [str(c) for c in choices]
    value = ABBREVIATIONS.get(str(value).lower(), value)
    by_lower = {name.lower(): name for name in reversed(names)}
    close = difflib.get_close_matches(str(value), names, 1)
    for name in difflib.get_close_matches(str(value).lower(), by_lower, 1):
        close.append(by_lower[name])
    return f' Did you mean "{close[0]}"?' if close else ""


def one_of(name: str, value: Value, choices: Iterable[object]) -> Value:
    """Returns `value` if it is one of `choices`.

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


def whole_number(name: str, value: SupportsIndex, at_least: int = 1) -> int:
    """Returns `value` as a plain `int` of at least `at_least`.

    Examples:
        >>> whole_number("units", 3)
        3
        >>> whole_number("units", 2.5)
        Traceback (most recent call last):
        ...
        TypeError: units must be a whole number, received 2.5
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name} must be a whole number, received {value!r}")
    if number < at_least:
        raise ValueError(f"{name} must be at least {at_least}, received {number}")
    if number >= 2**63:  # no array has such a size, no seed such a value
        raise ValueError(f"{name} must be below 2 ** 63, received {number}")
    return number


def number(name: str, value: float) -> float:
    """Returns `value` if it is a number.

    Examples:
        >>> number("scale", "1")
        Traceback (most recent call last):
        TypeError: scale must be a number, received '1'
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, received {short(value)}")
    if isinstance(value, numbers.Integral) and abs(value) >= 2**63:
        raise ValueError(f"{name} must be below 2 ** 63 in size, received {value}")
    return value


def finite(name: str, value: float) -> float:
    """Returns `value` if it is a number, neither infinite nor NaN.

    Examples:
        >>> finite("scale", float("inf"))
        Traceback (most recent call last):
        ValueError: scale must be a finite number, received inf
    """
    if not math.isfinite(number(name, value)):
        raise ValueError(f"{name} must be a finite number, received {value}")
    return value


def positive(name: str, value: float) -> float:
    """Returns `value` if it is a finite number above 0.

    Examples:
        >>> positive("max_wavelength", -1)
        Traceback (most recent call last):
        ValueError: max_wavelength must be a number above 0, received -1
    """
    if not 0 < number(name, value) < math.inf:
        raise ValueError(f"{name} must be a number above 0, received {value}")
    return value


def loss_factor(name: str, value: float) -> float:
    """Returns the factor of a term of a loss as a `float` of at least 0.

    Examples:
        >>> loss_factor("beta", -1)
        Traceback (most recent call last):
        ...
        ValueError: beta must not be negative, received -1. Choose 0 to leave the loss \
out
    """
    if finite(name, value) < 0:
        raise ValueError(
            f"{name} must not be negative, received {value}. Choose 0 to leave the "
            "loss out"
        )
    return float(value)


def fraction(name: str, value: float) -> float:
    """Returns `value` as a `float` between 0 and 1, both included.

    Examples:
        >>> fraction("dropout", 20)
        Traceback (most recent call last):
        ...
        ValueError: dropout must lie between 0 and 1, received 20
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number between 0 and 1, received {value!r}")
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must lie between 0 and 1, received {value}")
    return float(value)


def rate(name: str, value: float) -> float:
    """Returns `value` as a `float` from 0 up to, not including, 1.

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


def truth(name: str, value: object) -> bool:
    """Returns `value` if it is True or False.

    Examples:
        >>> truth("lowercase", "yes")
        Traceback (most recent call last):
        ...
        TypeError: lowercase must be True or False, received 'yes'
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, received {short(value)}")
    return value


def flag(name: str, value: object) -> bool:
    """Returns `value` as a `bool`: True or False, of Python or NumPy, or 1 or 0.

    Examples:
        >>> flag("use_bias", "no")
        Traceback (most recent call last):
        TypeError: use_bias must be True or False, received 'no'
    """
    is_bool = isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")
    if is_bool or (isinstance(value, numbers.Integral) and value in (0, 1)):
        return bool(value)
    return truth(name, value)


def size(
    name: str, value: object, others: int | None = None, bytes_each: int = 4
) -> int:
    """Returns `value` as an `int` of at least 1; an array is not a whole number.

    With `others`, an array of `value` times `others` numbers must fit into memory.

    Examples:
        >>> import numpy as np
        >>> size("hidden_dim", np.array(2))
        Traceback (most recent call last):
        TypeError: hidden_dim must be a whole number, received array(2)
    """
    if not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, received {short(value)}")
    value = whole_number(name, value)
    if others is not None:
        fits_memory(name, value, others, bytes_each)
    return value


def seed(name: str, value: SupportsIndex) -> int:
    """Returns `value` as an `int` from which every backend can draw random numbers.

    Examples:
        >>> seed("seed", -1)
        Traceback (most recent call last):
        ValueError: seed must be at least 0, received -1
    """
    value = whole_number(name, value, 0)
    if value >= 2**31:  # PyTorch has it in 32 bits with a sign
        raise ValueError(f"{name} must be below 2 ** 31, received {value}")
    return value


def axis(name: str, value: int) -> int:
    """Returns `value` if it is a whole number, of either sign.

    Examples:
        >>> axis("sequence_axis", "x")
        Traceback (most recent call last):
        TypeError: sequence_axis must be a whole number, received 'x'
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, received {short(value)}")
    if abs(value) >= 64:  # no array of NumPy has so many
        raise ValueError(f"{name} must be the number of an axis, received {value}")
    return value


def optional(
    check: Callable[..., Checked], name: str, value: object, *more: Any
) -> Checked | None:
    """Returns None if `value` is None, else `check(name, value, *more)`.

    Examples:
        >>> optional(size, "head_dim", None) is None, optional(size, "head_dim", 64)
        (True, 64)
    """
    return None if value is None else check(name, value, *more)


class NotEnoughMemory(ValueError):
    """A size that the machine's memory cannot hold."""


def fits_memory(name: str, value: int, others: int = 1, bytes_each: int = 4) -> None:
    """Raises if `value` times `others` numbers are more than the machine's memory.

    Examples:
        >>> fits_memory("units", 10**12)
        Traceback (most recent call last):
        kerasseq.core.checks.NotEnoughMemory: units must be a size that fits into \
memory, received 1000000000000, which takes at least 4,000 GB. Choose a smaller one
    """
    needed = int(value) * int(others) * bytes_each
    if needed > memory():
        raise NotEnoughMemory(
            f"{name} must be a size that fits into memory, received {value}, which "
            f"takes at least {needed // 10**9:,} GB. Choose a smaller one"
        )


@functools.cache
def memory() -> int:
    """Returns the bytes of memory of this machine; 2 ** 40 if it does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return 2**40  # more than a machine has: rather no error than a wrong one


def several(name: str, value: Iterable[Value], what: str = "strings") -> list[Value]:
    """Returns `value` as a list, if it is one, a tuple, or anything else but a string.

    Examples:
        >>> several("texts", "a")
        Traceback (most recent call last):
        ...
        TypeError: `texts` must be a list of strings, received 'a'. For one alone: [...]
    """
    try:
        if isinstance(value, str | bytes | dict):
            raise TypeError
        return list(value)
    except TypeError:
        raise TypeError(
            f"`{name}` must be a list of {what}, received {short(value)}. For one "
            "alone: [...]"
        ) from None


def ordered(**bounds: float) -> None:
    """Raises unless the first of two numbers is at most the second.

    Examples:
        >>> ordered(low=3, high=2)
        Traceback (most recent call last):
        ...
        ValueError: low must be at most high=2, received 3. Exchange them
    """
    (low, first), (high, second) = bounds.items()
    if first > second:
        raise ValueError(
            f"{low} must be at most {high}={second}, received {first}. Exchange them"
        )


def channels(name: str, value: Iterable[int]) -> list[int]:
    """Returns the indices of channels as a list of whole numbers of at least 0.

    Examples:
        >>> channels("channels", (0, 2))
        [0, 2]
    """
    indices = several(name, value, "whole numbers")
    if not indices:
        raise ValueError(f"{name} must have at least one channel, received {value!r}")
    return [whole_number(name, one, at_least=0) for one in indices]


def random_generator(
    seed: "int | Sequence[int] | np.random.Generator | None", name: str = "seed"
) -> "np.random.Generator":
    """Returns NumPy's generator for a seed: a whole number, several, or None.

    Examples:
        >>> random_generator("now")
        Traceback (most recent call last):
        ...
        TypeError: `seed` must be a whole number of at least 0, or None, received 'now'
    """
    import numpy as np

    try:
        if isinstance(seed, str | bytes | dict | bool):
            raise TypeError
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        kind = ValueError if isinstance(seed, int) else TypeError
        raise kind(
            f"`{name}` must be a whole number of at least 0, or None, received "
            f"{short(seed)}"
        ) from error


def short(value: object) -> str:
    """Returns a value as text for a message, cut if it is long.

    Examples:
        >>> len(short(list(range(99))))
        60
    """
    text = repr(value)
    # A message has several values: each may take most of a line.
    return text if len(text) <= 60 else f"{text[:59]}…"


def only_listed(
    explain: Callable[[str, Callable[..., Any], Iterable[str], dict[str, Any]], None],
) -> Callable[[Callable[Listed, Value]], Callable[Listed, Value]]:
    """Makes the error about an unknown argument of a function suggest the right one.

    Args:
        explain: Raises it, as `arguments.check_names`.
    """
    import inspect  # here, as the text tools and `import kerasseq` do without

    def decorate(function: Callable[Listed, Value]) -> Callable[Listed, Value]:
        known = inspect.signature(function).parameters

        @functools.wraps(function)
        def call(*args: Listed.args, **kwargs: Listed.kwargs) -> Value:
            if not kwargs.keys() <= known.keys():
                explain(function.__name__, function, known, kwargs)
            return function(*args, **kwargs)

        return call

    return decorate


def attribute_hints(base: type, hints: Mapping[str, str]) -> Callable[[Any, str], Any]:
    """Returns a `__getattr__` whose error names what to use instead of a method.

    Args:
        base: The base class. Its own `__getattr__` looks up all other names, as that of
            PyTorch's modules.
        hints: What to use, by the name of a method of another library.
    """
    inherited = getattr(base, "__getattr__", object.__getattribute__)

    def missing(self: Any, name: str) -> Any:
        if name not in hints:
            return inherited(self, name)
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}. Use "
            f"{hints[name]}"
        )

    return missing


def alike(labels: Iterable[object]) -> list[tuple[str, str]]:
    """Returns the labels that differ from another one only in capitals or spaces.

    Labels of one letter are not compared.

    Args:
        labels: Different labels.

    Returns:
        Each with the first one that is like it, in order.

    Examples:
        >>> alike(["Sport", "sport", "SPORT ", "music", "a", "A"])
        [('Sport', 'SPORT '), ('sport', 'SPORT ')]
    """
    first: dict[str, str] = {}
    pairs = []
    for label in sorted(name for name in labels if isinstance(name, str)):
        key = "".join(label.split()).casefold()
        if len(key) > 1 and first.setdefault(key, label) != label:
            pairs.append((label, first[key]))
    return pairs


def written_alike(labels: Collection[object]) -> str:
    """Returns a sentence about labels that are `alike`; "" if there are none."""
    if not (pairs := alike(labels)):
        return ""
    return (
        f"{len(pairs):,} of {len(labels):,} labels differ from another one only in "
        f"capitals or spaces, such as {pairs[0][0]!r} and {pairs[0][1]!r}. They are "
        "different labels: if they mean the same, write them alike"
    )
