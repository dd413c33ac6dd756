"""The notebook of a tutorial in one language: it runs anywhere."""

import re
import sys

import nbformat

import kerasseq.core.packages as packages
from docs.tools import labels, pages
from docs.tools.tutorial import Tutorial
from docs.tools.words import WORDS

LINK = re.compile(r"\((\d\d_\w+)\.md\)")  # notebooks lie side by side
CHOOSE = 'import os\n\nos.environ["KERAS_BACKEND"] = "torch"'
EXTRAS = ("torch", "data", "text", "viz")
PACKAGES = {"sklearn": "scikit-learn", "PIL": "pillow"}
WITH_KERASSEQ = {"keras", "kerasseq", "matplotlib", "numpy"} | sys.stdlib_module_names
IMPORT = re.compile(r"^\s*(?:import|from) (\w+)", re.MULTILINE)


def notebook(tutorial: Tutorial, language: str) -> str:
    """Returns the notebook as JSON, without outputs."""
    words = WORDS[language]
    title, *rest = _cells(tutorial, language, solutions=False)
    choose = f"{words['choose_comment']}\n{CHOOSE}"
    cells = [
        title,
        _made("before_you_start", words["install"], code=False),
        _made("install", _install(tutorial, words), code=True),
        _made("choose_backend", choose, code=True),
        *rest,
    ]
    if solutions := list(_cells(tutorial, language, solutions=True)):
        cells += [
            _made("solutions", f"## {words['solutions']}", code=False),
            *solutions,
        ]
    made = nbformat.v4.new_notebook(
        cells=cells,
        metadata={
            "kernelspec": {
                "display_name": "Python 3",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python"},
        },
    )
    return nbformat.writes(made) + "\n"


def _install(tutorial, words):
    """Returns the cell that installs kerasseq, and what the code imports besides.

    Without an address, it installs a copy of the repository, whose folder it names.
    """
    found = {name for cell in tutorial.code for name in IMPORT.findall(cell.source)}
    others = sorted(PACKAGES.get(name, name) for name in found - WITH_KERASSEQ)
    own = packages.requirement(*EXTRAS, copy="{repository}")
    lines = [words["install_comment"], " ".join(["%pip install -q", own, *others])]
    if "{repository}" in own:
        lines.insert(1, f'repository = "."  {words["copy_comment"]}')
    return "\n".join(lines)


def _cells(tutorial, language, *, solutions):
    solved = 0
    for cell in tutorial.cells:
        if cell.is_code and cell.tags & {"small", "hidden"}:
            continue
        is_solution = "solution" in cell.tags
        solved += is_solution
        if (is_solution or tutorial.explains_solution(cell)) != solutions:
            continue
        if not cell.is_code:
            content = pages.text(tutorial, cell.name, language)
            if pages.is_caption(tutorial, cell.name):
                content = f"*{pages.caption(content)[1]}*"
            yield _made(cell.name, LINK.sub(r"(\1.ipynb)", content), code=False)
            continue
        source = cell.source
        if language == "fr" and "figure" in cell.tags:
            source = labels.translate(source, tutorial.labels)
        if is_solution:
            source = f"# {WORDS[language]['solution']} {solved}\n{source}"
        yield _made(cell.name, source, code=True, tags=sorted(cell.tags))


def _made(name, content, *, code, tags=()):
    make = nbformat.v4.new_code_cell if code else nbformat.v4.new_markdown_cell
    metadata = {"tags": list(tags)} if tags else {}
    return make(content, id=name[:64], metadata=metadata)
