"""The worked examples of the course slides, and those of a deck of one's own.

Each example has the lecture and the line of the slides, sentences of one line, and
numbers. A number is "given" if the slides state it, and "computed" if it follows from
the inputs by a recipe; the app computes these again beside the slide.
`slide_examples.toml` has the examples of the lectures A to E.
"""

import dataclasses
import functools
import os
import pathlib
import types
from collections.abc import Mapping
from typing import Any, overload

from kerasseq.core.checks import nearest, short
from kerasseq.datasets.recipe_inputs import RECIPES, check_inputs

FILE = pathlib.Path(__file__).with_name("slide_examples.toml")
KINDS = ("sentence", "scores", "probabilities", "counts", "positions", "dialogue")
MARKS = ("given", "computed")
LABS = ("start", "race", "gates", "gradients", "tape", "language_model", "translation")
LABS += ("chat", "attention", "positions", "window", "tokens", "bert", "vision")
LABS += ("count", "votes", "experts", "speech", "pictures")
_TYPES = {str: "a string", list: "a list", dict: "a table", float: "a number"}


@dataclasses.dataclass(frozen=True)
class SlideNumber:
    """A number, a word or a table of an example.

    Attributes:
        name: What it is, in English.
        name_fr: The same in French.
        value: A number or a string, or a tuple or a mapping of these.
        mark: "given" if the slides state it, "computed" if it follows from the inputs.
        result: The result of the recipe that it is; empty if given.
        within: How far a computed number may be from the value; None for half a unit of
            the last digit.
    """

    name: str
    name_fr: str
    value: Any
    mark: str
    result: str = ""
    within: float | None = None


@dataclasses.dataclass(frozen=True)
class SlideExample:
    """A worked example of the slides.

    Attributes:
        id: Lecture and line, such as "E:575".
        title: What it is, in English.
        title_fr: The same in French.
        kind: "sentence", "scores", "probabilities", "counts", "positions" or
            "dialogue".
        lab: The lab of the app that opens it.
        state: The controls of this lab, as in its address.
        sentences: Quoted sentences of one line.
        recipe: How computed numbers follow from the inputs; empty if none does.
        inputs: The inputs of the recipe.
        numbers: A `SlideNumber` for each.
    """

    id: str
    title: str
    title_fr: str
    kind: str
    lab: str
    state: Mapping[str, str]
    sentences: tuple[str, ...]
    recipe: str
    inputs: Mapping[str, Any]
    numbers: tuple[SlideNumber, ...]


@overload
def slides(
    name: None = None, *, deck: str | os.PathLike[str] | None = None
) -> tuple[SlideExample, ...]: ...
@overload
def slides(
    name: str, *, deck: str | os.PathLike[str] | None = None
) -> SlideExample: ...
def slides(
    name: str | None = None, *, deck: str | os.PathLike[str] | None = None
) -> SlideExample | tuple[SlideExample, ...]:
    """Returns the worked examples of the course slides.

    Args:
        name: Lecture and line of one example, such as "E:575"; all if None.
        deck: A TOML file with examples of one's own, in the form of
            `kerasseq/datasets/slide_examples.toml`; those of the course if None.

    Returns:
        A `SlideExample`, or a tuple of all.

    Raises:
        FileNotFoundError: If the deck does not exist.
        TypeError: If `name` is not a string, or `deck` not a path.
        ValueError: If there is no such example, or a field of the deck is wrong: the
            message names the file, the example and the field.

    Examples:
        >>> example = slides("E:575")
        >>> example.sentences[0]
        'a fluffy blue creature roamed the verdant forest'
        >>> [(number.mark, number.value) for number in example.numbers][0]
        ('given', (0.42, 0.58))
        >>> marks = [number.mark for example in slides() for number in example.numbers]
        >>> len(slides()) > 45, marks.count("computed") > marks.count("given")
        (True, True)
    """
    if deck is None:
        examples = _course()
    elif isinstance(deck, str | os.PathLike):
        examples = _read(pathlib.Path(deck))
    else:
        raise TypeError(f"deck must be the path of a TOML file, received {short(deck)}")
    if name is None:
        return tuple(examples.values())
    if not isinstance(name, str):
        raise TypeError(
            f"name must be a string such as 'E:575', received {short(name)}"
        )
    if name not in examples:
        where = "the course" if deck is None else str(deck)
        raise ValueError(
            f"{where} has no example {short(name)}.{nearest(name, examples)} slides() "
            "lists all"
        )
    return examples[name]


@functools.cache
def _course() -> dict[str, SlideExample]:
    return _read(FILE)


def _read(file: pathlib.Path) -> dict[str, SlideExample]:
    """Reads the examples of a deck, by their ids."""
    import tomllib

    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} must be a TOML file in UTF-8: {error}") from None
    deck = _Table(content, f"{file}", ("examples",))
    examples: dict[str, SlideExample] = {}
    for n, row in enumerate(deck.get("examples", list), 1):
        example = _example(row, f"{file}, example {n}", examples)
        examples[example.id] = example
    if not examples:
        raise ValueError(f"{file} must have at least one [[examples]], received none")
    return examples


