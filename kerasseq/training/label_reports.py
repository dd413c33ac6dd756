"""`LabelReport`: all scores of predicted labels, and a table of them to print."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kerasseq.core.checks import several
from kerasseq.core.table import Table
from kerasseq.training.entity_scores import entity_scores
from kerasseq.training.label_scores import (
    SCORES,
    averages,
    by_class,
    classification_report,
    confusion_matrix,
)

PREFIXES = ("B-", "I-", "E-", "S-")  # of BIO and IOBES tags


class LabelReport(NamedTuple):
    """The scores of predicted labels. `print` and notebooks show them as a table.

    Attributes:
        scores: "precision", "recall", "f1-score" and "support" by the name of each
            label, and of "micro avg", "macro avg" and "weighted avg"; "accuracy" is a
            number, the share of inputs, or of words, whose label or set of labels is
            right. The averages are over the labels that occur, as true or as predicted
            ones; with several labels at once, over all.
        confusion: Counts, row i and column j for true label i and predicted label j,
            `(labels, labels)`; for several labels at once, a matrix of two classes for
            each label, `(labels, 2, 2)`.
        labels: The names of the labels, in the order of `confusion`.
        entities: For BIO and IOBES tags, the scores of `training.entity_scores`; else
            None.
    """

    scores: dict[str, Any]
    confusion: np.ndarray
    labels: list[str]
    entities: dict[str, dict[str, Any]] | None = None

    @property
    def accuracy(self) -> float:
        """The accuracy, `scores["accuracy"]`."""
        return self.scores["accuracy"]

    def __str__(self) -> str:
        labels, *entities = self._tables()
        lines = [labels, f"accuracy {self.accuracy:.3f}", *(f"\n{t}" for t in entities)]
        return "\n".join(map(str, lines))

    def _repr_html_(self) -> str:
        labels, *entities = [table.html() for table in self._tables()]
        return "".join([labels, f"<p>accuracy {self.accuracy:.3f}</p>", *entities])

    def _tables(self):
        """Returns the scores of the labels, and of the entities if there are any."""
        names = [*self.labels, "micro avg", "macro avg", "weighted avg"]
        tables = [_table({name: self.scores[name] for name in names})]
        if self.entities is not None:
            tables.append(_table(self.entities, "entities"))
        return tables


def label_report(
    y_true: Sequence[Any],
    y_pred: Sequence[Any],
    names: Iterable[Any] | None = None,
    *,
    multi_label: bool = False,
) -> LabelReport:
    """Computes all scores of predicted labels.

    The scores and the confusion matrix equal those of scikit-learn, with
    `zero_division=0`. A label of the model that is neither a true nor a predicted one
    is in the report with zeros, and not in the averages.

    Args:
        y_true: The true labels; for several labels at once, a list for each input; for
            sequences, a list of tags for each.
        y_pred: The predicted labels, in the same form.
        names: The labels of the model. A label that is not among them comes after
            them. By default all labels that occur, sorted.
        multi_label: Whether inputs have several labels at once.

    Returns:
        A `LabelReport`.

    Raises:
        ValueError: If there are no labels, or not as many predictions.

    Examples:
        >>> report = label_report(["cat", "dog", "dog"], ["cat", "dog", "cat"])
        >>> round(report.accuracy, 3), report.confusion.tolist()
        (0.667, [[1, 0], [1, 1]])
        >>> print(report)
                      precision  recall  f1-score  support
        cat               0.500   1.000     0.667        1
        dog               1.000   0.500     0.667        2
        micro avg         0.667   0.667     0.667        3
        macro avg         0.750   0.750     0.667        3
        weighted avg      0.833   0.667     0.667        3
        accuracy 0.667
    """
    y_true, y_pred = several("y_true", y_true), several("y_pred", y_pred)
    if len(y_true) != len(y_pred) or not len(y_true):
        raise ValueError(
            "`y_true` and `y_pred` must have the same number of rows, at least one, "
            f"received {len(y_true)} and {len(y_pred)}."
        )
    nested = [hasattr(y, "__len__") and not isinstance(y, str) for y in y_true]
    parts = [y_true, y_pred]
    if multi_label or any(nested):
        parts = [[label for row in part for label in row] for part in parts]
    labels = _all_labels(names, *parts)
    index = {label: n for n, label in enumerate(labels)}
    shown = _shown(labels)
    if multi_label:
        sets = [_sets(index, part) for part in (y_true, y_pred)]
        return _multi_label_report(*sets, shown)
    true, predicted = ([index[label] for label in part] for part in parts)
    scores = classification_report(true, predicted, shown)
    counts = confusion_matrix(true, predicted, shown)
    occurring = np.flatnonzero(counts.sum(axis=0) + counts.sum(axis=1))
    means = averages({shown[n]: scores[shown[n]] for n in occurring})
    scores = {**scores, **means, **_micro(counts.trace(), len(true), len(true))}
    entities = None
    if any(nested) and all(name == "O" or name[:2] in PREFIXES for name in shown):
        entities = entity_scores(y_true, y_pred)
    return LabelReport(scores, counts, shown, entities)


def _all_labels(names, true, predicted):
    """Returns the labels of the model, and then others that occur, sorted."""
    names = [] if names is None else list(names)
    others = set(true).union(predicted).difference(names)
    return [*names, *sorted(others, key=lambda each: (isinstance(each, str), each))]


def _shown(labels):
    """Labels as strings; with quotation marks if 1 and "1" are both labels."""
    shown = [str(label) for label in labels]
    distinct = len(set(shown)) == len(shown)
    return shown if distinct else [repr(label) for label in labels]


def _micro(correct, predicted, support):
    return by_class(["micro avg"], [int(correct)], [predicted], [support])


def _sets(index, rows):
    """Returns 0 or 1 for each row and label."""
    indicators = np.zeros((len(rows), len(index)), int)
    for row, labels in enumerate(rows):
        indicators[row, [index[label] for label in labels]] = 1
    return indicators


def _multi_label_report(true, predicted, names):
    correct = (true * predicted).sum(axis=0)
    positives, support = predicted.sum(axis=0), true.sum(axis=0)
    report = by_class(names, correct, positives, support)
    scores = {
        **report,
        "accuracy": float((true == predicted).all(axis=1).mean()),
        **_micro(correct.sum(), int(positives.sum()), int(support.sum())),
        **averages(report),
    }
    # Rows of a matrix: the label is absent, or present; columns: as predicted.
    wrong = positives - correct, support - correct
    absent = len(true) - support - wrong[0]
    confusion = np.stack([absent, *wrong, correct], axis=-1).reshape(-1, 2, 2)
    return LabelReport(scores, confusion, names)


def _table(scores, title=""):
    rows = [
        (name, *(f"{row[score]:.3f}" for score in SCORES), str(row["support"]))
        for name, row in scores.items()
    ]
    return Table(rows, (title, *SCORES, "support"))
