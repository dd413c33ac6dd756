r"""Words and punctuation as one text, with spaces where a reader expects them.

What the tokens do not tell is left as it is: whether "," between digits is a list, a
decimal comma or thousands; an apostrophe alone between two words, which may end "dogs'"
or open a quotation; the spaces of French before ";:!?" and around dashes.
"""

import re
from collections.abc import Iterable

from kerasseq.text.words import find_words

CLOSING = frozenset(",.;:!?…)]}”")
OPENING = frozenset("([{“„")
QUOTES = ("'", '"', "„")
HYPHENS = frozenset("-\u2010\u2011")
ELISIONS = re.compile("[cdjlmnst]|(jus|lors|puis|quoi)?qu", re.IGNORECASE)


def joined(tokens: Iterable[str]) -> str:
    """Joins words and punctuation.

    No words are joined that would be one word, so that the text has the same tokens.
    Each space depends on the tokens before it alone: the text of more tokens begins
    with that of fewer, as it is shown while a model generates it.

    Args:
        tokens: Words, and single characters of punctuation.

    Examples:
        >>> joined(["au", "-", "dessus", "de", "3", ".", "5", "(", "m", ")", "!"])
        'au-dessus de 3.5 (m)!'
        >>> joined(["He", "said", ":", '"', "no", '"', "at", "9", ":", "30", "."])
        'He said: "no" at 9:30.'
    """
    text, before, first = [], "", ""  # the last token, and the one before it
    is_open = dict.fromkeys(QUOTES, False)
    for written in tokens:
        token = written
        if written == "“" and is_open["„"]:  # as in German
            token = "”"
        if text and not _touches(token, before, first, is_open):
            text.append(" ")
        if token in "„”":
            is_open["„"] = token == "„"
        elif token == '"':
            is_open[token] = not is_open[token]
        elif token == "'":
            is_open[token] = not is_open[token] and not _is_word(before)
        text.append(written)
        before, first = token, before
    return "".join(text)


def _touches(token, before, first, is_open):
    """Returns whether there is no space between two tokens."""
    if token in CLOSING or before in OPENING:
        return True
    if token in ("'", '"') and is_open[token]:
        return True
    if token == "'":
        return ELISIONS.fullmatch(before) is not None
    if before == '"':
        return is_open[before]
    if token in HYPHENS:
        return _is_word(before)
    if before == "'":
        return is_open[before] and _is_word(token)
    if before in HYPHENS:
        return _is_word(first) and _is_word(token)
    return before in (".", ":") and _are_one_number(first, before, token)


def _is_word(token):
    special = token.startswith("<") and len(token) > 1  # such as <unk>
    return special or bool(find_words(token, lowercase=False, punctuation=False))


def _are_one_number(first, mark, second):
    """Returns whether digits, a mark and digits are a decimal number or a time."""
    if not (first.isdecimal() and second.isdecimal()):
        return False
    return mark == "." or (len(first) <= 2 and len(second) == 2)
