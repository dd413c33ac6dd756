"""French sentences of children about their family, with eleven labels.

A generated counterpart of the data of a study with children: the same number of
sentences, the same labels with about the same frequencies. Negation, word order and
irony decide the valence.
"""

from typing import NamedTuple

import numpy as np

from kerasseq.core.checks import (
    fits_memory,
    fraction,
    random_generator,
    whole_number,
)
from kerasseq.datasets.family_grammar import (
    LABELS,
    FamilyTree,
    Grammar,
    plan,
    table,
)
from kerasseq.datasets.family_rules import Rules
from kerasseq.datasets.misspelling import misspelled

SIZE = 1648  # of the data of the course
TRIES = 50  # to find a sentence that is new
STREAMS = {"test": 0, "training": 1, "unlabeled": 2}  # of random numbers


class FamilySentences(NamedTuple):
    """Sentences with several labels each, and their derivations.

    Attributes:
        texts: Strings.
        labels: For each text the list of its labels, in the order of `names`.
        trees: For each text its derivation, a `FamilyTree`; `str(tree)` is the sentence
            without spelling errors.
        names: The eleven labels. Valence: "+", "-", "0" (neutral), or "i" (information
            only). Subjects: "j" (the child), "f" (brother), "s" (sister), "p" (father),
            "m" (mother), "a" (family), "t" (another person).
    """

    texts: list[str]
    labels: list[list[str]]
    trees: list[FamilyTree]
    names: tuple[str, ...] = LABELS


def family_sentences(
    size: int = SIZE, *, test: float = 0.2, errors: float = 0.03, seed: int | None = 0
) -> tuple[FamilySentences, FamilySentences]:
    """Generates sentences of children about their family, with labels.

    Each sentence has one valence, sometimes two, and one or more subjects; in all 3.1
    labels. Sentences of the test set are not in the training set, and some of its words
    and turns of phrase are not either. `family_labels` recovers the labels from the
    derivations.

    Args:
        size: Number of sentences of both sets.
        test: Fraction of the test set.
        errors: Fraction of the words that are misspelled.
        seed: Random seed.

    Returns:
        Training set and test set, each a `FamilySentences`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `size` is below 1, or a fraction is not between 0 and 1.

    Examples:
        >>> training, test = family_sentences()
        >>> len(training.texts), len(test.texts)
        (1318, 330)
        >>> training.texts[4], training.labels[4]
        ('Ma mère est parfois tendre, parfois méchante avec moi.', ['0', 'j', 'm'])
    """
    size = whole_number("size", size)
    fits_memory("size", size, bytes_each=100)  # of a sentence
    count = round(fraction("test", test) * size)
    errors = fraction("errors", errors)
    seed = _seed(seed)
    held_out = _generate("test", count, errors, seed, set())
    known = {sentence_key(tree) for tree in held_out.trees}
    return _generate("training", size - count, errors, seed, known), held_out


def unlabeled_family_sentences(
    size: int = 20_000,
    *,
    excluded: FamilySentences,
    errors: float = 0.03,
    seed: int | None = 0,
) -> list[str]:
    """Generates sentences of the same grammar without labels, for pre-training.

    They have some of the words that are in the test set but not in the training set, as
    a large collection of texts would; others remain new.

    Args:
        size: Number of sentences, all different except for spelling.
        excluded: Sentences that must not occur: the test set.
        errors: Fraction of the words that are misspelled.
        seed: Random seed.

    Returns:
        The sentences.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `size` is below 1, or `errors` is not between 0 and 1.

    Examples:
        >>> training, test = family_sentences(50)
        >>> texts = unlabeled_family_sentences(3, excluded=test)
        >>> len(texts)
        3
    """
    size = whole_number("size", size)
    fits_memory("size", size, bytes_each=100)  # of a sentence
    errors = fraction("errors", errors)
    if not isinstance(excluded, FamilySentences):
        raise TypeError(
            "`excluded` must be a test set of `family_sentences`, received "
            f"{type(excluded).__name__}"
        )
    known = {sentence_key(tree) for tree in excluded.trees}
    return _generate("unlabeled", size, errors, _seed(seed), known).texts


def sentence_key(tree: FamilyTree) -> str:
    """Returns what two equal sentences have in common: words without punctuation.

    "Ne", which may be left out, does not count.
    """
    words = [word.strip(".,!?;:").lower() for word in str(tree).split()]
    return " ".join(word for word in words if word not in ("", "ne"))


def _seed(seed: int | None) -> int:
    """Returns a seed of several streams of random numbers."""
    return int(random_generator(seed).integers(2**32))


def _generate(
    part: str, size: int, errors: float, seed: int, known: set[str]
) -> FamilySentences:
    """Generates a part, without the sentences found before."""
    rng = np.random.default_rng([seed, STREAMS[part]])
    rules = Rules(Grammar(part, rng))
    made = FamilySentences([], [], [])
    for valence, people in plan(size, rng):
        tree = _new_tree(rules, valence, people, known)
        text = misspelled(str(tree), errors, table()["errors"]["homophones"], rng)
        made.texts.append(_written(text, rng))
        meaning = valence + people
        made.labels.append([label for label in LABELS if label in meaning])
        made.trees.append(tree)
    return made


def _new_tree(rules: Rules, valence: str, people: str, known: set[str]) -> FamilyTree:
    """Returns a tree whose sentence is not among those found, and adds it."""
    for _ in range(TRIES):
        tree = rules.text(valence, people)
        key = sentence_key(tree)
        if key not in known:
            break
    known.add(key)
    return tree


def _written(text: str, rng: np.random.Generator) -> str:
    """Adds capital letters and the full stop, which children often leave out."""
    if rng.random() < 0.85:
        parts = text.split(". ")
        text = ". ".join(part[:1].upper() + part[1:] for part in parts)
    if text[-1] in "!?" or rng.random() < 0.2:
        return text
    return text + ("." if rng.random() < 0.9 else "!")
