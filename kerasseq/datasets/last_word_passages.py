"""Passages whose last word is told by the whole passage, and by no part of it.

"Ada , Ben , Cleo and Dan wonder who ate the cake ." Sentences follow that rule out all
of them but one, each a single name, then one that says nothing, and at the end: "so it
was". The last word is the name that is left. Without any one of the clues
two names are left, and without the first sentence all others.

What stands before the last word is the same for all names: the passages come in groups
with one passage for each name, which end with the same words. A model of n-grams that
reads no further is at chance by construction. Paperno et al. 2016 ("The LAMBADA
dataset"), whose passages are of novels; course slides D.

`last_word_passages.toml` has the words.
"""

from typing import NamedTuple

from kerasseq.core import checks
from kerasseq.core.files import table_beside

LANGUAGES = ("en", "fr")


class Passage(NamedTuple):
    """A passage and its last word.

    Attributes:
        text: The passage without its last word, words separated by spaces.
        last: The last word, the name that is left.
        cast: The names of the first sentence.
        clues: The names that are ruled out, in order.
    """

    text: str
    last: str
    cast: tuple[str, ...]
    clues: tuple[str, ...]


class LastWords(NamedTuple):
    """Passages, and the accuracy that parts of them allow.

    Attributes:
        passages: The passages, each a `Passage`.
        names: All names, of which a passage has some.
        vocabulary: All words of the passages.
        window: The number of words before the last one that are the same for all names.
        chance: The accuracy from these words alone: 1 / names.
        chance_of_cast: That from the names of the passage, without a clue.
        chance_without_clue: That from the passage without one of the clues.
    """

    passages: list[Passage]
    names: list[str]
    vocabulary: list[str]
    window: int
    chance: float
    chance_of_cast: float
    chance_without_clue: float


def last_words(
    count: int, *, players: int = 4, language: str = "en", seed: int | None = 0
) -> LastWords:
    """Generates passages whose last word needs each of their sentences with a name.

    Args:
        count: Number of passages, a multiple of the 16 names: each is the last word
            equally often.
        players: Names in a passage, from 2 to 16; all but one are ruled out.
        language: "en" or "fr".
        seed: Random seed.

    Returns:
        `LastWords`. All passages have the same number of words.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If `count` is no multiple of 16, `players` is out of range, or the
            language is another one.

    Examples:
        >>> data = last_words(16, players=2)
        >>> passage = data.passages[0]
        >>> passage.cast, passage.clues, passage.last
        (('Dan', 'Cleo'), ('Dan',), 'Cleo')
        >>> data.chance, data.chance_of_cast, data.window
        (0.0625, 0.5, 11)

    References:
        Slides D: "LAMBADA".
    """
    checks.one_of("language", language, LANGUAGES)
    table = table_beside(__file__, "last_word_passages")[language]
    names, fillers = table["names"], table["fillers"]
    count = checks.whole_number("count", count)
    if count % len(names):
        nearest = max(1, round(count / len(names))) * len(names)
        raise ValueError(
            f"count must be a multiple of the {len(names)} names, so that each is the "
            f"last word equally often, received {count}. Choose {nearest}"
        )
    players = checks.whole_number("players", players, at_least=2)
    if players > len(names):
        raise ValueError(
            f"players must be in 2..{len(names)}, the names that there are, received "
            f"{players}"
        )
    checks.fits_memory("count", count, 1000)
    rng = checks.random_generator(seed)
    passages = []
    for group in range(count // len(names)):
        end = fillers[group % len(fillers)]
        for n in rng.permutation(len(names)):
            passages.append(_passage(rng, table, names[n], players, end))
    return LastWords(
        passages,
        list(names),
        _vocabulary(table),
        window=len(f". {fillers[0]} {table['ending']}".split()),
        chance=1 / len(names),
        chance_of_cast=1 / players,
        chance_without_clue=1 / 2,
    )


def _passage(rng, table, last, players, end):
    """Returns a passage with this last word, and this filler after the clues."""
    others = rng.permutation([name for name in table["names"] if name != last])
    clues = [str(name) for name in others[: players - 1]]
    cast = [str(name) for name in rng.permutation([*clues, last])]
    deeds = table["deeds"]
    listed = f"{' , '.join(cast[:-1])} {table['and']} {cast[-1]}"
    opening = table["opening"].format(cast=listed, deed=deeds[rng.integers(len(deeds))])
    ruled_out = [table["clue"].format(name=name) for name in clues]
    text = " ".join([opening, *ruled_out, end, table["ending"]])
    return Passage(text, last, tuple(cast), tuple(clues))


def _vocabulary(table):
    frame = [table["opening"], table["clue"], table["ending"], table["and"], ","]
    words = " ".join([*frame, *table["deeds"], *table["fillers"]]).split()
    words = [word for word in words if not word.startswith("{")]
    return list(dict.fromkeys([*words, *table["names"]]))
