"""Unicode's normalization forms, with what became of each character.

`unicodedata.normalize` gives the text alone; offsets need the way there.

The Unicode Standard, annex 15: decompose, sort marks by their class, compose.
"""

import unicodedata
from collections.abc import Iterable

Change = tuple[str, int]


def normalize_with_changes(text: str, form: str) -> list[Change]:
    """Normalize a text, and count what each character of the result replaces.

    Args:
        text: Any string.
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
    """Decompose each character of a text by itself."""
    for character in text:
        for number, part in enumerate(unicodedata.normalize(form, character)):
            yield part, min(number, 1)


def _sorted(changes) -> list[Change]:
    """Sort each run of marks by their class; marks of one class keep their order."""
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
    """Compose each starter with the marks after it that no other one blocks."""
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
