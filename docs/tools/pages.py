"""The page of a tutorial in one language, from its cells and results."""

import datetime
import re
import textwrap

import babel.dates

from docs.tools import labels, results, templates
from docs.tools.places import BACKENDS as ORDER
from docs.tools.tutorial import Cell, Tutorial, TutorialError
from docs.tools.words import BACKENDS, WORDS

PUBLIC = re.compile(r"(?<!\[)`(kerasseq(?:\.[a-z]\w*)+\.[A-Za-z]\w*)`(?!\])")
HEADING = re.compile(r"^(##+ [^\n{]+?) *$", re.MULTILINE)
WORDS_PER_MINUTE = 120  # of a text with code and equations


def page(tutorial: Tutorial, language: str) -> str:
    """Returns the page as Markdown."""
    outputs = results.read(tutorial.name, results.OUTPUTS)
    parts, solved = [], 0
    for cell in tutorial.cells:
        if cell.is_code and not cell.tags & {"small", "hidden"}:
            block = _code(tutorial, cell, language, outputs)
            if "solution" in cell.tags:
                solved += 1
                block = _folded(f"{WORDS[language]['solution']} {solved}", block)
            parts.append(block)
        elif not cell.is_code:
            block = _prose(tutorial, cell, language, outputs)
            if tutorial.explains_solution(cell):
                parts[-1] += "\n\n" + textwrap.indent(block, "    ")
            else:
                parts.append(block)
    title, *rest = parts
    parts = [_front(title), title, _about(tutorial, language, rest, outputs), *rest]
    return "\n\n".join(filter(None, [*parts, _number(tutorial, language, outputs)]))


def text(tutorial: Tutorial, name: str, language: str) -> str:
    """Returns the text of a Markdown cell with its values."""
    found = results.read(tutorial.name, results.OUTPUTS).get("values", {})
    where = f"{tutorial.name}: cell {name}"
    return templates.fill(tutorial.text(name, language), found, language, where)


def caption(content: str) -> tuple[str, str]:
    r"""Returns the alternative text and the caption of a caption cell.

    Examples:
        >>> caption("Two lines\nthat cross.\n\nLoss by *epoch*.")
        ('Two lines that cross.', 'Loss by *epoch*.')
    """
    alternative, _, rest = content.partition("\n\n")
    return " ".join(alternative.split()), " ".join(rest.split())


def is_caption(tutorial: Tutorial, name: str) -> bool:
    """Whether a Markdown cell is the caption of a figure."""
    figures = {cell.name for cell in tutorial.code if "figure" in cell.tags}
    return name.endswith("_caption") and name.removesuffix("_caption") in figures


def date(iso: str, language: str) -> str:
    """Writes a date in words.

    Examples:
        >>> date("2026-11-24", "fr")
        '24 novembre 2026'
    """
    day = datetime.date.fromisoformat(iso)
    return babel.dates.format_date(day, "long", locale=language)


def _front(title):
    return f'---\ntitle: "{title.lstrip("# ")}"\n---'.replace("\\", "")


def _about(tutorial, language, rest, outputs):
    words = WORDS[language]
    count = len(re.findall(r"\w+", "".join(rest)))
    minutes = max(5, round(count / WORDS_PER_MINUTE / 5) * 5)
    seconds = templates.integer(outputs.get("seconds", 0), language)
    time = words["time_value"].format(minutes=minutes, seconds=seconds)
    link = f"[{words['notebook']}](notebooks/{tutorial.name}.ipynb){{ download }}"
    colon = "\u202f: " if language == "fr" else ": "
    return f"*{words['time']}{colon}{time}.* {link}"


def _prose(tutorial, cell, language, outputs):
    if is_caption(tutorial, cell.name):
        return ""
    where = f"{tutorial.name}: cell {cell.name}"
    template = tutorial.text(cell.name, language)
    filled = templates.fill(template, outputs.get("values", {}), language, where)
    filled = HEADING.sub(rf"\1 {{ #{cell.name} }}", filled, count=1)
    return refer(filled)


def refer(content: str) -> str:
    """Makes links to the reference of public names in code font, for mkdocs-autorefs.

    Examples:
        >>> refer("See `kerasseq.layers.LSTM`.")
        'See [`kerasseq.layers.LSTM`][kerasseq.layers.LSTM].'
    """
    return PUBLIC.sub(r"[`\1`][\1]", content)


def _code(tutorial, cell, language, outputs):
    code = cell.source
    if language == "fr" and "figure" in cell.tags:
        code = labels.translate(code, tutorial.labels)
    parts = [f"```python\n{code}\n```"]
    if printed := outputs.get("printed", {}).get(cell.name):
        parts.append(f"```text\n{printed}\n```")
    if "figure" in cell.tags:
        parts.append(_figure(tutorial, cell, language))
    return "\n\n".join(parts)


def _figure(tutorial: Tutorial, cell: Cell, language: str) -> str:
    alternative, content = caption(text(tutorial, f"{cell.name}_caption", language))
    if not results.figure(tutorial.name, cell.name, language).exists():
        raise TutorialError(
            f"{tutorial.name}: there is no figure {cell.name} in the results. Run "
            f"python -m docs.tools refresh {tutorial.name[:2]}"
        )
    path = f"figures/{tutorial.name}_{cell.name}"
    alternative = alternative.replace("[", "(").replace("]", ")")
    images = [
        f"![{alternative}]({path}_{theme}.svg#only-{theme}){{ loading=lazy }}"
        for theme in ("light", "dark")
    ]
    words = f'<figcaption markdown="span">{content}</figcaption>'  # $n$ in it
    return "\n".join(['<figure markdown="span">', *images, words, "</figure>"])


def _folded(title, block):
    return f'??? success "{title}"\n\n' + textwrap.indent(block, "    ")


def _number(tutorial, language, outputs):
    words = WORDS[language]
    found = results.read(tutorial.name, results.BACKENDS)
    if not found:
        return ""
    values = outputs.get("values", {})
    name = values.get("result_name", "")
    name = tutorial.labels.get(name, name) if language == "fr" else name
    columns = ("backend", "result", "cpu", "version", "date")
    rows = [
        [words[column] for column in columns],
        ["---", "---:", "---:", "---", "---"],
    ]
    rows += [
        [
            BACKENDS[backend],
            templates.significant(found[backend]["result"], language),
            templates.integer(found[backend]["seconds"], language),
            f"Keras {found[backend]['keras']}, kerasseq {found[backend]['kerasseq']}",
            date(found[backend]["date"], language),
        ]
        for backend in ORDER
        if backend in found
    ]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    executed = words["executed"].format(
        kerasseq=outputs["kerasseq"],
        keras=outputs["keras"],
        backend=BACKENDS[outputs["backend"]],
        date=date(outputs["date"], language),
    )
    about = words["number_about"].format(name=name)
    heading = f"## {words['number']} {{ #number }}"
    noise = _noise(tutorial.name, language)
    return "\n\n".join(filter(None, [heading, about, table, noise, executed])) + "\n"


def _noise(name, language):
    """Returns how far the number moves with other seeds, in a sentence."""
    words, found = WORDS[language], results.read(name, results.SEEDS)
    if not found:
        return ""
    if not found["results"]:
        return words["no_seeds"]
    first, second = (templates.significant(x, language) for x in found["results"])
    backend = BACKENDS[found["backend"]]
    return words["seeds"].format(backend=backend, first=first, second=second)
