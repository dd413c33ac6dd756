"""Tokenizers by the names that the command line knows."""

import array
import os

import numpy as np

from kerasseq import text as text_tools
from kerasseq.cli import names
from kerasseq.cli.console import note
from kerasseq.cli.errors import cut
from kerasseq.cli.waiting import waiting
from kerasseq.core.checks import nearest

KINDS = {  # the names, and the classes; those without a size take what the text has
    "character": ("CharacterTokenizer", False),
    "word": ("WordTokenizer", True),
    "bpe": ("BytePairTokenizer", True),
    "wordpiece": ("WordPieceTokenizer", True),
    "unigram": ("UnigramTokenizer", True),
}

# Characters that a tokenizer with merges or pieces learns from: more change little.
LEARNED = 5_000_000
PART = 2**20  # characters that are tokenized at a time


def make(name: str, vocabulary_size: int, text: str):
    """A tokenizer, learned from a text or loaded.

    Args:
        name: A name of `KINDS`, or the path of a tokenizer.
        vocabulary_size: How many ids it may have, if it learns.
        text: What it learns from.

    Raises:
        FileNotFoundError: If it is neither a name nor a path.
    """
    if name not in KINDS:
        if not os.path.exists(name):
            raise FileNotFoundError(
                f'there is no tokenizer "{name}".{nearest(name, KINDS)} Choose from '
                f"{', '.join(names.TOKENIZERS)}, or name a file or folder"
            )
        return text_tools.load_tokenizer(name)
    cls, sized = KINDS[name]
    arguments = (vocabulary_size,) if sized else ()
    if sized and len(text) > LEARNED:
        note(
            f"the tokenizer learns from the first {LEARNED:,} of the {len(text):,} "
            "characters"
        )
        text = text[:LEARNED]
    with waiting("learning the tokenizer", len(text)):
        return getattr(text_tools, cls)(*arguments).fit(text)


def encode(tokenizer, text: str) -> np.ndarray:
    """Return the ids of a text, which is tokenized in parts of a million characters.

    A part ends with a line, if it has lines. So memory holds the ids and one part.

    Examples:
        >>> from kerasseq.text import CharacterTokenizer
        >>> encode(CharacterTokenizer().fit("ab"), "abba").tolist()
        [0, 1, 1, 0]
    """
    ids, start = array.array("i"), 0  # it grows in place
    while start < len(text):
        end = start + PART
        if end < len(text):
            end = text.rfind("\n", start, end) + 1 or end
        ids.frombytes(tokenizer.encode(text[start:end]).astype("int32").tobytes())
        start = end
    return np.frombuffer(ids, "int32")


def pieces(tokenizer, text: str) -> list[str]:
    """The stretch of the text that each token came from."""
    return [text[a:b] for a, b in tokenizer.encode_with_offsets(text).offsets.tolist()]


def tell_unknown(tokenizer, text, what):
    """Count on stderr the characters or words that the model never saw."""
    by_word = hasattr(tokenizer, "unknown_words")
    unit = "words" if by_word else "characters"
    unknown = getattr(tokenizer, f"unknown_{unit}")(text)
    if unknown:
        total, known = sum(unknown.values()), "" if by_word else f" of the {len(text)}"
        shown = ", ".join(f"{cut(c, 40)!r} ×{n}" for c, n in [*unknown.items()][:8])
        more = ", …" if len(unknown) > 8 else ""
        note(
            f"{total}{known} {unit} of the {what} were not in the text the model "
            f"learned from, and count as unknown: {shown}{more}"
        )
