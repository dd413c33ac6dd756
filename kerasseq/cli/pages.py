"""A page of headings, paragraphs and tables, as Markdown or HTML."""

import html
from collections.abc import Sequence
from typing import TypeAlias

# ("heading", text), ("paragraph", text) or ("table", headings, rows)
Block: TypeAlias = tuple[str, str] | tuple[str, Sequence[str], Sequence[Sequence[str]]]
STYLE = (
    "body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse}td,th{border-bottom:1px solid #999;"
    "padding:.3em .8em;text-align:left}"
)


def render(blocks: Sequence[Block], suffix: str) -> str:
    r"""Returns a page.

    Args:
        blocks: Its blocks. The first heading is the title.
        suffix: `.md` or `.html`.

    Examples:
        >>> print(render([("heading", "A"), ("table", ["n"], [["a|b"]])], ".md"))
        # A
        <BLANKLINE>
        | n |
        |---|
        | a\|b |
        <BLANKLINE>
    """
    if suffix == ".md":
        return "\n\n".join(map(_markdown, blocks)) + "\n"
    title = next(block[1] for block in blocks if block[0] == "heading")
    head = f"<meta charset='utf-8'><title>{_text(title)}</title><style>{STYLE}</style>"
    body = "\n".join(map(_html, blocks))
    return (
        f"<!doctype html>\n<html><head>{head}</head>\n<body>\n{body}\n</body></html>\n"
    )


def _markdown(block):
    kind, *parts = block
    if kind == "heading":
        return f"# {_cell(parts[0])}"
    if kind == "paragraph":
        return _cell(parts[0])
    headings, rows = parts
    lines = [headings, ["---"] * len(headings), *rows]
    texts = [
        f"| {' | '.join(map(_cell, line))} |" if n != 1 else f"|{'|'.join(line)}|"
        for n, line in enumerate(lines)
    ]
    return "\n".join(texts)


def _cell(text):
    """A text in one line, without the marks of tables and of HTML."""
    text = " ".join(str(text).split()).replace("\\", "\\\\").replace("|", "\\|")
    return text.replace("<", "&lt;")


def _html(block):
    kind, *parts = block
    if kind in ("heading", "paragraph"):
        tag = "h1" if kind == "heading" else "p"
        return f"<{tag}>{_text(parts[0])}</{tag}>"
    headings, rows = parts
    head = "".join(f"<th>{_text(heading)}</th>" for heading in headings)
    cells = ["".join(f"<td>{_text(cell)}</td>" for cell in row) for row in rows]
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><tr>{head}</tr>{body}</table>"


def _text(text):
    return html.escape(str(text))
