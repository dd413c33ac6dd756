"""`kerasseq compare`: simple models, networks and a pre-trained encoder, side by side.

The same as `kerasseq train compare`. Each learner is trained once with each seed, and
its predictions are stored at once: a run that is stopped continues with the next one.
"""

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np

from kerasseq.cli import (
    compare_data,
    comparison,
    figures,
    gaps,
    labeled,
    learners,
    options,
    runs,
    tables,
)
from kerasseq.cli.commands import COMMANDS
from kerasseq.cli.console import clock, status
from kerasseq.core.files import read_json

if TYPE_CHECKING:
    from kerasseq.cli.job import Job

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
DESCRIPTION = """\
Train several kinds of learners on the same texts, with one or several labels each:
elastic-net logistic regression, gradient boosting, random forest and SVC on counts and
on TF-IDF of words and pairs of words; recurrent networks and a Transformer from
scratch; and BERT, pre-trained on texts without labels and then fine-tuned. Precision,
recall and F1 of each label are printed, with bootstrap intervals over the held-out
texts, the range over the seeds, and seconds. By default the texts are generated French
sentences of children about their family, with the eleven labels of a study."""
EXAMPLES = """\
examples:
  kerasseq compare
  kerasseq compare --models svc,elastic-net,gru --seeds 0
  kerasseq compare --file data.csv --text comment --labels topics --unlabeled more.txt
  kerasseq compare --resume runs/compare-1"""


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    _add_options(add("compare", DESCRIPTION, EXAMPLES))


def add_task(add: options.Add) -> None:
    """Adds the task to the parser of `kerasseq train`."""
    _add_options(add("compare", DESCRIPTION, EXAMPLES))


def _add_options(parser):
    options.add_resume(parser)
    kind = options.list_of(options.one_of("model", learners.NAMES))
    text = f"learners, some of {', '.join(learners.NAMES)}"
    options.add(parser, DEFAULTS, "--models --model", kind, text, "A,B,…")
    seeds = options.list_of(options.seed)
    text = "random seeds; each learner is trained once with each"
    options.add(parser, DEFAULTS, "--seeds --seed", seeds, text, "0,1,…")
    _add_data(parser)
    _add_training(parser)
    options.add_location(parser, "runs/compare-N")


def _add_data(parser):
    group = options.add_data(
        parser, DEFAULTS, "--file", tables.KINDS, compare_data.DATA
    )
    group.add_argument("--text", metavar="COLUMN", help="column of the texts")
    text = "column of the labels, one or several in a cell"
    group.add_argument("--labels", "--label", metavar="COLUMN", help=text)
    text = (
        'what separates several labels, such as ";"; "none" for one label in each '
        "cell (default: found in the cells)"
    )
    group.add_argument("--separator", metavar="X", help=text)
    text = "texts for the pre-training of BERT, one on each line (default: the training"
    group.add_argument("--unlabeled", metavar="FILE", help=f"{text} texts)")
    gaps.add_no_header(group)
    gaps.add_gaps(group, "rows with an empty text, or without a label")
    text = "fraction of the rows of --file that is held out"
    options.add(group, DEFAULTS, "--held-out", options.fraction, text, "X")
    text = "most rows that are used, of both parts"
    options.add(group, DEFAULTS, "--rows", options.integer(4), text)
    text = "maximum length of a text; longer ones are cut"
    options.add(group, DEFAULTS, "--max-characters", options.length, text)
    text = "random seed of the split"
    options.add(group, DEFAULTS, "--data-seed", options.seed, text)


