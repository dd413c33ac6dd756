r"""Decomposition and reassembly: patterns take a clause apart, replies use the parts.

A pattern is a row of parts with blanks between, numbered from 1 as in 1966:

| part      | stands for                                |
|-----------|-------------------------------------------|
| `word`    | this word                                 |
| `one\|two`  | one of these words                        |
| `@group`  | a word of this group                      |
| `*`       | any words, or none                        |
| `+`       | any words, at least one                   |

Left out of Weizenbaum's notation: a number, for exactly so many words.
"""

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from kerasseq.text.classical.eliza.words import Splitter, fold

_PLACE = re.compile(r"(said )?(\d+)(?:-(\d+))?")
_GAPS = {"*": 0, "+": 1}  # the words it takes at least


class Pattern:
    """A decomposition rule.

    Args:
        text: The pattern.
        groups: Name → words.
        splitter: Of the language.

    Raises:
        ValueError: If something is wrong with it.

    Examples:
        >>> pattern = Pattern("* my @kin +", {"kin": ["aunt", "uncle"]}, Splitter())
        >>> pattern.match("well my aunt hates me".split())
        [(0, 1), (1, 2), (2, 3), (3, 5)]
    """

    def __init__(
        self, text: str, groups: Mapping[str, Collection[str]], splitter: Splitter
    ):
        self.text = text
        self.parts: list[str] = text.split()
        if not self.parts:
            raise ValueError('it is empty: write "*" for whatever was said')
        # Runs of words, each with the gap before it: None is no gap. A gap at the end
        # has an empty run after it. `_widths[i]` is how many words part i + 1 has.
        self._runs, self._widths = [(None, [])], []
        for before, part in zip(["", *self.parts], self.parts, strict=False):
            if part in _GAPS:
                if before in _GAPS:
                    raise ValueError(
                        f'"{before} {part}": nothing tells where the one ends'
                    )
                self._runs.append((_GAPS[part], []))
                self._widths.append(0)
            else:
                words = _alternatives(part, groups, splitter)
                self._runs[-1][1].extend(words)
                self._widths.append(len(words))
        if self._runs[0] == (None, []):
            del self._runs[0]
        _check_spelling(self.parts, splitter)

    def match(self, keys: list[str]) -> list[tuple[int, int]] | None:
        """Takes a clause apart. Each gap takes as few words as it can.

        The runs of words are looked for one after the other, each at the first place
        that fits, and the last one at the end: no search goes back.

        Args:
            keys: The `fold` of its words.

        Returns:
            Start and end of each part; None if the pattern does not fit.
        """
        # Most patterns lack a word of theirs: seen much sooner than a place is found.
        if any(words.isdisjoint(keys) for _, run in self._runs for words in run):
            return None
        places, at = [], 0
        for index, (least, run) in enumerate(self._runs):
            last = index == len(self._runs) - 1
            start = _place(run, keys, at, least, last)
            if start is None:
                return None
            places += [(at, start)] if least is not None else []
            places += [(start + i, start + i + 1) for i in range(len(run))]
            at = start + len(run)
        return self._by_part(places)

    def _by_part(self, places):
        """Puts together the places of words that were written as one, as `j'aime`."""
        spans, first = [], 0
        for width in self._widths:
            end = first + max(width, 1)
            spans.append((places[first][0], places[end - 1][1]))
            first = end
        return spans

    def may_be_empty(self, number: int) -> bool:
        """Tells whether part `number`, from 1, can stand for nothing."""
        return self.parts[number - 1] == "*"

    def is_one_word(self, number: int) -> bool:
        """Tells whether part `number`, from 1, always stands for the same."""
        part = self.parts[number - 1]
        return part not in _GAPS and part[0] != "@" and "|" not in part


def _place(run, keys, at, least, last):
    """Finds where a run of words starts, after a gap of at least `least` words."""
    first, end = at + (least or 0), len(keys) - len(run)
    if least is None:
        end = min(at, end)
    if last:
        # Without a gap the run must both start here and reach the end.
        first = max(first, len(keys) - len(run))
    for start in range(first, end + 1):
        if all(keys[start + i] in words for i, words in enumerate(run)):
            return start
    return None


