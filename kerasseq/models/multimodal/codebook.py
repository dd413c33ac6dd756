"""The codebook of a model that draws: checked, and frozen."""

from collections.abc import Mapping
from typing import Any

from kerasseq.core import checks
from kerasseq.models.picture_tokenizer.picture_tokenizer import PictureTokenizer


def check_codebook(
    head: str, codebook: Any, given: Mapping[str, Any]
) -> PictureTokenizer | None:
    """Returns the codebook, or a frozen copy of one that may still be trained.

    Args:
        head: The head of the model; only "draw" has a codebook.
        codebook: A trained `PictureTokenizer`, or None.
        given: Arguments that a model with a codebook does not take, by name.

    Raises:
        TypeError: If the codebook is missing, or something else.
        ValueError: If another head has one, or there are other arguments.
    """
    if head != "draw" and codebook is None:
        return None
    if not isinstance(codebook, PictureTokenizer):
        raise TypeError(
            'codebook must be a trained models.PictureTokenizer with head="draw", '
            f"else None, received {checks.short(codebook)}"
        )
    if head != "draw":
        raise ValueError(
            f'codebook must be None with head="{head}", received '
            f'{checks.short(codebook)}. Leave it out, or choose head="draw"'
        )
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f'{name} must be None with head="draw", which reads texts and draws '
                f"pictures as large as those of its codebook, received {value!r}. "
                "Leave it out"
            )
    if not codebook.trainable:
        return codebook
    copy = PictureTokenizer.from_config(codebook.get_config())
    copy.set_weights(codebook.get_weights())
    copy.trainable = False
    return copy
