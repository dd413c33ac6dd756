"""`kerasseq compare cells`: recurrent cells of equal size on four tasks, with ranks.

Train each cell on four tasks: strings of parentheses, balanced or wrong in one symbol
(accuracy); vectors of three bits to be repeated after a mark (accuracy of the repeated
ones); the Python reference, character by character (bits per character); and the next
value of an autoregressive series (mean squared error). The widths are chosen such that
all cells have as many parameters on a task, within 5 %. Printed are the scores, the
rank of each cell on each task, the mean rank, and whether a cell beats the LSTM and the
GRU on all tasks.

Examples:
  kerasseq compare cells
  kerasseq compare cells --models elman,lstm,gru,slstm --seeds 0 --steps 300
  kerasseq compare cells --tasks parentheses,copy
  kerasseq compare --resume runs/cells-1
"""

import pathlib
import time
from typing import Any

import numpy as np

from kerasseq.cli import cell_tasks, contest, options, runs, verdict
from kerasseq.cli.console import Console
from kerasseq.cli.options import Option
from kerasseq.cli.run import Run
from kerasseq.core import backend
from kerasseq.core.files import sha256

FILE = None  # there are no data of the user
STORED, TABLE = "cells", "cells.csv"
COLUMNS = ("task", "cell", "seed", "width", "parameters", "score")
STANDARD = ("lstm", "gru")  # what the others are compared with
DEFAULTS = {
    "models": ["elman", "gated", "lstm", "peephole_lstm", "gru"],
    "tasks": list(cell_tasks.TASKS),
    "parameters": 10_000,
    "batch_size": 64,
    "learning_rate": 5e-3,
    "steps": 600,
    "examples": 20_000,
    "test_examples": 2000,
    "seeds": [0, 1, 2],
}
CHOICES = {"models": options.RECURRENT, "tasks": tuple(cell_tasks.TASKS)}
HELP = {"steps": "training steps of each cell on each task"}
_SIZE = "parameters of each model, within 5 %%"
_TESTED = "test rows of each task"
_FEW = options.integer(2, 10**6)
OPTIONS = (
    Option("--tasks", "task", "", "NAME", "data"),
    Option("--parameters", options.integer(100), _SIZE, group="model"),
    Option("--examples", _FEW, "training rows of each task", group="training"),
    Option("--test-examples", _FEW, _TESTED, group="training"),
)


