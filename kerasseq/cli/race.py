"""`kerasseq train parentheses`: a race between architectures on the same strings."""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from kerasseq.cli import competitor, figures, labeled, options, runs
from kerasseq.cli.board import Board, Table
from kerasseq.cli.competitor import TITLES
from kerasseq.cli.console import Console, choose_backend, note, status
from kerasseq.cli.processes import run_all
from kerasseq.core import backend

if TYPE_CHECKING:
    from kerasseq.cli.job import Job

FILE = None  # there are no data of the user
DEFAULTS = {
    "model": ["elman", "gated", "lstm", "peephole_lstm", "gru"],
    "colors": 5,
    "kind": "training",
    "lengths": None,
    "units": 50,
    "num_layers": 1,
    "activation": None,
    "forget_bias": 1.0,
    "recurrent_scale": 1.0,
    "batch_size": 64,
    "learning_rate": 1e-3,
    "clip_norm": None,
    "steps": 20_000,
    "checkpoint_every": 500,
    "examples": 100_000,
    "test_examples": 2000,
    "seeds": [0],
    "processes": 1,
}
KINDS = ("training", "hard")  # of training strings
ACTIVATIONS = ("tanh", "relu", "sigmoid", "softsign", "linear")
MAJORITY = "always balanced"
Accuracies = dict[str, dict[str, list[float]]]  # by model and kind, one per seed


def add_task(add: options.Add) -> None:
    """Adds the task to the parser of `kerasseq train`."""
    parser = add(
        "parentheses",
        """\
Train several architectures on strings of parentheses in five colors, 4 to 20 symbols
long. Test them on balanced strings, on strings like those of the training, and on hard
ones: 22 to 40 symbols, where an unbalanced string is wrong in one symbol only. Each
competitor, a model with a seed, has a run folder of its own in that of the race.""",
        """\
examples:
  kerasseq train parentheses
  kerasseq train parentheses --model elman,lstm --seeds 0,1,2 --steps 3000
  kerasseq train parentheses --model elman,lstm --colors 1 --kind hard \\
      --lengths 40-60 --units 32 --learning-rate 0.005 --steps 800 --processes 2""",
    )
    options.add_resume(parser)
    _add_strings(parser)
    _add_model(parser)
    text = "training steps of each model (default: 20000)"
    group = options.add_training(parser, DEFAULTS, text)
    group.add_argument(
        "--clip-norm",
        type=options.positive,
        metavar="X",
        help="largest norm of the gradient; a longer one is scaled (default: none)",
    )
    options.add(group, DEFAULTS, "--examples", options.examples, "training strings")
    text = "strings in each test set"
    options.add(group, DEFAULTS, "--test-examples", options.examples, text)
    seeds = options.list_of(options.seed)
    text = "random seeds; each model is trained once with each"
    options.add(group, DEFAULTS, "--seeds --seed", seeds, text, "0,1,…")
    text = "competitors that train at the same time, each in a process of its own"
    number = options.integer(at_most=256)
    options.add(group, DEFAULTS, "--processes", number, text)
    options.add_location(parser, "runs/parentheses-race-N")


def _add_strings(parser):
    colors = options.integer(at_most=1000)
    options.add(parser, DEFAULTS, "--colors", colors, "colors of parentheses")
    kind = options.one_of("kind of strings", KINDS)
    text = "training strings: training (several kinds of errors) or hard (one symbol)"
    options.add(parser, DEFAULTS, "--kind", kind, text, "NAME")
    parser.add_argument(
        "--lengths",
        type=competitor.lengths,
        metavar="A-B",
        help="lengths of all strings, such as 40-60 (default: 4-20; hard: 22-40)",
    )


def _add_model(parser):
    group = options.add_model(parser, DEFAULTS, several=True)
    group.add_argument(
        "--activation",
        type=options.one_of("activation", ACTIVATIONS),
        metavar="NAME",
        help=f"of the state: {', '.join(ACTIVATIONS)} (default: that of each cell)",
    )
    text = "initial bias of the forget gate of an LSTM"
    options.add(group, DEFAULTS, "--forget-bias", options.real, text, "X")
    text = "factor of the initial recurrent weights: their spectral radius"
    options.add(group, DEFAULTS, "--recurrent-scale", options.positive, text, "X")


