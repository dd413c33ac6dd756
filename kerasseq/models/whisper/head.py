"""The head of a `Whisper`: the next token of a transcript."""

from typing import Any, ClassVar

import keras
import numpy as np

from kerasseq.models.whisper.inputs import IGNORED, WhisperPreprocessor, WhisperRows
from kerasseq.speech.transcripts import check_count, transcript_ids
from kerasseq.tasks.data_checks import sample_weights
from kerasseq.tasks.heads import Head, check_no_class_weight
from kerasseq.training import TokenAccuracy


class TranscriptHead(Head):
    """The transcript of a sound, token by token.

    Args:
        preprocessor: That of the model, which knows tokenizer and ids.
    """

    by_length: ClassVar[bool] = True
    wanted: ClassVar[str] = "expected the transcripts y of the sounds"

    def __init__(self, preprocessor: WhisperPreprocessor) -> None:
        super().__init__()
        self.preprocessor = preprocessor

    def weighted_targets(
        self, rows: Any, y: Any, sample_weight: Any = None, class_weight: Any = None
    ) -> tuple[list[np.ndarray], np.ndarray | None]:
        """Returns the ids of transcripts, each of which fits into the decoder."""
        check_no_class_weight(class_weight)
        ids = self.targets_of(rows, y)
        return ids, sample_weights(sample_weight, len(rows), None)

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
