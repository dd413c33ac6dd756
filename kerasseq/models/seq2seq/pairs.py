"""Sources and targets as they are given to `Translator.fit`."""

from typing import Any

from kerasseq.core import checks
from kerasseq.datasets.pairs import Pairs, are_tuples, two_lists
from kerasseq.tasks import sources
from kerasseq.tasks.data_checks import check_labels_of_rows
from kerasseq.tasks.fit_call import parts_of
from kerasseq.tasks.input_rows import check_data, number_of_rows
from kerasseq.training.batches import TrainingRows
from kerasseq.training.pair_batches import PairBatches

ONE_LIST = "Pass one list of each, fit(sources, targets)"


def read_pairs(
    x: Any, y: Any = None, *, rows: int | None = None, advice: str = ONE_LIST
) -> Pairs | tuple[Any, Any]:
    """Returns sources and targets as `Pairs`; arrays and batches as they are, `(x, y)`.

    Args:
        x: Sources; both in a tuple; tuples or dictionaries of a source and a target; a
            table whose columns are sources and targets; or a stream of pairs.
        y: Targets, if `x` has none.
        rows: How many rows of a stream to read; all if None.
        advice: What to do with one list alone, for the message.

    Raises:
        TypeError: If there is one list alone.
        ValueError: If there are weights, or not as many targets as sources.

    Examples:
        >>> read_pairs([("a", "p"), ("b", "q")])
        Pairs(sources=['a', 'b'], targets=['p', 'q'])
        >>> read_pairs(iter([{"en": "a", "fr": "p"}]))
        Pairs(sources=['a'], targets=['p'])
    """
    if y is None and isinstance(x, tuple) and len(x) == 2:
        x, y = x
    of_texts = isinstance(y, list | tuple) and any(isinstance(t, str) for t in y)
    if y is not None and are_arrays(x) and not of_texts:  # not two pictures
        return x, y
    x, y, weights = sources.read(x, y, rows=rows)
    refuse_weights(weights)
    if y is None and isinstance(x, list):
        x = [tuple(row.values()) if isinstance(row, dict) else row for row in x]
        if not x or not are_tuples(x):
            raise TypeError(
                "expected sources and targets, or tuples (source, target) of strings, "
                f"received one list. {advice}"
            )
        x, y = two_lists(x)
    if y is None:
        check_arrays(x)
        return x, y
    x, y = ([part] if isinstance(part, str) else part for part in (x, y))
    check_data(x)
    check_labels_of_rows(y, number_of_rows(x))
    return Pairs(x, y)


def held_out_pairs(data: Any, rows: int | None) -> tuple[Any, Any, Any]:
    """Returns validation data: `Pairs`, or arrays or batches, targets and weights.

    Args:
        data: As for `read_pairs`, with weights as a third part; or a list of two,
            sources and targets.
        rows: How many rows of a stream to read; all if None.
    """
    is_list = isinstance(data, list) and len(data) == 2
    if is_list and not (are_tuples(data) or isinstance(data[0], dict)):
        data = tuple(data)
    x, y, weights = parts_of(data)
    x, y = pairs = read_pairs(x, y, rows=rows)
    return (pairs, None, weights) if isinstance(pairs, Pairs) else (x, y, weights)


def refuse_weights(weights: Any) -> None:
    """Raises if the rows of a stream have weights."""
    if weights is not None:
        raise ValueError(
            "pairs have a source and a target, received a sample weight as well, "
            f"{checks.short(weights[0])}. Leave it out"
        )


def are_arrays(x: Any) -> bool:
    """Returns whether x holds source and target, as `Translator.arrays` returns."""
    if isinstance(x, tuple | list) and len(x) == 2:
        return all(len(getattr(part, "shape", ())) > 1 for part in x)
    return isinstance(x, dict) and all(hasattr(part, "shape") for part in x.values())


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


class PairRows(TrainingRows):
    """Pairs of a source and a target to train on.

    Args:
        model: The `Translator`, which encodes them.
        pairs: The pairs.

    Examples:
        >>> rows = PairRows(None, Pairs(["a", "b", "c"], ["p", "q", "r"]))
        >>> [part.pairs.sources for part in rows.split(0.4, seed=0)]
        [['a', 'b'], ['c']]
    """

    def __init__(self, model: Any, pairs: Pairs) -> None:
        self.model: Any = model
        self.pairs: Pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs.sources)

    def part(self, rows: slice) -> "PairRows":
        return PairRows(self.model, Pairs(*(part[rows] for part in self.pairs)))

    def batches(self, batch_size: int, seed: int) -> PairBatches:
        """Returns batches of pairs of similar lengths."""
        return self.model.batches(*self.pairs, batch_size=batch_size, seed=seed)

    def held_out(self, call: Any) -> Any:
        """Returns the pairs as arrays, for validation."""
        return self.model.arrays(*self.pairs)
