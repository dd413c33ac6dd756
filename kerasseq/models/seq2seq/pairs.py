"""Sources and targets as they are given to `Translator.fit`."""

import dataclasses
from typing import Any

from kerasseq.core import checks
from kerasseq.datasets.pairs import Pairs, are_tuples, two_lists
from kerasseq.tasks import sources
from kerasseq.tasks.data_checks import check_labels_of_rows, sample_weights
from kerasseq.tasks.fit_call import of_parts, parts_of
from kerasseq.tasks.input_rows import check_data, number_of_rows
from kerasseq.training.batches import TrainingRows
from kerasseq.training.pair_batches import PairBatches

ONE_LIST = "Pass one list of each, fit(sources, targets)"


def read_pairs(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    rows: int | None = None,
    advice: str = ONE_LIST,
) -> tuple[Pairs | tuple[Any, Any], Any]:
    """Returns sources and targets, and the weights of the pairs or None.

    Texts and ids become `Pairs`; arrays and batches are returned as they are, `(x, y)`.

    Args:
        x: Sources; both in a tuple; tuples or dictionaries of a source and a target; a
            table whose columns are sources and targets; or a stream of pairs.
        y: Targets, if `x` has none.
        sample_weight: Weights, if `x` has none.
        rows: How many rows of a stream to read; all if None.
        advice: What to do with one list alone, for the message.

    Raises:
        TypeError: If there is one list alone, or texts as weights.
        ValueError: If there are not as many targets as sources, or weights twice.

    Examples:
        >>> read_pairs([("a", "p"), ("b", "q")])
        (Pairs(sources=['a', 'b'], targets=['p', 'q']), None)
        >>> read_pairs(iter([{"en": "a", "fr": "p"}]))
        (Pairs(sources=['a'], targets=['p']), None)
    """
    if y is None and isinstance(x, tuple) and len(x) == 2:
        x, y = x
    of_texts = isinstance(y, list | tuple) and any(isinstance(t, str) for t in y)
    if y is not None and are_arrays(x) and not of_texts:  # not two pictures
        return (x, y), sample_weight
    x, y, weights = sources.read(x, y, sample_weight, rows=rows)
    if sample_weight is None:
        _check_own_weights(weights)
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
        return (x, y), weights
    x, y = ([part] if isinstance(part, str) else part for part in (x, y))
    check_data(x)
    check_labels_of_rows(y, number_of_rows(x))
    return Pairs(x, y), weights


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
    pairs, weights = read_pairs(*parts_of(data), rows=rows)
    return (pairs, None, weights) if isinstance(pairs, Pairs) else (*pairs, weights)


def _check_own_weights(weights: Any) -> None:
    """Raises if the third part of the rows of a stream is no weight, but a text."""
    given = next((each for each in weights or () if isinstance(each, str)), None)
    if given is not None:
        raise TypeError(
            "the third part of a pair must be its sample weight, a number, received "
            f"{checks.short(given)}. Leave it out"
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


@dataclasses.dataclass
class PairRows(TrainingRows):
    """Pairs of a source and a target to train on.

    Attributes:
        model: The `Translator`, which encodes them.
        pairs: The pairs.
        weights: A number for each pair, or None.

    Examples:
        >>> rows = PairRows(None, Pairs(["a", "b", "c"], ["p", "q", "r"]))
        >>> [part.pairs.sources for part in rows.split(0.4, seed=0)]
        [['a', 'b'], ['c']]
    """

    model: Any
    pairs: Pairs
    weights: Any = None

    def __post_init__(self) -> None:
        self.weights = sample_weights(self.weights, len(self))

    def __len__(self) -> int:
        return len(self.pairs.sources)

    def part(self, rows: slice) -> "PairRows":
        weights = None if self.weights is None else self.weights[rows]
        pairs = Pairs(*(part[rows] for part in self.pairs))
        return PairRows(self.model, pairs, weights)

    def batches(self, batch_size: int, seed: int) -> PairBatches:
        """Returns batches of pairs of similar lengths."""
        options = {"batch_size": batch_size, "seed": seed}
        return self.model.batches(*self.pairs, **options, sample_weight=self.weights)

    def held_out(self, call: Any) -> Any:
        """Returns the pairs as arrays, for validation."""
        return of_parts(*self.model.arrays(*self.pairs), self.weights)
