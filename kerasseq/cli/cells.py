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

import functools
import pathlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import kerasseq
from kerasseq import datasets
from kerasseq.cli import contest, options, runs, schedule, verdict
from kerasseq.cli.commands import Option, shared, task_defaults, task_table
from kerasseq.cli.console import Console, set_seed, status
from kerasseq.cli.errors import UsageError
from kerasseq.cli.run import Run
from kerasseq.core import backend
from kerasseq.core.files import sha256

if TYPE_CHECKING:
    import keras

FILE = None  # there are no data of the user
STORED, TABLE = "cells", "cells.csv"
COLUMNS = ("task", "cell", "seed", "width", "parameters", "score")
STANDARD = ("lstm", "gru")  # what the others are compared with
TEST_SEED = 2**20  # which no training uses
BITS, LENGTHS = 3, (1, 10)  # of the vectors to be repeated
MARK, BLANK = 2**BITS + 1, 2**BITS + 2  # ids beside those of vectors, and of padding
CHARACTERS, HELD_OUT = 48, 40_000  # of a row, and of the end of the reference
WINDOW, COEFFICIENTS = 24, (0.6, -0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.4)  # of the series
WARM_UP = 0.1  # of the steps
_SIZE = "parameters of each model, within 5 %%"
_FEW = options.integer(2, 10**6)


# The tasks


class Rows(NamedTuple):
    """Inputs and targets.

    Attributes:
        x: Ids `(rows, time)`, or values `(rows, time, 1)`.
        y: The targets.
    """

    x: np.ndarray
    y: np.ndarray


class Task(NamedTuple):
    """A task.

    Attributes:
        metric: What is measured.
        higher_is_better: Whether a higher score is better.
        data: Returns a number of rows, with a seed.
        build: Returns the model of a cell with a number of units.
        score: Computes the score from targets and predictions.
    """

    metric: str
    higher_is_better: bool
    data: Callable[[int, int], Rows]
    build: Callable[[str, int], "keras.Model"]
    score: Callable[[np.ndarray, np.ndarray], float]


def parentheses(count: int, seed: int) -> Rows:
    """Makes strings of five colors; an unbalanced one is wrong in one symbol."""
    made = datasets.parentheses(count, kind="hard", lengths=(8, 24), seed=seed)
    return Rows(made.ids, made.labels)


def copy(count: int, seed: int) -> Rows:
    """Makes symbols of three bits to be repeated after a mark; 0 is padding.

    Examples:
        >>> rows = copy(1, seed=3)
        >>> rows.x[0].tolist()
        [1, 4, 5, 2, 1, 7, 1, 7, 4, 9, 10, 10, 10, 10, 10, 10, 10, 10, 10, 0, 0]
        >>> rows.y[0].tolist()
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 4, 5, 2, 1, 7, 1, 7, 4, 0, 0]
    """
    made = datasets.copy_bits(count, bits=BITS, lengths=LENGTHS, seed=seed)
    powers = 2 ** np.arange(BITS)[::-1]
    repeated = made.weights > 0
    x = 1 + made.x[..., :BITS] @ powers
    x = np.where(made.x[..., BITS] > 0, MARK, np.where(repeated, BLANK, x))
    y = np.where(repeated, 1 + made.y @ powers, 0)
    return Rows((x * made.mask).astype("int32"), y.astype("int32"))


def characters(count: int, seed: int) -> Rows:
    """Returns parts of the Python reference, and their next characters.

    The last characters are for the test alone.
    """
    ids, rng = _reference(), np.random.default_rng(seed)
    part = ids[-HELD_OUT:] if seed == TEST_SEED else ids[:-HELD_OUT]
    starts = rng.integers(len(part) - CHARACTERS, size=count)
    rows = part[starts[:, None] + np.arange(CHARACTERS + 1)]
    return Rows(rows[:, :-1], rows[:, 1:])


def forecast(count: int, seed: int) -> Rows:
    """Makes windows of an autoregressive series with noise 1, and the next value."""
    values = datasets.series(
        "ar", length=count + WINDOW, coefficients=COEFFICIENTS, seed=seed
    ).values
    return Rows(*datasets.windows(values, WINDOW))


@functools.cache
def _reference() -> np.ndarray:
    text = datasets.python_reference()
    return _tokenizer().encode(text).astype("int32")


@functools.cache
def _tokenizer() -> Any:
    return kerasseq.text.CharacterTokenizer().fit(datasets.python_reference())


def _classifier(cell, units):
    return kerasseq.models.SequenceClassifier(cell, 2, vocabulary_size=11, units=units)


def _tagger(cell, units):
    ids = {"vocabulary_size": BLANK + 1}
    return kerasseq.models.SequenceTagger(cell, 2**BITS + 1, **ids, units=units)


def _language_model(cell, units):
    size = _tokenizer().vocabulary_size
    return kerasseq.models.LanguageModel(cell, vocabulary_size=size, units=units)


def _forecaster(cell, units):
    return kerasseq.models.Forecaster(cell, features=1, units=units)


