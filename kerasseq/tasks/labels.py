"""Labels by name: converts what a user calls a class to its index, and back."""

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, TypeAlias

import numpy as np

from kerasseq.core import checks

Label: TypeAlias = str | int | float | bool


class Labels:
    """The classes of a model: a number of indices, or names.

    Args:
        labels: The number of classes, whose labels are the indices from 0 on; or their
            names, strings or numbers, in the order of the indices.
        name: The name of the argument, for error messages.
        at_least: The least number of classes.

    Attributes:
        names: The labels in the order of their indices.
        count: Their number.

    Raises:
        TypeError: If `labels` is neither a number nor a list of names.
        ValueError: If there are too few, or two are the same.

    Examples:
        >>> labels = Labels(["cat", "dog"])
        >>> labels.encode(["dog", "cat", "dog"]).tolist()
        [1, 0, 1]
        >>> labels.names[1], Labels(3).names
        ('dog', [0, 1, 2])
    """

    def __init__(
        self, labels: int | Sequence[Label], name: str = "labels", at_least: int = 2
    ) -> None:
        self.name = name
        self.are_indices: bool = not hasattr(labels, "__len__")
        if self.are_indices:
            count = checks.size(name, checks.whole_number(name, labels, at_least))
            self.names: list[Label] = list(range(count))
        else:
            self.names = plain_list(checks.several(name, labels, "names of labels"))
            self._check_names(at_least)
        self.count: int = len(self.names)
        self._index = {label: n for n, label in enumerate(self.names)}

    def _check_names(self, at_least):
        for label in self.names:
            if not isinstance(label, str | int | float):
                raise TypeError(
                    f"`{self.name}` must be strings or numbers, received "
                    f"{checks.short(label)}"
                )
        for label, times in Counter(self.names).items():
            if times > 1:
                raise ValueError(
                    f"`{self.name}` must be distinct, received {label!r} twice"
                )
        if len(self.names) < at_least:
            raise ValueError(
                f"`{self.name}` must have at least {at_least} labels, received "
                f"{checks.short(self.names)}"
            )

    def encode(self, y: Iterable[Any], name: str = "y") -> np.ndarray:
        """Converts labels to indices.

        Args:
            y: Labels, one for each row.
            name: The name of the argument, for error messages.

        Returns:
            int32, `(rows,)`.

        Raises:
            ValueError: If a label is unknown. The message names its row.
        """
        if isinstance(y, np.ndarray) and self.are_indices and y.dtype.kind in "iu":
            wrong = np.flatnonzero((y < 0) | (y >= self.count))
            if not len(wrong):
                return y.astype("int32")
        y = plain_list(y, name)
        for row, label in enumerate(y):
            if not _is_in(label, self._index):
                raise ValueError(self._unknown(f"{name}[{row}]", label))
        return np.array([self._index[label] for label in y], "int32")

    def encode_sets(self, y: Iterable[Any], name: str = "y") -> np.ndarray:
        """Converts sets of labels, one for each row, to 0 and 1.

        Args:
            y: Lists of labels; or an array `(rows, count)` of 0 and 1, as it is.
            name: The name of the argument, for error messages.

        Returns:
            float32, `(rows, count)`.
        """
        if isinstance(y, np.ndarray) and y.ndim == 2 and y.dtype.kind in "iufb":
            if y.shape[1] != self.count or not np.isin(y, (0, 1)).all():
                values = f" with values from {y.min()} to {y.max()}" if y.size else ""
                raise ValueError(
                    f"{name} must be 0 or 1 for each of {self.count} labels, received "
                    f"an array {y.shape}{values}"
                )
            return y.astype("float32")
        rows = plain_list(y, name)
        encoded = np.zeros((len(rows), self.count), "float32")
        for row, labels in enumerate(rows):
            if isinstance(labels, str) or not hasattr(labels, "__len__"):
                raise TypeError(
                    f"{name}[{row}] must be a list of labels, as multi_label=True, "
                    f"received {checks.short(labels)}"
                )
            encoded[row, self.encode(labels, f"{name}[{row}]")] = 1
        return encoded

    def weights(
        self, class_weight: str | Mapping[Any, float] | None, y: np.ndarray
    ) -> np.ndarray | None:
        """Returns the weight of each class, or None if all are the same.

        Args:
            class_weight: Weights by label; or "balanced": see `balanced_weights`.
            y: The indices of all labels.

        Examples:
            >>> Labels(["cat", "dog"]).weights({"dog": 3}, np.array([0])).tolist()
            [1.0, 3.0]
        """
        if class_weight is None:
            return None
        if isinstance(class_weight, str):
            checks.one_of("class_weight", class_weight, ["balanced"])
            return balanced_weights(y, self.count)
        weights = np.ones(self.count, "float32")
        given = dict(class_weight)
        weights[self.encode([*given], "class_weight")] = list(given.values())
        return weights

    def _unknown(self, place, label):
        listed = ", ".join(map(repr, self.names[:20]))
        more = ", …" if self.count > 20 else ""
        near = checks.nearest(label, self.names) if isinstance(label, str) else ""
        near = f" {advice_on(label)}" if is_several(label) else near
        return (
            f"{place} must be one of the labels {listed}{more}; received "
            f"{checks.short(label)}.{near}"
        )


