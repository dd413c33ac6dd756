"""`kerasseq train parentheses`: several architectures on the same strings."""

import keras
import numpy as np

from kerasseq import models, training
from kerasseq.cli import capacity, figures, fitting, runs
from kerasseq.cli.console import note
from kerasseq.cli.quiet import set_seed
from kerasseq.cli.train import sha256
from kerasseq.cli.waiting import waiting
from kerasseq.datasets import parentheses

RACE = "race.json"
TESTS = ("balanced", "training", "hard")  # kinds of test strings
TITLES = ("balanced", "like training", "hard")
TEST_SEED = 2**20  # and following: far from those of the training


def train(job) -> dict:
    """Train each model with each seed, and test it; what is finished stays finished.

    Args:
        job: The `Job`.

    Returns:
        The results, as plain data: accuracies by model and test set, one per seed.
    """
    settings = job.settings
    capacity.check(settings, settings.examples)
    with waiting("making the test strings"):
        tests = {
            kind: draw(settings.test_examples, settings.plain, kind, TEST_SEED + n)
            for n, kind in enumerate(TESTS)
        }
    data = {
        "source": "parentheses" + ("-plain" if settings.plain else ""),
        "sha256": sha256(b"".join(t.ids.tobytes() for t in tests.values())),
    }
    job.check_data(data)
    job.begin(data)
    finished = _finished(job.folder)
    job.console.say(
        f"{settings.examples:,} strings to learn from, {settings.test_examples:,} in "
        f"each of three test sets, on {keras.backend.backend()}; the race is kept in "
        f"{job.folder}"
    )
    for seed in settings.seeds:
        left = [m for m in settings.model if f"{m}-seed{seed}" not in finished]
        with waiting("making the training strings"):
            strings = draw(settings.examples, settings.plain, "training", seed)
        for name in left:
            finished[f"{name}-seed{seed}"] = _one(job, name, seed, strings, tests)
            runs.write_json(job.folder / RACE, finished)
    results = {
        "task": job.task,
        "accuracy": _by_model(settings, finished),
        "seeds": settings.seeds,
        "steps": settings.steps,
        "run": str(job.folder),
    }
    show(job.console, results["accuracy"], settings.seeds)
    _draw(job, results["accuracy"])
    job.finish(results)
    return results


def draw(size, plain, kind, seed):
    """Strings of one kind."""
    return parentheses(size, colours=1 if plain else 5, kind=kind, seed=seed)


def _finished(folder):
    """Accuracies by test set of each model that was finished, by its name and seed."""
    file = folder / RACE
    if not file.exists():
        return {}
    found = runs.read_json(file)
    if not isinstance(found, dict) or not all(map(_is_tested, found.values())):
        raise ValueError(f"{file} is damaged. Delete it to train all models again")
    return found


def _is_tested(found):
    """Whether this is what `_one` returns."""
    return (
        isinstance(found, dict)
        and set(found) == set(TESTS)
        and all(isinstance(a, float) and 0 <= a <= 1 for a in found.values())
    )


def _one(job, name, seed, strings, tests):
    """Train one model, and test it."""
    settings, label = job.settings, f"{name}, seed {seed}"
    batches = training.ArrayBatches(
        strings.ids, strings.labels, settings.batch_size, seed
    )
    with waiting("building the model"):
        model = build(settings, name, seed)
    folder = job.folder / f"{name}-seed{seed}"
    fitting.fit(
        model,
        batches.stream,
        folder=folder,
        steps=settings.steps,
        interval=settings.checkpoint_every,
        console=job.console,
        label=label,
        metric="accuracy",
    )
    with waiting("testing the model"):
        found = {kind: accuracy(model, test) for kind, test in tests.items()}
    runs.save_model(model, folder)
    shown = ", ".join(
        f"{title} {found[kind]:.3f}" for kind, title in zip(TESTS, TITLES, strict=True)
    )
    job.console.say(f"{label}: {shown}")
    return found


def build(settings, name, seed):
    """A model, compiled as in the course: Adam at one rate, nothing clipped."""
    keras.utils.clear_session()
    set_seed(seed)
    model = models.SequenceClassifier(
        name,
        2,
        vocabulary_size=3 if settings.plain else 11,
        units=settings.units,
        num_layers=settings.layers,
    )
    model.compile(keras.optimizers.Adam(settings.learning_rate))
    return model


def accuracy(model, test) -> float:
    """The fraction of strings that are judged rightly."""
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


def show(console, accuracies, seeds):
    """Print the table: means over the seeds."""
    rows = [
        (name, *(f"{np.mean(found[kind]):.3f}" for kind in TESTS))
        for name, found in accuracies.items()
    ]
    title = f"Accuracy, mean of {len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
    console.table(title, ("model", *(f">{t}" for t in TITLES)), rows)


def _draw(job, accuracies):
    if not figures.possible():
        note(f"no figures: {figures.MISSING}")
        return
    named = {
        name: {title: found[kind] for kind, title in zip(TESTS, TITLES, strict=True)}
        for name, found in accuracies.items()
    }
    with waiting("drawing the figure"):
        file = figures.race(job.folder, named)
    job.console.say(f"Figure: {file}")
