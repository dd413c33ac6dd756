"""Sources and targets as they are given to `Translator.fit`."""

from typing import Any

from kerasseq.core import checks
from kerasseq.datasets.pairs import are_tuples, two_lists
from kerasseq.tasks.data_checks import check_data, check_labels_of_rows
from kerasseq.tasks.input_rows import number_of_rows


def as_pairs(x: Any, y: Any = None) -> tuple[Any, Any] | None:
    """Sources and targets, if x and y are pairs; None for anything else."""
    if y is None and isinstance(x, tuple) and len(x) == 2:
        x, y = x
    if y is None and isinstance(x, list):
        if not x or not are_tuples(x):
            raise TypeError(
                "expected sources and targets, or tuples (source, target) of strings, "
                "received one list. Pass one list of each, fit(sources, targets)"
            )
        x, y = two_lists(x)
    if y is None or _are_arrays(x):
        check_arrays(x)
        return None
    x, y = ([part] if isinstance(part, str) else part for part in (x, y))
    check_data(x)
    check_labels_of_rows(y, number_of_rows(x))
    return x, y


def _are_arrays(x: Any) -> bool:
    """Whether x holds arrays of source and target, as `Translator.arrays` returns."""
    if isinstance(x, tuple) and len(x) == 2:
        return all(len(getattr(part, "shape", ())) > 1 for part in x)
    return isinstance(x, dict)


def check_arrays(x: Any) -> None:
    """Raises unless there are arrays of sources and targets, or batches.

    Examples:
        >>> check_arrays({"source": [1]})
        Traceback (most recent call last):
        ...
        TypeError: x must be sources, with targets as y, arrays of both, or batches, \
received {'source': [1]}
    """
    check_data(x)
    parts = [*x.values()] if isinstance(x, dict) else x
    is_list = isinstance(parts, list | tuple)
    if is_list and not all(hasattr(part, "shape") for part in parts):
        raise TypeError(
            "x must be sources, with targets as y, arrays of both, or batches, "
            f"received {checks.short(x)}"
        )


def split_off_end(
    pairs: tuple[Any, Any], fraction: float
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """The first pairs and the last ones, for validation; one of each at least."""
    checks.fraction("validation_split", fraction)
    sources, targets = ([part] if isinstance(part, str) else part for part in pairs)
    count = round(len(sources) * fraction)
    if not 0 < count < len(sources):
        raise ValueError(
            "validation_split must leave at least one pair for training and one for "
            f"validation, received validation_split={fraction} of {len(sources)} "
            "pairs. Choose another fraction, or pass `validation_data`"
        )
    return (
        (sources[:-count], targets[:-count]),
        (sources[-count:], targets[-count:]),
    )
