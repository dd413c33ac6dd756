"""The columns of a table that a forecast uses: numbers, and categories as numbers.

A column of categories, such as names of holidays, becomes a feature for each category,
1 where the row has it and 0 elsewhere.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kerasseq.core.checks import nearest, short

Categories = Mapping[Any, Sequence[str]]  # by column
LARGEST = float(np.finfo("float32").max)


@dataclasses.dataclass(frozen=True)
class Columns:
    """The names of the columns that a forecast uses.

    Attributes:
        value: The column to forecast; None for the only column of numbers.
        date: The column of dates; None for the index.
        group: The column that tells several series apart, or None.
        past: Columns known up to the last value only.
        known: Columns known in advance.
        categories: The categories of columns that have no numbers, by column.
    """

    value: Any = None
    date: Any = None
    group: Any = None
    past: tuple[Any, ...] = ()
    known: tuple[Any, ...] = ()
    categories: Categories = dataclasses.field(default_factory=dict)

    @property
    def others(self) -> tuple[Any, ...]:
        return self.past + self.known

    @property
    def features_of_known(self) -> list[Any]:
        """The column of each feature that is known in advance."""
        return features_of(self.known, self.categories)


def features_of(names: Sequence[Any], categories: Categories) -> list[Any]:
    """Returns the column of each feature: one of numbers has one.

    Examples:
        >>> features_of(["price", "holiday"], {"holiday": ["easter", "none"]})
        ['price', 'holiday', 'holiday']
    """
    return [name for name in names for _ in categories.get(name, [name])]


def learned_categories(frame: Any, names: Sequence[Any]) -> dict[Any, list[str]]:
    """Returns the categories of columns of a DataFrame, in alphabetical order.

    Args:
        frame: The DataFrame.
        names: The columns.

    Raises:
        ValueError: If there is no such column, or all of its cells are empty.
    """
    categories = {}
    for name in names:
        if name not in frame.columns:
            raise ValueError(
                f"categories: there is no column {name!r}."
                f"{nearest(name, frame.columns)} The columns are "
                f"{', '.join(map(str, frame.columns))}"
            )
        column = frame[name]
        categories[name] = sorted(set(map(_category, column[column.notna()])))
        if not categories[name]:
            raise ValueError(
                f"the column {name!r} is empty in all rows. Leave it out of categories"
            )
    return categories


def _category(cell):
    """Names a category: 3 for 3.0, as a column with empty cells has it."""
    is_whole = isinstance(cell, float) and cell.is_integer()
    return str(int(cell) if is_whole else cell)


def read_features(
    frame: Any, names: Sequence[Any], columns: Columns, rows: Sequence[str]
) -> np.ndarray:
    """Returns columns of a DataFrame as features.

    Args:
        frame: The DataFrame.
        names: The columns.
        columns: The categories.
        rows: The place of each row, for messages.

    Returns:
        Array `(rows, features)`, float64; empty cells are NaN.

    Raises:
        ValueError: If a cell is no number, too large, or none of the categories.
    """
    features = [
        _one_hot(frame[name], name, columns.categories[name], rows)
        if name in columns.categories
        else _numbers(frame, name, columns, rows)[:, None]
        for name in names
    ]
    return np.concatenate(features, axis=1)


def _one_hot(column, name, categories, rows):
    """Returns a feature for each category."""
    import pandas

    codes, cells = pandas.factorize(column)
    features = np.zeros((len(column), len(categories)))
    features[codes < 0] = np.nan
    for code, cell in enumerate(map(_category, cells)):
        is_here = codes == code
        if cell not in categories:
            raise ValueError(
                f"the column {name!r} must have one of its categories, "
                f"{short(list(categories))}, but {rows[int(is_here.argmax())]} has "
                f"{cell!r}.{nearest(cell, list(categories))} Correct it, or train a "
                "model on a table that has it"
            )
        features[is_here, categories.index(cell)] = 1.0
    return features


def check_columns(frame: Any, columns: Columns) -> None:
    """Raises a `ValueError` if a column does not exist, or is named twice."""
    roles = [("value", columns.value), ("date", columns.date), ("group", columns.group)]
    roles += [("past", name) for name in columns.past]
    roles += [("known", name) for name in columns.known]
    used = {}
    for role, name in roles:
        if name is None:
            continue
        if name not in frame.columns:
            listed = ", ".join(map(str, frame.columns))
            raise ValueError(
                f"{role}: there is no column {name!r}.{nearest(name, frame.columns)} "
                f"The columns are {listed}"
            )
        if name in used:
            raise ValueError(
                f"the column {name!r} is named twice, as {used[name]} and as {role}. "
                "Leave one out"
            )
        used[name] = role


def _numbers(frame, name, columns, rows):
    """Returns a column as float64; empty cells are NaN."""
    import pandas

    column = frame[name]
    numbers = pandas.to_numeric(column, errors="coerce").to_numpy(
        "float64", na_value=np.nan
    )
    if column.dtype.kind in "mM":
        wrong = np.ones(len(column), bool)
    else:
        wrong = np.isnan(numbers) & column.notna().to_numpy()
    wrong |= np.isinf(numbers)
    if wrong.any():
        row = int(wrong.argmax())
        cell = column.iloc[row]
        cell = str(cell) if isinstance(cell, np.generic) else repr(cell)
        comma = isinstance(column.iloc[row], str) and "," in column.iloc[row]
        hint = "Write numbers with a point, such as 1234.5" if comma else "Correct it"
        if name in columns.others and np.isnan(numbers).all():
            hint = f"If it has categories, make the model with categories=[{name!r}]"
        raise ValueError(
            f"the column {name!r} must have numbers, but {rows[row]} has {cell:.60}. "
            f"{hint}, or leave the column out"
        )
    check_range(numbers, f"the column {name!r}", rows)
    return numbers


def check_range(numbers: np.ndarray, title: str, rows: Sequence[str]) -> None:
    """Raises if a number is too large for float32; NaN are empty cells.

    Args:
        numbers: The numbers of a column, float64 `(rows,)`.
        title: How the message names the column.
        rows: The place of each row, for the message.

    Raises:
        ValueError: If a number is too large.

    Examples:
        >>> check_range(np.array([1e308]), "the column 'sales'", ["row 0"])
        Traceback (most recent call last):
        ...
        ValueError: the column 'sales' must have numbers of at most 3.4e+38, as \
float32 has no larger ones, received 1e+308 in row 0. Correct it, or choose a larger \
unit
    """
    too_large = np.abs(numbers) > LARGEST
    if too_large.any():
        row = int(too_large.argmax())
        raise ValueError(
            f"{title} must have numbers of at most {LARGEST:.2g}, as float32 has no "
            f"larger ones, received {numbers[row]:g} in {rows[row]}. Correct it, or "
            "choose a larger unit"
        )
