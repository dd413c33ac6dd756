"""Where the competitors of a race stand, in its progress and on the terminal."""

import time
from typing import TYPE_CHECKING, Any, Self

import rich.progress

from kerasseq.cli.console import MAX_SILENCE, Console, bars_of_steps

if TYPE_CHECKING:
    from kerasseq.cli.job import Job

OF_PROCESS = ("pid", "time", "seconds", "steps")  # not the same in all processes


class Table:
    """The state of each competitor, in the progress of the race.

    Args:
        job: The `Job` of the race.
        finished: For each competitor whether it is finished already.
    """

    def __init__(self, job: "Job", finished: dict[str, bool]):
        self.job: Job = job
        self.steps: int = job.settings.steps
        self.rows: dict[str, dict[str, Any]] = {
            name: {"state": "finished", "step": self.steps}
            if done
            else {"state": "waiting", "step": 0}
            for name, done in finished.items()
        }
        job.reporter.update(steps=self.steps * len(finished))
        self.report()
        job.reporter.enter("training")

    def follow(self, name: str, line: dict[str, Any]) -> None:
        """Adds a line of the progress of a competitor."""
        kept = {key: value for key, value in line.items() if key not in OF_PROCESS}
        self.rows[name] = {**self.rows[name], "phase": None, **kept}
        self.report()

    def report(self) -> None:
        """Puts the table into the progress of the race."""
        steps = sum(row["step"] for row in self.rows.values())
        self.job.reporter.update(step=steps, competitors=dict(self.rows))


class Board:
    """Shows a bar for each competitor; elsewhere than on a terminal, lines.

    Args:
        console: Where to show it.
        table: The table of the competitors.
    """

    def __init__(self, console: Console, table: Table):
        self.console: Console = console
        self.table: Table = table
        self.bars: rich.progress.Progress | None = None
        self.shown: float = time.monotonic()

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.bars = bars_of_steps(self.console)
            self.tasks: dict[str, rich.progress.TaskID] = {
                name: self.bars.add_task(name, total=self.table.steps, state="")
                for name in self.table.rows
            }
            self.bars.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.bars is not None:
            self.bars.stop()

    def follow(self, name: str, line: dict[str, Any]) -> None:
        """Adds a line of the progress of a competitor, and shows it."""
        before = self.table.rows[name]["state"]
        self.table.follow(name, line)
        row = self.table.rows[name]
        if self.bars is not None:
            self.bars.update(
                self.tasks[name], completed=row["step"], state=describe(row)
            )
        elif row["state"] == "finished" != before:
            self.console.write(f"{name}: {describe(row)}")
        elif time.monotonic() - self.shown > MAX_SILENCE:
            self.shown = time.monotonic()
            for each, row in self.table.rows.items():
                self.console.write(
                    f"{each}: step {row['step']}/{self.table.steps}  {describe(row)}"
                )


def describe(row: dict[str, Any]) -> str:
    """Describes the state of a competitor in a few words.

    Examples:
        >>> describe({"state": "training", "step": 5, "loss": 0.51, "accuracy": 0.7})
        'training  loss 0.510  accuracy 0.700'
    """
    words = [row["state"]]
    for name in ("loss", "accuracy"):
        if row.get(name) is not None:
            words.append(f"{name} {row[name]:.3f}")
    return "  ".join(words)
