"""Pre-tokenizers, which split a text into words.

A pre-tokenizer is a function from a `Piece` to a list of pieces.
"""

from collections.abc import Callable

from kerasseq.text.pipeline.normalizers import Prepend, pattern
from kerasseq.text.pipeline.part import WHITE, Part, Piece
from kerasseq.text.tokenizers import byte_alphabet
from kerasseq.text.tokenizers.bert_normalizer import is_punctuation
from kerasseq.text.tokenizers.splitting import Expression, compiled

# As in Rust's regular expressions, without the brackets.
WORD = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}"
BEHAVIORS = ["Isolated", "Removed", "Contiguous"]
BEHAVIORS += ["MergedWithPrevious", "MergedWithNext"]
SCHEMES = ["always", "first", "never"]

PreTokenizer = Callable[[Piece], list[Piece]]
Matches = Callable[[str], list[tuple[int, int]]]  # start and end of each match


class Split:
    """Splits at matches.

    Args:
        matches: Returns start and end of the matches in a text.
        behavior: Treatment of matches: one of `BEHAVIORS`.
        invert: Whether the text between the matches is the match.
    """

    def __init__(self, matches: Matches, behavior: str, invert: bool = False):
        self.matches: Matches = matches
        self.behavior: str = behavior
        self.invert: bool = invert

    def __call__(self, piece: Piece) -> list[Piece]:
        stretches, done = [], 0
        for start, end in self.matches(piece.text):
            if done < start:
                stretches.append((done, start, self.invert))
            stretches.append((start, end, not self.invert))
            done = end
        if done < len(piece.text):
            stretches.append((done, len(piece.text), self.invert))
        bounds = _merged(stretches, self.behavior)
        return [piece.cut(start, end) for start, end in bounds if start < end]


def _merged(stretches, behavior) -> list[tuple[int, int]]:
    """Returns start and end of the pieces after applying a behavior."""
    if behavior == "Removed":
        return [(start, end) for start, end, match in stretches if not match]
    if behavior == "Isolated":
        return [(start, end) for start, end, _ in stretches]
    if behavior == "MergedWithNext":  # mirrored
        mirrored = [(-end, -start, match) for start, end, match in stretches[::-1]]
        merged = _merged(mirrored, "MergedWithPrevious")
        return [(-end, -start) for start, end in merged[::-1]]
    bounds, before = [], None
    for start, end, match in stretches:
        if behavior == "Contiguous":
            joined = match == before
        else:
            joined = match and before is False
        if joined:
            bounds[-1] = bounds[-1][0], end
        else:
            bounds.append((start, end))
        before = match
    return bounds


class ByteLevel:
    """Splits as GPT-2 does, and maps each byte to a printable character."""

    def __init__(self, part: Part):
        self.add_prefix_space: bool = part.get("add_prefix_space", bool)
        self.use_regex: bool = part.get("use_regex", bool, True)
        self._split = Split(spans_of(compiled("gpt2")), "Isolated")

    def __call__(self, piece: Piece) -> list[Piece]:
        if self.add_prefix_space and not piece.text.startswith(" "):
            piece = prepended(piece, " ")
        pieces = self._split(piece) if self.use_regex else [piece]
        return [_spelled(each) for each in pieces]


def _spelled(piece):
    text = byte_alphabet.spell(piece.text.encode())
    if piece.spans is None:
        return piece.with_text(text)
    places = zip(piece.text, piece.spans, strict=True)
    return piece.with_spans(
        text, [span for c, span in places for _ in range(len(c.encode()))]
    )


class Metaspace:
    """Replaces spaces by ▁, adds one before a text, and splits before each."""

    def __init__(self, part: Part):
        self.mark: str = part.get("replacement", str)
        if len(self.mark) != 1:
            part.damaged("replacement", "one character", self.mark)
        self.scheme: str = part.choice("prepend_scheme", SCHEMES, "always")
        if not part.get("add_prefix_space", bool, True):  # in older files
            self.scheme = "never"
        self.split: bool = part.get("split", bool, True)

    def __call__(self, piece: Piece) -> list[Piece]:
        piece = piece._replace(text=piece.text.replace(" ", self.mark))
        wanted = self.scheme == "always" or (self.scheme == "first" and piece.at_start)
        if wanted and not piece.text.startswith(self.mark):
            piece = prepended(piece, self.mark)
        if not self.split:
            return [piece]
        starts = [i for i, c in enumerate(piece.text) if c == self.mark]
        bounds = sorted({0, *starts, len(piece.text)})
        return [piece.cut(a, b) for a, b in zip(bounds, bounds[1:], strict=False)]


class Sequence:
    """Applies pre-tokenizers one after the other."""

    def __init__(self, steps: list[PreTokenizer]):
        self.steps = steps

    def __call__(self, piece: Piece) -> list[Piece]:
        pieces = [piece]
        for step in self.steps:
            pieces = [after for before in pieces for after in step(before)]
        return pieces


def prepended(piece: Piece, string: str) -> Piece:
    """Adds a string before a piece, with the span of its first character."""
    prepend = Prepend(string)
    if piece.spans is None:
        return piece.with_text(prepend.text(piece.text))
    return prepend.piece(piece)


def spans_of(expression: Expression) -> Matches:
    """Returns a function that finds the matches of a pattern in a text."""
    return lambda text: [match.span() for match in expression.finditer(text)]


def _characters(kind):
    """Returns a function that finds the characters of a kind in a text."""
    return lambda text: [(i, i + 1) for i, c in enumerate(text) if kind(c)]


def _white(character):
    return character in WHITE


def _split(part: Part) -> Split:
    behavior = part.choice("behavior", BEHAVIORS)
    invert = part.get("invert", bool, False)
    return Split(spans_of(pattern(part)), behavior, invert)


def _digits(part: Part) -> Split:
    each = part.get("individual_digits", bool)
    behavior = "Isolated" if each else "Contiguous"
    return Split(_characters(_is_number), behavior)


def _is_number(character):
    return compiled(r"\p{N}").match(character) is not None


def _bert(part: Part) -> Sequence:
    spaces = Split(_characters(_white), "Removed")
    return Sequence([spaces, Split(_characters(is_punctuation), "Isolated")])


def _whitespace(part: Part) -> Split:
    words = compiled(rf"[{WORD}]+|[^{WORD}\p{{White_Space}}]+")
    return Split(spans_of(words), "Removed", invert=True)


def _punctuation(part: Part) -> Split:
    behavior = part.choice("behavior", BEHAVIORS, "Isolated")
    return Split(_characters(is_punctuation), behavior)


PRE_TOKENIZERS: dict[str, Callable[[Part], PreTokenizer]] = {
    "BertPreTokenizer": _bert,
    "ByteLevel": ByteLevel,
    "Digits": _digits,
    "Metaspace": Metaspace,
    "Punctuation": _punctuation,
    "Sequence": lambda part: Sequence(
        [each.component(PRE_TOKENIZERS) for each in part.parts("pretokenizers")]
    ),
    "Split": _split,
    "Whitespace": _whitespace,
    "WhitespaceSplit": lambda part: Split(_characters(_white), "Removed"),
}
