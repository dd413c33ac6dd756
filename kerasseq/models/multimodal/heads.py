"""The heads of a `Multimodal`: what its outputs are compared with."""

from typing import Any, ClassVar

import keras

from kerasseq.models.multimodal.contrast import ContrastiveLoss, SigmoidLoss
from kerasseq.models.multimodal.preprocessor import (
    MultimodalPreprocessor,
    check_counts,
)
from kerasseq.models.multimodal.rows import IGNORED, MultimodalRows
from kerasseq.tasks.data_checks import sample_weights
from kerasseq.tasks.heads import Head, check_no_class_weight
from kerasseq.training import TokenAccuracy

CONTRASTIVE, CAPTION, DRAW = "contrastive", "caption", "draw"
HEADS = (CONTRASTIVE, CAPTION, DRAW)


class TextHead(Head):
    """A text for each row.

    Args:
        preprocessor: That of the model.
    """

    by_length: ClassVar[bool] = True
    has_labels: ClassVar[bool] = True
    wanted: ClassVar[str] = "expected texts for the rows"

    def __init__(self, preprocessor: MultimodalPreprocessor) -> None:
        super().__init__()
        self.preprocessor = preprocessor

    @property
    def is_waiting(self) -> bool:
        """False: the texts need no labels, and their words are the tokenizer's."""
        return False

    def weighted_targets(
        self,
        rows: MultimodalRows,
        y: Any,
        sample_weight: Any = None,
        class_weight: Any = None,
    ) -> tuple[Any, Any]:
        """Returns the ids of texts, and the weights of rows."""
        check_no_class_weight(class_weight)
        ids = self.preprocessor.ids(y)
        check_counts({self.preprocessor.kinds[0]: len(rows), "texts": len(ids)})
        return ids, sample_weights(sample_weight, len(rows), None)


class ContrastiveHead(TextHead):
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


class WritingHead(TextHead):
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
