"""The head of a `Whisper`: the next token of a transcript."""

from typing import Any, ClassVar

import keras
import numpy as np

from kerasseq.models.whisper.inputs import IGNORED, WhisperPreprocessor, WhisperRows
from kerasseq.speech.transcripts import check_count, transcript_ids
from kerasseq.tasks.text_head import TextHead
from kerasseq.training import TokenAccuracy


class TranscriptHead(TextHead):
    """The transcript of a sound, token by token.

    Args:
        preprocessor: That of the model, which knows tokenizer and ids.
    """

    wanted: ClassVar[str] = "expected the transcripts y of the sounds"
    evaluated_by: ClassVar[str | None] = "transcribe"
    preprocessor: WhisperPreprocessor

    def targets_of(self, rows: WhisperRows, y: Any) -> list[np.ndarray]:
        """Returns the ids of transcripts, and sets the lengths of the rows.

        Raises:
            TypeError: If a transcript has the wrong type.
            ValueError: If their number differs from that of the sounds, one has a
                character that the tokenizer does not know, or has too many tokens.
        """
        own = self.preprocessor
        if own.tokenizer is None:
            check_count(y, len(rows))
            ids = own.ids(y, len(rows))
        else:
            ids = transcript_ids(own.tokenizer, y, len(rows))
        lengths = np.array([len(rows.prompt) + len(each) for each in ids])
        for n, length in enumerate(lengths.tolist()):
            if length > rows.longest:
                most = rows.longest - len(rows.prompt)
                raise ValueError(
                    f"y[{n}] must have at most {most} tokens, received "
                    f"{len(ids[n])}. Build the model with a larger max_length, or cut "
                    "the sound"
                )
        rows.lengths = lengths
        return ids

    def loss(self) -> keras.losses.Loss:
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, ignore_class=IGNORED
        )

    def metrics(self) -> list[keras.metrics.Metric]:
        return [TokenAccuracy(name="accuracy", ignore_class=IGNORED)]
