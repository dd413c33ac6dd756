"""Division of a number of samples among strata of limited size."""

from kerasseq.core.checks import whole_number


def shares(count: int, available: list[int], what: str) -> list[int]:
    """Divides `count` evenly among strata, some of which may be small.

    Args:
        count: Total number.
        available: Size of each stratum.
        what: Description of the items, for messages.

    Returns:
        The number for each stratum. They differ by at most one, except for strata that
        are smaller.

    Raises:
        TypeError: If `count` is not a whole number.
        ValueError: If `count` is larger than the sum of `available`.

    Examples:
        >>> shares(100, [10, 90, 900], "numbers")
        [10, 45, 45]
    """
    count = whole_number("count", count)
    if count > sum(available):
        raise ValueError(
            f"count is {count:,}, but there are only {sum(available):,} {what}"
        )
    counts = [0] * len(available)
    order = sorted(range(len(available)), key=available.__getitem__)
    for done, i in enumerate(order):
        counts[i] = min(available[i], count // (len(order) - done))
        count -= counts[i]
    return counts
