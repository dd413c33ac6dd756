"""The grammar of `family_sentences`: its trees, and the rules that build them.

`family_sentences.toml` has the words and the verb phrases. The rules combine them: a
negation, an ironic remark, an earlier time or a contrast changes the valence of what
it contains, so that words alone do not decide it.
"""

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kerasseq.core.files import table_beside

VALENCES = ("+", "-", "0", "i")
SUBJECTS = ("j", "f", "s", "p", "m", "a", "t")
LABELS = (*VALENCES, *SUBJECTS)
OPPOSITE = {"+": "-", "-": "+", "0": "0"}
NAMES = {"+": "positive", "-": "negative", "0": "neutral"}
# Marks of entries, as in the file, and the parts in which they occur.
MARKS = {"? ": ("test", "unlabeled"), "! ": ("test",)}
VOWEL = "(?!onze)(?:[aeiouéèêàâîôœ]|hum)"  # at the start of a word, for an elision
PARTS = ("training", "test", "unlabeled")
OPTIONAL = 0.4  # probability of an optional word
KEPT = 0.6  # of the "ne" of a negation
ADVERBS = r" \{(often|always|very|very_much|time_ago)\?\}"  # not in a negation


class FamilyTree(NamedTuple):
    """A derivation of a sentence. `str` is the sentence, without spelling errors.

    Attributes:
        kind: "person", "clause", "not", "irony", "before", "balance" or "text".
        value: The label of a person, or the valence of the words of a clause; else "".
        children: Trees and words, in order.
    """

    kind: str
    value: str
    children: tuple["FamilyTree | str", ...]

    def __str__(self) -> str:
        return spell(self.words())

    def words(self) -> list[str]:
        """Returns the words of the leaves, in order."""
        leaves: list[str] = []
        for child in self.children:
            leaves += child.split() if isinstance(child, str) else child.words()
        return leaves


def family_labels(tree: FamilyTree) -> list[str]:
    """Returns the labels of a sentence by a rule that sees its derivation.

    The subjects are the persons in the tree. A negation and an ironic remark turn the
    valence of what they contain into its opposite; an earlier time has none; a balance
    of good and bad is neutral. Without a valence, a sentence is informative.

    Args:
        tree: A tree of `family_sentences`.

    Returns:
        The labels, in the order of `FamilySentences.names`.

    Examples:
        >>> me = FamilyTree("person", "j", ("on",))
        >>> clause = FamilyTree("clause", "-", (me, "ne se dispute jamais"))
        >>> family_labels(FamilyTree("not", "", (clause,)))
        ['+', 'j']
    """
    of_clauses = valences(tree) or {"i"}
    return [label for label in LABELS if label in of_clauses | subjects(tree)]


def subjects(tree: FamilyTree) -> set[str]:
    """Returns the labels of the persons in a tree."""
    people = {tree.value} if tree.kind == "person" else set()
    for child in tree.children:
        people |= set() if isinstance(child, str) else subjects(child)
    return people


def valences(tree: FamilyTree) -> set[str]:
    """Returns the valences that a tree expresses: "+", "-", "0", or none."""
    signs = {tree.value} - {"i"} if tree.kind == "clause" else set()
    for child in tree.children:
        signs |= set() if isinstance(child, str) else valences(child)
    if tree.kind in ("not", "irony"):
        return {OPPOSITE[each] for each in signs}
    if tree.kind == "before":
        return set()
    return {"0"} if tree.kind == "balance" else signs


def spell(words: Iterable[str]) -> str:
    """Joins words with the elisions, contractions and spaces of French.

    Examples:
        >>> spell(["je", "me", "entends", "bien", ",", "de", "les", "gens"])
        "je m'entends bien, des gens"
    """
    text = " ".join(words)
    text = re.sub(r"\b([jm])' ", r"\1'", text)
    text = re.sub(rf"\b([jmtsndl]|qu)e (?={VOWEL})", r"\1'", text)
    for apart, joined in (("à les", "aux"), ("de les", "des"), ("à le", "au")):
        text = re.sub(rf"\b{apart}\b", joined, text)
    return re.sub(r" ([,.])", r"\1", text)


