"""Short texts about a man and a woman, labeled by the grammar that generates them.

    the sad king meets the wise aunt . she reads wisely . he sings sadly .
    the sad king sings .

Each noun has its verb, which a noun of the other gender shares: after "he" only the
masculine noun before tells the verb. The adverb repeats the adjective of the noun. So
the labels say which earlier token tells what comes next: `edges` from a query position
to a key position, and `targets`, the tokens that cannot be predicted without them.

`role_grammar.toml` has the words.
"""

from typing import Any, NamedTuple

import numpy as np

from kerasseq.core import checks
from kerasseq.core.files import table_beside

GENDERS = ("masculine", "feminine")
ROLES = (
    *("pronoun to noun", "induction", "same token", "previous token"),
    "adjective to noun",
)
MOST_FILLERS = 3  # so that no position tells the role of its word

Positions = dict[str, list[Any]]


class RoleSentence(NamedTuple):
    """A text and the relations between its words.

    Attributes:
        text: Words separated by spaces.
        edges: For each role pairs of the positions of query and key among the words.
        targets: For each role positions of the words that it tells: for "pronoun to
            noun" the verb after a pronoun, for "induction" and "previous token" the
            noun after an adjective that is repeated, for "same token" the verb after
            this noun, for "adjective to noun" the adverbs.
    """

    text: str
    edges: Positions
    targets: Positions


def role_sentences(count: int, *, seed: int | None = 0) -> list[RoleSentence]:
    """Generates texts of four sentences with labeled relations.

    Args:
        count: Number of texts.
        seed: Random seed.

    Returns:
        A list of `RoleSentence`, rows for `tracing.head_roles`.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If `count` is negative.

    Examples:
        >>> text, edges, targets = role_sentences(1)[0]
        >>> words = text.split()
        >>> text.partition(" . ")[0]
        'today today well the wise duchess helps the brave wizard'
        >>> [(words[q], words[k]) for q, k in edges["pronoun to noun"]]
        [('she', 'duchess'), ('he', 'wizard')]
        >>> [words[position] for position in targets["pronoun to noun"]]
        ['cooks', 'dances']
    """
    count = checks.whole_number("count", count, at_least=0)
    checks.fits_memory("count", count, 500)
    rng = checks.random_generator(seed)
    return [_text(rng) for _ in range(count)]


class _Person(NamedTuple):
    """A noun with what the text says of it, and where it was first named."""

    pronoun: str
    noun: str
    verb: str
    adjective: str
    position: int


def _text(rng: np.random.Generator) -> RoleSentence:
    table = table_beside(__file__, "role_grammar")
    fillers = table["fillers"]
    words = [_one(rng, fillers) for _ in range(rng.integers(MOST_FILLERS + 1))]
    edges: Positions = {role: [] for role in ROLES}
    targets: Positions = {role: [] for role in ROLES}
    people = _introduce(rng, table, words)
    edges["adjective to noun"] += [(p.position, p.position - 1) for p in people]
    for n in rng.permutation(2):
        person, q = people[n], len(words)
        words += [person.pronoun, person.verb, f"{person.adjective}ly", "."]
        edges["pronoun to noun"].append((q, person.position))
        targets["pronoun to noun"].append(q + 1)
        targets["adjective to noun"].append(q + 2)
    person, q = people[rng.integers(2)], len(words) + 1
    words += ["the", person.adjective, person.noun, person.verb, "."]
    edges["induction"].append((q, person.position))
    edges["same token"] += [(q, person.position - 1), (q + 1, person.position)]
    edges["adjective to noun"].append((q + 1, q))
    edges["previous token"] = [(n, n - 1) for n in range(1, len(words))]
    targets["induction"] = targets["previous token"] = [q + 1]
    targets["same token"] = [q + 2]
    return RoleSentence(" ".join(words), edges, targets)


def _introduce(rng, table, words) -> list[_Person]:
    """Adds the first sentence to the words, and returns its two people."""
    people, genders = [], [GENDERS[n] for n in rng.permutation(2)]
    adjectives = rng.choice(len(table["adjectives"]), 2, replace=False)
    for gender, a in zip(genders, adjectives, strict=True):
        n, adjective = rng.integers(len(table["verbs"])), table["adjectives"][a]
        noun = table[gender]["nouns"][n]
        words += [_one(rng, table["meetings"])] if people else []
        words += ["the", adjective, noun]
        people.append(
            _Person(
                table[gender]["pronoun"],
                noun,
                table["verbs"][n],
                adjective,
                len(words) - 1,
            )
        )
    words.append(".")
    return people


def _one(rng: np.random.Generator, words: list[str]) -> str:
    return words[rng.integers(len(words))]
