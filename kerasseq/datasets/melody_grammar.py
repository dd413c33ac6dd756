"""Melodies as symbols, from a grammar: music as a language whose words are notes.

A symbol is a note, its letter, octave and length: `c4q` is the middle C, a quarter
long; `e`, `q`, `d` and `h` are an eighth, a quarter, a dotted quarter and a half. `|`
ends a bar of four quarters. The form is A A B A', as in many songs: two bars of a
phrase, the same again, two others, and the first once more with another end. Each bar
has a chord, whose notes begin it; the others go by steps of the scale of C. The last
note is a C.
"""

import numpy as np

from kerasseq.core import checks

SCALE = "cdefgab"
LENGTHS = {"e": 1, "q": 2, "d": 3, "h": 4}  # in eighths
RHYTHMS = ("qqqq", "hqq", "qqh", "qeeqq", "deh", "eeqh", "deqq", "hh")
CHORDS = {"I": (0, 2, 4), "IV": (3, 5, 0), "V": (4, 6, 1)}  # degrees of the scale
PHRASES = {"A": ("I", "V"), "B": ("IV", "V")}
LOWEST, HIGHEST = 0, 11  # from c4 to g5
ENDS = ("qqh", "eeqh", "deh")  # rhythms of the last bar, whose last note is long

Bar = list[tuple[int, str]]


def melodies(count: int, *, seed: int | None = 0) -> list[str]:
    """Generates melodies of eight bars, as words for a language model (slides C).

    Args:
        count: Number of melodies.
        seed: Random seed.

    Returns:
        Strings of notes such as "c4q" and of bars "|", separated by spaces.

    Raises:
        TypeError: If an argument is not a whole number.
        ValueError: If `count` is below 1.

    Examples:
        >>> from kerasseq.datasets import melodies
        >>> melodies(1)[0][:49]
        'g4e a4e b4q a4h | g4q b4q b4q g4q | g4e a4e b4q a'
    """
    count = checks.whole_number("count", count)
    checks.fits_memory("count", count, bytes_each=200)
    rng = checks.random_generator(seed)
    return [_written(_melody(rng)) for _ in range(count)]


def _melody(rng: np.random.Generator) -> list[Bar]:
    """Returns the bars of A A B A'."""
    first = _phrase("A", int(rng.choice(CHORDS["I"])), rng)
    second = _phrase("B", first[-1][-1][0], rng)
    return [*first, *first, *second, first[0], _last(first[0][-1][0], rng)]


def _phrase(name: str, start: int, rng: np.random.Generator) -> list[Bar]:
    bars: list[Bar] = []
    for chord in PHRASES[name]:
        bars.append(_bar(CHORDS[chord], start, str(rng.choice(RHYTHMS)), rng))
        start = bars[-1][-1][0]
    return bars


def _bar(
    chord: tuple[int, ...], start: int, rhythm: str, rng: np.random.Generator
) -> Bar:
    """Returns notes: one of the chord near the note before, then steps."""
    degree = _nearest(chord, start + int(rng.integers(-1, 2)))
    notes = []
    for length in rhythm:
        notes.append((degree, length))
        degree += int(rng.choice([-1, 1, 1, -1, 0, 2, -2]))
        degree = min(max(degree, LOWEST), HIGHEST)
    return notes


def _last(start: int, rng: np.random.Generator) -> Bar:
    """Returns the bar that ends a melody: down or up to a C, which is held."""
    notes = _bar(CHORDS["V"], start, str(rng.choice(ENDS)), rng)
    return [*notes[:-1], (_nearest((0,), notes[-2][0]), notes[-1][1])]


def _nearest(degrees: tuple[int, ...], place: int) -> int:
    """Returns the place of one of some degrees of the scale that is nearest."""
    places = [n for n in range(LOWEST, HIGHEST + 1) if n % 7 in degrees]
    return min(places, key=lambda n: abs(n - place))


def _written(bars: list[Bar]) -> str:
    """Returns the symbols of bars.

    Examples:
        >>> _written([[(0, "h"), (8, "h")]])
        'c4h d5h |'
    """
    return " ".join(
        " ".join(f"{SCALE[n % 7]}{4 + n // 7}{length}" for n, length in bar) + " |"
        for bar in bars
    )