def _accuracy(y, logits):
    """Returns the share of right answers, where there is one to be given."""
    right = logits.argmax(axis=-1) == y
    return float(right[y > 0].mean() if y.ndim == 2 else right.mean())


def _bits(y, logits):
    """Bits per character."""
    z = logits - logits.max(axis=-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    each = np.take_along_axis(log_p, y[..., None].astype(int), axis=-1)
    return float(-each.mean() / np.log(2))


def _squared_error(y, predicted):
    return float(np.mean((y - predicted.reshape(y.shape)) ** 2))


TASKS = {
    "parentheses": Task("accuracy", True, parentheses, _classifier, _accuracy),
    "copy": Task("accuracy", True, copy, _tagger, _accuracy),
    "characters": Task("bits", False, characters, _language_model, _bits),
    "forecast": Task("error", False, forecast, _forecaster, _squared_error),
}


def train_cell(
    name: str, cell: str, seed: int, settings: options.Settings, test: Rows
) -> dict[str, Any]:
    """Trains a cell on a task, and scores it.

    Args:
        name: The task.
        cell: The cell.
        seed: Random seed, of training rows and weights.
        settings: Arguments of the run.
        test: The test rows.

    Returns:
        Score, width and parameters, as plain data.

    Raises:
        UsageError: If no width has the number of parameters.
    """
    import keras

    task = TASKS[name]
    keras.utils.clear_session()
    with status(f"finding the width of {cell} on {name}"):
        try:
            matched = kerasseq.models.matched_width(
                lambda units: task.build(cell, units).count_params(),
                settings.parameters,
            )
        except ValueError as error:
            raise UsageError(f"--parameters: {cell} on {name}: {error}") from error
    set_seed(seed)
    model, steps = task.build(cell, matched.width), settings.steps
    model.compile(schedule.adam(settings.learning_rate, steps, int(WARM_UP * steps)))
    rows = task.data(settings.examples, seed)
    batches = kerasseq.training.ArrayBatches(*rows, settings.batch_size, seed)
    what = f"{cell} on {name}, seed {seed}"
    contest.fit(model, batches.stream(0), steps, what)
    predicted = np.asarray(model.predict(test.x, batch_size=500, verbose=0))
    return {
        "score": task.score(test.y, predicted),
        "width": matched.width,
        "parameters": matched.parameters,
    }


# The command

OPTIONS = task_table(
    shared(
        "models",
        ["elman", "gated", "lstm", "peephole_lstm", "gru"],
        names=options.RECURRENT,
    ),
    Option("--tasks NAME", "data", tuple(TASKS), "", list(TASKS)),
    Option("--parameters N", "model", options.integer(100), _SIZE, 10_000),
    shared("batch_size", 64),
    shared("learning_rate", 5e-3),
    shared("steps", 600, "training steps of each cell on each task"),
    Option("--examples N", "training", _FEW, "training rows of each task", 20_000),
    Option("--test-examples N", "training", _FEW, "test rows of each task", 2000),
    shared("seeds", [0, 1, 2]),
)
DEFAULTS = task_defaults(OPTIONS)


def train(run: Run) -> runs.Results:
    """Trains each cell on each task with each seed, unless stored, and compares.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    settings = run.settings
    tests = {
        name: TASKS[name].data(settings.test_examples, TEST_SEED)
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
        record = train_cell(task, cell, seed, settings, tests[task])
        record["seconds"] = round(time.perf_counter() - start, 3)
        return record, f"{task}, {cell}, seed {seed}: {record['score']:.3f}"

    by_name = contest.measure_all(run, names, STORED, measure, stored)
    results = {
        "task": run.task,
        "seeds": settings.seeds,
        "steps": settings.steps,
        **compare(settings.tasks, settings.models, by_name),
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
    tasks: list[str], cells: list[str], results: dict[str, dict[int, Any]]
) -> dict[str, Any]:
    """Ranks the cells on each task, by their mean score over the seeds.

    Args:
        tasks: Names of tasks.
        cells: Names of cells.
        results: The results by "task-cell" and seed.

    Returns:
        Plain data: scores, ranks and mean ranks, and the sentences about them.
    """
    scores = {
        task: {c: [r["score"] for r in results[f"{task}-{c}"].values()] for c in cells}
        for task in tasks
    }
    ranks = {}
    for task, by_cell in scores.items():
        sign = -1 if TASKS[task].higher_is_better else 1
        means = [sign * float(np.mean(by_cell[cell])) for cell in cells]
        ranks[task] = dict(zip(cells, rank(means), strict=True))
    first = {name: next(iter(each.values())) for name, each in results.items()}
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
    sign = 1 if TASKS[task].higher_is_better else -1
    return verdict.difference(sign * np.subtract(by_cell[cell], by_cell[other]))


def show(console: Console, results: dict[str, Any]) -> None:
    """Prints the scores, the ranks and the sentences."""
    scores, ranks = results["scores"], results["ranks"]
    seeds = contest.seeds_of(results["seeds"])
    cells = list(results["mean_ranks"])
    columns = ("cell", *(f">{task}" for task in scores))
    metrics = ", ".join(f"{TASKS[t].metric} of {t}" for t in scores)
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
