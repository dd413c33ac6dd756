r"""`kerasseq train parentheses`: a race between architectures on the same strings.

Train several architectures on strings of parentheses in five colors, 4 to 20 symbols
long. Test them on balanced strings, on strings like those of the training, and on hard
ones: 22 to 40 symbols, where an unbalanced string is wrong in one symbol only. Each
competitor, a model with a seed, has a run folder of its own in that of the race. With
--flipped some labels are wrong, in training and tests, so that the best possible
accuracy is known.

Examples:
  kerasseq train parentheses
  kerasseq train parentheses --model elman,lstm --seeds 0,1,2 --steps 3000
  kerasseq train parentheses --model elman,lstm --colors 1 --kind hard \
      --lengths 40-60 --units 32 --learning-rate 0.005 --steps 800 --processes 2
  kerasseq train parentheses --model lstm,gru --flipped 0.1
"""

from typing import Any

import numpy as np

import kerasseq
from kerasseq.cli import (
    competitor,
    contest,
    figures,
    labeled,
    options,
    runs,
    schedule,
    verdict,
)
from kerasseq.cli.commands import Option, shared, task_defaults, task_table
from kerasseq.cli.competitor import TITLES
from kerasseq.cli.console import Console, choose_backend
from kerasseq.cli.run import Run
from kerasseq.core import backend

FILE = None  # there are no data of the user
KINDS = ("training", "hard")  # of training strings
ACTIVATIONS = ("tanh", "relu", "sigmoid", "softsign", "linear")
MAJORITY = "always balanced"
OPTIMUM = "best possible"
ADVICE = ("--steps", "--units")
Accuracies = dict[str, dict[str, list[float]]]  # by model and kind, one per seed


_NUMBER, _COLORS = options.integer(at_most=256), options.integer(at_most=1000)
_FORGET = "initial bias of the forget gate of an LSTM"
_SCALE = "factor of the initial recurrent weights: their spectral radius"
_LENGTHS = "lengths of all strings, such as 40-60 (default: 4-20; hard: 22-40)"
_FLIPPED = "share of labels that are wrong, from 0 to 0.5, in training and tests"
_HALF = options.bounded(lambda share: 0 <= share <= 0.5, "from 0 to 0.5")
_CLIP = "largest norm of the gradient; a longer one is scaled (default: none)"
_TESTED = "strings in each test set"
_PROCESSES = "competitors that train at the same time, each in a process of its own"
OPTIONS = task_table(
    shared(
        "model",
        ["elman", "gated", "lstm", "peephole_lstm", "gru"],
        names=options.CAUSAL,
    ),
    Option("--colors N", "", _COLORS, "colors of parentheses", 5),
    Option("--kind NAME", "", KINDS, "the kinds of training strings", "training"),
    Option("--lengths A-B", "", competitor.lengths, _LENGTHS),
    Option("--flipped Q", "", _HALF, _FLIPPED, 0.0),
    shared("units", 50),
    shared("num_layers", 1),
    Option("--activation NAME", "model", ACTIVATIONS, "of the state"),
    Option("--forget-bias X", "model", options.real, _FORGET, 1.0),
    Option("--recurrent-scale X", "model", options.positive, _SCALE, 1.0),
    shared("batch_size", 64),
    shared("learning_rate", 1e-3),
    Option("--clip-norm X", "training", options.positive, _CLIP),
    shared("steps", 20_000, "training steps of each model"),
    shared("checkpoint_every", 500),
    Option("--examples N", "training", options.examples, "training strings", 100_000),
    Option("--test-examples N", "training", options.examples, _TESTED, 2000),
    shared("seeds", [0]),
    Option("--processes N", "training", _NUMBER, _PROCESSES, 1),
)
DEFAULTS = task_defaults(OPTIONS)


