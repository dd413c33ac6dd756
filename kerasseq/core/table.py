"""A table of text, as a terminal and a notebook show it. Loads no Keras."""

import html
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kerasseq.core.printable import printable


class Table(NamedTuple):
    """Rows of text. `str` aligns the columns; a notebook shows a table.

    Attributes:
        rows: The cells of each row. The first is on the left of its column, others are
            on the right.
        header: The names of the columns, if they have any.

    Examples:
        >>> table = Table([("cat", "1"), ("<dog>", "23")], ("", "count"))
        >>> print(table)
               count
        cat        1
        <dog>     23
        >>> table.html().partition("<td>&lt;dog")[2]
        '&gt;</td><td>23</td></tr></table>'
    """

    rows: Sequence[Sequence[str]]
    header: Sequence[str] = ()

    def __str__(self) -> str:
        rows = [[*map(printable, row)] for row in self._all_rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(
                [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
            ).rstrip()
            for row in rows
        )

    def html(self) -> str:
        """Returns the table as HTML."""
        rows = [_html_row(row, "td") for row in self.rows]
        head = [_html_row(self.header, "th")] if self.header else []
        return f"<table>{''.join([*head, *rows])}</table>"

    _repr_html_ = html

    def _all_rows(self) -> Iterable[Sequence[str]]:
        return [self.header, *self.rows] if self.header else self.rows


def _html_row(cells, tag):
    return f"<tr>{''.join(f'<{tag}>{html.escape(c)}</{tag}>' for c in cells)}</tr>"
