"""What the command prints: with colours and bars on a terminal, elsewhere plain."""

import sys

import rich.box
import rich.console
import rich.table

PLAIN_WIDTH = 88  # of tables that no terminal cuts to its width


class Console(rich.console.Console):
    """A rich console that prints text as it is, brackets and all.

    Args:
        stderr: Whether to print there: where stdout is for results in JSON.
    """

    def __init__(self, stderr=False):
        stream = sys.stderr if stderr else sys.stdout
        terminal = stream.isatty()
        super().__init__(
            file=stream,
            width=None if terminal else PLAIN_WIDTH,
            force_terminal=terminal,
            color_system="auto" if terminal else None,
            markup=False,
            highlight=False,
            emoji=False,
        )

    def on_broken_pipe(self):
        """Let `main` decide, as for whatever else is printed."""
        raise

    def say(self, text="", style=None):
        """Print text as it is; the terminal alone breaks the lines."""
        self.print(text, style=style, soft_wrap=True)

    def table(self, title, columns, rows):
        """Print a table.

        Args:
            title: What it shows.
            columns: Headings. Those that begin with `>` stand over numbers.
            rows: What stands in each row.
        """
        made = rich.table.Table(box=rich.box.SIMPLE_HEAD)
        for heading in columns:
            number = heading.startswith(">")
            made.add_column(
                heading.removeprefix(">"),
                justify="right" if number else "left",
                no_wrap=number,
                overflow="fold",
            )
        for row in rows:
            made.add_row(*map(str, row))
        self.say(f"\n{title}", style="bold")
        self.print(made)


def note(text):
    """Tell on stderr what stdout is not for."""
    print(f"kerasseq: {text}", file=sys.stderr)
