"""The code that reproduces a page, to copy or to open as a notebook."""

import dataclasses
import json
import pathlib
import re
import shlex
import textwrap
from collections.abc import Sequence

OWN = "my_data"  # what a file of one's own is called beside a notebook
HELPER = '''
import pathlib
import shlex
import subprocess
import sys


def trained(run, words, file):
    """Returns a file of a run; `kerasseq train` makes the run, unless it is there."""
    if not pathlib.Path(run, "results.json").exists():
        begun = pathlib.Path(run, "run.json").exists()
        words = ["--resume", run] if begun else [*shlex.split(words), "--run", run]
        subprocess.run([sys.executable, "-m", "kerasseq", "train", *words], check=True)
    return pathlib.Path(run, file)

'''


@dataclasses.dataclass(frozen=True)
class Trained:
    """A file of a run: written into code as a call that trains the run first.

    Attributes:
        run: The folder of the run, beside the notebook.
        words: The words after `kerasseq train`.
        file: The file.
    """

    run: str
    words: Sequence[str]
    file: str = "model.keras"

    def __repr__(self) -> str:
        words = [beside(word) for word in self.words]
        lines = textwrap.wrap(
            shlex.join(words), 72, break_long_words=False, break_on_hyphens=False
        )
        lines = [repr(f"{line} ") for line in lines[:-1]] + [repr(lines[-1])]
        written = "".join(f"    {line}\n" for line in lines).rstrip()
        return f"trained(\n    {self.run!r},\n{written},\n    {self.file!r},\n)"


def beside(word: str) -> str:
    """Replaces a file of this computer, also that of an option, by one of the reader.

    Examples:
        >>> beside("--file=/home/a/1.csv"), beside("--data=dates")
        ('--file=my_data.csv', '--data=dates')
    """
    option, sign, value = word.rpartition("=")
    path = pathlib.Path(value)
    return f"{option}{sign}{OWN}{path.suffix}" if path.is_absolute() else word


def fill(template: str, **values: object) -> str:
    r"""Fills `{name}` with `repr(value)`; other braces stay.

    The code runs on another computer: what it needs is trained there (`Trained`), and a
    path is replaced by a file that readers save beside it.

    Examples:
        >>> fill("\n    f({text}, {{1}})\n", text="a")
        "f('a', {{1}})\n"
    """
    code = textwrap.dedent(template).strip() + "\n"

    def written(match):
        value = values[match[1]]
        return repr(beside(str(value)) if isinstance(value, pathlib.Path) else value)

    names = "|".join(map(re.escape, values)) or "(?!)"
    code = re.sub(rf"\{{({names})\}}", written, code)
    files = sorted(set(re.findall(rf"{OWN}\.\w+", code)))
    notes = "".join(f"# Your own data: save them beside this as {f}\n" for f in files)
    helper = f"{HELPER.lstrip()}\n" if "trained(" in code else ""
    return notes + helper + code


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