def learned(y: Iterable[Any], name: str = "y") -> list[Label]:
    """Returns the distinct labels of some rows, in order.

    Args:
        y: A label for each row, or lists of labels.
        name: The name of the argument, for error messages.

    Raises:
        ValueError: If there are fewer than two.

    Examples:
        >>> learned(["b", "a", "b"]), learned([["b"], [], ["a", "b"]])
        (['a', 'b'], ['a', 'b'])
    """
    labels, rows = set(), plain_list(y, name)
    for row, label in enumerate(rows):
        for each in plain_list(label) if is_several(label) else [label]:
            # Not a number, None or empty: a cell of a table without a value.
            if each is None or each != each or each == "":
                raise ValueError(f"{name}[{row}] must be a label, received {each!r}")
            labels.add(each)
    if len(labels) < 2:
        raise ValueError(
            f"{name} must have at least two labels to tell apart, received "
            f"{checks.short(sorted(labels, key=str))}"
        )
    if 2 < len(rows) == len(labels) and any(map(_is_fraction, labels)):
        raise ValueError(
            f"{name} must be labels, received {len(rows)} rows with a number of their "
            f"own each, such as {max(labels)}. A classifier learns no numbers: cut "
            "them into classes, as pandas.cut does, or make a Forecaster for a series"
        )
    if message := checks.written_alike(labels):
        warnings.warn(message, stacklevel=2)
    return sorted(labels, key=lambda label: (isinstance(label, str), label))


def _is_fraction(label):
    return isinstance(label, float) and not label.is_integer()


def is_several(label: Any) -> bool:
    """Returns whether a label of a row is a list or an array of them."""
    return hasattr(label, "__len__") and not isinstance(label, str)


def advice_on(labels: Sequence[Any]) -> str:
    """Returns what to do about several labels in a row, where there is one.

    Examples:
        >>> advice_on(["sport"])
        'Pass the labels themselves, [row[0] for row in y]'
    """
    if len(labels) == 1:
        return "Pass the labels themselves, [row[0] for row in y]"
    return (
        "For rows of 0 and 1 pass y.argmax(axis=-1); for several labels in a row make "
        "the model with multi_label=True"
    )


def check_single(y: Iterable[Any], name: str = "y") -> None:
    """Raises if the first row has several labels, where each has one.

    Examples:
        >>> check_single(np.eye(2))
        Traceback (most recent call last):
        ...
        ValueError: y must have one label for each row, received y[0]=array([1., 0.]). \
For rows of 0 and 1 pass y.argmax(axis=-1); for several labels in a row make the model \
with multi_label=True
    """
    first = next(iter(y), None) if is_several(y) else None
    if is_several(first):
        raise ValueError(
            f"{name} must have one label for each row, received {name}[0]="
            f"{checks.short(first)}. {advice_on(first)}"
        )


def balanced_weights(y: np.ndarray, count: int) -> np.ndarray:
    r"""Computes weights of classes that give each the same share of the loss.

    $$w_k = \frac{n}{C\, n_k}$$

    with $n$ rows, $n_k$ of them of class $k$, and $C$ classes that have rows.

    Args:
        y: Indices of the classes, `(rows,)`.
        count: Number of classes; one without rows has the weight 1.

    Returns:
        float32, `(count,)`.

    Examples:
        >>> balanced_weights(np.array([0, 0, 0, 1]), 2).round(3).tolist()
        [0.6669999957084656, 2.0]
    """
    rows = np.bincount(y, minlength=count)
    weights = len(y) / (np.count_nonzero(rows) * np.maximum(rows, 1))
    return np.where(rows > 0, weights, 1).astype("float32")


def plain_list(values: Any, name: str = "y", kind: str = "label") -> list[Any]:
    """Returns values of a list, an array or a column of a table, as plain Python.

    Args:
        values: The values.
        name: Their name, for error messages.
        kind: What each is, for error messages.

    Raises:
        TypeError: If they are no list: a string, whose letters would be the values, a
            dictionary, or a set, which has no order.

    Examples:
        >>> plain_list(np.array(["a", "b"])), plain_list(("a", 2))
        (['a', 'b'], ['a', 2])
    """
    if isinstance(values, str | bytes):
        raise TypeError(
            f"{name} must be a list of {kind}s, received {checks.short(values)}, which "
            f"would be {len(values)} {kind}s of a letter each. For one {kind}: "
            f"[{checks.short(values)}]; for a column: table[{checks.short(values)}]"
        )
    is_list = hasattr(values, "__iter__") and not isinstance(values, type)
    if isinstance(values, Mapping | Set) or not is_list or not _rank(values):
        raise TypeError(
            f"{name} must be a list of {kind}s, received {checks.short(values)}"
        )
    # Of NumPy and pandas.
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _rank(values):
    return len(getattr(values, "shape", (1,)))


def _is_in(label, index):
    try:
        return label in index
    except TypeError:  # a list has no hash
        return False