def train(job: "Job") -> runs.Results:
    """Trains and tests each model with each seed, except those that are finished.

    Args:
        job: The `Job` of `kerasseq train`.

    Returns:
        The results, as plain data: accuracies by model and test set, one per seed.
    """
    if job.record and job.record.get("competitor"):
        return competitor.train(job)
    settings = job.settings
    competitor.check_options(settings)
    if not job.in_processes:
        from kerasseq.cli.fitting import check_memory

        check_memory(settings, settings.examples)
    tests = competitor.evaluation_sets(settings)
    data = {
        "source": f"parentheses, colors={settings.colors}",
        "sha256": competitor.checksum(tests),
    }
    job.check_data(data)
    job.start(data)
    job.console.write(
        f"{settings.examples:,} training strings and {settings.test_examples:,} in "
        f"each of {len(tests)} test sets, on {backend.chosen()}. The race is saved in "
        f"{job.folder}"
    )
    finished = _train_all(job)
    results = {
        "task": job.task,
        "accuracy": _by_model(settings, finished),
        "majority": {k: float(np.mean(test.labels)) for k, test in tests.items()},
        "repeated": _repeated(job),
        "tested": settings.test_examples * len(settings.seeds),
        "seeds": settings.seeds,
        "steps": settings.steps,
        "run": str(job.folder),
    }
    show(job.console, results)
    draw(job, results["accuracy"])
    job.finish(results)
    return results


def _train_all(job):
    """Trains the competitors, and returns the accuracies of each by its name."""
    settings, kinds = job.settings, competitor.kinds(job.settings)
    names = competitor.names(settings)
    jobs = {name: competitor.create(job, name) for name in names}
    found = {n: competitor.accuracies(job.folder / n, kinds) for n in names}
    remaining = [name for name in names if found[name] is None]
    table = Table(job, {n: n not in remaining for n in names})
    if job.in_processes:
        folders = [jobs[name].folder for name in remaining]
        with Board(job.console, table) as board:
            run_all(folders, settings.processes, job.threads, board.follow)
    for name in remaining:
        if not job.in_processes:
            own = jobs[name]
            own.reporter.on_line = functools.partial(table.follow, name)
            with own.reporter:
                competitor.train(own)
        found[name] = competitor.accuracies(job.folder / name, kinds)
    return found


def _by_model(settings, finished):
    return {
        name: {
            kind: [finished[f"{name}-seed{seed}"][kind] for seed in settings.seeds]
            for kind in competitor.kinds(settings)
        }
        for name in settings.model
    }


def _repeated(job):
    """How many test strings are training strings, which depend on the seed alone."""
    settings = job.settings
    found = [
        competitor.repeated(job.folder / f"{settings.model[0]}-seed{seed}")
        for seed in settings.seeds
    ]
    kinds = competitor.kinds(settings)
    return {kind: sum(each.get(kind, 0) for each in found) for kind in kinds}


def show(console: Console, results: dict[str, Any]) -> None:
    """Prints the mean accuracies over the seeds, beside that of a constant answer."""
    found, majority = results["accuracy"], results["majority"]
    rows = [(MAJORITY, *(f"{value:.3f}" for value in majority.values()))]
    rows += [
        (name, *(f"{np.mean(values):.3f}" for values in by_kind.values()))
        for name, by_kind in found.items()
    ]
    count = len(results["seeds"])
    title = f"Accuracy, mean of {count} seed{'s' if count > 1 else ''}"
    console.table(title, ("model", *(f">{TITLES[k]}" for k in majority)), rows)
    for name, by_kind in found.items():
        for kind, values in by_kind.items():
            share = max(majority[kind], 1 - majority[kind])
            if share < 1:  # else all strings are balanced
                constant = {"a constant answer": share}
                what = f"accuracy on test strings ({TITLES[kind]})"
                score = float(np.mean(values))
                labeled.show_verdict(console, name, score, constant, what)
    for kind, count in results["repeated"].items():
        name = f"test strings ({TITLES[kind]})"
        advice = "Longer strings repeat less: --lengths"
        tested = results["tested"]
        labeled.show_repeated(
            console, count, tested, "strings", name=name, advice=advice
        )


def draw(job: "Job", accuracies: Accuracies) -> None:
    """Draws the figure, if matplotlib is installed."""
    if not figures.available():
        note(f"no figures: {figures.MISSING}")
        return
    by_title = {
        name: {TITLES[kind]: values for kind, values in found.items()}
        for name, found in accuracies.items()
    }
    choose_backend(None)  # the figures are drawn by a module that loads Keras
    with status("drawing the figure"):
        file = figures.race(job.folder, by_title)
    job.console.write(f"Figure: {file}")
