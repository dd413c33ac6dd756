"""The recipes of worked examples: what inputs each takes, and its results by name.

The app computes them, with public names of kerasseq. Loads no Keras, so that a wrong
deck is refused at once.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kerasseq.core.checks import short


class _Kind(NamedTuple):
    """What an input must be, in words, and whether a value is."""

    expected: str
    holds: Callable[[Any], bool]


class Recipe(NamedTuple):
    """A recipe.

    Attributes:
        inputs: The kind of each input.
        results: The names of the results.
        optional: Inputs that can be left out.
        equal: Inputs that are lists of one length.
    """

    inputs: Mapping[str, _Kind]
    results: tuple[str, ...]
    optional: tuple[str, ...] = ()
    equal: tuple[str, ...] = ()


def _number(value):
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _whole(value):
    return isinstance(value, int) and not isinstance(value, bool)


def _list_of(holds):
    return lambda v: isinstance(v, list) and len(v) > 0 and all(map(holds, v))


def _rows(value):
    """Returns whether it is a list of rows of numbers of one length."""
    is_rows = _list_of(_list_of(_number))(value)
    return is_rows and len({len(row) for row in value}) == 1


def _same_words(value):
    words = [text.lower().split() for text in value] if _TEXTS.holds(value) else []
    return len(words) == 2 and sorted(words[0]) == sorted(words[1])


_TEXT = _Kind("a string", lambda v: isinstance(v, str) and v != "")
_TEXTS = _Kind("a list of strings", _list_of(_TEXT.holds))
_SAME_WORDS = _Kind("two strings of the same words", _same_words)
_LIST = _Kind("a list", _list_of(lambda v: True))
_LISTS = _Kind("a list of lists as long as `query`", _list_of(_LIST.holds))
_SIZE = _Kind("a whole number above 0", lambda v: _whole(v) and v > 0)
_FROM_0 = _Kind("a whole number of at least 0", lambda v: _whole(v) and v >= 0)
_ABOVE_0 = _Kind("a number above 0", lambda v: _number(v) and v > 0)
_SHARE = _Kind("above 0 and at most 1", lambda v: _number(v) and 0 < v <= 1)
_SHARES = _Kind("a list of numbers from 0 to 1", _list_of(
    lambda v: _number(v) and 0 <= v <= 1
))  # fmt: skip
_PERCENTS = _Kind("a list of numbers above 0, at most 100", _list_of(
    lambda v: _number(v) and 0 < v <= 100
))  # fmt: skip
_NUMBERS = _Kind("a list of numbers", _list_of(_number))
_COUNTS = _Kind("a list of whole numbers above 0", _list_of(_SIZE.holds))
_IDS = _Kind("a list of at least two whole numbers", lambda v: (
    _list_of(_whole)(v) and len(v) > 1
))  # fmt: skip
_ID_LISTS = _Kind("a list of lists of whole numbers", _list_of(_list_of(_whole)))
_SCORES = _Kind("a list of numbers, or of rows of one length", lambda v: (
    _list_of(_number)(v) or _rows(v)
))  # fmt: skip
_NUMBER = _Kind("a number", _number)
_FLAG = _Kind("true or false", lambda v: isinstance(v, bool))
_POSITION = {"position": _FROM_0, "width": _SIZE}
_BYTE_PAIRS = ("words", "alphabet", "letters", "pairs", "first_merge")
_BYTE_PAIRS += ("after_one_merge", "vocabulary_size", "merges", "tokens")
_COUNTED = ("all", "total", "matrices", "context", "up", "up_per_layer")
_COUNTED += ("keys_per_layer", "share_of_attention")
_SELECTED = ("softmax", "maximum", "soft_maximum", "log_sum_exp", "argmax")
_F1 = {"precision": _SHARES, "recall": _SHARES, "support": _COUNTS}
_ORDERS = ("bags", "without_positions", "with_positions")

RECIPES: dict[str, Recipe] = {
    "eliza": Recipe({"lines": _TEXTS}, ("greeting", "replies")),
    "joined": Recipe({"pieces": _TEXTS, "end_of_word": _TEXT}, ("text",)),
    "word_order": Recipe({"texts": _SAME_WORDS}, _ORDERS),
    "amplitude": Recipe(_POSITION, ("code",)),
    "binary": Recipe(_POSITION, ("code",)),
    "retrieval": Recipe({"query": _LIST, "keys": _LISTS}, ("scores", "weights")),
    "count": Recipe({"model": _TEXT}, _COUNTED),
    "billions": Recipe({"models": _TEXTS}, ("billions",)),
    "patches": Recipe({"image": _SIZE, "patch": _SIZE}, ("pixels", "patches")),
    "root": Recipe({"width": _ABOVE_0}, ("root",)),
    "balanced": Recipe({"sequences": _ID_LISTS, "colors": _SIZE}, ("classes",)),
    "soft_selection": Recipe(
        {"scores": _NUMBERS, "items": _NUMBERS}, _SELECTED, equal=("scores", "items")
    ),
    "bag_of_words": Recipe({"texts": _TEXTS}, ("counts",)),
    "cross_entropy": Recipe({"probability": _SHARE}, ("loss",)),
    "memory": Recipe(
        {"devices": _NUMBERS, "gigabytes": _NUMBERS},
        ("gigabytes",),
        equal=("devices", "gigabytes"),
    ),
    "chain": Recipe({"percents": _PERCENTS}, ("product", "perplexity")),
    "matrix": Recipe({"rows": _SIZE, "columns": _SIZE}, ("weights",)),
    "softmax": Recipe(
        {"scores": _SCORES, "causal": _FLAG}, ("weights",), optional=("causal",)
    ),
    "total": Recipe({"parts": _NUMBERS}, ("total",)),
    "f1": Recipe(_F1, ("f1",), equal=("precision", "recall", "support")),
    "byte_pairs": Recipe(
        {"corpus": _TEXTS, "merges": _SIZE, "sentence": _TEXT}, _BYTE_PAIRS
    ),
    "characters": Recipe({"alphabet": _TEXT, "text": _TEXT}, ("size", "ids")),
    "block": Recipe({"ids": _IDS}, ("lines",)),
    "kernel": Recipe(
        {"query": _NUMBER, "keys": _NUMBERS, "values": _NUMBERS},
        ("weights", "mean"),
        equal=("keys", "values"),
    ),
}


def check_inputs(recipe: str, inputs: Mapping[str, Any], where: str) -> None:
    """Checks that a recipe can compute with these inputs.

    Args:
        recipe: Its name.
        inputs: Its inputs, as they are in the file.
        where: The file and the example, for the message.

    Raises:
        ValueError: If an input is missing or wrong; the message names it.

    Examples:
        >>> check_inputs("root", {"width": 64}, "deck.toml")
        >>> check_inputs("root", {"width": "64"}, "deck.toml")
        Traceback (most recent call last):
        ValueError: deck.toml, inputs: `width` must be a number above 0, received '64'
    """
    chosen = RECIPES[recipe]
    for name, kind in chosen.inputs.items():
        if name not in inputs and name in chosen.optional:
            continue
        if name not in inputs:
            raise ValueError(
                f"{where}: the recipe {recipe} needs the input `{name}`, received none"
            )
        if not kind.holds(inputs[name]):
            raise ValueError(
                f"{where}, inputs: `{name}` must be {kind.expected}, received "
                f"{short(inputs[name])}"
            )
    _check_lengths(chosen, inputs, where)


def _check_lengths(recipe, inputs, where):
    """Checks lists that belong together."""
    lengths = {name: len(inputs[name]) for name in recipe.equal}
    if recipe.inputs.get("keys") is _LISTS:
        lengths["query"] = len(inputs["query"])
        lengths |= {
            f"keys[{n}]": len(key)
            for n, key in enumerate(inputs["keys"])
            if len(key) != lengths["query"]
        }
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"`{name}` of {n}" for name, n in lengths.items())
        raise ValueError(
            f"{where}, inputs: lists must be of one length, received {listed}"
        )
