"""Writes the table of the worked examples in the page of the slides.

    python -m docs.examples

The data are those of `kerasseq.datasets.slides`; a test compares the page with them.
"""

import pathlib

from kerasseq import datasets

PAGE = pathlib.Path(__file__).parent / "pages" / "en" / "slides.md"
BEGIN, END = "### All examples", "### A deck of your own"
HEAD = ("slide", "example", "numbers")


def table() -> str:
    """Returns the sentence with the counts, and the table."""
    examples = datasets.slides()
    marks = [number.mark for example in examples for number in example.numbers]
    given, computed = marks.count("given"), marks.count("computed")
    lines = [
        f"{len(examples)} examples have {len(marks)} entries with numbers: {given} are "
        f"given, from the slide; {computed} are computed from the inputs.",
        "",
        f"| {' | '.join(HEAD)} |",
        "|---|---|---|",
        *map(row, examples),
    ]
    return "\n".join(lines)


def row(example: datasets.SlideExample) -> str:
    """Returns a row of the table, with an anchor such as `e-575`."""
    anchor = example.id.lower().replace(":", "-")
    link = f"lab:{example.lab}?example={example.id}"
    marks = [number.mark for number in example.numbers]
    counts = [
        f"{marks.count(mark)} {word}"
        for mark, word in (("given", "from the slide"), ("computed", "computed"))
        if mark in marks
    ]
    cells = (
        f'<a id="{anchor}"></a>{example.id}',
        f"[{example.title}]({link})",
        ", ".join(counts),
    )
    return f"| {' | '.join(cells)} |"


def written(page: str) -> str:
    """Returns the page with the table between the two headings."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