def train(run: Run) -> runs.Results:
    """Trains each cell on each task with each seed, unless stored, and compares.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    settings = run.settings
    tests = {
        name: cell_tasks.TASKS[name].data(settings.test_examples, cell_tasks.TEST_SEED)
        for name in settings.tasks
    }
    parts = b"".join(test.x.tobytes() + test.y.tobytes() for test in tests.values())
    data = {"source": ", ".join(settings.tasks), "sha256": sha256(parts)}
    run.check_data(data)
    run.start(
        data,
        f"{len(settings.models)} cells on {len(settings.tasks)} tasks, on "
        f"{backend.chosen()}. The run is saved in {run.folder}",
    )
    names = contest.names(
        [f"{task}-{cell}" for task in settings.tasks for cell in settings.models],
        settings.seeds,
    )
    run.end_dry_run(f"{len(names)} models", competitors=names)

    def measure(name):
        model, seed = contest.parts(name)
        task, cell = model.split("-")
        start = time.perf_counter()
        found = cell_tasks.train(task, cell, seed, settings, tests[task])
        found["seconds"] = round(time.perf_counter() - start, 3)
        return found, f"{task}, {cell}, seed {seed}: {found['score']:.3f}"

    found = contest.measure_all(run, names, STORED, measure, stored)
    results = {
        "task": run.task,
        "seeds": settings.seeds,
        "steps": settings.steps,
        **compare(settings.tasks, settings.models, found),
        "run": str(run.folder),
    }
    show(run.console, results)
    contest.write_table(run, TABLE, COLUMNS, rows_of(results))
    return run.finish(results)


def stored(file: pathlib.Path) -> dict[str, Any] | None:
    """Reads the result of a cell on a task; None if it is not trained yet.

    Raises:
        ValueError: If the file is damaged.
    """

    def check(record):
        for key in ("score", "width", "parameters", "seconds"):
            if not np.isfinite(record[key]):
                raise ValueError(f"{key} must be a number, received {record[key]}")
        return record

    return contest.read_stored(file, "train this cell again", check)


def compare(
    tasks: list[str], cells: list[str], found: dict[str, dict[int, Any]]
) -> dict[str, Any]:
    """Ranks the cells on each task, by their mean score over the seeds.

    Args:
        tasks: Names of tasks.
        cells: Names of cells.
        found: The results by "task-cell" and seed.

    Returns:
        Plain data: scores, ranks and mean ranks, and the sentences about them.
    """
    scores = {
        task: {c: [r["score"] for r in found[f"{task}-{c}"].values()] for c in cells}
        for task in tasks
    }
    ranks = {}
    for task, by_cell in scores.items():
        sign = -1 if cell_tasks.TASKS[task].higher_is_better else 1
        means = [sign * float(np.mean(by_cell[cell])) for cell in cells]
        ranks[task] = dict(zip(cells, rank(means), strict=True))
    first = {name: next(iter(each.values())) for name, each in found.items()}
    return {
        "scores": scores,
        "ranks": ranks,
        "mean_ranks": {
            c: float(np.mean([by_cell[c] for by_cell in ranks.values()])) for c in cells
        },
        "sizes": {
            name: [each["width"], each["parameters"]] for name, each in first.items()
        },
        "sentences": sentences(scores),
    }


def rank(values: list[float]) -> list[float]:
    """Returns the rank of each value, 1 for the lowest; equal ones share theirs.

    Examples:
        >>> rank([0.5, 0.1, 0.5])
        [2.5, 1.0, 2.5]
    """
    x = np.asarray(values)
    return [1 + float((x < v).sum()) + float((x == v).sum() - 1) / 2 for v in x]


def sentences(scores: dict[str, dict[str, list[float]]]) -> list[str]:
    """Returns on how many tasks each other cell beats both the LSTM and the GRU.

    A cell beats another one on a task if the interval of their difference over the
    seeds is above 0.

    Args:
        scores: One per seed, by task and cell.

    Examples:
        >>> scores = {"lstm": [0.5, 0.6], "gru": [0.6, 0.7], "elman": [0.9, 1]}
        >>> sentences({"copy": scores})[0]
        'elman beats both lstm and gru on 1 of 1 tasks (copy).'
    """
    cells = list(next(iter(scores.values())))
    if not set(STANDARD) <= set(cells) or len(cells) == len(STANDARD):
        return []
    said, always = [], []
    for cell in (c for c in cells if c not in STANDARD):
        won = [
            task
            for task, by_cell in scores.items()
            if all(_gain(task, by_cell, cell, other).is_certain for other in STANDARD)
        ]
        names = f" ({', '.join(won)})" if won else ""
        on = f"{len(won)} of {len(scores)} tasks{names}"
        said.append(f"{cell} beats both lstm and gru on {on}.")
        always += [cell] * (len(won) == len(scores))
    which = f"{', '.join(always)} does" if always else "No cell does"
    return [*said, f"{which} so on all tasks; a difference whose interval over the "
            "seeds contains 0 does not count."]  # fmt: skip


def _gain(task, by_cell, cell, other):
    sign = 1 if cell_tasks.TASKS[task].higher_is_better else -1
    return verdict.difference(sign * np.subtract(by_cell[cell], by_cell[other]))


def show(console: Console, results: dict[str, Any]) -> None:
    """Prints the scores, the ranks and the sentences."""
    scores, ranks = results["scores"], results["ranks"]
    seeds = contest.seeds_of(results["seeds"])
    cells = list(results["mean_ranks"])
    columns = ("cell", *(f">{task}" for task in scores))
    metrics = ", ".join(f"{cell_tasks.TASKS[t].metric} of {t}" for t in scores)
    rows = [
        (cell, *(f"{np.mean(by_cell[cell]):.3f}" for by_cell in scores.values()))
        for cell in cells
    ]
    console.table(f"{metrics[0].upper()}{metrics[1:]}; {seeds}", columns, rows)
    rows = [
        (
            *(cell, *(f"{by_cell[cell]:g}" for by_cell in ranks.values())),
            f"{results['mean_ranks'][cell]:.2f}",
        )
        for cell in cells
    ]
    console.table("Ranks, 1 is best", (*columns, ">mean rank"), rows)
    for sentence in results["sentences"]:
        console.write(sentence)


def rows_of(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns a row of the table for each cell, task and seed."""
    rows = [
        (task, cell, seed, *results["sizes"][f"{task}-{cell}"], score)
        for task, by_cell in results["scores"].items()
        for cell, values in by_cell.items()
        for seed, score in zip(results["seeds"], values, strict=True)
    ]
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]
