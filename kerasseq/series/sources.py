"""Tables and streams of other libraries, as a `Forecaster` reads them."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from kerasseq.core import checks, packages
from kerasseq.series.frames import SeriesTable, is_frame
from kerasseq.tasks import input_rows, sources
from kerasseq.tasks.base import BATCH_SIZE
from kerasseq.tasks.data_checks import as_array
from kerasseq.tasks.input_rows import are_batches


def require_pandas() -> Any:
    """Returns pandas.

    Raises:
        ImportError: If it is not installed.
    """
    return packages.load("pandas", "pandas", "a table needs")


def as_table(data: Any) -> Any:
    """Returns a table as a DataFrame and a column as an array; other data as they are.

    Args:
        data: A table of polars, Arrow or Hugging Face, or a dictionary of lists; a
            column of one.

    Raises:
        ImportError: If pandas is not installed.
        TypeError: If the rows come one after the other.

    Examples:
        >>> as_table({"sales": [3.0, 5.0]}).shape
        (2, 1)
    """
    if data is None or is_frame(data) or isinstance(data, SeriesTable | np.ndarray):
        return data
    input_rows.check_is_read(data)
    if hasattr(data, "read_all"):  # a reader of Arrow
        data = data.read_all()
    if hasattr(data, "to_pandas") and hasattr(data, "column_names"):
        return data.to_pandas()  # of Arrow and Hugging Face
    names = data if isinstance(data, Mapping) else getattr(data, "columns", None)
    if names is not None and not isinstance(data, type):
        pandas = require_pandas()
        return pandas.DataFrame({name: _array(data[name]) for name in names})
    is_column = hasattr(data, "to_numpy") or input_rows.is_column(data)
    return _array(data) if is_column else data


def is_table(x: Any, y: Any) -> bool:
    """Returns whether `fit` was called with a table instead of windows.

    Args:
        x: Its first argument.
        y: Its second argument.
    """
    if y is not None or x is None:
        return False
    if is_frame(x) or isinstance(x, SeriesTable):
        return True
    if hasattr(x, "values") and hasattr(x, "dates"):
        return True
    is_list = isinstance(x, np.ndarray | list) and as_array(x) is not None
    return is_list and np.ndim(x) == 1


def _array(column):
    if hasattr(column, "to_numpy"):
        return column.to_numpy()
    return np.asarray(column) if isinstance(column, np.ndarray) else list(column)


class Windows(NamedTuple):
    """Windows of series, as Keras reads them.

    Attributes:
        x: Windows `(rows, time, features)`, or batches.
        y: Targets `(rows, horizon)`; None for batches, which have them.
        weights: Sample weights, or None.
        first: The first batch of a stream that is not read to its end, or None.
    """

    x: Any
    y: Any = None
    weights: Any = None
    first: Any = None


def as_windows(
    x: Any,
    y: Any = None,
    steps: int | None = None,
    batch_size: int | None = None,
    *,
    targets: bool = True,
) -> Windows:
    """Returns a stream of windows as arrays; other data as they are.

    Args:
        x: A stream of windows with targets and maybe weights, one by one or in batches;
            or other data.
        y: Targets, if `x` is no stream.
        steps: Number of batches: if given, the stream is not read to its end.
        batch_size: Windows in a batch, if `steps` are given and windows come one by
            one; 32 if None.
        targets: Whether there must be targets.

    Raises:
        TypeError: If a stream has no windows, but rows of a table.
        ValueError: If it has no end, and there are no `steps`.

    Examples:
        >>> stream = iter([(np.ones((7, 1)), [2.0]), (np.ones((7, 1)), [3.0])])
        >>> windows = as_windows(stream)
        >>> windows.x.shape, windows.y.tolist()
        ((2, 7, 1), [[2.0], [3.0]])
    """
    if not are_batches(x) or x in sources.KNOWN:
        return Windows(x, y)
    elements = sources.elements_of(x)
    first = _parts(next(elements, ()))
    has_targets = len(first) > 1 or not targets
    if not first or not has_targets or len(getattr(first[0], "shape", ())) < 2:
        raise TypeError(
            "x must be a table, or windows (time, features) with targets, received "
            f"{checks.short(x)}, which yields {checks.short(first)}. A forecast needs "
            "all rows in the order of their dates: read them into a table, "
            "pandas.DataFrame(rows), or make windows with prepare(table)"
        )
    rest = itertools.chain([first], elements)
    is_one = len(first[0].shape) == 2
    if steps is not None and is_one:
        batches = _batches(x, rest, batch_size or BATCH_SIZE)
        first = next(batches)
        rest = itertools.chain([first], batches)
        return Windows(sources.generator_of(rest), first=first)
    if steps is not None:
        x = sources.generator_of(rest) if isinstance(x, Iterator) else x
        return Windows(x, first=first)
    if (sources.count_of(x) or 0) >= sources.ENDLESS:
        raise ValueError(
            f"x must be a stream with an end, received {checks.short(x)}, which "
            "repeats without end. Leave .repeat() out, or pass steps_per_epoch=... to "
            "fit, validation_steps=... for validation_data, and steps=... to evaluate "
            "and predict"
        )
    join = np.stack if is_one else np.concatenate
    parts = zip(*map(_parts, rest), strict=True)
    return Windows(*(_joined(part, join) for part in parts))


def _batches(x, rest, batch_size):
    """Batches of windows that come one by one, again and again if they can be read so.

    Args:
        x: The stream.
        rest: Its elements.
        batch_size: Windows in a batch.
    """
    while True:
        while chunk := [*map(_parts, itertools.islice(rest, batch_size))]:
            yield tuple(_joined(part, np.stack) for part in zip(*chunk, strict=True))
        if isinstance(x, Iterator):
            return
        rest = iter(sources.elements_of(x))


def _joined(parts, join):
    return join([*map(ops.convert_to_numpy, parts)])


def _parts(element):
    """Windows, targets and weights of an element of a stream."""
    return tuple(element) if isinstance(element, tuple | list) else (element,)
