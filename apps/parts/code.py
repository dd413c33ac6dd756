"""The code that reproduces a page, to copy or to open as a notebook."""

import json
import pathlib
import re
import textwrap


def fill(template: str, **values: object) -> str:
    r"""Fills `{name}` with `repr(value)`; other braces stay.

    Examples:
        >>> fill("\n    f({text}, {{1}})\n", text="a")
        "f('a', {{1}})\n"
    """
    code = textwrap.dedent(template).strip() + "\n"

    def written(match):
        value = values[match[1]]
        return repr(str(value) if isinstance(value, pathlib.Path) else value)

    names = "|".join(map(re.escape, values)) or "(?!)"
    return re.sub(rf"\{{({names})\}}", written, code)


def notebook(title: str, address: str, code: str) -> bytes:
    r"""Returns a notebook: a heading, then one cell per paragraph group of the code.

    Args:
        title: The heading.
        address: A sentence below it.
        code: Python.

    Examples:
        >>> json.loads(notebook("A", "b", "x = 1\n"))["cells"][1]["source"]
        'x = 1'
    """
    cells = [
        {
            "cell_type": "markdown",
            "id": "title",
            "metadata": {},
            "source": f"# {title}\n\n{address}",
        },
        *(
            {
                "cell_type": "code",
                "id": f"code-{n}",
                "metadata": {},
                "execution_count": None,
                "outputs": [],
                "source": part.strip("\n"),
            }
            for n, part in enumerate(_parts(code))
        ),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    content = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, ensure_ascii=False, indent=1).encode()


def _parts(code):
    """Splits code at empty lines that are followed by unindented code."""
    parts = [[]]
    lines = code.strip("\n").split("\n")
    for before, line in zip(["", *lines], lines, strict=False):
        if not before.strip() and line[:1].strip() and parts[-1]:
            parts.append([])
        parts[-1].append(line)
    return ["\n".join(part) for part in parts]
