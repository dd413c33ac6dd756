"""From the speaker's point of view to the listener's: "my" becomes "your"."""

from typing import NamedTuple

from kerasseq.text.eliza.words import Splitter, Table, fold

_FAR = 4  # words between subject and verb, as in "je ne vous en parle"


class Agreement(NamedTuple):
    """A subject whose verb changes with it: `i … am` becomes `you … are`.

    Attributes:
        subject: The word, folded.
        becomes: What it turns into.
        between: Words that may stand before the verb, folded.
        verbs: Table of forms. Where it has none, the subject is an ordinary word.
    """

    subject: str
    becomes: str
    between: frozenset
    verbs: Table


class Reflection:
    """Turn a remark round.

    Args:
        splitter: Of the language.
        entries: Entries of a `Table`: what becomes what.
        at_end: What becomes what at the end of the remark, before `entries`.
        agreements: Subjects with their verbs.

    Examples:
        >>> turn = Reflection(Splitter(), {"me": "you", "you": "I"}, {"you": "me"})
        >>> turn("you bore me so I left you".split())
        ['I', 'bore', 'you', 'so', 'I', 'left', 'me']
    """

    def __init__(self, splitter: Splitter, entries, at_end=None, agreements=()):
        self._table = Table(entries, splitter.words)
        self._at_end = Table(at_end or {}, splitter.words)
        self._agreements = agreements

    def __call__(self, words: list[str]) -> list[str]:
        keys = [fold(word) for word in words]
        done, at = [], 0
        while at < len(words):
            count, new = self._turn(words, keys, at)
            done += new
            at += count
        return done

    def _turn(self, words, keys, at):
        phrase = self._table.find(words, keys, at)
        if phrase and phrase[0] > 1:  # a phrase is an exception to the rules below
            return phrase
        return self._agree(words, keys, at) or self._word(words, keys, at)

    def _agree(self, words, keys, at):
        for subject, becomes, between, verbs in self._agreements:
            if keys[at] != subject:
                continue
            verb = at + 1
            # Not further: a long row of such words would take quadratic time.
            while verb < min(len(words), at + 1 + _FAR) and keys[verb] in between:
                verb += 1
            found = verbs.find(words, keys, verb) if verb < len(words) else None
            if found:
                turned = [self._word(words, keys, i)[1] for i in range(at + 1, verb)]
                return verb + found[0] - at, [becomes, *sum(turned, []), *found[1]]
        return None

    def _word(self, words, keys, at):
        last = self._at_end.find(words, keys, at)
        if last and at + last[0] == len(words):
            return last
        return self._table.find(words, keys, at) or (1, [words[at]])
