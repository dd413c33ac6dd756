"""What the tasks with labels share: baselines and tables of scores."""

import importlib.util
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

import kerasseq
from kerasseq.cli import figures, options, runs, schedule, verdict
from kerasseq.cli.console import Console, note, progress, status
from kerasseq.cli.run import Run
from kerasseq.core import checks, packages
from kerasseq.datasets.splitting import split_by_class

SCORES = ("precision", "recall", "f1-score")
BASELINE_ROWS = 100_000  # that logistic regression is fitted to
BASELINE_SCORES = 2_000_000  # of rows times labels
MAX_TESTED = 10_000  # held-out rows that are classified or tagged
VALIDATION = 0.15  # of the training rows, on which the best step is chosen
MAX_VALIDATION = 2000  # of them, about
MAX_LABELS = 1000  # a column with more is refused, as texts or numbers
FEW_LABELS = 20  # that may all be different, in a small table
SHOWN_CLASSES = 30  # rows of the table on the terminal
HARDEST = 5  # wrong rows that are shown, the most certain ones
FEATURES = 20_000  # n-grams that logistic regression counts
MARKS = (";", "|", ",")  # between several labels of a row
SEVERAL = (
    "Several labels of a row are learned by  kerasseq compare, or in Python by "
    "SequenceClassifier(multi_label=True)"
)


