"""French sentences of many lengths with names of people, and their translations.

One or two sentences of `aligned_sentences` are joined, and people speak about them:
"selon Clara Zorend , le chien vert dort". A family name is the same in both languages.
Few family names are frequent and most are rare, and those of `new_names=True` are in no
other sentence, as "Hackenberg" in lecture D.

`named_sentences.toml` has the words.
"""

import functools
import itertools
from typing import Any, NamedTuple

import numpy as np

from kerasseq.core.checks import fits_memory, flag, random_generator, whole_number
from kerasseq.core.files import table_beside
from kerasseq.datasets.alignments import AlignedPair, aligned_sentences

MOST_CLAUSES = 2  # in a sentence
FRAMED = 0.25  # share of the clauses after the first that are about a person, too


class NamedSentence(NamedTuple):
    """A sentence about people, and its translation.

    Attributes:
        source: The French sentence.
        target: The English one.
        names: The family names, in their order.
    """

    source: str
    target: str
    names: tuple[str, ...]


def named_sentences(
    count: int,
    *,
    new_names: bool = False,
    family_names: int = 1000,
    seed: int | None = 0,
) -> list[NamedSentence]:
    r"""Generates sentences of 9 to about 30 words, with names, and their translations.

    The k-th of the known family names is drawn with a probability proportional to
    $1/k$, so that a tokenizer of words has some of them only. Which names are known
    does not depend on the seed.

    Args:
        count: Number of sentences. Some may occur more than once.
        new_names: Whether the family names are those that are not known, all equally
            frequent.
        family_names: Number of known family names.
        seed: Random seed.

    Returns:
        A list of `NamedSentence`.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If `count` is below 1, or `family_names` below 1 or so large that no
            name is left that is new.

    Examples:
        >>> for new_names in (False, True):
        ...     print(named_sentences(1, new_names=new_names, seed=21)[0].target)
        according to Elsa Baril , a tall book hides this dog
        according to Elsa Gevil , a tall book hides this dog

    References:
        Slides D: translations with UNK in place of rare names (Sutskever et al. 2014).
    """
    count = whole_number("count", count)
    fits_memory("count", count, bytes_each=200)
    new_names = flag("new_names", new_names)
    known, every = whole_number("family_names", family_names), _family_names()
    if known >= len(every):
        raise ValueError(
            f"family_names must be below {len(every):,}, so that some names are new, "
            f"received {known:,}"
        )
    names = every[known:] if new_names else every[:known]
    shares = np.ones(len(names)) if new_names else 1 / np.arange(1, known + 1)
    draw = random_generator(seed)
    sizes = draw.integers(1, MOST_CLAUSES + 1, count)
    clauses = iter(aligned_sentences(int(sizes.sum()), seed=int(draw.integers(2**31))))
    drawn = iter(draw.choice(names, 2 * int(sizes.sum()), p=shares / shares.sum()))
    return [
        _joined(draw, [next(clauses) for _ in range(size)], drawn) for size in sizes
    ]


def _joined(draw, clauses: list[AlignedPair], drawn) -> NamedSentence:
    """Returns one sentence of several, with people; `drawn` are family names."""
    table, source, target, names = table_beside(__file__, "named_sentences"), [], [], []
    for n, clause in enumerate(clauses):
        if n:
            connector = _one(draw, table["connectors"])
            source.append(connector["fr"])
            target.append(connector["en"])
        if not n or draw.random() < FRAMED:
            frame = _one(draw, table["frames"])
            family = [str(next(drawn)) for _ in range(frame["fr"].count("{"))]
            given = draw.permutation(table["names"]["given"])
            people = {
                letter: f"{first} {last}"
                for letter, first, last in zip("ab", given, family, strict=False)
            }
            source.append(frame["fr"].format(**people))
            target.append(frame["en"].format(**people))
            names += family
        source.append(clause.source)
        target.append(clause.target)
    return NamedSentence(" ".join(source), " ".join(target), tuple(names))


@functools.cache
def _family_names() -> list[str]:
    """Returns all family names, in an order without a rule."""
    table = table_beside(__file__, "named_sentences")["names"]
    syllables = [a + b for a, b in itertools.product(table["onsets"], table["vowels"])]
    parts = itertools.product(syllables, syllables, table["ends"])
    names = ["".join(part).capitalize() for part in parts]
    return [names[n] for n in np.random.default_rng(0).permutation(len(names))]


def _one(draw: np.random.Generator, choices: list) -> Any:
    return choices[draw.integers(len(choices))]
