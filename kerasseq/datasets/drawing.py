"""How many of each length, so that short and long both occur and none twice."""

from kerasseq.core.checks import whole_number


def shares(count: int, available: list[int], what: str) -> list[int]:
    """Divide `count` evenly among sorts, of some of which there are only few.

    Args:
        count: How many in all.
        available: How many there are of each sort.
        what: What they are, for the message.

    Returns:
        How many of each sort. They differ by one at most, except where there are fewer.

    Raises:
        TypeError: If `count` is not a whole number.
        ValueError: If `count` is more than there are.

    Examples:
        >>> shares(100, [10, 90, 900], "numbers")
        [10, 45, 45]
    """
    count = whole_number("count", count)
    if count > sum(available):
        raise ValueError(
            f"count is {count:,}, but there are only {sum(available):,} {what}"
        )
    found = [0] * len(available)
    order = sorted(range(len(available)), key=available.__getitem__)
    for done, i in enumerate(order):
        found[i] = min(available[i], count // (len(order) - done))
        count -= found[i]
    return found
