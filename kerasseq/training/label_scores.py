"""Scores of predicted labels: precision, recall and F1 of each class, and averages.

The results equal those of scikit-learn, which is not needed, with `zero_division=0`: a
quotient of 0 and 0 is 0. `entity_scores` has the scores of entities in tags.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core.checks import one_of, several, short

SCORES = ("precision", "recall", "f1-score")
AVERAGES = ("accuracy", "micro avg", "macro avg", "weighted avg")


def classification_report(
    y_true: ArrayLike, y_pred: ArrayLike, names: Iterable[str] | None = None
) -> dict[str, Any]:
    """Computes precision, recall and F1 of each class, and their averages.

    The result equals `sklearn.metrics.classification_report` with `output_dict=True`;
    with `names`, and with `labels=range(len(names))`. It is plain data, ready for JSON.

    Args:
        y_true: True labels of shape `(size,)`, whole numbers or strings. For sequences,
            those of all real steps, without padding.
        y_pred: Predicted labels of the same shape, not probabilities.
        names: Names of the classes. Labels are their indices, or names themselves. By
            default the classes are those that occur, sorted.

    Returns:
        A dictionary with `"precision"`, `"recall"`, `"f1-score"` and `"support"`, the
        number of true labels, for the name of each class, for `"macro avg"`, the mean
        over the classes, and for `"weighted avg"`, weighted by support. `"accuracy"` is
        a number.

    Raises:
        TypeError: If labels are neither whole numbers nor strings.
        ValueError: If the shapes differ or are not `(size,)`, there are no labels, or a
            label is not in `names`.

    Examples:
        >>> report = classification_report([0, 0, 1, 1], [0, 1, 1, 1], ["cat", "dog"])
        >>> report["cat"]
        {'precision': 1.0, 'recall': 0.5, 'f1-score': 0.6666666666666666, 'support': 2}
        >>> report["accuracy"]
        0.75
    """
    true, predicted, classes = _indices(y_true, y_pred, names)
    if reserved := sorted({*classes} & {*AVERAGES}):
        raise ValueError(
            f"`names` must not be names of averages, received {reserved[0]!r}. Choose "
            "another name."
        )
    counts = _counts(true, predicted, len(classes))
    correct = counts.diagonal()
    report = by_class(classes, correct, counts.sum(axis=0), counts.sum(axis=1))
    means = averages(report)
    return {**report, "accuracy": float(correct.sum() / len(true)), **means}


def confusion_matrix(
    y_true: ArrayLike, y_pred: ArrayLike, names: Iterable[str] | None = None
) -> np.ndarray:
    """Counts the predictions for each pair of true and predicted class.

    Args:
        y_true: True labels, as for `classification_report`.
        y_pred: Predicted labels.
        names: Names of the classes.

    Returns:
        Whole numbers of shape `(classes, classes)`: row i and column j for true class i
        and predicted class j, in the order of `names`, or sorted.

    Raises:
        TypeError: If labels are neither whole numbers nor strings.
        ValueError: If the shapes differ or are not `(size,)`, there are no labels, or a
            label is not in `names`.

    Examples:
        >>> confusion_matrix(["a", "a", "b"], ["a", "b", "b"])
        array([[1, 1],
               [0, 1]])
    """
    true, predicted, classes = _indices(y_true, y_pred, names)
    return _counts(true, predicted, len(classes))


def multilabel_f1(
    y_true: ArrayLike, y_pred: ArrayLike, average: str = "micro"
) -> float:
    """Computes F1 where a sample can have several labels, or none.

    Args:
        y_true: 0 or 1, or False or True, of shape `(size, labels)`.
        y_pred: Predictions of the same shape, such as `probabilities > 0.5`.
        average: `"micro"`: F1 of all decisions together, so that frequent labels count
            more; `"macro"`: the mean of the F1 of each label.

    Returns:
        A number from 0 to 1.

    Raises:
        TypeError: If an argument does not hold numbers.
        ValueError: If the shapes differ or are not `(size, labels)`, a value is neither
            0 nor 1, or `average` is unknown.

    Examples:
        >>> multilabel_f1([[1, 0, 1], [0, 1, 0]], [[1, 0, 0], [0, 1, 0]])
        0.8
        >>> multilabel_f1([[1, 0, 1], [0, 1, 0]], [[1, 0, 0], [0, 1, 0]], "macro")
        0.6666666666666666
    """
    one_of("average", average, ("micro", "macro"))
    true, predicted = decisions("y_true", y_true), decisions("y_pred", y_pred)
    check_same_shape(true, predicted)
    axis = 0 if average == "macro" else None
    correct = np.sum(true & predicted, axis=axis)
    both = np.sum(true, axis=axis) + np.sum(predicted, axis=axis)
    return float(np.mean(quotient(2 * correct, both)))


def by_class(
    names: Sequence[str],
    correct: ArrayLike,
    predicted: ArrayLike,
    support: ArrayLike,
) -> dict[str, dict[str, Any]]:
    """Computes the scores of each class from counts.

    Args:
        names: Names of the classes.
        correct: Number of correct predictions of each class.
        predicted: Number of predictions of each class.
        support: Number of true labels of each class.

    Returns:
        The scores of each class by its name.
    """
    correct, predicted, support = map(np.asarray, (correct, predicted, support))
    columns = (
        quotient(correct, predicted).tolist(),
        quotient(correct, support).tolist(),
        quotient(2 * correct, predicted + support).tolist(),
        support.tolist(),
    )
    rows = zip(*columns, strict=True)
    return {
        name: dict(zip((*SCORES, "support"), row, strict=True))
        for name, row in zip(names, rows, strict=True)
    }


def averages(report: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Computes the mean of the scores of classes, and the mean weighted by support."""
    rows = [[scores[name] for name in SCORES] for scores in report.values()]
    table = np.reshape(np.array(rows, float), (len(rows), len(SCORES)))
    support = [scores["support"] for scores in report.values()]
    result = {}
    for name, weights in (("macro avg", [1] * len(rows)), ("weighted avg", support)):
        totals = np.full(len(SCORES), sum(weights))
        means = quotient(np.array(weights, float) @ table, totals).tolist()
        row = dict(zip(SCORES, means, strict=True))
        result[name] = {**row, "support": sum(support)}
    return result


