"""The head of a speech recognizer: scores of tokens and of the blank, and the loss."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from kerasseq.core.ctc_labels import check_rows
from kerasseq.speech.audio_inputs import AudioPreprocessor, AudioRows
from kerasseq.speech.transcripts import transcript_ids
from kerasseq.tasks.heads import Loss
from kerasseq.tasks.text_head import TextHead
from kerasseq.training.ctc import CTC


class CTCHead(TextHead):
    """The transcript of a sound, without the times of its tokens.

    Args:
        preprocessor: That of the model, which knows the frames of a sound.
    """

    wanted: ClassVar[str] = "expected the transcripts y of the sounds"
    evaluated_by: ClassVar[str | None] = "error_rates"
    preprocessor: AudioPreprocessor

    def targets_of(self, rows: AudioRows, y: Sequence[str]) -> list[np.ndarray]:
        """Returns the ids of transcripts, each of which fits into its sound.

        Raises:
            ValueError: If their number differs from that of the sounds, one has a
                character that the tokenizer does not know, or does not fit.
        """
        tokenizer = self.preprocessor.tokenizer
        ids = transcript_ids(tokenizer, y, len(rows))
        frames = self.preprocessor.frames(rows.lengths)
        blank = tokenizer.vocabulary_size
        check_rows("y", ids, frames, blank + 1, blank)
        return ids

    def loss(self) -> Loss:
        return CTC()
