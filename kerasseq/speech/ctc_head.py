"""The head of a speech recognizer: scores of tokens and of the blank, and the loss."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from kerasseq.core.ctc_labels import check_rows
from kerasseq.speech.audio_inputs import AudioPreprocessor, AudioRows
from kerasseq.tasks.data_checks import sample_weights
from kerasseq.tasks.heads import Head, Loss
from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.training.ctc import CTC


class CTCHead(Head):
    """The transcript of a sound, without the times of its tokens.

    Args:
        preprocessor: That of the model, which knows the frames of a sound.
    """

    by_length: ClassVar[bool] = True
    wanted: ClassVar[str] = "expected the transcripts y of the sounds"

    def __init__(self, preprocessor: AudioPreprocessor) -> None:
        super().__init__()
        self.preprocessor = preprocessor

    def weighted_targets(
        self, rows: Any, y: Any, sample_weight: Any = None, class_weight: Any = None
    ) -> tuple[list[np.ndarray], np.ndarray | None]:
        """Returns the ids of transcripts, each of which fits into its sound."""
        if class_weight is not None:
            raise ValueError(
                "class_weight must be None, as a transcript has no class, received "
                f"{class_weight!r}"
            )
        ids = self.targets_of(rows, y)
        return ids, sample_weights(sample_weight, len(rows), None)

    def targets_of(self, rows: AudioRows, y: Sequence[str]) -> list[np.ndarray]:
        """Returns the ids of transcripts.

        Raises:
            ValueError: If their number differs from that of the sounds, one has a
                character that the tokenizer does not know, or does not fit.
        """
        if len(y) != len(rows):
            raise ValueError(
                f"y must have a transcript for each of {len(rows)} sounds, received "
                f"{len(y)}"
            )
        tokenizer = self.preprocessor.tokenizer
        find = unknown_finder(tokenizer)
        for n, text in enumerate(y):
            if unknown := find(text):
                raise ValueError(
                    f"y[{n}] has {[*unknown][:8]}, which the tokenizer does not know: "
                    f"{text!r}. Leave them out, or fit the tokenizer on such texts"
                )
        ids = [np.asarray(tokenizer.encode(text), "int32") for text in y]
        frames = self.preprocessor.frames(rows.lengths)
        blank = tokenizer.vocabulary_size
        check_rows("y", ids, frames, blank + 1, blank)
        return ids

    def loss(self) -> Loss:
        return CTC()


def unknown_finder(tokenizer: Tokenizer) -> Callable[[str], Any]:
    """Returns a function that finds what a tokenizer does not know in a text."""
    for name in ("unknown_characters", "unknown_words"):
        if hasattr(tokenizer, name):
            return getattr(tokenizer, name)
    return lambda text: ()