def _alternatives(part, groups, splitter):
    """Returns for each word that a part stands for the set of words that fit."""
    if part.startswith("@"):
        if part[1:] not in groups:
            known = ", ".join(f"@{name}" for name in groups) or "none"
            raise ValueError(f"there is no group {part}; the groups are: {known}")
        return [{fold(word) for word in groups[part[1:]]}]
    choices = part.split("|")
    words = [[fold(w) for w in splitter.words(choice)] for choice in choices]
    if not all(words) or (len(words) > 1 and any(len(w) > 1 for w in words)):
        raise ValueError(f'"{part}": on both sides of | there must be one word')
    if len(words) == 1:
        return [{word} for word in words[0]]
    return [{word for (word,) in words}]


def _check_spelling(parts, splitter):
    """Raises an error for words that substitutions replace before matching."""
    run = []
    for part in [*parts, "*"]:
        if part in _GAPS or part[0] == "@" or "|" in part:  # the end of a run
            single = [word for one in run for word in splitter.words(one)]
            if splitter.words(" ".join(run)) != single:
                raise ValueError(
                    f'"{" ".join(run)}" is replaced by '
                    f'"{" ".join(splitter.words(" ".join(run)))}" before patterns are '
                    "tried: write that"
                )
            run = []
        else:
            run.append(part)


class Place(NamedTuple):
    """Where parts go in a reply: `{3}`, `{2-4}`, or `{said 3}` to turn nothing round.

    Attributes:
        text: As written.
        first: Number of the first part, from 1.
        last: Number of the last part.
        said: Whether they come as they were said.
    """

    text: str
    first: int
    last: int
    said: bool


class Template(NamedTuple):
    """A reassembly rule.

    Attributes:
        text: As written.
        pieces: Text and `Place`s, in turn. Empty if it has none of its own:
        goto: The keyword whose rules are used instead, or None.
        newkey: Whether the next keyword of the clause is to be tried.
    """

    text: str
    pieces: tuple[str | Place, ...] = ()
    goto: str | None = None
    newkey: bool = False


def template(text: str, pattern: Pattern | None = None) -> Template:
    """Reads a reply.

    Args:
        text: The reply, `goto WORD` or `newkey`.
        pattern: Whose parts it may use. None if there are none to use.

    Returns:
        The template.

    Raises:
        ValueError: If something is wrong with it.

    Examples:
        >>> template("Why {2-3}?", Pattern("* i +", {}, Splitter())).pieces
        ('Why ', Place(text='{2-3}', first=2, last=3, said=False), '?')
    """
    if not text.strip():
        raise ValueError("is empty")
    if pattern and text == "newkey":
        return Template(text, newkey=True)
    if pattern and text.startswith("goto "):
        return Template(text, goto=fold(text[5:].strip()))
    pieces = re.split(r"(\{[^{}]*\})", text)
    return Template(text, tuple(_piece(p, pattern) for p in pieces if p))


def _piece(piece, pattern):
    if not piece.startswith("{") or not piece.endswith("}"):
        if "{" in piece or "}" in piece:
            raise ValueError("has a brace without its other half")
        return piece
    if pattern is None:
        raise ValueError(f"has {piece}, but no pattern took anything apart: leave out")
    match = _PLACE.fullmatch(piece[1:-1])
    if not match:
        raise ValueError(f"has {piece}: write {{2}}, {{2-4}} or {{said 2}}")
    first, last = int(match[2]), int(match[3] or match[2])
    parts = ", ".join(f'{i} "{part}"' for i, part in enumerate(pattern.parts, 1))
    if not 1 <= first <= last <= len(pattern.parts):
        raise ValueError(f"uses {piece}, but the parts of the pattern are {parts}")
    if all(pattern.may_be_empty(i) for i in range(first, last + 1)):
        raise ValueError(
            f'uses {piece}, which may be empty: write "+" in the pattern instead of "*"'
        )
    # Such a part is constant, so its number is probably wrong.
    if first == last and pattern.is_one_word(first):
        raise ValueError(
            f'uses {piece}, which is always "{pattern.parts[first - 1]}"; the parts of '
            f"the pattern are {parts}"
        )
    return Place(piece, first, last, bool(match[1]))
