"""The heads of a `Multimodal`: what its outputs are compared with."""

from typing import Any, ClassVar

import keras
import numpy as np

from kerasseq.models.multimodal.contrast import ContrastiveLoss, SigmoidLoss
from kerasseq.models.multimodal.preprocessor import (
    MultimodalPreprocessor,
    check_counts,
)
from kerasseq.models.multimodal.rows import IGNORED, MultimodalRows
from kerasseq.tasks.text_head import TextHead
from kerasseq.training import TokenAccuracy

CONTRASTIVE, CAPTION, DRAW = "contrastive", "caption", "draw"
HEADS = (CONTRASTIVE, CAPTION, DRAW)


class WordsHead(TextHead):
    """The text of each row, which must have words."""

    has_labels: ClassVar[bool] = True
    wanted: ClassVar[str] = "expected texts for the rows"
    evaluated_by: ClassVar[str | None] = "evaluate"
    preprocessor: MultimodalPreprocessor

    @property
    def is_waiting(self) -> bool:
        """False: the texts need no labels, and their words are the tokenizer's."""
        return False

    def targets_of(self, rows: MultimodalRows, y: Any) -> list[np.ndarray]:
        """Returns the ids of texts."""
        ids = self.preprocessor.ids(y)
        check_counts({self.preprocessor.kinds[0]: len(rows), "texts": len(ids)})
        return ids


class ContrastiveHead(WordsHead):
    """Scores of all pairs of rows of a batch.

    Args:
        preprocessor: That of the model.
        loss: "softmax" or "sigmoid".
    """

    def __init__(self, preprocessor: MultimodalPreprocessor, loss: str) -> None:
        super().__init__(preprocessor)
        self.function: str = loss

    def loss(self) -> keras.losses.Loss:
        return ContrastiveLoss() if self.function == "softmax" else SigmoidLoss()


class WritingHead(WordsHead):
    """The next token at each that is written, of a text or of a picture.

    Args:
        preprocessor: That of the model.
    """

    def loss(self) -> keras.losses.Loss:
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, ignore_class=IGNORED
        )

    def metrics(self) -> list[keras.metrics.Metric]:
        return [TokenAccuracy(name="accuracy", ignore_class=IGNORED)]
