r"""Widths at which models of different kinds have the same number of parameters.

The parameters of a model of width $w$ are $N(w) = a w^2 + b w + c$: kernels, embeddings
and what does not depend on the width. From a first width

$$w \leftarrow w \sqrt{N^* / N(w)}$$

leads near the wanted number $N^*$ in a few steps, without knowing $a$, $b$ and $c$;
then the next widths are tried as long as they are nearer.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from kerasseq.core.checks import fraction, whole_number

WIDEST = 2**40  # the steps go on if the count does not grow


class MatchedWidth(NamedTuple):
    """A width, and what a model of this width has.

    Attributes:
        width: The width.
        parameters: The number of its parameters.
    """

    width: int
    parameters: int


def matched_width(
    count: Callable[[int], int],
    parameters: int,
    *,
    start: int = 64,
    multiple: int = 1,
    tolerance: float = 0.05,
) -> MatchedWidth:
    """Finds the width at which a model has a number of parameters.

    Args:
        count: Returns the number of parameters of a model of a width, as
            `lambda width: build(width).count_params()`; it must grow with the width.
        parameters: The wanted number.
        start: The first width that is tried.
        multiple: What the width must be a multiple of, such as the number of heads.
        tolerance: How far the number may be from the wanted one, as a fraction of it.

    Returns:
        A `MatchedWidth`.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If it is out of range, or no width has so many parameters within the
            tolerance; the message has the nearest.

    Examples:
        >>> from kerasseq.models import Seq2Seq
        >>> sizes = {"source_vocabulary_size": 20, "target_vocabulary_size": 20}
        >>> def count(units):
        ...     return Seq2Seq("gru", **sizes, units=units).count_params()
        >>> matched_width(count, 50_000)
        MatchedWidth(width=38, parameters=49498)
    """
    parameters = whole_number("parameters", parameters)
    multiple = whole_number("multiple", multiple)
    width = _rounded(whole_number("start", start), multiple)
    tolerance = fraction("tolerance", tolerance)
    if not callable(count):
        raise TypeError(f"count must be a function of a width, received {count!r}")
    counts: dict[int, int] = {}

    def excess(width):
        if width not in counts:
            counts[width] = whole_number(f"count({width})", count(width))
        return counts[width] - parameters

    while width not in counts:
        factor = math.sqrt(parameters / (excess(width) + parameters))
        if width * factor > WIDEST:
            raise ValueError(
                "count must grow with the width, received "
                f"{', '.join(f'{n:,} at {w:,}' for w, n in counts.items())}"
            )
        width = _rounded(width * factor, multiple)
    nearest = min(counts, key=lambda width: abs(excess(width)))
    step = -multiple if excess(nearest) > 0 else multiple
    while nearest + step > 0 and abs(excess(nearest + step)) < abs(excess(nearest)):
        nearest += step
    if abs(excess(nearest)) > tolerance * parameters:
        raise ValueError(
            f"parameters must be a number that a model has within {tolerance:.0%}, "
            f"received {parameters:,}: the nearest width that was tried, {nearest:,}, "
            f"has {counts[nearest]:,}. Choose about as many"
        )
    return MatchedWidth(nearest, counts[nearest])


def _rounded(width: float, multiple: int) -> int:
    """Returns the nearest multiple, at least one.

    Examples:
        >>> _rounded(13.7, 4), _rounded(0.2, 3)
        (12, 3)
    """
    return max(1, round(width / multiple)) * multiple
