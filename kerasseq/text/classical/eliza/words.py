"""Text to words and back: clauses, spelling, contractions, elision.

Words are compared by their `fold`, without case and accents, and kept as they were
typed, so that a name comes back with its capital letter.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

_APOSTROPHES = str.maketrans("’ʼ‘`´", "'''''")
# Ends of clauses, in the scripts that mark them so. A point or comma before a digit
# belongs to a number.
_END = re.compile(r"[.,:](?!\d)|[;!?…\n()\[\]—–。、，；：？！،؛؟।]|\s-+\s")
# What no reply may repeat: quotation marks, braces (those of our templates), and what
# would steer a terminal or cannot be encoded.
_BLANK = re.compile(
    '["«»“”„‹›{}\0-\x1f\x7f-\x9f\ud800-\udfff'
    "\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]"
)


def fold(word: str) -> str:
    """Returns what words are compared by: no case, no accents, no ligatures.

    Examples:
        >>> fold("Sœur"), fold("ÉTÉ")
        ('soeur', 'ete')
    """
    if word.isascii():
        return word.lower()
    plain = unicodedata.normalize("NFKD", word.casefold())
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    return plain.replace("œ", "oe").replace("æ", "ae")


class Elision:
    """French `que il` is `qu'il`: short words that lose a vowel before another.

    Args:
        split: Short forms that are words of their own, as `"j'"`.
        join: Which word becomes which short form in a reply, as `{"que": "qu'"}`.
        before: The letters that a word is shortened before.
        also: Words it is shortened before all the same, as those with a mute h.
        never: Words it is not shortened before, as `onze`.

    Examples:
        >>> french = Elision(["qu'", "l'"], {"que": "qu'"}, "aeio", ["hier"], ["onze"])
        >>> french.split("qu'hier"), french.split("aujourd'hui")
        (["qu'", 'hier'], ["aujourd'hui"])
        >>> french.join("Je sais que il et que onze et que hier")
        "Je sais qu'il et que onze et qu'hier"
    """

    def __init__(
        self,
        split: Collection[str] = (),
        join: dict[str, str] | None = None,
        before: str = "",
        also: Collection[str] = (),
        never: Collection[str] = (),
    ):
        self.short: frozenset[str] = frozenset(split)
        self._split = re.compile(_any_of(split), re.IGNORECASE)
        self._join = join or {}
        vowel = f"[{re.escape(before)}]" if before else "(?!)"
        self._joint = re.compile(
            rf"(?<![\w'-])({_any_of(self._join)}) "
            rf"(?=(?:{vowel}|(?:{_any_of(also)})\b))(?!(?:{_any_of(never)})\b)",
            re.IGNORECASE,
        )

    def split(self, word: str) -> list[str]:
        """Splits short forms off the front of a word."""
        words, start = [], 0
        while (prefix := self._split.match(word, start)) and prefix.end() < len(word):
            words.append(prefix[0])
            start = prefix.end()
        return [*words, word[start:]]

    def join(self, text: str) -> str:
        """Shortens words before a vowel."""
        return self._joint.sub(self._short_form, text)

    def _short_form(self, match):
        short = self._join[match[1].lower()]
        return short.capitalize() if match[1][0].isupper() else short

    def text(self, words: Iterable[str]) -> str:
        """Writes words one after the other, short forms close to the next."""
        close = (w if w.lower() in self.short else f"{w} " for w in words)
        return "".join(close).rstrip()


def _any_of(words) -> str:
    """Writes a regular expression for any of `words`; for none of them, if empty."""
    return "|".join(map(re.escape, words)) or "(?!)"


class Table:
    """What is replaced by what: phrases, and endings of words written with `*`.

    Args:
        entries: The replacements. The longest phrase that fits is taken; then the
            longest ending.
        split: Turns a phrase into words.

    Examples:
        >>> table = Table({"i": "you", "i am": "you are", "*'re": "* are"}, str.split)
        >>> table.find(["i", "am"], ["i", "am"], 0)
        (2, ['you', 'are'])
        >>> table.find(["we're"], ["we're"], 0)
        (1, ['we', 'are'])
    """

    def __init__(self, entries: dict[str, str], split: Callable[[str], list[str]]):
        self._phrases, self._endings = {}, []
        for old, new in entries.items():
            if old.startswith("*"):
                self._endings.append((old[1:].lower(), new))
                continue
            keys = [fold(word) for word in split(old)]
            self._phrases.setdefault(keys[0], []).append((keys, new.split()))
        for phrases in self._phrases.values():
            phrases.sort(key=lambda entry: -len(entry[0]))
        self._endings.sort(key=lambda entry: -len(entry[0]))

    def find(
        self, words: list[str], keys: list[str], at: int
    ) -> tuple[int, list[str]] | None:
        """Looks up what stands at a place.

        Args:
            words: A clause.
            keys: The `fold` of its words.
            at: The place.

        Returns:
            How many words are replaced, and by which; None if none is.
        """
        for phrase, new in self._phrases.get(keys[at], ()):
            if keys[at : at + len(phrase)] == phrase:
                return len(phrase), new
        word = words[at].lower()
        for ending, new in self._endings:
            # The stem is cut from the word as typed: accents matter to a reader.
            if word.endswith(ending):
                return 1, new.replace("*", word.removesuffix(ending)).split()
        return None


class Splitter:
    """Splits a text into clauses, and these into words spelled as the patterns expect.

    Args:
        elision: Of the language.
        substitutions: Entries of a `Table`, applied to all that is said.
        breaks: Words that end a clause, as `but`.
        common: Words that lose their capital letter.

    Examples:
        >>> split = Splitter(Elision(), {"i'm": "i am"}, ["but"], ["it"])
        >>> split.clauses("It’s 3.5 o'clock, but I'm OK.")
        [["It's", '3.5', "o'clock"], ['i', 'am', 'OK']]
    """

    def __init__(
        self,
        elision: Elision | None = None,
        substitutions: dict[str, str] | None = None,
        breaks: Iterable[str] = (),
        common: Iterable[str] = (),
    ):
        self.elision: Elision = elision or Elision()
        self._breaks = {fold(word) for word in breaks}
        self._common = {fold(word) for word in common}
        self._table = Table(substitutions or {}, self.split)

    def split(self, text: str) -> list[str]:
        """Splits at blanks and after short forms, and replace nothing."""
        words = filter(None, (word.strip("-'") for word in text.split()))
        # A lone short form, as in a rule about it, keeps its apostrophe.
        words = (f"{w}'" if f"{w.lower()}'" in self.elision.short else w for w in words)
        return [part for word in words for part in self.elision.split(word)]

    def words(self, text: str) -> list[str]:
        """Splits one clause into words, and apply the substitutions."""
        words, at, done = self.split(text), 0, []
        keys = [fold(word) for word in words]
        while at < len(words):
            count, new = self._table.find(words, keys, at) or (1, [words[at]])
            done += new
            at += count
        return [w.lower() if fold(w) in self._common else w for w in done]

    def clauses(self, text: str) -> list[list[str]]:
        """Splits a text into clauses that are not empty."""
        text = unicodedata.normalize("NFC", text).translate(_APOSTROPHES)
        if text.isupper():  # typed on a teletype, as in 1966
            text = text.lower()
        clauses = []
        for part in _END.split(text):
            clause = []
            for word in self.words(_BLANK.sub(" ", part)):
                if fold(word) in self._breaks:
                    clauses.append(clause)
                    clause = []
                else:
                    clause.append(word)
            clauses.append(clause)
        return [clause for clause in clauses if clause]


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
    between: frozenset[str]
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

    def __init__(
        self,
        splitter: Splitter,
        entries: dict[str, str],
        at_end: dict[str, str] | None = None,
        agreements: Sequence[Agreement] = (),
    ):
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
            entry = verbs.find(words, keys, verb) if verb < len(words) else None
            if entry:
                turned = [self._word(words, keys, i)[1] for i in range(at + 1, verb)]
                return verb + entry[0] - at, [becomes, *sum(turned, []), *entry[1]]
        return None

    def _word(self, words, keys, at):
        last = self._at_end.find(words, keys, at)
        if last and at + last[0] == len(words):
            return last
        return self._table.find(words, keys, at) or (1, [words[at]])
