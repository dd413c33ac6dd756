"""What tutorials, results and pages must fulfil: each problem as one line."""

import html
import pathlib
import re
from collections.abc import Iterator

from docs.tools import key, prose, render, results, tutorial
from docs.tools.labels import literals, shown
from docs.tools.places import BACKENDS, LANGUAGES, PAGES, TUTORIALS, course
from docs.tools.tutorial import Tutorial, TutorialError

SECTIONS = (
    "title", "goals", "question", "equation", "scratch", "library", "inside",
    "misconception", "experiment", "exercises", "summary", "questions", "references",
)  # fmt: skip
MOST_LINES = 40  # of the cells tagged scratch
MOST_BYTES = 5_000_000
SOLUTIONS = 3


def problems(name: str) -> list[str]:
    """Returns the problems of a tutorial, of its results, and of its pages."""
    try:
        read = tutorial.read(name)
        found = [*source_problems(read), *result_problems(read)]
        return found or [*page_problems(read)]
    except TutorialError as error:
        return [str(error)]


def source_problems(read: Tutorial) -> Iterator[str]:
    """Yields what is wrong in the script and in the French file."""
    for problem in (
        *_sections(read),
        *_languages(read),
        *_scratch(read),
        *_figures(read),
        *_labels(read),
        *prose.problems(read),
    ):
        yield f"{read.name}: {problem}"


def _sections(read):
    order = [cell.name for cell in read.cells]
    missing = [name for name in SECTIONS if name not in order]
    yield from (f"there is no cell {name}" for name in missing)
    there = [name for name in order if name in SECTIONS]
    if not missing and there != list(SECTIONS):
        yield "the cells must have the order " + ", ".join(SECTIONS)
    count = sum("solution" in cell.tags for cell in read.cells)
    if count < SOLUTIONS:
        yield f"{count} cells have the tag solution, {SOLUTIONS} are needed"
    cells = {cell.name: n for n, cell in enumerate(read.cells)}
    if "settings" in cells and not any("small" in cell.tags for cell in read.cells):
        yield "the cell settings must be followed by a cell with the tag small"


def _languages(read):
    english = [cell.name for cell in read.prose]
    if english != list(read.french):
        yield from (f"fr/ lacks {name}" for name in english if name not in read.french)
        yield from (f"fr/ has {name}" for name in read.french if name not in english)
        if sorted(english) == sorted(read.french):
            yield "the French cells must have the order of the English ones"


def _scratch(read):
    cells = [cell for cell in read.code if "scratch" in cell.tags]
    lines = sum(len(re.findall(r"(?m)^.*\S", cell.source)) for cell in cells)
    if not cells or lines > MOST_LINES:
        yield f"{lines} lines of code have the tag scratch, between 1 and {MOST_LINES}"


def _figures(read):
    order = [cell.name for cell in read.cells]
    for n, cell in enumerate(read.cells):
        if "figure" not in cell.tags:
            continue
        name = f"{cell.name}_caption"
        if order[n + 1 : n + 2] != [name]:
            yield f"the figure {cell.name} must be followed by the cell {name}"
            continue
        for language in LANGUAGES:
            words = read.french.get(name, "\n\n.") if language == "fr" else ""
            text = words or read.text(name, language)
            alternative, _, rest = text.partition("\n\n")
            if not alternative.strip() or not rest.strip():
                yield (
                    f"{name} ({language}) must have an alternative text, an empty "
                    "line, and a caption"
                )


def _labels(read):
    cells = [cell.source for cell in read.code if "figure" in cell.tags]
    needed = set().union(*map(shown, cells))
    used = {node.value for code in cells for node in literals(code)}
    values = results.read(read.name, results.OUTPUTS).get("values", {})
    if result_name := values.get("result_name"):
        needed.add(result_name)
    used |= needed | {text for text in read.labels if _is_drawn(read, text)}
    for text in sorted(needed - read.labels.keys()):
        yield f'the label "{text}" has no translation'
    for text in sorted(read.labels.keys() - used):
        yield f'the label "{text}" is not in a figure'


def _is_drawn(read, text):
    """Whether a label of a plot of kerasseq is in a figure, line by line."""
    lines = {html.escape(line, quote=False) for line in text.split("\n")}
    figures = results.folder(read.name).glob("*.en.svg")
    return any(
        lines <= set(re.findall(r">([^<>]+)</t", path.read_text(encoding="utf-8")))
        for path in figures
    )


def result_problems(read: Tutorial) -> Iterator[str]:
    """Yields results that are missing, or of other code."""
    number, now = read.name[:2], key.key(read)
    outputs = results.read(read.name, results.OUTPUTS)
    command = f"python -m docs.tools refresh {number}"
    if not outputs:
        yield f"{read.name}: was not executed. Run {command}"
    elif outputs["key"] != now:
        yield f"{read.name}: the results are of other code. Run {command}"
    elif outputs["labels"] != key.labels_key(read):
        yield f"{read.name}: the figures have other French labels. Run {command}"
    found = results.read(read.name, results.BACKENDS)
    for backend in BACKENDS:
        if found.get(backend, {}).get("key") != now:
            yield (
                f"{read.name}: the number on {backend} is missing or of other code. "
                f"Run python -m docs.tools numbers {number}"
            )
    if results.read(read.name, results.SEEDS).get("key") != now:
        yield (
            f"{read.name}: the numbers with other seeds are missing or of other code. "
            f"Run python -m docs.tools seeds {number}"
        )


def page_problems(read: Tutorial) -> Iterator[str]:
    """Yields pages that differ from what rendering gives."""
    made = render.files(read)
    for path, content in made.items():
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            yield f"{_short(path)} differs. Run python -m docs.tools render"
    for path in sorted(render.existing(read.name) - made.keys()):
        yield f"{_short(path)} is of no cell. Run python -m docs.tools render"


def size_problems() -> Iterator[str]:
    """Yields a problem if pages and results are too large."""
    homes = [TUTORIALS / "results", *(course(language) for language in LANGUAGES)]
    paths = [path for home in homes for path in home.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in paths)
    if size > MOST_BYTES:
        yield f"pages and results have {size:,} bytes, more than {MOST_BYTES:,}"


def _short(path: pathlib.Path) -> str:
    return path.relative_to(PAGES.parent).as_posix()
