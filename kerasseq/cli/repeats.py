"""How much of a held-out text is in the training text, too, word for word."""

import numpy as np

RUN = 32  # characters; copies of at least 2 * RUN - 1 are found for certain


def share_repeated(training: str, held_out: str) -> float:
    """Returns the share of a held-out text that the training text has in long copies.

    It is at least this, as up to 31 characters at the ends of a copy do not count.

    Args:
        training: The training text.
        held_out: The held-out text.

    Examples:
        >>> copied = "".join(map(str, range(60)))[:96]
        >>> share_repeated(copied, copied + "x" * 96)
        0.5
    """
    starts = range(0, len(training) - RUN + 1, RUN)
    known = {training[start : start + RUN] for start in starts}
    repeated = np.zeros(len(held_out), bool)
    for start in range(len(held_out) - RUN + 1):
        if held_out[start : start + RUN] in known:
            repeated[start : start + RUN] = True
    return float(repeated.mean())
