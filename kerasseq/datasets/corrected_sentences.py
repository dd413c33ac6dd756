"""Pairs of a misspelled and a right sentence, for models that correct.

The sentences are those of `family_sentences`, the errors those of children who write
French: homophones, accents, double and mute letters. Some can only be corrected in
their context: "et" is a word, and wrong where "est" is meant.
"""

import numpy as np

from kerasseq.core.checks import fraction, random_generator
from kerasseq.datasets.family_grammar import table
from kerasseq.datasets.family_sentences import (
    FamilySentences,
    unlabeled_family_sentences,
)
from kerasseq.datasets.misspelling import misspelled
from kerasseq.datasets.pairs import Pairs


def corrections(
    size: int = 4000, *, errors: float = 0.2, seed: int | None = 0
) -> Pairs:
    """Generates misspelled French sentences with the right ones (slide C:416).

    A sentence and its correction have the same number of words.

    Args:
        size: Number of sentences, all different.
        errors: Fraction of the words that are misspelled.
        seed: Random seed.

    Returns:
        `Pairs`: the sources are misspelled, the targets right.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `size` is below 1, or `errors` is not between 0 and 1.

    Examples:
        >>> pairs = corrections(5)
        >>> pairs.sources[2], pairs.targets[2]
        ("J'en ai mare de ma famile", "J'en ai marre de ma famille")
    """
    errors = fraction("errors", errors)
    nothing = FamilySentences([], [], [])
    targets = unlabeled_family_sentences(size, excluded=nothing, errors=0.0, seed=seed)
    homophones = table()["errors"]["homophones"]
    rng = np.random.default_rng([random_generator(seed).integers(2**32), 1])
    sources = [misspelled(text, errors, homophones, rng) for text in targets]
    return Pairs(sources, targets)