def _add_training(parser):
    group = parser.add_argument_group("training of the networks")
    text = "units of the networks, divisible by 4"
    options.add(group, DEFAULTS, "--units --hidden-size", _units, text)
    options.add(group, DEFAULTS, "--batch-size", options.integer(), "texts in a batch")
    text = "passes over the training texts"
    options.add(group, DEFAULTS, "--epochs", options.positive, text, "X")
    text = "steps of the pre-training of BERT"
    options.add(group, DEFAULTS, "--pretraining-steps", options.integer(), text)
    text = "bootstrap samples of the held-out texts"
    number = options.integer(at_most=100_000)
    options.add(group, DEFAULTS, "--bootstrap", number, text)


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


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq compare`."""
    args.task = "compare"
    COMMANDS["train"].run(args)


def train(job: "Job") -> runs.Results:
    """Trains all learners with all seeds, except those that are stored, and compares.

    Args:
        job: The `Job` of `kerasseq train`.

    Returns:
        The results, as plain data.
    """
    settings = job.settings
    learners.check_packages(settings.models)
    data = compare_data.read(settings)
    job.check_data(data.record)
    _check_memory(settings, len(data.x))
    job.start(data.record)
    job.console.write(
        f"{data.record['source']}: {len(data.x):,} training texts and "
        f"{len(data.tested):,} held out, {len(data.labels)} labels, "
        f"{sum(map(len, data.y)) / len(data.y):.2f} a text. The run is saved in "
        f"{job.folder}"
    )
    trained = learners.Learners(data, settings, job.folder, job.console)
    predictions, seconds = _train_all(job, data, trained)
    with status("computing the bootstrap intervals"):
        results = comparison.compare(
            data.indicators(data.y_tested),
            data.labels,
            predictions,
            seconds,
            groups=data.groups,
            samples=settings.bootstrap,
        )
    results |= {
        "task": job.task,
        "source": data.record["source"],
        "labels": data.labels,
        "texts": [len(data.x), len(data.tested)],
        "repeated": labeled.repeated(data.x, data.tested),
        "multi_label": data.multi_label,
        "seeds": settings.seeds,
        "pretraining": trained.pretraining(),
        "run": str(job.folder),
    }
    comparison.show(job.console, results)
    comparison.write_csv(job.folder / TABLE, results)
    job.console.write(f"Scores: {job.folder / TABLE}")
    labeled.draw(job.console, job.folder, lambda: [draw(job, results)])
    job.finish(results)
    return results


def _check_memory(settings, rows):
    from kerasseq.cli.fitting import check_memory  # loads Keras

    networks = [name for name in settings.models if not learners.is_simple(name)]
    if networks:
        sized = {"model": networks, "num_layers": 2}
        check_memory(options.Settings(**{**vars(settings), **sized}), rows)


def _train_all(job, data, trained):
    """Returns predictions and seconds by learner and seed."""
    settings = job.settings
    pairs = [(name, seed) for seed in settings.seeds for name in settings.models]
    predictions = {name: {} for name in settings.models}
    seconds = {name: {} for name in settings.models}
    y = data.indicators(data.y_tested)
    job.reporter.update(step=0, steps=len(pairs))
    for n, (name, seed) in enumerate(pairs, 1):
        job.reporter.enter("training")
        file = job.folder / STORED / f"{name}-seed{seed}.json"
        stored = read_stored(file, y.shape)
        if stored is None:
            stored = trained.predict(name, seed)
            _store(file, name, seed, *stored)
            report = _macro_f1(y, stored[0])
            job.console.write(
                f"{name}, seed {seed}: F1 {report:.3f}, {clock(stored[1])} "
                f"({n} of {len(pairs)})"
            )
        predictions[name][seed], seconds[name][seed] = stored
        job.reporter.update(step=n)
    return predictions, seconds


def _macro_f1(y, predicted):
    import kerasseq

    return kerasseq.training.multilabel_f1(y, predicted, "macro")


def _store(file, name, seed, predicted, seconds):
    file.parent.mkdir(exist_ok=True)
    runs.write_json(
        file,
        {
            "learner": name,
            "seed": seed,
            "seconds": round(seconds, 3),
            "predicted": ["".join(map(str, row)) for row in predicted.tolist()],
        },
    )


def read_stored(file: Any, shape: tuple[int, int]) -> tuple[np.ndarray, float] | None:
    """Reads predictions and seconds of a learner; None if it is not trained yet.

    Args:
        file: The file of a learner with a seed.
        shape: Texts and labels.

    Raises:
        ValueError: If the file is damaged.
    """
    if not file.exists():
        return None
    try:
        found = read_json(file)
        predicted = np.array([list(row) for row in found["predicted"]]).astype(int)
        if predicted.shape != shape or not np.isin(predicted, (0, 1)).all():
            raise ValueError(f"expected 0 or 1 for {shape}, received {predicted.shape}")
        return predicted, float(found["seconds"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{file} is damaged: {error}. Delete it to train this learner again"
        ) from error


def draw(job: "Job", results: runs.Results) -> Any:
    """Draws F1 by learner and label, and the means with their intervals."""
    return figures.comparison(job.folder / FIGURE, results)