def train(run: Run) -> runs.Results:
    """Trains and tests each model with each seed, except those that are finished.

    Args:
        run: The run.

    Returns:
        The results, as plain data: accuracies by model and test set, one per seed.
    """
    if run.record and run.record.get("competitor"):
        return competitor.train(run)
    settings = run.settings
    competitor.check_options(settings)
    if not run.in_processes:
        schedule.check_memory(settings, settings.examples)
    tests = competitor.evaluation_sets(settings)
    data = {
        "source": f"parentheses, colors={settings.colors}",
        "sha256": competitor.checksum(tests),
    }
    run.check_data(data)
    run.start(
        data,
        f"{settings.examples:,} training strings and {settings.test_examples:,} in "
        f"each of {len(tests)} test sets, on {backend.chosen()}. The race is saved in "
        f"{run.folder}",
    )
    names = contest.names(settings.model, settings.seeds)
    run.end_dry_run(f"{len(names)} competitors", competitors=names)
    kinds = competitor.kinds(settings)
    by_model = contest.train_in_folders(
        *(run, names, lambda model: {"model": [model]}),
        *(lambda folder: competitor.accuracies(folder, kinds), competitor.train),
    )
    results = {
        "task": run.task,
        "accuracy": {
            name: {kind: [each[kind] for each in by_seed.values()] for kind in kinds}
            for name, by_seed in by_model.items()
        },
        "majority": {k: float(np.mean(test.labels)) for k, test in tests.items()},
        "optimum": 1 - settings.flipped,
        "repeated": _repeated(run),
        "tested": settings.test_examples * len(settings.seeds),
        "seeds": settings.seeds,
        "steps": settings.steps,
        "run": str(run.folder),
    }
    show(run.console, results)
    run.draw(lambda: [draw(run, results)])
    return run.finish(results)


def _repeated(run):
    """Counts test strings that are training strings, which depend on the seed alone."""
    settings = run.settings
    counts = [
        competitor.repeated(run.folder / f"{settings.model[0]}-seed{seed}")
        for seed in settings.seeds
    ]
    kinds = competitor.kinds(settings)
    return {kind: sum(each.get(kind, 0) for each in counts) for kind in kinds}


def show(console: Console, results: dict[str, Any]) -> None:
    """Prints the mean accuracies over the seeds, beside that of a constant answer."""
    accuracies, majority = results["accuracy"], results["majority"]
    rows = [(MAJORITY, *(f"{value:.3f}" for value in majority.values()))]
    rows += [
        (name, *(f"{np.mean(values):.3f}" for values in by_kind.values()))
        for name, by_kind in accuracies.items()
    ]
    optimum, count = results["optimum"], len(results["seeds"])
    if optimum < 1:
        rows.append((OPTIMUM, *[f"{optimum:.3f}"] * len(majority)))
    title = f"Accuracy, mean of {count} seed{'s' if count > 1 else ''}"
    console.table(title, ("model", *(f">{TITLES[k]}" for k in majority)), rows)
    for name, by_kind in accuracies.items():
        for kind, values in by_kind.items():
            share = max(majority[kind], 1 - majority[kind])
            if share < 1:  # else all strings are balanced
                constant = {"a constant answer": share}
                what = f"accuracy on test strings ({TITLES[kind]})"
                gains = verdict.difference(np.subtract(values, share))
                words = name, float(np.mean(values)), constant, what, gains, ADVICE
                if gains.mean <= 0:
                    said = verdict.verdict(*words, rows="seeds")["sentence"]
                    console.write(said)
    for sentence in leaks(results):
        console.write(sentence)
    for kind, count in results["repeated"].items():
        name = f"test strings ({TITLES[kind]})"
        advice = "Longer strings repeat less: --lengths"
        tested = results["tested"]
        labeled.show_repeated(
            console, count, tested, "strings", name=name, advice=advice
        )


def leaks(results: dict[str, Any]) -> list[str]:
    """Returns a sentence for each model that is better than the best possible one.

    Args:
        results: Results of a race.

    Examples:
        >>> results = {"optimum": 0.9, "seeds": [0], "tested": 100}
        >>> leaks(results | {"accuracy": {"gru": {"hard": [0.92], "training": [1.0]}}})
        ['gru: the accuracy 1.000 on test strings (like training) is above the best \
possible one, 0.900, by more than 3 standard errors: the labels are told somewhere']
    """
    best = results["optimum"]
    tested = results["tested"] / len(results["seeds"])
    error = (best * (1 - best) / tested) ** 0.5  # the seeds share the tests
    return [
        f"{name}: the accuracy {np.mean(values):.3f} on test strings ({TITLES[kind]}) "
        f"is above the best possible one, {best:.3f}, by more than 3 standard errors: "
        "the labels are told somewhere"
        for name, by_kind in results["accuracy"].items()
        for kind, values in by_kind.items()
        if np.mean(values) > best + 3 * error
    ]


def draw(run: Run, results: dict[str, Any]) -> Any:
    """Draws the accuracies."""
    by_title = {
        name: {TITLES[kind]: values for kind, values in by_kind.items()}
        for name, by_kind in results["accuracy"].items()
    }
    choose_backend(None)  # the figures are drawn by a module that loads Keras
    optimum = results["optimum"] if results["optimum"] < 1 else None
    title = "Balanced or not? Accuracy on strings of parentheses"
    plot = kerasseq.tracing.plots.plot_race(by_title, title, optimum=optimum)
    return figures.save(plot, run.folder / "race.png")
