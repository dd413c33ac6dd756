"""What the tasks with labels share: baselines and tables of scores."""

import importlib.util
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import kerasseq
from kerasseq.cli import figures, options
from kerasseq.cli.console import Console, note, status

if TYPE_CHECKING:
    import keras

SCORES = ("precision", "recall", "f1-score")
BASELINE_ROWS = 100_000  # that logistic regression is fitted to
SHOWN_CLASSES = 30  # rows of the table on the terminal
HARDEST = 5
FEATURES = 20_000  # n-grams that logistic regression counts


def baselines(
    texts: Sequence[str], labels: Sequence[str], tested: Sequence[str], y: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Computes the accuracy of simple models on held-out texts.

    Args:
        texts: Training texts.
        labels: Their labels.
        tested: Held-out texts.
        y: Their labels.

    Returns:
        For each model "accuracy" and "seconds" of training and prediction.
    """
    found = {"majority": majority(labels, y)}
    if not has_sklearn():
        return found
    from sklearn.feature_extraction.text import CountVectorizer

    for name, counted in {
        "logistic regression, 1 to 3 characters": {
            "analyzer": "char",
            "ngram_range": (1, 3),
        },
        "logistic regression, words": {"analyzer": "word"},
    }.items():
        start = time.perf_counter()
        vectorizer = CountVectorizer(max_features=FEATURES, lowercase=False, **counted)
        try:
            x = vectorizer.fit_transform(texts[:BASELINE_ROWS])
        except ValueError:  # no words, as in texts of single letters
            continue
        x_tested = vectorizer.transform(tested)
        right = logistic_regression(x, labels[:BASELINE_ROWS], x_tested, y)
        seconds = time.perf_counter() - start
        found[name] = {"accuracy": right, "seconds": seconds}
    return found


def majority(labels: Sequence[str], y: Sequence[str]) -> dict[str, float]:
    """Computes the accuracy of the most frequent training label.

    Examples:
        >>> majority(["a", "a", "b"], ["a", "b"])
        {'accuracy': 0.5, 'seconds': 0.0}
    """
    most = Counter(labels).most_common(1)[0][0]
    right = float(np.mean([label == most for label in y]))
    return {"accuracy": right, "seconds": 0.0}


def has_sklearn() -> bool:
    """Whether scikit-learn is installed; says so if it is not."""
    if importlib.util.find_spec("sklearn") is not None:
        return True
    note(
        "no logistic regression to compare with: it needs scikit-learn. Install it "
        'with  pip install "kerasseq[data]"'
    )
    return False


def logistic_regression(
    x: Any, labels: Sequence[str], x_tested: Any, y: Sequence[str]
) -> float:
    """Fits logistic regression, and computes its accuracy on held-out rows.

    Args:
        x: Features of the training rows, `(rows, features)`.
        labels: Their labels.
        x_tested: Features of the held-out rows.
        y: Their labels.
    """
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it could run longer
        model.fit(x, labels)
    return float(np.mean(model.predict(x_tested) == np.asarray(y)))


def scores(y: Sequence[Any], predicted: Sequence[Any], names: Sequence[Any]) -> Any:
    """Returns the report of each class, and the confusion matrix, as plain data.

    Args:
        y: The true labels; or for each sentence a list of tags.
        predicted: The predicted labels, in the same form.
        names: The labels of the model. Others come after them.
    """
    found = kerasseq.training.label_report(y, predicted, names)
    entities = {} if found.entities is None else {"entities": found.entities}
    return {
        "accuracy": found.accuracy,
        "report": found.scores,
        "confusion": found.confusion.tolist(),
        "labels": found.labels,
        **entities,
    }


def show_report(console: Console, found: dict[str, Any], title: str) -> None:
    """Prints precision, recall and F1 of each class."""
    report, names = found["report"], found["labels"]
    shown = sorted(names, key=lambda name: -report[name]["support"])[:SHOWN_CLASSES]
    rows = [
        (
            name,
            *(f"{report[name][score]:.3f}" for score in SCORES),
            f"{report[name]['support']:,}",
        )
        for name in [*shown, "macro avg"]
    ]
    console.table(title, ("class", *(f">{score}" for score in SCORES), ">rows"), rows)
    if len(names) > len(shown):
        console.write(f"and {len(names) - len(shown)} rarer classes, in results.json")


def show_baselines(
    console: Console, model: str, accuracy: float, seconds: float, found: dict[str, Any]
) -> None:
    """Prints the accuracy of the model and of the baselines, with their times."""
    rows = [
        (name, f"{each['accuracy']:.3f}", f"{each['seconds']:.1f}")
        for name, each in found.items()
    ]
    rows.append((model, f"{accuracy:.3f}", f"{seconds:.1f}"))
    console.table(
        "Accuracy on the held-out rows", ("model", ">accuracy", ">seconds"), rows
    )


def hardest(
    texts: Sequence[str], y: Sequence[Any], found: Sequence[Any], name: str = "text"
) -> list[dict[str, Any]]:
    """Returns the wrong predictions that the model is most certain of.

    Args:
        texts: The texts; or the names of other inputs.
        y: Their labels.
        found: The classification of each.
        name: What the texts are called in the results.
    """
    wrong = [
        {
            name: text,
            "label": str(label),
            "predicted": str(each.label),
            "probability": each.probability,
        }
        for text, label, each in zip(texts, y, found, strict=True)
        if str(label) != str(each.label)
    ]
    return sorted(wrong, key=lambda each: -each["probability"])[:HARDEST]


def show_hardest(
    console: Console, found: Sequence[dict[str, Any]], name: str = "text"
) -> None:
    """Prints the hardest examples, as from `hardest`."""
    if not found:
        return
    rows = [
        (_cut(e[name]), e["label"], e["predicted"], f"{e['probability']:.2f}")
        for e in found
    ]
    columns = (name, "label", "predicted", ">probability")
    console.table("Wrong and most certain", columns, rows)


def _cut(text, length=60):
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[: length - 1]}…"


def compile_for(
    model: "keras.Model", settings: options.Settings, steps_per_epoch: int
) -> int:
    """Compiles a model with Adam, whose learning rate falls to 0 by a cosine.

    Args:
        model: The model.
        settings: Arguments of the run.
        steps_per_epoch: Batches in an epoch.

    Returns:
        The number of training steps.
    """
    import keras

    steps = options.number_of_steps(settings, steps_per_epoch)
    rate = keras.optimizers.schedules.CosineDecay(settings.learning_rate, steps)
    model.compile(keras.optimizers.Adam(rate, global_clipnorm=1.0))
    return steps


def draw(console: Console, folder: Any, make: Callable[[], list[Any]]) -> None:
    """Draws figures, if matplotlib is installed."""
    if not figures.available():
        note(f"no figures: {figures.MISSING}")
        return
    with status("drawing the figures"):
        files = make()
    console.write(f"Figures: {', '.join(map(str, files))}")
