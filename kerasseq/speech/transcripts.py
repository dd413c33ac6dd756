"""Transcripts as ids, checked against the sounds and the tokenizer."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kerasseq.text.tokenizers.tokenizer import Tokenizer


def transcript_ids(
    tokenizer: Tokenizer, y: Sequence[str], sounds: int
) -> list[np.ndarray]:
    """Returns the ids of transcripts.

    Args:
        tokenizer: A fitted tokenizer.
        y: The transcripts.
        sounds: The number of sounds.

    Raises:
        ValueError: If their number differs from that of the sounds, or one has a
            character or word that the tokenizer does not know.

    Examples:
        >>> import kerasseq
        >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("abc")
        >>> [ids.tolist() for ids in transcript_ids(tokenizer, ["cab", ""], 2)]
        [[2, 0, 1], []]
    """
    check_count(y, sounds)
    find = unknown_finder(tokenizer)
    for n, text in enumerate(y):
        if unknown := find(text):
            raise ValueError(
                f"y[{n}] has {[*unknown][:8]}, which the tokenizer does not know: "
                f"{text!r}. Leave them out, or fit the tokenizer on such texts"
            )
    return [np.asarray(tokenizer.encode(text), "int32") for text in y]


def check_count(y: Sequence[Any], sounds: int) -> None:
    """Raises unless there is a transcript for each sound."""
    if len(y) != sounds:
        raise ValueError(
            f"y must have a transcript for each of {sounds} sounds, received {len(y)}"
        )


def unknown_finder(tokenizer: Tokenizer) -> Callable[[str], Any]:
    """Returns a function that finds what a tokenizer does not know in a text."""
    for name in ("unknown_words", "unknown_characters"):
        if hasattr(tokenizer, name):
            return getattr(tokenizer, name)
    return lambda text: ()
