"""`kerasseq train parentheses`: a race between architectures on the same strings."""

from typing import TYPE_CHECKING

import numpy as np

import kerasseq
from kerasseq.cli import figures, options, runs
from kerasseq.cli.console import Console, note, set_seed, status
from kerasseq.cli.runs import sha256
from kerasseq.core import backend
from kerasseq.core.files import read_json
from kerasseq.datasets import Parentheses, parentheses

if TYPE_CHECKING:
    from kerasseq.cli.train import Job

FILE = None  # there are no data of the user
DEFAULTS = {
    "model": ["elman", "gated", "lstm", "peephole_lstm", "gru"],
    "colors": 5,
    "units": 50,
    "num_layers": 1,
    "batch_size": 64,
    "learning_rate": 1e-3,
    "steps": 20_000,
    "checkpoint_every": 500,
    "examples": 100_000,
    "test_examples": 2000,
    "seeds": [0],
}
Accuracies = dict[str, dict[str, list[float]]]  # by model and kind, one per seed
RACE = "race.json"
TESTS = ("balanced", "training", "hard")  # kinds of test strings
TITLES = ("balanced", "like training", "hard")
TEST_SEED = 2**20  # and the following, which no training uses


def add_task(add: options.Add, tasks: options.Subparsers) -> None:
    """Adds the task to the parser of `kerasseq train`."""
    parser = add(
        "parentheses",
        "a race: is a string of parentheses balanced?",
        """\
Train several architectures on strings of parentheses in five colors, 4 to 20 symbols
long. Test them on balanced strings, on strings like those of the training, and on hard
ones: 22 to 40 symbols, where an unbalanced string is wrong in one symbol only.""",
        """\
examples:
  kerasseq train parentheses
  kerasseq train parentheses --model elman,lstm --seeds 0,1,2 --steps 3000
  kerasseq train parentheses --colors 1 --model gru""",
        tasks=tasks,
    )
    options.add_resume(parser)
    colors = options.integer(at_most=1000)
    options.add(parser, DEFAULTS, "--colors", colors, "colors of parentheses")
    options.add_model(parser, DEFAULTS, several=True)
    text = "training steps of each model (default: 20000)"
    group = options.add_training(parser, DEFAULTS, text)
    examples = options.examples
    options.add(group, DEFAULTS, "--examples", examples, "training strings")
    text = "strings in each test set"
    options.add(group, DEFAULTS, "--test-examples", examples, text)
    seeds = options.list_of(options.seed)
    text = "random seeds; each model is trained once with each"
    options.add(group, DEFAULTS, "--seeds", seeds, text, "0,1,…")
    options.add_location(parser, "runs/parentheses-race-N")


def train(job: "Job") -> runs.Results:
    """Trains and tests each model with each seed, except those that are finished.

    Args:
        job: The `Job` of `kerasseq train`.

    Returns:
        The results, as plain data: accuracies by model and test set, one per seed.
    """
    from kerasseq.cli.fitting import check_memory  # loads Keras

    settings = job.settings
    check_memory(settings, settings.examples)
    with status("generating the test strings"):
        tests = {
            kind: _strings(settings.test_examples, settings, kind, TEST_SEED + n)
            for n, kind in enumerate(TESTS)
        }
    data = {
        "source": f"parentheses, colors={settings.colors}",
        "sha256": sha256(b"".join(t.ids.tobytes() for t in tests.values())),
    }
    job.check_data(data)
    job.start(data)
    finished = _finished(job.folder)
    job.console.write(
        f"{settings.examples:,} training strings and {settings.test_examples:,} in "
        f"each of three test sets, on {backend.chosen()}. The race is saved in "
        f"{job.folder}"
    )
    for seed in settings.seeds:
        remaining = [m for m in settings.model if f"{m}-seed{seed}" not in finished]
        with status("generating the training strings"):
            strings = _strings(settings.examples, settings, "training", seed)
        for name in remaining:
            accuracies = _train_one(job, name, seed, strings, tests)
            finished[f"{name}-seed{seed}"] = accuracies
            runs.write_json(job.folder / RACE, finished)
    results = {
        "task": job.task,
        "accuracy": _by_model(settings, finished),
        "seeds": settings.seeds,
        "steps": settings.steps,
        "run": str(job.folder),
    }
    show(job.console, results["accuracy"], settings.seeds)
    draw(job, results["accuracy"])
    job.finish(results)
    return results