def quotient(numerator: ArrayLike, denominator: ArrayLike) -> np.ndarray:
    """Divides, with 0 where the denominator is 0.

    Examples:
        >>> quotient([1, 0], [2, 0])
        array([0.5, 0. ])
    """
    quotient = np.zeros(np.shape(denominator))
    valid = np.not_equal(denominator, 0)
    return np.divide(numerator, denominator, out=quotient, where=valid)


def _counts(true: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    cells = np.bincount(true * classes + predicted, minlength=classes**2)
    return cells.reshape(classes, classes)


def _indices(
    y_true: ArrayLike, y_pred: ArrayLike, names: Iterable[str] | None
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Returns true and predicted classes as indices, and the names of the classes."""
    true, predicted = _labels("y_true", y_true), _labels("y_pred", y_pred)
    check_same_shape(true, predicted)
    if (true.dtype.kind == "U") != (predicted.dtype.kind == "U"):
        raise TypeError(
            "`y_true` and `y_pred` must both be whole numbers or both strings, "
            f"received {short(true.tolist())} and {short(predicted.tolist())}."
        )
    if names is None:
        labels = np.union1d(true, predicted)
        classes = [str(label) for label in labels.tolist()]
    else:
        classes = _names(names)
        labels = np.array(classes if true.dtype.kind == "U" else range(len(classes)))
    order = np.argsort(labels)
    parts = []
    for name, values in (("y_true", true), ("y_pred", predicted)):
        unknown = ~np.isin(values, labels)
        if unknown.any():
            i = int(unknown.argmax())
            raise ValueError(
                f"`{name}` must be names of `names`, or indices from 0 to "
                f"{len(classes) - 1}, received {values[i].item()!r} at {i}."
            )
        parts.append(order[np.searchsorted(labels, values, sorter=order)])
    return parts[0], parts[1], classes


def _names(names: Iterable[str]) -> list[str]:
    classes = several("names", names)
    for name in classes:
        if not isinstance(name, str):
            raise TypeError(f"`names` must be strings, received {short(name)}.")
    if len(set(classes)) < len(classes) or not classes:
        raise ValueError(
            f"`names` must be different names, and at least one, received {classes}."
        )
    return classes


def _labels(name: str, values: ArrayLike) -> np.ndarray:
    array = _array(name, values)
    if array.ndim != 1 or not len(array):
        raise ValueError(
            f"`{name}` must have shape (size,) with at least one label, received "
            f"{array.shape}. Pass real steps only, as in y[mask]; for probabilities, "
            "their argmax."
        )
    if array.dtype.kind in "OT" and all(isinstance(label, str) for label in array):
        array = np.array(array.tolist(), str)
    if array.dtype.kind in "iu":
        array = array.astype("int64")  # unsigned and signed would become floats
    if array.dtype.kind not in "biU":
        raise TypeError(
            f"`{name}` must be whole numbers or strings, received {short(values)}."
        )
    return array


def decisions(name: str, values: ArrayLike) -> np.ndarray:
    """Returns 0 or 1 of shape `(size, labels)` as booleans, or raises."""
    array = _array(name, values)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"`{name}` must be 0 or 1, received {short(values)}.")
    if array.ndim != 2 or not array.size:
        raise ValueError(
            f"`{name}` must have shape (size, labels), received {array.shape}."
        )
    if not np.isin(array, (0, 1)).all():
        raise ValueError(
            f"`{name}` must be 0 or 1, received {short(values)}. For probabilities: "
            "probabilities > 0.5."
        )
    return array.astype(bool)


def _array(name: str, values: ArrayLike) -> np.ndarray:
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        raise ValueError(
            f"`{name}` must have rows of one length, received {short(values)}."
        ) from None
    if array.ndim == 0:
        raise TypeError(f"`{name}` must be a list or array, received {short(values)}.")
    return array


def check_same_shape(true: np.ndarray, predicted: np.ndarray) -> None:
    """Raises a `ValueError` if two arrays differ in shape."""
    if true.shape != predicted.shape:
        raise ValueError(
            "`y_true` and `y_pred` must have the same shape, received "
            f"{true.shape} and {predicted.shape}."
        )
