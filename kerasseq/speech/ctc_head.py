"""The head of a speech recognizer: scores of tokens and of the blank, and the loss."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from kerasseq.core.ctc_labels import check_rows
from kerasseq.speech.audio_inputs import AudioPreprocessor, AudioRows
from kerasseq.speech.transcripts import transcript_ids
from kerasseq.tasks.data_checks import sample_weights
from kerasseq.tasks.heads import Head, Loss
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
        tokenizer = self.preprocessor.tokenizer
        ids = transcript_ids(tokenizer, y, len(rows))
        frames = self.preprocessor.frames(rows.lengths)
        blank = tokenizer.vocabulary_size
        check_rows("y", ids, frames, blank + 1, blank)
        return ids

    def loss(self) -> Loss:
        return CTC()
