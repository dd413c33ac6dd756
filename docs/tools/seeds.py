"""Other random seeds: how far the number of a tutorial moves without a reason."""

import dataclasses
import re

from docs.tools.tutorial import Tutorial

STEPS = 1000, 2000  # added to each seed
SEED = re.compile(r"(set_random_seed\(|initializers\.\w+\([^()]*\bseed=)([^(),]+)")


def draws(tutorial: Tutorial) -> bool:
    """Whether weights of the tutorial are drawn at random."""
    return any(SEED.search(cell.source) for cell in tutorial.code)


def other(tutorial: Tutorial, step: int) -> Tutorial:
    """Returns the tutorial with other seeds of the weights; data stay as they are."""
    cells = tuple(
        dataclasses.replace(cell, source=change(cell.source, step))
        if cell.is_code
        else cell
        for cell in tutorial.cells
    )
    return dataclasses.replace(tutorial, cells=cells)


def change(code: str, step: int) -> str:
    """Adds a number to the seeds of weights.

    Examples:
        >>> change("keras.utils.set_random_seed(seed)", 1000)
        'keras.utils.set_random_seed(1000 + seed)'
        >>> change("a = keras.initializers.Orthogonal(gain=2, seed=3)", 1000)
        'a = keras.initializers.Orthogonal(gain=2, seed=1000 + 3)'
        >>> change("strings = parentheses(9, seed=3)", 1000)
        'strings = parentheses(9, seed=3)'
    """
    return SEED.sub(rf"\g<1>{step} + \g<2>", code)