class _Table:
    """The fields of a table of the file, taken with errors that name them."""

    def __init__(self, row: Any, where: str, known: tuple[str, ...]):
        if not isinstance(row, dict):
            raise ValueError(f"{where} must be a table, received {short(row)}")
        self.row, self.where = row, where
        for field in row:
            if field not in known:
                hint = nearest(field, known) or f" Fields: {', '.join(known)}"
                raise ValueError(f"{where}: there is no field `{field}`.{hint}")

    def get(self, field: str, kind: type, default: Any = None) -> Any:
        """Returns a field of this type, which is required if there is no default."""
        if field not in self.row and default is not None:
            return default
        value = self.row.get(field)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (kind is str and not value):
            got = "none" if field not in self.row else short(value)
            expected = _TYPES[kind]
            raise ValueError(
                f"{self.where}: `{field}` must be {expected}, received {got}"
            )
        return value

    def strings(self, field: str, kind: type) -> Any:
        """Returns a list or a table of strings of one line; empty if it is missing."""
        values = self.get(field, kind, kind())
        for value in values.values() if kind is dict else values:
            if not isinstance(value, str):
                got = short(value)
                raise ValueError(
                    f"{self.where}: `{field}` must hold strings, received {got}"
                )
        return values

    def choice(self, field: str, choices: Any) -> str:
        """Returns a field that must be one of some names."""
        value = self.get(field, str)
        if value not in choices:
            hint = nearest(value, choices)
            raise ValueError(
                f"{self.where}: `{field}` must be one of {', '.join(choices)}, "
                f"received {short(value)}.{hint}"
            )
        return value


_FIELDS = ("id", "title", "title_fr", "kind", "sentences", "lab", "state", "recipe")
_FIELDS += ("inputs", "inputs_of", "numbers")


def _example(row: Any, where: str, before: dict[str, SlideExample]) -> SlideExample:
    """Reads an example; `before` has those that stand before it in the file."""
    table = _Table(row, where, _FIELDS)
    name, title = table.get("id", str), table.get("title", str)
    table.where += f" ({name[:40]})"
    if name in before:
        raise ValueError(
            f"{table.where}: `id` must be new, received {short(name)} again"
        )
    for sentence in table.strings("sentences", list):
        if "\n" in sentence:
            raise ValueError(
                f"{table.where}: `sentences` must be of one line each, received "
                f"{short(sentence)}"
            )
    recipe = table.choice("recipe", RECIPES) if "recipe" in row else ""
    rows = enumerate(table.get("numbers", list, []), 1)
    numbers = [_number(one, f"{table.where}, number {n}", recipe) for n, one in rows]
    return SlideExample(
        id=name,
        title=title,
        title_fr=table.get("title_fr", str, title),
        kind=table.choice("kind", KINDS),
        lab=table.choice("lab", LABS),
        state=types.MappingProxyType(dict(table.strings("state", dict))),
        sentences=tuple(table.strings("sentences", list)),
        recipe=recipe,
        inputs=_inputs(table, recipe, before),
        numbers=tuple(numbers),
    )


def _inputs(table: _Table, recipe: str, before: dict[str, SlideExample]) -> Any:
    """Returns the inputs of the recipe: of this example, or of one before it."""
    if "inputs_of" in table.row:
        same = [name for name, example in before.items() if example.recipe == recipe]
        return before[table.choice("inputs_of", same)].inputs
    inputs = table.get("inputs", dict, {})
    known = tuple(RECIPES[recipe].inputs) if recipe else ()
    _Table(inputs, f"{table.where}, inputs", known)
    if recipe:
        check_inputs(recipe, inputs, table.where)
    return _frozen(inputs)


def _number(row: Any, where: str, recipe: str) -> SlideNumber:
    fields = tuple(field.name for field in dataclasses.fields(SlideNumber))
    table = _Table(row, where, fields)
    name, mark = table.get("name", str), table.choice("mark", MARKS)
    if "value" not in row:
        raise ValueError(f"{where}: `value` must be set, received none")
    computed = mark == "computed"
    if computed and not recipe:
        raise ValueError(
            f'{where}: `mark` "computed" needs a `recipe` in the example, received '
            'none. Choose one, or "given"'
        )
    return SlideNumber(
        name=name,
        name_fr=table.get("name_fr", str, name),
        value=_frozen(row["value"]),
        mark=mark,
        result=table.choice("result", RECIPES[recipe].results) if computed else "",
        within=table.get("within", float) if "within" in row else None,
    )


def _frozen(value: Any) -> Any:
    """Returns lists as tuples, and tables that cannot be changed."""
    if isinstance(value, dict):
        items = {key: _frozen(item) for key, item in value.items()}
        return types.MappingProxyType(items)
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return value
