"""Reads a tutorial: the cells of its script, and their texts in French."""

import dataclasses
import pathlib
import re
import tomllib

import jupytext

from docs.tools import questions
from docs.tools.places import TUTORIALS

SECTION = re.compile(r"^<!-- (?:cell: (\w+)|(labels)) -->\n", re.MULTILINE)
FENCE = re.compile(r"```toml\n(.*?)```", re.DOTALL)


class TutorialError(Exception):
    """A fault of a tutorial, with one sentence on what to change."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell of a tutorial.

    Attributes:
        name: The name, unique in the tutorial.
        source: Code, or Markdown in English.
        is_code: Whether it is code.
        tags: Such as "figure" or "solution".
    """

    name: str
    source: str
    is_code: bool
    tags: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class Tutorial:
    """A tutorial in both languages.

    Attributes:
        name: Such as "04_gates".
        cells: The cells of the script.
        french: The French text of each Markdown cell, by its name.
        labels: The French label of each English one.
    """

    name: str
    cells: tuple[Cell, ...]
    french: dict[str, str]
    labels: dict[str, str]

    def text(self, name: str, language: str) -> str:
        """Returns the text of a Markdown cell, with templates."""
        if language == "fr":
            if name not in self.french:
                raise TutorialError(f"fr/{self.name}.md lacks <!-- cell: {name} -->")
            return self.french[name]
        return next(cell.source for cell in self.cells if cell.name == name)

    def explains_solution(self, cell: Cell) -> bool:
        """Whether a Markdown cell follows a solution, and is folded with it."""
        before = self.cells[self.cells.index(cell) - 1]
        return "solution" in before.tags and cell.name == f"{before.name}_after"

    @property
    def code(self) -> list[Cell]:
        """The code cells at full size."""
        return [c for c in self.cells if c.is_code and "small" not in c.tags]

    @property
    def prose(self) -> list[Cell]:
        """The Markdown cells."""
        return [cell for cell in self.cells if not cell.is_code]


def names(numbers: list[str] | None = None, folder: pathlib.Path = TUTORIALS) -> list:
    """Returns the names of all tutorials, or of those with these numbers."""
    found = sorted(path.stem for path in folder.glob("[0-9][0-9]_*.py"))
    if not numbers:
        return found
    for number in numbers:
        if not any(_is(number, name) for name in found):
            raise TutorialError(
                f'there is no tutorial "{number}" in {folder}. There is: '
                + ", ".join(found)
            )
    return [name for name in found if any(_is(number, name) for number in numbers)]


def _is(number: str, name: str) -> bool:
    return pathlib.Path(number).stem in (name, name[:2])


def read(name: str, folder: pathlib.Path = TUTORIALS) -> Tutorial:
    """Reads a tutorial, with the exercises that kerasseq has of it."""
    script = (folder / f"{name}.py").read_text(encoding="utf-8")
    cells = tuple(
        _cell(name, cell) for cell in jupytext.reads(script, "py:percent").cells
    )
    twice = {c.name for c in cells if [o.name for o in cells].count(c.name) > 1}
    if twice:
        raise TutorialError(f"{name}: two cells have the name {sorted(twice)[0]}")
    path = folder / "fr" / f"{name}.md"
    french, labels = parse_french(path.read_text(encoding="utf-8"), path.name)
    read = Tutorial(name, cells, french, labels)
    return _with_checks(read) if questions.has_checks(name) else read


def _with_checks(read: Tutorial) -> Tutorial:
    """Adds the exercises whose answers are checked, before the summary."""
    added = Cell(questions.NAME, questions.text(read.name, "en"), False)
    cells, french = list(read.cells), {}
    order = [cell.name for cell in cells]
    if questions.BEFORE not in order:
        return read  # another check names the missing cell
    cells.insert(order.index(questions.BEFORE), added)
    for name, text in read.french.items():
        if name == questions.BEFORE:
            french[questions.NAME] = questions.text(read.name, "fr")
        french[name] = text
    return dataclasses.replace(read, cells=tuple(cells), french=french)


def _cell(tutorial: str, cell: dict) -> Cell:
    name = cell.metadata.get("title", "")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        start = cell.source.partition("\n")[0]
        raise TutorialError(f"{tutorial}: a cell has no name: {start!r}")
    tags = frozenset(cell.metadata.get("tags", ()))
    return Cell(name, cell.source.strip(), cell.cell_type == "code", tags)


def parse_french(text: str, file: str = "") -> tuple[dict[str, str], dict[str, str]]:
    r"""Returns the French texts by the names of their cells, and the labels.

    Examples:
        >>> parse_french('<!-- cell: a -->\nOui.\n<!-- labels -->\n')
        ({'a': 'Oui.'}, {})
    """
    parts = SECTION.split(text)
    texts, labels = {}, {}
    for name, is_labels, body in zip(
        parts[1::3], parts[2::3], parts[3::3], strict=True
    ):
        if is_labels:
            toml = "".join(FENCE.findall(body))
            try:
                labels = tomllib.loads(toml)
            except tomllib.TOMLDecodeError as error:
                raise TutorialError(f"fr/{file}: labels: {error}") from None
        elif name in texts:
            raise TutorialError(f"fr/{file}: two cells have the name {name}")
        else:
            texts[name] = body.strip()
    return texts, labels
