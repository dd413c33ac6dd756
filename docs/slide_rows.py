"""Writes the table "Row by row" in the page of the slides.

    python -m docs.slide_rows

The data are in `slide_rows.toml`; a test compares the page with them, and looks for
each test, command and page that they name.
"""

import pathlib
import re
import tomllib
from typing import Any

from docs.examples import PAGE

DATA = pathlib.Path(__file__).with_name("slide_rows.toml")
BEGIN, END = "## Row by row", "## Errata of the slides"
HEAD = ("slides", "what", "shown by")


def rows() -> list[dict[str, Any]]:
    """Returns the rows, in the order of the file."""
    return tomllib.loads(DATA.read_text(encoding="utf-8"))["rows"]


def table() -> str:
    """Returns the sentence with the counts, and the table."""
    found = rows()
    whole = sum("missing" not in row for row in found)
    lines = [
        f"The contents of the five lectures in {len(found)} rows, and what shows each: "
        "a test, a command, a program, a worked example or a section of a page. "
        f"Whole rows: {whole}; the others say what is missing.",
        "",
        f"| {' | '.join(HEAD)} |",
        "|---|---|---|",
        *map(line, found),
    ]
    return "\n".join(lines)


def line(row: dict[str, Any]) -> str:
    """Returns a row of the table."""
    what = row["what"]
    if "missing" in row:
        what += f" (in part: {row['missing']})"
    return f"| {row['slides']} | {what} | {', '.join(map(cell, row['shown']))} |"


def cell(shown: str) -> str:
    """Returns a link to a section or a worked example; all else as code.

    >>> cell("E:957"), cell("kerasseq compare")
    ('[example E:957](#e-957)', '`kerasseq compare`')
    """
    if re.fullmatch(r"[A-E]:\d+", shown):
        return f"[example {shown}](#{shown.lower().replace(':', '-')})"
    return shown if shown.startswith("[") else f"`{shown}`"


def written(page: str) -> str:
    """Returns the page with the table between the two headings."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
