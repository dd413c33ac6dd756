"""Values that were measured at several sizes: for fits, and for their figures."""

from typing import Any

import numpy as np

from kerasseq.core import checks


def by_size(name: str, sizes: Any, values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns sizes `(M,)` and values `(M, S)`, several of each size.

    Args:
        name: The argument of the values.
        sizes: Positive numbers.
        values: Numbers `(M,)` or `(M, S)`.

    Raises:
        TypeError: If they are not numbers.
        ValueError: If the shapes do not match, or a size is not positive.

    Examples:
        >>> [part.shape for part in by_size("losses", [3, 5], [1.0, 2.0])]
        [(2,), (2, 1)]
    """
    try:
        N, V = (np.asarray(each, "float64") for each in (sizes, values))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"sizes and {name} must be numbers, received {checks.short(sizes)} and "
            f"{checks.short(values)}"
        ) from error
    V = V[:, None] if V.ndim == 1 else V
    if N.ndim != 1 or V.ndim != 2 or len(N) != len(V) or not V.size:
        raise ValueError(
            f"{name} must have one row for each size, received shapes {N.shape} and "
            f"{V.shape}"
        )
    if not (np.isfinite(N) & (N > 0)).all():
        raise ValueError(f"sizes must be positive numbers, received {N}")
    return N, V
