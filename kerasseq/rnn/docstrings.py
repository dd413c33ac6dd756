"""Completes docstrings by those of base classes and of the cell of a layer."""

import inspect
import re
from collections.abc import Iterable
from typing import TypeVar

Class = TypeVar("Class", bound=type)
HEADINGS = ("Args", "Raises", "Examples", "References")
SECTION = re.compile(rf"^(?=(?:{'|'.join(HEADINGS)}):$)", re.MULTILINE)
ARGUMENT = re.compile(r"^ {4}(?=\S)", re.MULTILINE)


def complete_docstring(cls: Class) -> Class:
    """Adds to the docstring of a cell or layer what others document, for `help`.

    That is each argument that the class lists, from a base class or from its `Cell`,
    and the text and the references of the cell, if the class has no own.
    """
    if cls.__doc__ is not None:  # it is with `python -OO`
        cell = cls.Cell.__doc__ if hasattr(cls, "Cell") else ""
        bases = [base.__doc__ or "" for base in cls.__mro__[1:]]
        names = inspect.signature(cls).parameters
        cls.__doc__ = completed(cls.__doc__, names, bases, cell)
    return cls


def completed(
    docstring: str, names: Iterable[str], bases: Iterable[str], cell: str
) -> str:
    r"""Returns a docstring with entries for all arguments.

    Args:
        docstring: The docstring of the class.
        names: The arguments of the class.
        bases: The docstrings of its base classes, the nearest first.
        cell: That of its cell, or "".

    Examples:
        >>> base = "Any cell.\n\nArgs:\n    a: One.\n    b: Two."
        >>> print(completed("This cell.", ["b"], [base], ""))
        This cell.
        <BLANKLINE>
        Args:
            b: Two.
    """
    own, of_cell = sections(docstring), sections(cell)
    summary, _, text = own[""].partition("\n\n")
    if "$$" not in text:
        text = of_cell[""].partition("\n\n")[2] + text
    documented = {}
    for source in (of_cell, *map(sections, reversed([*bases])), own):
        documented |= entries(source.get("Args", ""))
    parts_of = {"References": of_cell.get("References", ""), **own, "Args": "Args:\n"}
    for name in names:
        parts_of["Args"] += documented["**kwargs" if name == "kwargs" else name]
    parts = [summary, text, *(parts_of.get(heading, "") for heading in HEADINGS)]
    return "\n\n".join(part.strip("\n") for part in parts if part)


def sections(docstring: str) -> dict[str, str]:
    r"""Cuts a docstring into its sections by heading; "" is the text before them.

    Examples:
        >>> sections("A cell.\n\nArgs:\n    units: Its size.\n")
        {'': 'A cell.\n\n', 'Args': 'Args:\n    units: Its size.'}
    """
    text, *parts = SECTION.split(inspect.cleandoc(docstring))
    return {"": text, **{part.partition(":")[0]: part for part in parts}}


def entries(section: str) -> dict[str, str]:
    r"""Cuts the section of arguments into its entries by their names.

    Examples:
        >>> entries("Args:\n    units: Its size,\n        a number.\n")
        {'units': '    units: Its size,\n        a number.\n'}
    """
    arguments = ARGUMENT.split(section.strip("\n") + "\n")[1:]
    return {entry.partition(":")[0]: f"    {entry}" for entry in arguments}
