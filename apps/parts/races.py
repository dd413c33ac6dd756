"""What the labs Start and Memory race share: competitors and their curves."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import kerasseq
from parts import figures, run_names, runs

LINES = 260  # points of a curve


def request(
    cell: str,
    *,
    backend: str,
    title: str,
    lab: str,
    seed: int,
    steps: int,
    colors: int = 1,
    lengths: tuple[int, int] = (40, 60),
    kind: str = "hard",
    units: int = 32,
    learning_rate: float = 0.005,
    batch_size: int = 64,
    flipped: float = 0.0,
) -> runs.Request:
    """Returns what one competitor trains: a run of `kerasseq train parentheses`.

    Args:
        cell: The kind of network.
        backend: The backend.
        title: What the network is called.
        lab: The lab.
        seed: The random seed.
        steps: Training steps.
        colors: Colors of parentheses.
        lengths: The shortest and the longest training string.
        kind: "training", "hard" or "balanced".
        units: Units of the layer.
        learning_rate: The learning rate of Adam.
        batch_size: Strings in a batch.
        flipped: The share of labels that are wrong.
    """
    options = {
        "model": cell,
        "colors": colors,
        "lengths": f"{lengths[0]}-{lengths[1]}",
        "kind": kind,
        "units": units,
        "learning-rate": learning_rate,
        "batch-size": batch_size,
        "steps": steps,
        "checkpoint-every": max(10, steps // 20),
        "examples": 20_000,
        "test-examples": 500,
        "seeds": seed,
    }
    if flipped:
        options["flipped"] = flipped
    words = [f"--{name}={value}" for name, value in options.items()]
    settings = {
        "lengths": list(lengths),
        "kind": kind,
        "colors": colors,
        "units": units,
        "seed": seed,
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "steps": steps,
    }
    if flipped:
        settings["flipped"] = flipped
    details = {"cell": cell, "colors": colors, "part": f"{cell}-seed{seed}"}
    details |= {"steps": steps, "settings": settings}
    return runs.Request(("parentheses", *words), backend, title, lab, details)


def rows(
    found: Sequence[runs.Run], lines: dict[str, list[dict[str, Any]]], value: str
) -> list[dict[str, Any]]:
    """Returns step, value and run of each curve; a run is named `<cell>#<id>`."""
    return [
        {"step": line["step"], value: line[value], "run": name_of(run)}
        for run in found
        for line in runs.thinned(
            [line for line in lines[run.id] if line.get(value) is not None], LINES
        )
    ]


def flipped_of(run: runs.Run) -> float:
    """Returns the share of labels that are wrong in the data of a run."""
    return run.request.details.get("settings", {}).get("flipped", 0.0)


def best_possible(here: Any, found: Sequence[runs.Run]) -> dict[str, float]:
    """Returns the accuracy that no network can exceed, by its label, where it is < 1.

    Args:
        here: The lab.
        found: The runs; those on labels of which another share is wrong have another.
    """
    shares = sorted({flipped_of(run) for run in found} - {0.0})
    return {
        here.text("best_possible", value=here.write(1 - share, 2)): 1 - share
        for share in shares
    }


def name_of(run: runs.Run) -> str:
    """Returns the name of a curve, by which it has the color of its network."""
    return f"{run.request.details.get('cell', run.request.title)}#{run.id}"


def curves(
    here: Any, values: Sequence[str] = ("accuracy", "loss")
) -> Callable[[list[runs.Run], dict[str, list[dict[str, Any]]]], None]:
    """Returns a function that draws the curves of runs, for `here.runs`."""

    def draw(found: list[runs.Run], lines: dict[str, list[dict[str, Any]]]) -> None:
        called = run_names.names(here, found)
        names = {name_of(run): called[run.id] for run in found}
        steps = max((run.line.get("steps", 1) for run in found), default=1)
        for value in values:
            table = rows(found, lines, value)
            if not table:
                continue
            titles = {k: here.text(k) for k in ("step", value, "run")}
            rules = {here.text("guessing"): 0.5, **best_possible(here, found)}
            chart = figures.lines(
                here.style,
                table,
                "step",
                value,
                "run",
                titles=titles,
                names=names,
                range_x=(0, steps),
                range_y=(0.4, 1.0) if value == "accuracy" else None,
                rules=rules if value == "accuracy" else None,
            )
            here.picture(
                f"curve_{value}",
                chart,
                [{**row, "run": names[row["run"]]} for row in table],
                titles,
            )

    return draw


def model_of(run: runs.Run) -> pathlib.Path:
    """Returns the folder of the model of a finished run."""
    return run.folder / run.request.details["part"]


def encode(
    symbols: Sequence[str], colors: int, brackets: str
) -> tuple[list[int], list[int]]:
    """Returns the ids of a string, and whether each of its beginnings is balanced.

    Args:
        symbols: The characters.
        colors: The number of colors.
        brackets: An opening and a closing character for each color.

    Examples:
        >>> encode("(())", 1, "()")
        ([1, 1, 2, 2], [0, 0, 0, 1])
        >>> encode("[)", 2, "()[]")
        ([2, 4], [0, 0])
    """
    places = [brackets.index(symbol) for symbol in symbols]
    codes = [p // 2 if p % 2 == 0 else 2 * colors - 1 - p // 2 for p in places]
    notation = [1 - 2 * c for c in codes] if colors == 1 else codes
    labels = [
        int(kerasseq.datasets.is_balanced(notation[: n + 1], colors))
        for n in range(len(notation))
    ]
    return [code + 1 for code in codes], labels