def check_labels(labels: Sequence[str], where: str) -> None:
    """Raises if labels are no classes to learn; notes those that are written alike.

    Args:
        labels: The label of each row.
        where: The file or the column, for messages.

    Raises:
        ValueError: If all rows have the same label, there are more than `MAX_LABELS`,
            or many that most rows do not share, such as numbers or texts.
    """
    names = set(labels)
    if len(names) < 2:
        raise ValueError(
            f"{where} must have at least two labels to tell apart, received "
            f"{checks.short(labels[0])} in all rows"
        )
    shared = len(names) <= max(FEW_LABELS, len(labels) // 2)
    if shared and len(names) <= MAX_LABELS:
        if message := checks.written_alike(names):
            note(message)
        if (mark := separator_of(names)) is not None:
            shown = next(name for name in sorted(names) if mark in name)
            note(f"{checks.short(shown)} is read as one label. {SEVERAL}")
        return
    bound = f"at most {MAX_LABELS:,} labels" if shared else "labels that rows share"
    raise ValueError(
        f"{where} must have {bound}, received {len(names):,} different ones in "
        f"{len(labels):,} rows, such as {checks.short(labels[0])}. Name another column "
        "with --label. Numbers are forecast by  kerasseq train forecast"
    )


def separator_of(names: Collection[str]) -> str | None:
    """Returns the mark between parts of labels, if there are fewer parts than labels.

    Examples:
        >>> separator_of(["red;blue", "blue;green", "red", "blue", "green;red"])
        ';'
        >>> separator_of(["Paris, France", "Rome, Italy", "Bern"]) is None
        True
    """
    for mark in MARKS:
        several = [name for name in names if mark in name]
        parts = {part.strip() for name in names for part in name.split(mark)}
        if several and len(parts) < len(names):
            return mark
    return None


def check_known(labels: Sequence[str], names: Sequence[Any], where: str) -> None:
    """Raises if the labels of a file are not those of the training.

    Args:
        labels: The label of each row.
        names: The labels of the training.
        where: The file, for messages.

    Raises:
        ValueError: If none is one of the training, or more than `MAX_LABELS` are not.
    """
    names, given = list(map(str, names)), set(labels)
    unknown = given.difference(names)
    if len(unknown) == len(given) or len(unknown) > MAX_LABELS:
        raise ValueError(
            f"{where} must have the labels of the training, {checks.short(names)}, "
            f"received {len(given) - len(unknown)} of them and {len(unknown):,} "
            f"others, such as {checks.short(min(unknown))}. Name the column of the "
            "labels, or give a file like that of the training"
        )


def validation_part(
    labels: Sequence[Hashable], settings: options.Settings
) -> tuple[np.ndarray, np.ndarray]:
    """Splits the rows of the training: some choose the step at which it stops.

    Args:
        labels: The label of each row.
        settings: Arguments of the run, with `patience`; 0 trains on all rows.

    Returns:
        Indices of the rows to learn from, and of those for validation.
    """
    every = np.arange(len(labels)), np.arange(0)
    if not settings.patience:
        return every
    share = min(VALIDATION, MAX_VALIDATION / len(labels))
    training, validation = split_by_class(labels, share, settings.seed)
    if not len(validation):
        note("no label has two rows: all are trained on, for all steps")
    return training, validation


def baselines(
    texts: Sequence[str],
    labels: Sequence[str],
    tested: Sequence[str],
    y: Sequence[str],
    seed: int,
) -> dict[str, dict[str, float]]:
    """Computes the accuracy of simple models on held-out texts.

    Args:
        texts: Training texts.
        labels: Their labels.
        tested: Held-out texts.
        y: Their labels.
        seed: Seed of the choice of texts, if only a part is fitted to.

    Returns:
        For each model what `scored` returns.
    """
    results = {"majority": majority(labels, y)}
    if not has_sklearn():
        return results
    from sklearn.feature_extraction.text import CountVectorizer

    texts, labels = _sample(texts, labels, seed)
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
            x = vectorizer.fit_transform(texts)
        except ValueError:  # no words, as in texts of single letters
            continue
        x_tested = vectorizer.transform(tested)
        right = logistic_regression(x, labels, x_tested, y)
        seconds = time.perf_counter() - start
        results[name] = scored(right, seconds, len(texts))
    return results


def majority(labels: Sequence[str], y: Sequence[str]) -> dict[str, float]:
    """Computes the accuracy of the most frequent training label.

    Examples:
        >>> majority(["a", "a", "b"], ["a", "b"])["accuracy"]
        0.5
    """
    most = Counter(labels).most_common(1)[0][0]
    return scored([label == most for label in y], 0.0, len(labels))


def scored(
    right: Any, seconds: float, rows: int, sizes: np.ndarray | None = None
) -> dict[str, Any]:
    """Returns the results of a simple model.

    Args:
        right: The number of right answers of each held-out row.
        seconds: The time of training and prediction.
        rows: The number of rows that it was fitted to.
        sizes: The number of answers of each held-out row; None for one.
    """
    right = np.asarray(right, int)
    accuracy = float(right.sum() / (len(right) if sizes is None else sizes.sum()))
    return {"accuracy": accuracy, "seconds": seconds, "rows": rows, "right": right}


def has_sklearn() -> bool:
    """Returns whether scikit-learn is installed; notes it if it is not."""
    if importlib.util.find_spec("sklearn") is not None:
        return True
    note(
        "no logistic regression to compare with: it needs scikit-learn. "
        + packages.install("scikit-learn")
    )
    return False


def logistic_regression(
    x: Any, labels: Sequence[str], x_tested: Any, y: Sequence[str]
) -> np.ndarray:
    """Fits logistic regression; returns for which held-out rows it is right.

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
    return model.predict(x_tested) == np.asarray(y)


def _sample(texts, labels, seed):
    """Selects texts to fit logistic regression to: all, or a part of each class."""
    count = min(BASELINE_ROWS, BASELINE_SCORES // len(set(labels)))
    if len(texts) <= count:
        return texts, labels
    rows = split_by_class(labels, count / len(texts), seed)[1]
    return [texts[n] for n in rows], [labels[n] for n in rows]


def scores(y: Sequence[Any], predicted: Sequence[Any], names: Sequence[Any]) -> Any:
    """Returns the report of each class, and the confusion matrix, as plain data.

    Args:
        y: The true labels; or for each sentence a list of tags.
        predicted: The predicted labels, in the same form.
        names: The labels of the model. Others come after them.
    """
    report = kerasseq.training.label_report(y, predicted, names)
    entities = {} if report.entities is None else {"entities": report.entities}
    return {
        "accuracy": report.accuracy,
        "report": report.scores,
        "confusion": report.confusion.tolist(),
        "labels": report.labels,
        **entities,
    }


def show(
    console: Console, results: dict[str, Any], title: str, name: str = "text"
) -> None:
    """Prints precision, recall and F1 of each class, and what else was found.

    Args:
        console: Where to print.
        results: The scores, with F1 of entities and the hardest rows if there are any.
        title: What the scores are of.
        name: What a row is called in the hardest rows, as in `hardest`.
    """
    _show_report(console, results, title)
    if "entities" in results:
        f1 = results["entities"]["micro avg"]["f1-score"]
        console.write(f"F1 of entities: {f1:.3f}")
    if results.get("hardest"):
        rows = [
            (_cut(e[name]), e["label"], e["predicted"], f"{e['probability']:.2f}")
            for e in results["hardest"]
        ]
        columns = (name, "label", "predicted", ">probability")
        console.table("Wrong and most certain", columns, rows)


def _show_report(console, results, title):
    report, names = results["report"], results["labels"]
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
    counts = np.array(results["confusion"])
    absent = np.flatnonzero(counts.sum(axis=0) + counts.sum(axis=1) == 0)
    if len(absent):
        console.write(
            f"{len(absent):,} of {len(names):,} classes have no row here and are not "
            f"predicted, such as {names[absent[0]]}: the average is without them."
        )


def repeated(training: Iterable[Hashable], held_out: Iterable[Hashable]) -> int:
    """Counts the held-out rows that are in the training part, too.

    Examples:
        >>> repeated(["a", "b", "b"], ["b", "c", "b"])
        2
    """
    known = set(training)
    return sum(row in known for row in held_out)


def show_repeated(
    console: Console,
    count: int | None,
    tested: int,
    what: str,
    *,
    name: str | None = None,
    advice: str = "Delete repeated rows from the data to measure them",
) -> None:
    """Prints how many rows of a test repeat training rows, if any do.

    Args:
        console: Where to print.
        count: The number of these rows, as from `repeated`; None if it is unknown.
        tested: The number of rows of the test.
        what: What the rows are, such as "texts".
        name: What they are called. "held-out texts" if None.
        advice: How to get a test without them.
    """
    if count:
        console.write(
            f"{count:,} of the {tested:,} {name or f'held-out {what}'} are in the "
            f"training part, too: for new {what} expect lower scores. {advice}."
        )


def show_baselines(
    console: Console, results: dict[str, Any], seconds: float, rows: int
) -> None:
    """Prints the accuracy of the model and of the baselines, with their times.

    Args:
        console: Where to print.
        results: The results, with "model", "accuracy" and "baselines".
        seconds: The time that the model was trained for.
        rows: Number of rows of the training.
    """
    baselines = results["baselines"]
    table = [
        (name, f"{each['accuracy']:.3f}", f"{each['seconds']:.1f}")
        for name, each in baselines.items()
    ]
    table.append((results["model"], f"{results['accuracy']:.3f}", f"{seconds:.1f}"))
    console.table(
        "Accuracy on the held-out rows", ("model", ">accuracy", ">seconds"), table
    )
    console.write(results["verdict"]["sentence"])
    fewer = {each["rows"] for each in baselines.values() if each["rows"] < rows}
    if fewer:
        console.write(
            f"Logistic regression was fitted to {min(fewer):,} of the {rows:,} rows."
        )


def bounded(rows: np.ndarray, seed: int) -> np.ndarray:
    """Returns at most `MAX_TESTED` of the held-out rows, in random order."""
    return rows[np.random.default_rng(seed).permutation(len(rows))][:MAX_TESTED]


def title_of(tested: int, held_out: int, what: str) -> str:
    """Returns the title of the scores, which says if only a part was predicted.

    Examples:
        >>> title_of(7, 7, "texts"), title_of(7, 9, "texts")
        ('On the held-out texts', 'On 7 of the 9 held-out texts')
    """
    if tested == held_out:
        return f"On the held-out {what}"
    return f"On {tested:,} of the {held_out:,} held-out {what}"


def in_parts(rows: Sequence[Any], size: int, what: str) -> Iterator[Sequence[Any]]:
    """Yields parts of rows, and shows on stderr how many are done.

    Args:
        rows: The rows.
        size: Rows in a part.
        what: What is done to them, such as "predicting".
    """
    if len(rows) <= size:
        with status(what):
            yield rows
        return
    with progress(what, len(rows)) as show:
        for start in range(0, len(rows), size):
            yield rows[start : start + size]
            show(min(start + size, len(rows)))


def hardest(
    texts: Sequence[str], y: Sequence[Any], predicted: Sequence[Any], name: str = "text"
) -> list[dict[str, Any]]:
    """Returns the wrong predictions that the model is most certain of.

    Args:
        texts: The texts; or the names of other inputs.
        y: Their labels.
        predicted: The classification of each.
        name: What the texts are called in the results.
    """
    wrong = [
        {
            name: text,
            "label": str(label),
            "predicted": str(each.label),
            "probability": each.probability,
        }
        for text, label, each in zip(texts, y, predicted, strict=True)
        if str(label) != str(each.label)
    ]
    return sorted(wrong, key=lambda each: -each["probability"])[:HARDEST]


def _cut(text, length=60):
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[: length - 1]}…"


def report(
    run: Run,
    model: Any,
    history: runs.History,
    results: dict[str, Any],
    *,
    rows: int,
    tested: int,
    held_out: int,
    what: str,
    name: str = "text",
    advice: Sequence[str] = (),
    more: Callable[[str], list[Any]] = lambda title: [],
) -> runs.Results:
    """Prints, draws and writes the results of a task with labels.

    Args:
        run: The run.
        model: The model.
        history: The history of its training.
        results: Its scores, those of simple models, and how many rows are repeated;
            and "right" and, for several answers in a row, "sizes", as for `scored`.
        rows: Number of rows of the training.
        tested: Number of held-out rows that were predicted.
        held_out: Number of all held-out rows.
        what: What the rows are, such as "texts".
        name: What a row is called, as in `hardest`.
        advice: The options that are most likely to help.
        more: Draws other figures with a title.

    Returns:
        All results, as plain data.
    """
    if results["accuracy"] == 1:
        advice = ()  # nothing is left to help with
    elif schedule.is_improving(history):
        advice = ("more --epochs", *advice)
    right, sizes = results.pop("right"), results.pop("sizes", None)
    simple = {other: each.pop("right") for other, each in results["baselines"].items()}
    results = run.results(model, history, history[-1]["step"], **results)
    lines = {other: each["accuracy"] for other, each in results["baselines"].items()}
    words = results["model"], right, simple, "accuracy on the held-out rows", advice
    results["verdict"] = verdict.compare(*words, sizes=sizes)
    show(run.console, results, title_of(tested, held_out, what), name)
    show_baselines(run.console, results, run.seconds, rows)
    show_repeated(run.console, results["repeated"], tested, what)
    plots = kerasseq.tracing.plots
    counts = results["confusion"], results["labels"], run.title
    run.draw(
        lambda: [
            figures.history(run.folder, history, "accuracy", run.title, lines),
            figures.save(plots.plot_confusion(*counts), run.folder / "confusion.png"),
            *more(run.title),
        ]
    )
    return run.finish(results)
