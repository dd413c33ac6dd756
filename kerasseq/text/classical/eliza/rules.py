"""The rules of a conversation, checked as a whole before the first word is said."""

import os
from typing import NamedTuple

from kerasseq.text.classical.eliza.pattern import Pattern, Template, template
from kerasseq.text.classical.eliza.reader import Section, read
from kerasseq.text.classical.eliza.words import (
    Agreement,
    Elision,
    Reflection,
    Splitter,
    Table,
    fold,
)

_KEYS = (
    "greeting",
    "farewell",
    "goodbyes",
    "silence",
    "default",
    "breaks",
    "common",
    "elision",
    "groups",
    "substitutions",
    "reflections",
    "reflections_at_end",
    "agreement",
    "keyword",
)
_ELISION = ("split", "join", "before", "also", "never")


class Rule(NamedTuple):
    """A pattern with its replies, which are used in turn.

    Attributes:
        pattern: How the clause is taken apart.
        replies: What is made of the parts.
    """

    pattern: Pattern
    replies: tuple[Template, ...]


class Keyword(NamedTuple):
    """A word to react to.

    Attributes:
        name: As written in the file.
        rank: The keyword of the highest rank in a clause decides.
        rules: Tried in order.
        memory: Rules whose replies are kept for later.
    """

    name: str
    rank: int
    rules: tuple[Rule, ...]
    memory: tuple[Rule, ...]


class Rules(NamedTuple):
    """All that a file of rules says.

    Attributes:
        greeting: Said first.
        farewell: Said last.
        goodbyes: Patterns of what ends the conversation.
        silence: Replies to nothing.
        default: Replies to what no rule fits.
        splitter: Cuts text into words.
        reflection: Turns a remark round.
        keywords: Folded word → keyword; several words may lead to one.
    """

    greeting: str
    farewell: str
    goodbyes: tuple[Pattern, ...]
    silence: tuple[Template, ...]
    default: tuple[Template, ...]
    splitter: Splitter
    reflection: Reflection
    keywords: dict[str, Keyword]


def load_rules(rules: str | os.PathLike[str]) -> Rules:
    """Reads and check a file of rules.

    Args:
        rules: `"en"`, `"fr"`, or a path.

    Returns:
        The rules.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If anything in it is wrong; the text says where.
    """
    top = read(rules)
    top.only(_KEYS)
    splitter = _splitter(top)
    groups = _groups(top.section("groups"), splitter)
    return Rules(
        top.get("greeting", str),
        top.get("farewell", str),
        tuple(_pattern(top, t, groups, splitter) for t in top.strings("goodbyes")),
        _replies(top, "silence"),
        _replies(top, "default"),
        splitter,
        _reflection(top, splitter),
        _keywords(top.section("keyword", required=True), groups, splitter),
    )


def _splitter(top: Section) -> Splitter:
    section = top.section("elision")
    section.only(_ELISION)
    split = section.strings("split", [])
    if wrong := [short for short in split if not short.endswith("'")]:
        raise section.error(f'split: "{wrong[0]}" must end with an apostrophe')
    elision = Elision(
        split,
        section.entries("join"),
        section.get("before", str, ""),
        section.strings("also", []),
        section.strings("never", []),
    )
    substitutions = top.entries("substitutions")
    breaks, common = top.strings("breaks", []), top.strings("common", [])
    return Splitter(elision, substitutions, breaks, common)


def _groups(section: Section, splitter) -> dict[str, list[str]]:
    groups = {}
    for name in section.content:
        groups[name] = section.strings(name)
        for word in groups[name]:
            _single(section, f"{name}: ", word, splitter)
    return groups


def _single(section, where, word, splitter) -> str:
    """Raises an error for what no clause can have as one word."""
    words = splitter.words(word)
    if [fold(w) for w in words] != [fold(word)]:
        seen = " ".join(words)
        raise section.error(
            f'{where}"{word}" can never be found: patterns see it as "{seen}". '
            "Write single words, as they are after the substitutions"
        )
    return fold(word)


def _reflection(top: Section, splitter) -> Reflection:
    agreements = []
    for section in top.sections("agreement"):
        section.only(("subject", "becomes", "between", "verbs"))
        subject = section.get("subject", str)
        agreements.append(
            Agreement(
                _single(section, "subject: ", subject, splitter),
                section.get("becomes", str),
                frozenset(fold(word) for word in section.strings("between", [])),
                Table(section.entries("verbs"), splitter.words),
            )
        )
    at_end = top.entries("reflections_at_end")
    return Reflection(splitter, top.entries("reflections"), at_end, agreements)


def _keywords(section: Section, groups, splitter) -> dict[str, Keyword]:
    keywords = {}
    for name in section.content:
        part = section.section(name)
        part.only(("rank", "also", "rules", "memory"))
        keyword = Keyword(
            name,
            part.get("rank", int, 0),
            _rules(part.section("rules", required=True), groups, splitter),
            _rules(part.section("memory"), groups, splitter, plain=True),
        )
        if not keyword.rules:
            raise part.error('has no rules: write at least one for the pattern "*"')
        for word in (name, *part.strings("also", [])):
            key = _single(part, "", word, splitter)
            # Of one keyword a word may come twice, as spellings that fold alike.
            if keywords.setdefault(key, keyword) is not keyword:
                raise part.error(
                    f'"{word}" is a keyword already, of [keyword.{keywords[key].name}]'
                )
    if not keywords:
        raise section.error("is empty: write at least one [keyword.WORD]")
    _check_goto(section, keywords)
    return keywords


def _rules(section: Section, groups, splitter, plain=False) -> tuple[Rule, ...]:
    rules = []
    for text in section.content:
        pattern = _pattern(section, text, groups, splitter)
        replies = _replies(section, text, pattern)
        if plain and (strange := [r.text for r in replies if not r.pieces]):
            raise section.error(
                f'pattern "{text}": "{strange[0]}" cannot be kept for later: write a '
                "reply"
            )
        rules.append(Rule(pattern, replies))
    return tuple(rules)


def _pattern(section, text, groups, splitter) -> Pattern:
    try:
        return Pattern(text, groups, splitter)
    except ValueError as error:
        raise section.error(f'pattern "{text}": {error}') from error


def _replies(section, key, pattern=None) -> tuple[Template, ...]:
    replies = []
    for number, text in enumerate(section.strings(key), 1):
        try:
            replies.append(template(text, pattern))
        except ValueError as error:
            where = f'pattern "{key}"' if pattern else key
            raise section.error(f"{where}: reply {number} {error}") from error
    return tuple(replies)


def _check_goto(section, keywords):
    """Raises an error for a `goto` to an unknown keyword, or in a circle."""
    leads = {}
    for keyword in keywords.values():
        replies = [reply for rule in keyword.rules for reply in rule.replies]
        targets = [reply.goto for reply in replies if reply.goto is not None]
        for target in targets:
            if target not in keywords:
                raise section.error(
                    f'{keyword.name} has "goto {target}", but there is no keyword '
                    f'"{target}"'
                )
        leads[keyword.name] = {keywords[target].name for target in targets}
    while ends := [name for name, targets in leads.items() if not targets & set(leads)]:
        for name in ends:
            del leads[name]
    if leads:
        raise section.error(f"goto runs in a circle: {', '.join(leads)}")
