"""`kerasseq compare`: simple models, networks and a pre-trained encoder, side by side.

Train several kinds of learners on the same texts, with one or several labels each:
elastic-net logistic regression, gradient boosting, random forest and SVC on counts and
on TF-IDF of words and pairs of words; recurrent networks and a Transformer from
scratch; and BERT, pre-trained on texts without labels and then fine-tuned. Precision,
recall and F1 of each label are printed, with bootstrap intervals over the held-out
texts, the range over the seeds, and seconds. By default the texts are generated French
sentences of children about their family, with the eleven labels of a study.

Examples:
  kerasseq compare
  kerasseq compare --models svc,elastic-net,gru --seeds 0
  kerasseq compare --file data.csv --text comment --labels topics --unlabeled more.txt
  kerasseq compare --resume runs/compare-1
  kerasseq compare translators
  kerasseq compare cells
"""

import argparse
import functools
import pathlib
import sys

import numpy as np

import kerasseq
from kerasseq.cli import (
    compare_data,
    comparison,
    contest,
    figures,
    labeled,
    learners,
    options,
    runs,
    schedule,
    text_tables,
)
from kerasseq.cli.commands import COMMANDS, COMPARISONS
from kerasseq.cli.console import clock, status
from kerasseq.cli.options import Option
from kerasseq.cli.run import Run

HEADS = 4  # of BERT; a test compares it
FILE = "file"  # the argument that names the user's data
OF_FILE = ("separator", "held_out", "max_characters")  # beside those of all tasks
STORED, TABLE, FIGURE = "learners", "comparison.csv", "comparison.png"
DEFAULTS = {
    "models": learners.DEFAULT,
    "file": None,
    "data": None,
    "encoding": "utf-8",
    "text": None,
    "labels": None,
    "separator": None,
    "no_header": False,
    "missing": "error",
    "unlabeled": None,
    "held_out": 0.2,
    "rows": 20_000,
    "max_characters": 1000,
    "data_seed": 0,
    "units": 96,
    "batch_size": learners.BATCH_SIZE,
    "epochs": float(learners.EPOCHS),
    "pretraining_steps": 1500,
    "seeds": [0, 1, 2],
    "bootstrap": 1000,
}


def _units(value: str) -> int:
    """Parses a number of units that the heads of BERT divide.

    Examples:
        >>> _units("8")
        8
    """
    number = options.units(value)
    if number % HEADS:
        raise argparse.ArgumentTypeError(
            f"expected a multiple of {HEADS}, the attention heads, received {number}"
        )
    return number


CHOICES = {"models": learners.NAMES, "data": compare_data.DATA}
_UNLABELED = "texts for the pre-training of BERT, one on each line (default: the "
_UNLABELED += "training texts)"
_SEPARATOR = 'what separates several labels, such as ";"; "none" for one label in each '
_SEPARATOR += "cell (default: found in the cells)"
_LABELS = "column of the labels, one or several in a cell"
_STEPS = "steps of the pre-training of BERT"
_SAMPLES = "bootstrap samples of the held-out texts"
OPTIONS = (
    Option("--labels --label", str, _LABELS, "COLUMN", "data"),
    Option("--separator", str, _SEPARATOR, "X", "data"),
    Option("--unlabeled", str, _UNLABELED, "FILE", "data"),
    Option("--rows", options.integer(4), "most rows that are used", group="data"),
    Option("--data-seed", options.seed, "random seed of the split", group="data"),
    Option("--units --hidden-size", _units, "units, a multiple of 4", group="model"),
    Option("--pretraining-steps", options.integer(), _STEPS, group="training"),
    Option("--bootstrap", options.integer(at_most=100_000), _SAMPLES),
)
HELP = {
    "file": f"a file: {text_tables.KINDS}",
    "held_out": "fraction of the rows of --file that is held out",
    "epochs": "passes of the networks over the training texts",
}


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("compare")
    options.add_task(parser, "compare", sys.modules[__name__])


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq compare`, also of what `COMPARISONS` lists."""
    if args.task is None:
        args.task = "compare"
        if args.resume and (task := runs.read(args.resume)["task"]) in COMPARISONS:
            args.task = task
    COMMANDS["train"].run(args)


def train(run: Run) -> runs.Results:
    """Trains all learners with all seeds, except those that are stored, and compares.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    settings = run.settings
    learners.check_packages(settings.models)
    data = compare_data.read(settings)
    run.check_data(data.record)
    _check_memory(settings, len(data.x))
    run.start(
        data.record,
        f"{data.record['source']}: {len(data.x):,} training texts and "
        f"{len(data.tested):,} held out, {len(data.labels)} labels, "
        f"{sum(map(len, data.y)) / len(data.y):.2f} a text. The run is saved in "
        f"{run.folder}",
    )
    names = contest.names(settings.models, settings.seeds)
    run.end_dry_run(f"{len(names)} learners", competitors=names)
    trained = learners.Learners(data, settings, run.folder, run.console)
    y = data.indicators(data.y_tested)

    def measure(name):
        learner, seed = contest.parts(name)
        predicted, seconds = trained.predict(learner, seed)
        f1 = kerasseq.training.multilabel_f1(y, predicted, "macro")
        found = {"learner": learner, "seed": seed, "seconds": round(seconds, 3)}
        found["predicted"] = ["".join(map(str, row)) for row in predicted.tolist()]
        return found, f"{learner}, seed {seed}: F1 {f1:.3f}, {clock(seconds)}"

    read = functools.partial(read_stored, shape=y.shape)
    predictions = contest.measure_all(run, names, STORED, measure, read)
    more = {"groups": data.groups, "samples": settings.bootstrap}
    with status("computing the bootstrap intervals"):
        results = comparison.compare(y, data.labels, predictions, **more)
    results |= {
        "task": run.task,
        "source": data.record["source"],
        "labels": data.labels,
        "texts": [len(data.x), len(data.tested)],
        "repeated": labeled.repeated(data.x, data.tested),
        "multi_label": data.multi_label,
        "seeds": settings.seeds,
        "pretraining": trained.pretraining(),
        "run": str(run.folder),
    }
    comparison.show(run.console, results)
    text_tables.note_formulas(run.folder / TABLE, results["support"])
    contest.write_table(run, TABLE, comparison.COLUMNS, comparison.rows_of(results))
    run.draw(lambda: [figures.comparison(run.folder / FIGURE, results)])
    return run.finish(results)


def _check_memory(settings, rows):
    networks = [name for name in settings.models if not learners.is_simple(name)]
    if networks:
        sized = {"model": networks, "num_layers": 2}
        schedule.check_memory(options.Settings(**{**vars(settings), **sized}), rows)


def read_stored(
    file: pathlib.Path, shape: tuple[int, int]
) -> tuple[np.ndarray, float] | None:
    """Reads predictions and seconds of a learner; None if it is not trained yet.

    Args:
        file: The file of a learner with a seed.
        shape: Texts and labels.

    Raises:
        ValueError: If the file is damaged.
    """

    def check(record):
        predicted = np.array([list(row) for row in record["predicted"]]).astype(int)
        if predicted.shape != shape or not np.isin(predicted, (0, 1)).all():
            raise ValueError(f"expected 0 or 1 for {shape}, received {predicted.shape}")
        return predicted, float(record["seconds"])

    return contest.read_stored(file, "train this learner again", check)