def table() -> dict[str, Any]:
    """Returns the table of the grammar."""
    return table_beside(__file__, "family_sentences")


def plan(size: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Returns valence and subjects of each text, with the frequencies of the slides.

    Args:
        size: Number of texts.
        rng: The generator of the order and of the rounding.

    Returns:
        Pairs of a valence, "+-" for both, and the labels of the subjects.
    """
    columns = ("+", "-", "0", "i", "+-")
    cells = [
        (valence, people)
        for people, counts in table()["plan"].items()
        for valence, count in zip(columns, counts, strict=True)
        for _ in range(count)
    ]
    places = (np.arange(size) + rng.random()) * len(cells) / size
    chosen = [cells[int(place) % len(cells)] for place in places]
    return [chosen[n] for n in rng.permutation(size)]


class Person(NamedTuple):
    """A mention of one or several persons, and what agrees with it."""

    tree: FamilyTree
    gender: str
    plural: bool

    @property
    def pronoun(self) -> str:
        return ("il", "elle")[self.gender == "f"] + "s" * self.plural


class Frame(NamedTuple):
    """Who a sentence is about: words before, the subject in two forms, the phrases."""

    lead: str
    subject: str
    again: str
    phrases: str
    plural: bool
    x: Person | None
    y: Person | None = None


class Grammar:
    """Draws entries and expands their marks, for a part of the data.

    Args:
        part: "training", "test" or "unlabeled".
        rng: The generator.
    """

    def __init__(self, part: str, rng: np.random.Generator):
        self.part: str = part
        self.rng: np.random.Generator = rng
        self.table: dict[str, Any] = _of_part(part)

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, entries: Sequence[Any]) -> Any:
        return entries[int(self.rng.random() * len(entries))]

    def word(self, name: str) -> str:
        return self.pick(self.table["words"][name])

    def text(self, name: str) -> str:
        return self.pick(self.table["texts"][name])

    # Persons

    def person(self, labels: str) -> Person:
        """Returns a mention of persons: `mes parents`, or `ma mère et mon père`."""
        people = self.table["people"]
        if len(labels) == 1:
            return self._one(labels, self.pick(people[labels]))
        if labels in people and self.chance(0.5):
            return self._one(labels, self.pick(people[labels]))
        parts = [self.person(label) for label in self.shuffled(labels)]
        words: list[FamilyTree | str] = []
        for n, part in enumerate(parts):
            words += (
                [part.tree]
                if not n
                else ["et" if n == len(parts) - 1 else ",", part.tree]
            )
        gender = "f" if all(part.gender == "f" for part in parts) else "m"
        return Person(FamilyTree("text", "", tuple(words)), gender, True)

    def _one(self, labels, entry):
        form, _, words = entry.partition(" ")
        words = self.with_words(words, None)
        tree: FamilyTree | str = words
        for label in reversed(labels):  # "mes parents" is a mention of both
            tree = FamilyTree("person", label, (tree,))
        return Person(tree, form[0], form[1] == "2")

    def shuffled(self, items: Sequence[Any]) -> list[Any]:
        return [items[n] for n in self.rng.permutation(len(items))]

    # Entries

    def expand(
        self,
        entry: str,
        x: Person | None = None,
        y: Person | None = None,
        plural: bool = False,
    ) -> tuple[FamilyTree | str, ...]:
        """Replaces the marks of an entry, and returns trees and words."""
        if x is not None and "{pro}" in entry:
            entry = entry.replace("{pro}", x.pronoun)
        text = re.sub(r"\[([^\]]*)\]", lambda m: _agree(m[1], x, plural), entry)
        text = self.with_words(text, x)
        text = text.replace("ne? ", "ne " if self.chance(KEPT) else "")
        children = []
        for piece in re.split(r"(<[^>]*>|\{[xy]\})", text):
            if piece.startswith("<"):
                label, _, words = piece[1:-1].rpartition(":")
                children.append(FamilyTree("person", label or "j", (words,)))
            elif piece in ("{x}", "{y}"):
                person = x if piece == "{x}" else y
                children.append(person.tree)
            elif piece.strip():
                children.append(piece.strip())
        return tuple(children)

    def with_words(self, text: str, x: Person | None) -> str:
        """Replaces `{name}` by words."""

        def replaced(match):
            name, agrees, optional = match.groups()
            if name in ("x", "y"):
                return match[0]
            if optional and not self.chance(OPTIONAL):
                return ""
            word = self.with_words(self.word(name), x)
            return _agreeing(word, x) if agrees else word

        return re.sub(r"\{(\w+)(\.x)?(\?)?\}", replaced, text)

    def clause(
        self,
        frame: Frame,
        valence: str,
        *,
        denied: bool = False,
        again: bool = False,
        past: bool = False,
        plain: bool = False,
        negation: str | None = None,
        lead: str = "",
    ) -> FamilyTree:
        """Returns a clause with a verb phrase of a valence, or with its negation.

        Args:
            frame: Who the clause is about.
            valence: The valence of the phrase, without the negation.
            denied: Whether it is denied.
            again: Whether the frame is known from an earlier clause.
            past: Whether the phrase is in the imperfect.
            plain: Whether adverbs are left out.
            negation: Its word; a random one if None.
            lead: Words before the clause.
        """
        phrases = self.table[frame.phrases][NAMES[valence]]
        if denied or past:
            phrases = [
                each
                for each in phrases
                if len(each) > past and (not denied or re.search("[*%]", each[past]))
            ]
        phrase = self.pick(phrases)[past]
        if denied or plain:
            phrase = re.sub(ADVERBS, "", phrase)
        phrase = (
            self._deny(phrase, negation) if denied else re.sub("[*%] ?", "", phrase)
        )
        subject = frame.again if again else f"{frame.lead} {frame.subject}"
        children = self.expand(
            f"{lead} {subject} {phrase}", frame.x, frame.y, frame.plural
        )
        tree = FamilyTree("clause", valence, children)
        return FamilyTree("not", "", (tree,)) if denied else tree

    def _deny(self, phrase, negation):
        negation = negation or self.word("not")
        return "ne? " + phrase.replace("*", negation).replace("%", "pas")


def _agree(forms: str, x: Person | None, plural: bool) -> str:
    """Chooses one of two forms by number, or one of four by gender and number of x."""
    choices = forms.split("|")
    if len(choices) == 2:
        return choices[plural]
    return choices[2 * x.plural + (x.gender == "f")]


def _agreeing(word: str, x: Person) -> str:
    """Returns an adjective or a job in the gender and the number of x.

    Examples:
        >>> _agreeing("doux/douce", Person(None, "f", True))
        'douces'
    """
    form = word.split("/")[x.gender == "f"]
    return form if not x.plural or form[-1] in "sx" else form + "s"


@functools.cache
def _of_part(part: str) -> dict[str, Any]:
    """Returns the table with the entries that occur in a part, without their marks."""
    return _filtered(table(), part)


def _filtered(value: Any, part: str) -> Any:
    if isinstance(value, dict):
        return {name: _filtered(each, part) for name, each in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], str | list):
        first = [each[0] if isinstance(each, list) else each for each in value]
        kept = [
            each
            for each, text in zip(value, first, strict=True)
            if part in MARKS.get(text[:2], PARTS)
        ]
        return [_unmarked(each) for each in kept]
    return value


def _unmarked(entry: Any) -> Any:
    if isinstance(entry, list):
        return [_unmarked(each) for each in entry]
    return entry[2:] if entry[:2] in MARKS else entry