def _strings(size, settings, kind, seed):
    return parentheses(size, colors=settings.colors, kind=kind, seed=seed)


def _finished(folder):
    """Returns the accuracies of each finished model, by its name and seed."""
    file = folder / RACE
    if not file.exists():
        return {}
    found = read_json(file)
    if not isinstance(found, dict) or not all(map(_is_complete, found.values())):
        raise ValueError(f"{file} is damaged. Delete it to train all models again")
    return found


def _is_complete(accuracies):
    return (
        isinstance(accuracies, dict)
        and set(accuracies) == set(TESTS)
        and all(isinstance(a, float) and 0 <= a <= 1 for a in accuracies.values())
    )


def _train_one(job, name, seed, strings, tests):
    """Trains a model, and returns its accuracy on each test set."""
    from kerasseq.cli import fitting  # loads Keras

    settings, label = job.settings, f"{name}, seed {seed}"
    batches = kerasseq.training.ArrayBatches(
        strings.ids, strings.labels, settings.batch_size, seed
    )
    with status("building the model"):
        model = build(settings, name, seed)
    folder = job.folder / f"{name}-seed{seed}"
    fitting.fit(
        model,
        batches.stream,
        folder=folder,
        steps=settings.steps,
        interval=settings.checkpoint_every,
        console=job.console,
        reporter=job.reporter,
        label=label,
        metric="accuracy",
    )
    with status("testing the model"):
        found = {kind: accuracy(model, test) for kind, test in tests.items()}
    runs.save_model(model, folder)
    shown = ", ".join(
        f"{title} {found[kind]:.3f}" for kind, title in zip(TESTS, TITLES, strict=True)
    )
    job.console.write(f"{label}: {shown}")
    return found


def build(
    settings: options.Settings, name: str, seed: int
) -> "kerasseq.models.SequenceClassifier":
    """Builds and compiles a model, with Adam at a constant rate and no clipping."""
    import keras

    keras.utils.clear_session()
    set_seed(seed)
    model = kerasseq.models.SequenceClassifier(
        name,
        2,
        vocabulary_size=2 * settings.colors + 1,
        units=settings.units,
        num_layers=settings.num_layers,
    )
    model.compile(keras.optimizers.Adam(settings.learning_rate))
    return model


def accuracy(model: "kerasseq.models.SequenceClassifier", test: Parentheses) -> float:
    """Computes the fraction of strings that are classified correctly."""
    logits = model.predict(test.ids, batch_size=500, verbose=0)
    return float(np.mean(np.asarray(logits).argmax(axis=-1) == test.labels))


def _by_model(settings, finished):
    return {
        name: {
            kind: [finished[f"{name}-seed{seed}"][kind] for seed in settings.seeds]
            for kind in TESTS
        }
        for name in settings.model
    }


def show(console: Console, accuracies: Accuracies, seeds: list[int]) -> None:
    """Prints the mean accuracies over the seeds."""
    rows = [
        (name, *(f"{np.mean(found[kind]):.3f}" for kind in TESTS))
        for name, found in accuracies.items()
    ]
    title = f"Accuracy, mean of {len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
    console.table(title, ("model", *(f">{t}" for t in TITLES)), rows)


def draw(job: "Job", accuracies: Accuracies) -> None:
    """Draws the figure, if matplotlib is installed."""
    if not figures.available():
        note(f"no figures: {figures.MISSING}")
        return
    by_title = {
        name: {title: found[kind] for kind, title in zip(TESTS, TITLES, strict=True)}
        for name, found in accuracies.items()
    }
    with status("drawing the figure"):
        file = figures.race(job.folder, by_title)
    job.console.write(f"Figure: {file}")
