"""Normalizers of texts before they are split.

Each has two methods: `text` is fast, `piece` also updates the spans of characters.
Character classes are those of Python's Unicode version.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Protocol

from kerasseq.text.pipeline.part import WHITE, Part, Piece
from kerasseq.text.tokenizers.bert_normalizer import CHINESE
from kerasseq.text.tokenizers.splitting import Expression, limited


class Normalizer(Protocol):
    """Changes the characters of a text before it is split."""

    def text(self, text: str) -> str:
        """Returns the normalized text."""
        ...

    def piece(self, piece: Piece) -> Piece:
        """Returns the normalized piece, with the spans of its characters."""
        ...


class Characters:
    """Replaces one character at a time.

    Args:
        become: Returns the replacement of a character, `""` to remove it.
    """

    def __init__(self, become: Callable[[str], str]):
        self._table = _Table(become)

    def text(self, text: str) -> str:
        return text.translate(self._table)

    def piece(self, piece: Piece) -> Piece:
        texts = [self._table[ord(c)] for c in piece.text]
        places = zip(texts, piece.spans, strict=True)
        spans = [span for text, span in places for _ in text]
        return piece.with_spans("".join(texts), spans)


class _Table(dict):
    def __init__(self, become):
        super().__init__()
        self.become = become

    def __missing__(self, point):
        self[point] = text = self.become(chr(point))
        return text


class UnicodeForm:
    """Applies NFC, NFD, NFKC or NFKD."""

    def __init__(self, form: str):
        self.form = form

    def text(self, text: str) -> str:
        return unicodedata.normalize(self.form, text)

    def piece(self, piece: Piece) -> Piece:
        characters, spans, done = [], [], 0
        for character, change in normalize_with_changes(piece.text, self.form):
            # 1 is an inserted character, -n one that replaces 1 + n of them.
            spans.append(piece.spans[done - 1 if change == 1 else done])
            characters.append(character)
            done += 1 - change
        return piece.with_spans("".join(characters), spans)


class Strip:
    """Removes whitespace at the ends."""

    def __init__(self, part: Part):
        self.left: bool = part.get("strip_left", bool)
        self.right: bool = part.get("strip_right", bool)

    def text(self, text: str) -> str:
        text = text.lstrip(WHITE) if self.left else text
        return text.rstrip(WHITE) if self.right else text

    def piece(self, piece: Piece) -> Piece:
        size = len(piece.text)
        start = size - len(piece.text.lstrip(WHITE)) if self.left else 0
        end = len(piece.text.rstrip(WHITE)) if self.right else size
        return piece.cut(start, max(start, end))


class Replace:
    """Replaces a string or what a regular expression matches."""

    def __init__(self, part: Part):
        self.content: str = part.get("content", str)
        self.expression: Expression = pattern(part)

    def text(self, text: str) -> str:
        return self.expression.sub(lambda match: self.content, text)

    def piece(self, piece: Piece) -> Piece:
        characters, spans, done = [], [], 0
        for match in self.expression.finditer(piece.text):
            start, end = match.span()
            characters += [piece.text[done:start], self.content]
            # Inserted characters have the span of the last character they replace.
            place = piece.spans[end - 1] if end else (0, 0)
            spans += [*piece.spans[done:start], *[place] * len(self.content)]
            done = end
        text = "".join([*characters, piece.text[done:]])
        return piece.with_spans(text, [*spans, *piece.spans[done:]])


class Prepend:
    """Puts a string before a text that is not empty."""

    def __init__(self, string: str):
        self.string = string

    def text(self, text: str) -> str:
        return self.string + text if text else text

    def piece(self, piece: Piece) -> Piece:
        if not piece.text:
            return piece
        spans = [piece.spans[0]] * len(self.string) + piece.spans
        return piece.with_spans(self.string + piece.text, spans)


class Sequence:
    """Applies normalizers one after the other."""

    def __init__(self, steps: list[Normalizer]):
        self.steps = steps

    def text(self, text: str) -> str:
        for step in self.steps:
            text = step.text(text)
        return text

    def piece(self, piece: Piece) -> Piece:
        for step in self.steps:
            piece = step.piece(piece)
        return piece


def pattern(part: Part) -> Expression:
    """Compiles the pattern of a part, a string or a regular expression."""
    found = part.part("pattern")
    if "Regex" not in found.content:
        string = found.get("String", str)
        return re.compile(re.escape(string) if string else "(?!)")
    try:
        return limited(found.get("Regex", str))
    except ValueError as error:
        raise ValueError(f"{part.path}: {found.key('Regex')}: {error}") from error


def _bert(part: Part) -> Sequence:
    lowercase = part.get("lowercase", bool)
    strip_accents = part.get("strip_accents", bool, lowercase)
    steps = []
    if part.get("clean_text", bool):
        steps.append(Characters(_clean))
    if part.get("handle_chinese_chars", bool):
        steps.append(Characters(_apart_if_chinese))
    if strip_accents:
        steps += [UnicodeForm("NFD"), Characters(_without_accents)]
    if lowercase:
        steps.append(Characters(str.lower))
    return Sequence(steps)


def _clean(character):
    if character in "\t\n\r":
        return " "
    if character == "\ufffd" or _category(character) in ("Cc", "Cf", "Co"):
        return ""
    return " " if character in WHITE else character


def _apart_if_chinese(character):
    chinese = any(ord(character) in block for block in CHINESE)
    return f" {character} " if chinese else character


def _without_accents(character):
    return "" if _category(character) == "Mn" else character


def _without_marks(character):
    return "" if _category(character)[0] == "M" else character


def _category(character):
    return unicodedata.category(character)


def _form(name):
    return lambda part: UnicodeForm(name)


NORMALIZERS: dict[str, Callable[[Part], Normalizer]] = {
    "BertNormalizer": _bert,
    "Lowercase": lambda part: Characters(str.lower),
    "NFC": _form("NFC"),
    "NFD": _form("NFD"),
    "NFKC": _form("NFKC"),
    "NFKD": _form("NFKD"),
    "Prepend": lambda part: Prepend(part.get("prepend", str)),
    "Replace": Replace,
    "Sequence": lambda part: Sequence(
        [each.component(NORMALIZERS) for each in part.parts("normalizers")]
    ),
    "Strip": Strip,
    "StripAccents": lambda part: Characters(_without_marks),
}


Change = tuple[str, int]


def normalize_with_changes(text: str, form: str) -> list[Change]:
    """Normalizes a text, with the number of characters that each one replaces.

    Args:
        text: A string.
        form: "NFC", "NFD", "NFKC" or "NFKD".

    Returns:
        Each character, with 1 if it is inserted after another, 0 if it replaces one
        character, and -n if it replaces 1 + n.

    Examples:
        >>> normalize_with_changes("é", "NFD") == [("e", 0), ("\u0301", 1)]
        True
        >>> normalize_with_changes("e\u0301", "NFC") == [("é", -1)]
        True
    """
    decomposed = _sorted(decompose(text, "NFKD" if "K" in form else "NFD"))
    return decomposed if form.endswith("D") else _compose(decomposed)


def decompose(text: str, form: str) -> Iterable[Change]:
    """Decomposes each character of a text by itself."""
    for character in text:
        for number, part in enumerate(unicodedata.normalize(form, character)):
            yield part, min(number, 1)


def _sorted(changes) -> list[Change]:
    """Sorts consecutive marks by combining class, stably."""
    done, run = [], []
    for change in changes:
        if unicodedata.combining(change[0]):
            run.append(change)
            continue
        done += [*sorted(run, key=_class), change]
        run = []
    return done + sorted(run, key=_class)


def _class(change):
    return unicodedata.combining(change[0])


def _compose(changes) -> list[Change]:
    """Composes each starter with the unblocked marks after it."""
    done, starter, last = [], None, None
    for character, change in changes:
        kind = unicodedata.combining(character)
        if starter is not None and (last is None or last < kind):
            whole = unicodedata.normalize("NFC", done[starter][0] + character)
            if len(whole) == 1:
                done[starter] = whole, done[starter][1] + change - 1
                continue
        if kind == 0:
            starter, last = len(done), None
        else:
            last = kind
        done.append((character, change))
    return done
