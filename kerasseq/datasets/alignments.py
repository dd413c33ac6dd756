"""Generated French sentences and their English translations, word by word.

French adjectives of color and shape follow their noun, and a negation stands around
the verb: `le chien vert ne suit pas la pomme` is "the green dog does not follow the
apple". So the words of a sentence are in another order.
"""

from typing import Any, NamedTuple

import numpy as np

from kerasseq.core.checks import random_generator, whole_number
from kerasseq.core.files import table_beside

NEGATED, ADVERB, ADJECTIVE = 0.3, 0.4, 0.6  # shares of sentences, and of nouns


class AlignedPair(NamedTuple):
    """A sentence and its translation.

    Attributes:
        source: The French sentence.
        target: The English one.
        alignment: For each word of the target the place of its word in the source:
            that of "does" is "ne", that of "not" is "pas".
    """

    source: str
    target: str
    alignment: tuple[int, ...]


def aligned_sentences(count: int, *, seed: int | None = 0) -> list[AlignedPair]:
    """Generates sentences with translations and alignments that are known.

    Args:
        count: Number of pairs. Some may occur more than once.
        seed: Random seed.

    Returns:
        A list of `AlignedPair`. No word occurs twice in a sentence.

    Raises:
        TypeError: If `count` is not a whole number.
        ValueError: If it is below 1.

    Examples:
        >>> for pair in aligned_sentences(2, seed=1):
        ...     print(pair.source, "/", pair.target, pair.alignment)
        le cheval vert ne suit pas une petite boîte / the green horse does not follow \
a small box (0, 2, 1, 3, 5, 4, 6, 7, 8)
        cette pomme trouve une voiture ronde / this apple finds a round car (0, 1, 2, \
3, 5, 4)

    References:
        Slides B: alignment in translation (Brown et al. 1993).
    """
    whole_number("count", count)
    rng = random_generator(seed)
    return [_sentence(rng, table_beside(__file__, "alignments")) for _ in range(count)]


def _sentence(rng: np.random.Generator, words: dict[str, Any]) -> AlignedPair:
    """Draws both sentences as chunks: words in French and English, places in them."""
    determiners = _drawn(rng, words["determiners"], 2)
    nouns = _drawn(rng, [(g, *n) for g, ns in words["nouns"].items() for n in ns], 2)
    kinds = ("before", "after")
    adjectives = [(kind, *a) for kind in kinds for a in words["adjectives"][kind]]
    adjectives = _drawn(rng, adjectives, 2)
    chosen = zip(determiners, nouns, adjectives, strict=True)
    subject, thing = (_noun_phrase(*parts, rng.random()) for parts in chosen)
    (verb,) = _drawn(rng, words["verbs"], 1)
    negated = rng.random() < NEGATED
    if negated:
        action = ["ne", verb["fr"], "pas"], ["does", "not", verb["base"]], [0, 2, 1]
    else:
        action = [verb["fr"]], [verb["en"]], [0]
    chunks = [subject, action, thing]
    if rng.random() < ADVERB:
        (adverb,) = _drawn(rng, words["adverbs"], 1)
        words_of_chunk = [adverb["fr"]], [adverb["en"]]
        if not negated and rng.random() < NEGATED:  # so that "pas" is told from "ne"
            words_of_chunk = ["pas", adverb["fr"]], ["not", adverb["en"]]
        chunks.append((*words_of_chunk, range(len(words_of_chunk[0]))))
    source, target, alignment = [], [], []
    for french, english, places in chunks:
        alignment += [len(source) + place for place in places]
        source += french
        target += english
    return AlignedPair(" ".join(source), " ".join(target), tuple(alignment))


def _noun_phrase(determiner, noun, adjective, draw):
    gender, french, english = noun
    if draw >= ADJECTIVE:
        return [determiner[gender], french], [determiner["en"], english], [0, 1]
    kind, masculine, feminine, translated = adjective
    form = masculine if gender == "m" else feminine
    target = [determiner["en"], translated, english]
    if kind == "before":
        return [determiner[gender], form, french], target, [0, 1, 2]
    return [determiner[gender], french, form], target, [0, 2, 1]


def _drawn(rng: np.random.Generator, choices: list, count: int) -> list:
    return [choices[n] for n in rng.permutation(len(choices))[:count]]
